"""The documentation site builds without a warning; its links, pictures and notebooks are there."""

import json
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("plot_*.py"))
MADE = ("_build", "gallery", "api")  # folders that a build writes beside the sources


def built(folder: Path, builder: str, *options: str) -> Path:
    """Build the site from a copy of its sources, as `make docs` does: a warning is an error."""
    pytest.importorskip("sphinx_gallery", reason="the site needs pip install '.[docs]'")
    tree = folder / "tree"
    shutil.copytree(ROOT / "docs", tree / "docs", ignore=shutil.ignore_patterns(*MADE))
    shutil.copytree(ROOT / "examples", tree / "examples")
    (tree / "src").symlink_to(ROOT / "src")
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, tree)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", builder, *options, "docs", "site"]
    done = subprocess.run(
        command, cwd=tree, env={**os.environ, "MPLBACKEND": "Agg"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return tree / "site"


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """The examples are not executed: tests/unit/test_examples.py does that."""
    built(tmp_path, "dummy", "-D", "plot_gallery=0")


@pytest.mark.slow
def test_every_link_leads_somewhere_and_every_example_has_its_picture_and_its_notebook(tmp_path: Path) -> None:
    site = built(tmp_path, "html")
    pages = {path.resolve(): Page.of(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    assert [dead for path, page in pages.items() for dead in page.dead_links(path, pages)] == []
    for name in EXAMPLES:
        assert (site / "_images" / f"sphx_glr_{name}_001.png").exists(), name
        links = pages[(site / "gallery" / f"{name}.html").resolve()].links
        (notebook,) = (link for link in links if link.endswith(f"/{name}.ipynb"))
        run_notebook((site / "gallery" / notebook).resolve())


def run_notebook(path: Path) -> None:
    """Run the cells of a notebook one after another, as Jupyter does."""
    cells = json.loads(path.read_text())["cells"]
    program = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    env = {**os.environ, "MPLBACKEND": "Agg"}
    plain = "\n".join(line for line in program.splitlines() if not line.startswith("%"))  # %matplotlib inline
    subprocess.run([sys.executable, "-c", plain], env=env, cwd=path.parent, check=True, capture_output=True)


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    @classmethod
    def of(cls, path: Path) -> "Page":
        page = cls()
        page.feed(path.read_text())
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found["id"] or ""} if "id" in found else set()
        self.links += [link for key in ("href", "src") if (link := found.get(key))]

    def dead_links(self, path: Path, pages: dict[Path, "Page"]) -> list[str]:
        """Relative links that lead to no file, or to no anchor of it."""
        return [f"{path.name}: {link}" for link in self.links if not _alive(path, link, pages)]


def _alive(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    page = pages.get(target)
    return target.exists() and (page is None or not parts.fragment or unquote(parts.fragment) in page.anchors)
