"""A number with a name has its unit or its reason beside it: a comment on its line, or a docstring below it."""

import ast
import io
import tokenize
from pathlib import Path

import pytest

import plait

PACKAGE = Path(plait.__file__).parent
TRIED = ("methods/protected/",)
"""Where the sizes of heuristics were found by trying."""
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if not path.relative_to(PACKAGE).as_posix().startswith(TRIED)]


def unexplained(source: str) -> list[str]:
    """The lines that give a name to numbers and say nothing about them."""
    lines, body = source.splitlines(), ast.parse(source).body
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    commented = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    found = []
    for node, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None or not is_numeric(node.value):
            continue
        end = node.end_lineno or node.lineno
        described = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        if not described and commented.isdisjoint(range(node.lineno - 1, end + 1)):
            found.append(lines[node.lineno - 1])
    return found


def is_numeric(value: ast.expr) -> bool:
    parts = list(ast.walk(value))
    numbers = [p for p in parts if isinstance(p, ast.Constant) and type(p.value) in (int, float)]
    return bool(numbers) and not any(isinstance(p, ast.Call | ast.Subscript) for p in parts)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_every_named_number_has_its_reason_beside_it(module: Path) -> None:
    assert unexplained(module.read_text()) == []


def test_a_number_without_a_reason_is_found() -> None:
    source = '_A = 3\n_B = 4  # seconds: long enough\n_C = 5\n"""Rows."""\n_D, _E = 1e-3, 2\n_F = "text"\n'
    assert unexplained(source) == ["_A = 3", "_D, _E = 1e-3, 2"]
