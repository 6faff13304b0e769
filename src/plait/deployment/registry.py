"""From the names and tables of a TOML file to objects, with errors that name the place in the file."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from enum import Enum
from functools import reduce
from operator import add
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from plait.errors import ConfigError, InputError, SettingError
from plait.methods.base import Method
from plait.methods.registry import AUTO, METHODS
from plait.privacy.mechanisms.labels import NoisyLabel, RandomisedResponse
from plait.privacy.mechanisms.noisy_admm import MechanismA
from plait.privacy.mechanisms.paper import NoPrivacy, PaperMechanism, PaperNoise
from plait.privacy.mechanisms.recommended import Recommended
from plait.privacy.policy import Policy
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty
from plait.problem.registry import LOSSES, PENALTIES, canonical
from plait.protection.modes import Protection
from plait.training.under_policy import choose as choose_under

__all__ = [
    "LABEL_MECHANISMS",
    "LOSSES",
    "MECHANISMS",
    "METHODS",
    "PENALTIES",
    "build",
    "choose",
    "convert",
    "method",
    "penalty",
    "read_protection",
]

MECHANISMS: Mapping[str, Any] = {
    "none": NoPrivacy,
    "recommended": Recommended,
    "mechanism-a": MechanismA,
    "paper": PaperMechanism,
    "paper-noise": PaperNoise,
}
LABEL_MECHANISMS: Mapping[str, Any] = {"randomised-response": RandomisedResponse, "noisy-label": NoisyLabel}


def penalty(value: Any, where: str) -> Penalty:
    """A penalty from its name, a table, or a list of them, which are added."""
    parts = value if isinstance(value, list) else [value]
    if not parts:
        raise ConfigError(f'{where} must name a penalty. Found an empty list. Use "none" for no penalty.')
    chosen = [choose(PENALTIES, part, where) for part in parts]
    try:
        return reduce(add, chosen)
    except SettingError as error:
        raise ConfigError(f"{where}: {error}") from error


def method(value: Any, policy: Policy, loss: Loss, penalties: Mapping[str, Penalty], where: str) -> Method:
    """A method from its name or a table; "auto" for the one that needs the fewest rounds under this policy."""
    asked = AUTO if value in (AUTO, {"name": AUTO}) else choose(METHODS, value, where)
    try:
        return choose_under(asked, policy.protections(tuple(penalties), loss), penalties).method
    except SettingError as error:
        raise ConfigError(f"{where}: {error}") from error


def loss_name(loss: Loss) -> str:
    """A loss as job files call it."""
    return next(name for name, kind in LOSSES.items() if type(loss) is kind)


def read_protection(value: Any, where: str) -> Protection | None:
    """What a job encrypts and masks; None for "plain".  A job must say it: there is no default."""
    if value is None:
        raise ConfigError(
            f'{where} must be "labels", "sums", "blind" or "plain". Found nothing. Write protection = "labels": nobody '
            'learns the labels. "sums" needs three parties, and also hides their scores. "blind" hides the scores of '
            'two parties with a third machine. "plain" shows both.'
        )
    table = {"mode": value} if isinstance(value, str) else value
    if table == {"mode": "plain"}:
        return None
    if not isinstance(table, dict) or not set(table) <= {"mode", "groups"}:
        raise ConfigError(
            f'{where} must be a mode, or a table like {{ mode = "sums", groups = true }}. Found {value!r}.'
        )
    found: Protection = build(Protection, table, where)
    return found


def choose(known: Mapping[str, Any], value: Any, where: str) -> Any:
    """An object from its name, or from a table with `name` and options."""
    table = {"name": value} if isinstance(value, str) else value
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        raise ConfigError(f"{where} must be a name or a table with a name. Found {value!r}.")
    options = dict(table)
    given = options.pop("name")
    name = canonical(known, given)
    if name is None:
        raise ConfigError(f"{where} must be one of {', '.join(known)}. Found {given!r}.")
    return build(known[name], options, where)


def build(kind: Any, table: Any, where: str) -> Any:
    """A dataclass from a table: unknown keys, wrong types and impossible values are errors that name their place."""
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a table. Found {table!r}.")
    if not isinstance(kind, type):
        return _construct(kind, table, where)
    hints = get_type_hints(kind)
    known = {f.name: f for f in fields(kind) if f.init}
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise ConfigError(f"{where} knows the options {', '.join(known) or '(none)'}. Found {', '.join(unknown)}.")
    needed = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING and n not in table]
    if needed:
        raise ConfigError(f"{where} must give {', '.join(needed)}. Found nothing there.")
    given = {name: convert(value, hints[name], f"{where}.{name}") for name, value in table.items()}
    return _construct(kind, given, where)


def _construct(kind: Any, given: dict[str, Any], where: str) -> Any:
    try:
        return kind(**given)
    except (SettingError, InputError, TypeError) as error:
        raise ConfigError(f"{where}: {error}") from error


def convert(value: Any, hint: Any, where: str) -> Any:
    """A TOML value as the type that an option has."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = [a for a in arguments if a is not NoneType]
        return convert(value, kinds[0], where) if len(kinds) == 1 else value
    if origin is Literal:
        if value not in arguments:
            raise ConfigError(f"{where} must be one of {', '.join(map(repr, arguments))}. Found {value!r}.")
        return value
    if origin is tuple and isinstance(value, str):
        value = [value] if value else []
    if origin is tuple and isinstance(value, list):
        return tuple(convert(item, arguments[0], f"{where}[{i}]") for i, item in enumerate(value))
    if isinstance(hint, type) and issubclass(hint, Enum):
        words = {member.name.lower().replace("_", "-"): member for member in hint}
        if value not in words:
            raise ConfigError(f"{where} must be one of {', '.join(words)}. Found {value!r}.")
        return words[value]
    if hint is float and type(value) is int:
        return float(value)
    if hint in (float, int, str, bool):
        if type(value) is not hint:
            raise ConfigError(f"{where} must be {_WORDS[hint]}. Found {value!r}.")
        return value
    return value


_WORDS: Mapping[Any, str] = {float: "a number", int: "a whole number", str: "text in quotes", bool: "true or false"}


def need_keys(table: Any, where: str, known: tuple[str, ...]) -> None:
    """ConfigError unless a table has no other keys than those that are known."""
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a table. Found {table!r}.")
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise ConfigError(f"{where} knows {', '.join(known)}. Found {', '.join(unknown)}.")
