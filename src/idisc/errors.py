"""What can go wrong through no fault of ours, and how the command line answers it.

    IdiscError            exit code 2: bad input, also when some of many failed
    ├── InputError        a file, option or value of the user's
    ├── DataError         a dataset
    ├── CheckpointError   weights and exports
    ├── MissingExtra      an optional package that is not installed
    └── CheckFailed       exit code 3: a check (parity, doctor) said no

An error carries its subject (a file, an option, a field), the reason and the remedy as fields; they
become one line of text only where a person reads it. Exit code 1 is left to bugs, which keep their
traceback.
"""

from __future__ import annotations

import importlib
from typing import Self


class IdiscError(Exception):
    """Root of everything this package raises on purpose."""

    exit_code = 2

    def __init__(self, subject: object, reason: str, remedy: str = "") -> None:
        """`subject` may be empty where the caller knows it and adds it with `within`."""
        super().__init__(str(subject), reason, remedy)
        self.subject, self.reason, self.remedy = str(subject), reason, remedy

    def __str__(self) -> str:
        text = f"{self.subject}: {self.reason}" if self.subject else self.reason
        return f"{text}; {self.remedy}" if self.remedy else text

    def within(self, whole: object) -> Self:
        """The same error of a larger subject, of which the present one is a part."""
        subject = f"{whole}: {self.subject}" if self.subject else str(whole)
        return type(self)(subject, self.reason, self.remedy)


class InputError(IdiscError):
    """A file, an option or a value given by the user is wrong."""


class DataError(IdiscError):
    """A dataset is not what it should be."""


class CheckpointError(IdiscError):
    """Weights or an exported model cannot be read, or do not fit."""


class MissingExtra(IdiscError):
    """An optional dependency is needed and not installed."""


class CheckFailed(IdiscError):
    """Everything ran, and the answer is no."""

    exit_code = 3


class IdiscWarning(UserWarning):
    """The one warning category of this package."""


def told(error: Exception) -> str:
    """An error in one line; of one of the system: the file, and what is wrong with it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def first_line(error: BaseException) -> str:
    """What an exception of somebody else's says, cut to a line that fits into one of ours."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].partition(". ")[0].rstrip(".")[:160]


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 picture`, `1,449 pictures`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def require(*packages: str, extra: str) -> None:
    """Make sure that optional packages can be imported, or say which extra brings them."""
    for package in packages:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            if error.name != package.partition(".")[0]:
                raise  # the package is there; something it needs is not, and that is another story
            raise MissingExtra(
                f"{package} is not installed; it comes with", f"pip install 'idisc[{extra}]'"
            ) from None
