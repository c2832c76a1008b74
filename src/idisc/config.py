"""Configuration as frozen dataclasses: to JSON and back, changed by `a.b=c`, looked up by name.

A value is checked against the type of its field (int, float, bool, str, Literal, optional, tuple,
nested dataclass); a name that does not exist is answered with the nearest ones that do.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from idisc.errors import InputError

FORMAT = "idisc/1"
FILE = "config.json"  # in the folder of a checkpoint, or of a run: the record of what it is
T = TypeVar("T")


def lookup(table: Mapping[str, T], name: str, what: str) -> T:
    """The entry `name` of a table; a wrong name is an InputError that offers the nearest ones."""
    if name in table:
        return table[name]
    raise InputError(f"{what} '{name}' does not exist; {nearest(name, table)}")


def to_json(config: Any) -> dict[str, Any]:
    """A config as plain JSON values, field by field in their order."""
    return dataclasses.asdict(config)


def from_json(kind: type[T], data: object, where: str) -> T:
    """Build a config of type `kind` from JSON values; `where` names the file in errors."""
    try:
        return _built(kind, data, where)
    except InputError as error:  # a config names the field that is out of range, not the file
        message = str(error)
        raise InputError(message if message.startswith(where) else f"{where}: {message}") from None


def override(config: T, changes: Iterable[str]) -> T:
    """Apply changes of the form `a.b=value`, each value read by the type of its field.

    The result is checked when all of them are in, so their order does not matter.
    """
    data = to_json(config)
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals:
            raise InputError(f"--set {change}", "no '='", "write it as field.name=value")
        _put(data, type(config), path.strip().split("."), text.strip(), f"--set {path.strip()}")
    return _built(type(config), data, "--set")


def _built(kind: type[T], data: object, where: str, path: str = "") -> T:
    """A config from plain data; `path` is that of its group in the whole, "model.decoder."."""
    if not isinstance(data, dict):
        raise InputError(where, f"an object with the fields of {kind.__name__} expected")
    hints = get_type_hints(kind)
    for key in data:
        lookup(hints, key, f"{where}: field")
    values = {}
    for key, value in data.items():
        values[key] = _checked(value, hints[key], f"{where}.{key}", f"{path}{key}.")
    try:
        return kind(**values)
    except TypeError as error:  # a field without default is missing
        raise InputError(f"{where}: {error}") from None
    except InputError as error:
        own = re.split("[.:]", str(error))[0] in hints  # names a field of its own group
        raise InputError(f"{path if own else ''}{error}") from None


def _put(data: dict[str, Any], kind: Any, path: list[str], text: str, where: str) -> None:
    """Put one parsed value into the plain data of a config."""
    hints = get_type_hints(kind)
    inner = lookup(hints, path[0], f"{where}: field")
    if dataclasses.is_dataclass(inner):
        if len(path) == 1:
            names = ", ".join(get_type_hints(inner))
            raise InputError(where, "a group of fields", f"name one of them: {names}")
        _put(data[path[0]], inner, path[1:], text, where)
    elif len(path) > 1:
        raise InputError(where, f"{path[0]} has no fields")
    else:
        data[path[0]] = _checked(_parsed(text, inner), inner, where)


def _parsed(text: str, kind: Any) -> object:
    """A text from the command line as the JSON value it stands for, if it stands for one."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if text.lower() == "none" else _parsed(text, args[0])
    if origin is tuple:
        return [_parsed(part, args[0]) for part in re.split("[x,]", text)]
    if origin is Literal:
        return next((choice for choice in args if str(choice) == text), text)
    if kind is bool:
        return {"true": True, "yes": True, "false": False, "no": False}.get(text.lower(), text)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return text
    return text


def _checked(value: object, kind: Any, where: str, path: str = "") -> Any:
    """A JSON value as the type of a field, or an InputError that names the field."""
    origin, args = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _built(kind, value, where, path)
    if origin is Literal:
        if value not in args:
            raise InputError(where, f"{value!r} is not one of {', '.join(map(str, args))}")
        return value
    if origin in (Union, types.UnionType):
        return None if value is None else _checked(value, args[0], where)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise InputError(where, f"{value!r} is not a list")
        return tuple(_checked(part, args[0], where) for part in value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise InputError(where, f"{value!r} is not of type {kind.__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(where, value, "a finite number is needed")
    return value


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a message about a wrong name: those that are like it, or all there are."""
    choices = list(names)
    near = difflib.get_close_matches(name, choices, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"choose from {', '.join(choices)}"
