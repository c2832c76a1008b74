"""The command line as a user calls it, in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from idisc.cli.main import main

Ended = tuple[int, str, str]  # exit code, stdout, stderr
Run = Callable[..., Ended]
Refusal = Callable[..., str]  # the line of an error


def run(*arguments: object) -> int:
    """Its exit code; what it prints is left to whoever captures it."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)
