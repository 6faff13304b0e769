"""Write the parts of the documentation that come from the code, and check the rest.

python docs/build.py            write docs/cli.md and docs/reference/, check every link
python docs/build.py --parity   also measure the README's parity table anew
python docs/build.py --check    write nothing; fail when one of these pages is stale or a link is dead
"""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import typer

from plait.cli.app import app
from plait.deployment.job_settings import JOB_SECTIONS
from plait.deployment.party_settings import PARTY_SECTIONS
from plait.deployment.registry import LABEL_MECHANISMS, LOSSES, MECHANISMS, METHODS, PENALTIES

ROOT = Path(__file__).resolve().parent.parent
CLI_PAGE = ROOT / "docs" / "cli.md"
SETTINGS_PAGE = ROOT / "docs" / "reference" / "settings.md"
MODULES_PAGE = ROOT / "docs" / "reference" / "modules.md"
SITE = ROOT / "docs" / "_build"
PACKAGE = ROOT / "src" / "plait"
PARAMETER = re.compile(r"^(\w+) : (.+)\n((?:    .+\n?)+)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
THREATS_PAGE = ROOT / "docs" / "threat-model.md"
THREATS = re.compile(r"(<!-- threats -->\n).*?(<!-- /threats -->)", re.DOTALL)
PARITY = re.compile(r"(<!-- parity -->\n).*?(<!-- /parity -->)", re.DOTALL)


def cli_page() -> str:
    """The command reference: every command, its help and its options."""
    lines = ["<!-- Written by `make docs` from src/plait/cli. -->", "", "# Commands"]
    panel = ""
    for name, command in commands(typer.main.get_command(app)):
        if " " not in name and command.rich_help_panel != panel:
            panel = command.rich_help_panel
            lines += ["", f"## {panel}"]
        lines += ["", f"### plait {name}", "", command.help or ""]
        options = [p for p in command.params if "--help" not in p.opts]
        if options:
            lines += ["", "| option | default | meaning |", "|---|---|---|"]
        for option in options:
            default = "" if option.default in (None, False) else f"`{option.default}`"
            lines.append(f"| `{', '.join(option.opts)}` | {default} | {option.help} |")
    return "\n".join(lines) + "\n"


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its full name, as `plait --help` groups them; those within a group after their group."""
    known = [(name, command) for name, command in group.commands.items() if not command.hidden]
    panels = list(dict.fromkeys(command.rich_help_panel for _, command in known))
    for name, command in sorted(known, key=lambda each: panels.index(each[1].rich_help_panel)):
        yield f"{before}{name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")


def settings_page() -> str:
    """The reference of every setting of a job file and of a party file."""
    lines = [
        "<!-- Written by `make docs` from src/plait/deployment/job_settings.py and party_settings.py. -->",
        "",
        "# Settings",
        "",
        "Every setting of a job file, which is the same at every party, and of a party file, which is private to its",
        "party. The same option has the same name and the same default in `plait.fit` and in the estimators.",
        "",
        "## Job file",
        "",
        "`format = 1`, `name` (the name of the job) and `parties` (a list of names) stand at the top, and",
        '`protection`: `"labels"`, `"sums"` or `"plain"`, or a table such as `{ mode = "sums", groups = true }` (see',
        "[protection](../protection.md)). A job must say which; there is no default. A table",
        "`[fingerprints]` pins keys by name (see [deployment](../deployment.md#pinned-keys)).",
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


def modules_page() -> str:
    """Every module with the first paragraph of its docstring, package by package, the highest layer first."""
    lines = [
        "<!-- Written by `make docs` from the docstrings of src/plait. -->",
        "",
        "# Modules",
        "",
        "Every package with its modules. A package imports only from packages below it. What users import stands after",
        "`Public`; all else may change from version to version.",
    ]
    for name in packages():
        about, *more = first_words(PACKAGE / name / "__init__.py").split("\n\n")
        public = [part for part in more if part.startswith("Public:")]
        lines += ["", f"## plait.{name}", "", about, "", *public, "", "| module | what it is |", "|---|---|"]
        for path in sorted((PACKAGE / name).rglob("*.py")):
            if path.stem != "__init__":
                module = ".".join(path.relative_to(PACKAGE / name).with_suffix("").parts)
                lines.append(f"| `{module}` | {first_words(path).split(chr(10) * 2)[0].replace('|', '&#124;')} |")
    lines += ["", "## plait", "", "Modules of their own at the top.", "", "| module | what it is |", "|---|---|"]
    for path in sorted(PACKAGE.glob("*.py")):
        if path.stem not in ("__init__", "__main__", "_version"):
            lines.append(f"| `{path.stem}` | {first_words(path).split(chr(10) * 2)[0]} |")
    return "\n".join(lines) + "\n"


def packages() -> list[str]:
    """The packages of plait in the order of the layers in pyproject.toml, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    names = [name for layer in contracts[0]["layers"] for name in re.findall(r"\w+", layer)]
    return [name for name in names if (PACKAGE / name).is_dir()]


def first_words(path: Path) -> str:
    """A module's docstring, each paragraph on one line."""
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in doc.split("\n\n"))


def dead_links() -> list[str]:
    """Every relative link in a Markdown page that leads nowhere."""
    pages = [*ROOT.glob("*.md"), *(p for p in (ROOT / "docs").rglob("*.md") if not p.is_relative_to(SITE))]
    return [
        f"{page.relative_to(ROOT)}: {target}"
        for page in sorted(pages)
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).exists() and "gallery/" not in target  # made from examples/ with the site
    ]


def write_parity() -> None:
    """Put the table that `plait parity --markdown` prints into the README."""
    command = [sys.executable, "-m", "plait", "parity", "--markdown"]
    table = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()
    readme = ROOT / "README.md"
    text = PARITY.sub(lambda m: f"{m[1]}{table}\n{m[2]}", readme.read_text())
    readme.write_text(text)


def threats_table() -> str:
    """One line for each threat that a test is marked with, `pytest.mark.threat(who, what, stopped_by)`."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for item in ast.walk(ast.parse(path.read_text())):
            for mark in getattr(item, "decorator_list", []):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.threat":
                    lines.setdefault(tuple(ast.literal_eval(each) for each in mark.args), []).append(item.name)
    rows = [
        f"| {' | '.join(threat)} | {', '.join(f'`{t}`' for t in tests)} |" for threat, tests in sorted(lines.items())
    ]
    return "\n".join(["| who | what they try | what stops it | test |", "|---|---|---|---|", *rows]) + "\n"


def main(options: list[str]) -> int:
    if "--parity" in options:
        write_parity()
    pages = {CLI_PAGE: cli_page(), SETTINGS_PAGE: settings_page(), MODULES_PAGE: modules_page()}
    pages[THREATS_PAGE] = THREATS.sub(lambda m: m[1] + threats_table() + m[2], THREATS_PAGE.read_text())
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
