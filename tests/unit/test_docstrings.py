"""`help()` of everything public names every parameter, with its type and its default."""

import enum
import inspect
import math
import re
from typing import Any

import pytest

import plait
from plait import privacy
from plait.deployment.job_settings import JOB_SECTIONS
from plait.deployment.party_settings import PARTY_SECTIONS

PUBLIC = [
    *(found for name in plait.__all__ if name != "__version__" and not inspect.ismodule(found := getattr(plait, name))),
    *(getattr(module, name) for module in (privacy, plait.datasets, plait.tracking) for name in module.__all__),
    *JOB_SECTIONS.values(),
    *PARTY_SECTIONS.values(),
]
NOT_CALLED = Exception | enum.Enum
"""Errors take a message and an enumeration is never called: neither has parameters of its own."""
DOCUMENTED = [each for each in PUBLIC if not (inspect.isclass(each) and issubclass(each, NOT_CALLED))]


def parameters_of(documented: Any) -> dict[str, str]:
    """Name -> what stands after the colon, from the section Parameters of a numpydoc docstring."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-{3,}|\Z)", inspect.getdoc(documented) or "", re.S | re.M)
    return dict(re.findall(r"^(\w+) : (.+)$", section[1], re.M)) if section else {}


def same(text: str, default: Any) -> bool:
    """Whether a documented default is the one of the signature."""
    if isinstance(default, float):
        return float(text) == default or (math.isnan(default) and text == "nan")
    if default is None or isinstance(default, bool | int | str | tuple):
        return repr(default) in (text, text.replace('"', "'"))
    return True  # a default that is made anew for every call


@pytest.mark.parametrize("documented", DOCUMENTED, ids=lambda each: each.__name__)
def test_every_parameter_is_described(documented: Any) -> None:
    signature = inspect.signature(documented).parameters
    found = parameters_of(documented)
    assert list(found) == [name for name in signature if name not in ("args", "kwargs")]
    for name, parameter in signature.items():
        said = re.search(r"default=(.+)$", found.get(name, ""))
        assert (said is not None) == (parameter.default is not inspect.Parameter.empty), name
        if said is not None:
            assert same(said[1], parameter.default), f"{name}: {said[1]} is not {parameter.default!r}"


@pytest.mark.parametrize("public", PUBLIC, ids=lambda each: each.__name__)
def test_every_public_name_and_member_has_a_docstring_of_its_own(public: Any) -> None:
    assert public.__doc__
    assert not public.__doc__.startswith(f"{public.__name__}("), "a line that a dataclass writes itself"
    members = vars(public) if inspect.isclass(public) else {}
    if inspect.isclass(public) and issubclass(public, plait.Method):
        members = {name: member for name, member in members.items() if hasattr(plait.Method, name)}
    for name, member in members.items():
        if not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, property)):
            assert inspect.getdoc(getattr(public, name)), f"{public.__name__}.{name}"
