"""Frozen dataclasses as configuration: to JSON and back, `a.b=c` changes, names looked up in tables.

A value is checked against the type of its field (int, float, bool, str, Literal, optional, tuple,
nested dataclass); a name that does not exist is answered with the nearest ones that do.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from idisc.errors import InputError

FORMAT = "idisc/1"
T = TypeVar("T")


def lookup(table: Mapping[str, T], name: str, what: str) -> T:
    """The entry `name` of a table; a wrong name is an InputError that offers the nearest ones."""
    if name in table:
        return table[name]
    raise InputError(f"{what} '{name}' does not exist; {_nearest(name, table)}")


def to_json(config: Any) -> dict[str, Any]:
    """A config as plain JSON values, field by field in their order."""
    return dataclasses.asdict(config)


def from_json(kind: type[T], data: object, where: str) -> T:
    """Build a config of type `kind` from JSON values; `where` names the file in errors."""
    if not isinstance(data, dict):
        raise InputError(f"{where}: an object with the fields of {kind.__name__} expected")
    hints = get_type_hints(kind)
    for key in data:
        lookup(hints, key, f"{where}: field")
    values = {key: _typed(value, hints[key], f"{where}.{key}") for key, value in data.items()}
    try:
        return kind(**values)
    except TypeError as error:  # a field without default is missing
        raise InputError(f"{where}: {error}") from None


def override(config: T, changes: Iterable[str]) -> T:
    """Apply changes of the form `a.b=value`, each value read by the type of its field."""
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals:
            raise InputError(f"--set {change}: no '='; write it as field.name=value")
        config = _replaced(config, path.strip().split("."), text.strip(), f"--set {path.strip()}")
    return config


def _replaced(config: T, path: list[str], text: str, where: str) -> T:
    hints = get_type_hints(type(config))
    kind = lookup(hints, path[0], f"{where}: field")
    value: Any
    if dataclasses.is_dataclass(kind):
        if len(path) == 1:
            raise InputError(
                f"{where}: a group of fields; name one of them: {', '.join(get_type_hints(kind))}"
            )
        value = _replaced(getattr(config, path[0]), path[1:], text, where)
    elif len(path) > 1:
        raise InputError(f"{where}: {path[0]} has no fields")
    else:
        value = _typed(text, kind, where)
    return dataclasses.replace(config, **{path[0]: value})  # type: ignore[type-var]


def _typed(value: object, kind: Any, where: str) -> Any:
    """Check a JSON value, or parse a text from the command line, as the type of a field."""
    origin, args = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return from_json(kind, value, where)  # type: ignore[arg-type]
    if origin is Literal:
        if value not in args:
            raise InputError(f"{where}: {value!r} is not one of {', '.join(map(str, args))}")
        return value
    if origin in (Union, types.UnionType):
        if value is None or (isinstance(value, str) and value.lower() == "none"):
            return None
        return _typed(value, next(arg for arg in args if arg is not type(None)), where)
    if origin is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)):
            raise InputError(f"{where}: {value!r} is not a list")
        return tuple(_typed(part, args[0], where) for part in parts)
    return _scalar(value, kind, where)


def _scalar(value: object, kind: type, where: str) -> Any:
    words = {"true": True, "yes": True, "false": False, "no": False}
    if kind is bool:
        if isinstance(value, str):
            value = words.get(value.lower(), value)
        if isinstance(value, bool):
            return value
    elif isinstance(value, kind) and not isinstance(value, bool):
        return value
    elif kind in (int, float) and isinstance(value, (str, int)) and not isinstance(value, bool):
        try:
            return kind(value)
        except ValueError:
            pass
    raise InputError(f"{where}: {value!r} is not of type {kind.__name__}")


def _nearest(name: str, names: Iterable[str]) -> str:
    choices = list(names)
    near = difflib.get_close_matches(name, choices, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"choose from {', '.join(choices)}"
