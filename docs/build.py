"""Write the parts of the documentation that come from the code, and check the rest.

python docs/build.py            write docs/cli.md, check every link
python docs/build.py --parity   also measure the README's parity table anew
python docs/build.py --check    write nothing; fail when docs/cli.md is stale or a link is dead
"""

import re
import subprocess
import sys
from pathlib import Path

import typer

from plait.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
CLI_PAGE = ROOT / "docs" / "cli.md"
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
PARITY = re.compile(r"(<!-- parity -->\n).*?(<!-- /parity -->)", re.DOTALL)


def cli_page() -> str:
    """The command reference: every command, its help and its options."""
    lines = ["<!-- Written by `make docs` from src/plait/cli. -->", "", "# Commands"]
    for name, command in typer.main.get_command(app).commands.items():
        lines += ["", f"## plait {name}", "", command.help or ""]
        options = [p for p in command.params if "--help" not in p.opts]
        if options:
            lines += ["", "| option | default | meaning |", "|---|---|---|"]
        for option in options:
            default = "" if option.default in (None, False) else f"`{option.default}`"
            lines.append(f"| `{', '.join(option.opts)}` | {default} | {option.help} |")
    return "\n".join(lines) + "\n"


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
    page = cli_page()
    stale = not CLI_PAGE.exists() or CLI_PAGE.read_text() != page
    if "--check" not in options:
        CLI_PAGE.write_text(page)
        stale = False
    problems = dead_links() + ["docs/cli.md is stale: run `make docs`"] * stale
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
