"""Errors that are not bugs, and the exit code of each.

    IdiscError            exit code 2: bad input, also if some of many inputs failed
    ├── InputError        a file, option or value of the user is wrong
    ├── DataError         a dataset is wrong
    ├── CheckpointError   weights or an exported file cannot be used
    ├── MissingExtra      an optional package is not installed
    └── CheckFailed       exit code 3: a check (parity, doctor) failed

An error has three fields: its subject (a file, an option, a field), the reason and the remedy. They
are rendered as one line of text only where a person reads it. Exit code 1 is reserved for bugs,
which are shown with their traceback.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Self, TypeVar

T = TypeVar("T")


class IdiscError(Exception):
    """The base class of all errors of this package; `args` are its three fields."""

    exit_code = 2

    def __init__(self, subject: object, reason: str, remedy: str = "") -> None:
        """`subject` may be empty if the caller knows it and adds it with `within`."""
        super().__init__(str(subject), reason, remedy)
        self.subject, self.reason, self.remedy = str(subject), reason, remedy

    def __str__(self) -> str:
        text = f"{self.subject}: {self.reason}" if self.subject else self.reason
        return f"{text}; {self.remedy}" if self.remedy else text

    def within(self, whole: object) -> Self:
        """Return the same error for a larger subject that contains the present one."""
        subject = f"{whole}: {self.subject}" if self.subject else str(whole)
        return type(self)(subject, self.reason, self.remedy)


class InputError(IdiscError):
    """A file, an option or a value given by the user is wrong."""


class DataError(IdiscError):
    """A dataset is incomplete or inconsistent."""


class CheckpointError(IdiscError):
    """Weights or an exported model cannot be read, or do not fit."""


class MissingExtra(IdiscError):
    """An optional dependency is needed and not installed."""


class CheckFailed(IdiscError):
    """The command ran to its end, and what it checked is not acceptable."""

    exit_code = 3


class IdiscWarning(UserWarning):
    """The only warning category of this package."""


def combine(errors: Sequence[InputError]) -> InputError:
    """Return one error with the first subjects and the reasons and remedies of all, each once."""
    subjects, reasons, remedies = (
        dict.fromkeys(filter(None, parts)) for parts in zip(*(e.args for e in errors), strict=True)
    )
    return InputError(first_names(list(subjects)), "; ".join(reasons), "; ".join(remedies))


def describe(error: Exception) -> str:
    """Render an error as one line; an OSError as the file and the reason of the system."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def one_line(text: str) -> str:
    """Escape line breaks, control characters and marks that turn the direction of text."""
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", lambda found: ascii(found[0])[1:-1], text
    )


def first_line(error: BaseException) -> str:
    """Return the first sentence of an exception of another library, at most 160 characters."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].partition(". ")[0].rstrip(".")[:160]


def first_names(names: Sequence[str], most: int = 3) -> str:
    """Return `a, b, c and 118 more` for many names."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun: `1 picture`, `1,449 pictures`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def lookup(table: Mapping[str, T], name: str, noun: str) -> T:
    """Return the entry `name` of a table; InputError with similar names if there is none."""
    if name in table:
        return table[name]
    raise InputError(f"{noun} '{name}'", "does not exist", nearest(name, table))


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a remedy for a wrong name: the similar names, or all names if none is similar."""
    choices = list(names)
    similar = difflib.get_close_matches(name, choices, n=3, cutoff=0.5)
    if similar:
        return f"did you mean {' or '.join(similar)}?"
    return f"choose from {', '.join(choices)}"


def require(*packages: str, extra: str) -> None:
    """Raise MissingExtra, which names the extra to install, unless all packages can be imported."""
    for package in packages:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            if error.name != package.partition(".")[0]:
                raise  # the package is installed, but one of its own dependencies is not
            raise missing_extra(package, extra) from None


def missing_extra(package: str, extra: str) -> MissingExtra:
    """Return the error for a package that is not installed."""
    return MissingExtra(package, "not installed", f"run: pip install 'idisc[{extra}]'")
