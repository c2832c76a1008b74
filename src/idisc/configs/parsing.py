"""Configuration as frozen dataclasses: conversion to and from JSON, and changes by `a.b=value`.

A value is checked against the type of its field (int, float, bool, str, Literal, optional, tuple,
nested dataclass). The subject of an error is the dotted path of the field. An unknown name is an
error that suggests similar names.
"""

from __future__ import annotations

import dataclasses
import math
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from idisc.errors import InputError, nearest

FORMAT = "idisc/1"
FILE = "config.json"  # in the folder of a checkpoint or of a run: describes its content
T = TypeVar("T")


def to_json(config: Any) -> dict[str, Any]:
    """Return a config as plain JSON values, with its fields in their order."""
    return dataclasses.asdict(config)


def from_json(kind: type[T], data: object, where: str) -> T:
    """Build a config of type `kind` from JSON values; `where` names the file in errors."""
    try:
        return _build(kind, data)
    except InputError as error:
        raise error.within(where) from None


def override(config: T, changes: Iterable[str]) -> T:
    """Apply changes of the form `a.b=value`; each value is parsed by the type of its field.

    The result is validated after all changes are applied, so their order does not matter.
    """
    data = to_json(config)
    for change in changes:
        path, equals, text = (part.strip() for part in change.partition("="))
        if not equals:
            raise InputError(f"--set {change}", "no '='", "write it as field.name=value")
        try:
            _set_field(data, type(config), path.split("."), text)
        except InputError as error:
            raise InputError(f"--set {path}", error.reason, error.remedy) from None
    return _build(type(config), data)


def _build(kind: type[T], data: object) -> T:
    if not isinstance(data, dict):
        raise InputError("", f"an object with the fields of {kind.__name__} is expected")
    hints = get_type_hints(kind)
    values = {}
    for name, value in data.items():
        inner = _field_type(hints, name)
        try:
            values[name] = _convert(value, inner)
        except InputError as error:
            subject = f"{name}.{error.subject}" if error.subject else name
            raise InputError(subject, error.reason, error.remedy) from None
    for field in dataclasses.fields(cast(Any, kind)):
        required = field.default is field.default_factory is dataclasses.MISSING
        if required and field.name not in values:
            raise InputError(field.name, "is missing")
    return kind(**values)


def _field_type(hints: Mapping[str, Any], name: str) -> Any:
    """Return the type of a field; InputError if there is no such field."""
    if name not in hints:
        raise InputError("", f"there is no field '{name}'", nearest(name, hints))
    return hints[name]


def _set_field(data: dict[str, Any], kind: Any, path: list[str], text: str) -> None:
    """Parse one value and put it into the plain data of a config."""
    name, *rest = path
    inner = _field_type(get_type_hints(kind), name)
    if dataclasses.is_dataclass(inner):
        if not rest:
            names = ", ".join(get_type_hints(inner))
            raise InputError("", "a group of fields", f"name one of them: {names}")
        _set_field(data[name], inner, rest, text)
    elif rest:
        raise InputError("", f"{name} has no fields")
    else:
        data[name] = _convert(_parse(text, inner), inner)


def _parse(text: str, kind: Any) -> object:
    """Parse a text of the command line; a text that does not fit the type is returned as it is."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if text.lower() == "none" else _parse(text, args[0])
    if origin is tuple:
        return [_parse(part, args[0]) for part in re.split("[x,]", text)]
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


def _convert(value: object, kind: Any) -> Any:
    """Return a JSON value as the type of a field; the subject of an InputError is left empty."""
    origin, args = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _build(kind, value)
    if origin is Literal:
        if value not in args:
            raise InputError("", f"{value!r} is not one of {', '.join(map(str, args))}")
        return value
    if origin in (Union, types.UnionType):
        return None if value is None else _convert(value, args[0])
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise InputError("", f"{value!r} is not a list")
        return tuple(_convert(part, args[0]) for part in value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise InputError("", f"{value!r} is not of type {kind.__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError("", f"{value} is not a finite number")
    return value
