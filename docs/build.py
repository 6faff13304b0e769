"""Write the parts of the documentation that come from the code, and check the rest.

python docs/build.py            write docs/cli.md and docs/reference/settings.md, check every link
python docs/build.py --parity   also measure the README's parity table anew
python docs/build.py --check    write nothing; fail when one of these pages is stale or a link is dead
"""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import typer

from plait.cli.app import app
from plait.deployment.registry import LABEL_MECHANISMS, LOSSES, MECHANISMS, METHODS, PENALTIES
from plait.deployment.settings import JOB_SECTIONS, PARTY_SECTIONS

ROOT = Path(__file__).resolve().parent.parent
CLI_PAGE = ROOT / "docs" / "cli.md"
SETTINGS_PAGE = ROOT / "docs" / "reference" / "settings.md"
PARAMETER = re.compile(r"^(\w+) : (.+)\n((?:    .+\n?)+)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
PARITY = re.compile(r"(<!-- parity -->\n).*?(<!-- /parity -->)", re.DOTALL)


def cli_page() -> str:
    """The command reference: every command, its help and its options."""
    lines = ["<!-- Written by `make docs` from src/plait/cli. -->", "", "# Commands"]
    for name, command in commands(typer.main.get_command(app)):
        lines += ["", f"## plait {name}", "", command.help or ""]
        options = [p for p in command.params if "--help" not in p.opts]
        if options:
            lines += ["", "| option | default | meaning |", "|---|---|---|"]
        for option in options:
            default = "" if option.default in (None, False) else f"`{option.default}`"
            lines.append(f"| `{', '.join(option.opts)}` | {default} | {option.help} |")
    return "\n".join(lines) + "\n"


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its full name, those within groups after their group."""
    for name, command in group.commands.items():
        yield f"{before}{name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")


def settings_page() -> str:
    """The reference of every setting of a job file and of a party file."""
    lines = [
        "<!-- Written by `make docs` from src/plait/deployment/settings.py. -->",
        "",
        "# Settings",
        "",
        "Every setting of a job file, which is the same at every party, and of a party file, which is private to its",
        "party. The same option has the same name and the same default in `plait.fit` and in the estimators.",
        "",
        "## Job file",
        "",
        "`format = 1`, `name` (the name of the job) and `parties` (a list of names) stand at the top.",
    ]
    for name, kind in JOB_SECTIONS.items():
        lines += ["", f"### [{name}]", "", *section(kind)]
    lines += ["", "### [method]", "", "`name` is `auto` (the method with the fewest rounds) or one of these."]
    lines += named(METHODS)
    for title, table in (("Losses", LOSSES), ("Penalties", PENALTIES)):
        lines += ["", f"### {title}", "", "A name alone, or a table: `{ name = ..., option = ... }`.", *named(table)]
    lines += [
        "",
        "### Mechanisms",
        "",
        "For `privacy.parties` and `privacy.labels`.",
        *named({**MECHANISMS, **LABEL_MECHANISMS}),
    ]
    lines += ["", "## Party file", "", '`runs = "runs"` (the folder of run folders) stands at the top.']
    for name, kind in PARTY_SECTIONS.items():
        lines += ["", f"### [{name}]", "", *section(kind)]
    return "\n".join(lines) + "\n"


def named(table: Any) -> list[str]:
    """What each name stands for, with its options."""
    return [line for name, kind in table.items() for line in ("", f"#### {name}", "", *section(kind))]


def section(kind: Any) -> list[str]:
    """The first sentence of a dataclass and a table of its fields, from its numpydoc docstring."""
    doc = inspect.getdoc(kind) or ""
    lines = [" ".join(doc.split("\n\n")[0].split())]
    known = [f for f in fields(kind) if f.init] if inspect.isclass(kind) else []
    if known:
        lines += ["", "| setting | type | default | meaning |", "|---|---|---|---|"]
    described = {name: (form, " ".join(text.split())) for name, form, text in PARAMETER.findall(doc + "\n")}
    for each in known:
        form, text = described[each.name]
        required = each.default is MISSING and each.default_factory is MISSING
        words, _, default = form.partition(", default=")
        shown = "required" if required else "not set" if default == "None" else f"`{toml(default)}`"
        lines.append(f"| `{each.name}` | {words} | {shown} | {text.replace('|', '&#124;')} |")
    return lines


def toml(default: str) -> str:
    """A default of Python as it is written in a job file."""
    words = {"True": "true", "False": "false", "()": "[]", "Adjacency.REPLACE": '"replace"'}
    return words.get(default, default)


def dead_links() -> list[str]:
    """Every relative link in a Markdown page that leads nowhere."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [
        f"{page.relative_to(ROOT)}: {target}"
        for page in sorted(pages)
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).exists()
    ]


def write_parity() -> None:
    """Put the table that `plait parity --markdown` prints into the README."""
    command = [sys.executable, "-m", "plait", "parity", "--markdown"]
    table = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()
    readme = ROOT / "README.md"
    text = PARITY.sub(lambda m: f"{m[1]}{table}\n{m[2]}", readme.read_text())
    readme.write_text(text)


def main(options: list[str]) -> int:
    if "--parity" in options:
        write_parity()
    pages = {CLI_PAGE: cli_page(), SETTINGS_PAGE: settings_page()}
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    if "--check" not in options:
        for path in stale:
            path.parent.mkdir(exist_ok=True)
            path.write_text(pages[path])
        stale = []
    problems = dead_links() + [f"{path.relative_to(ROOT)} is stale: run `make docs`" for path in stale]
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
