"""The command line as a user calls it, in this process."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from idisc.cli.main import main

Ended = tuple[int, str, str]  # exit code, stdout, stderr
Run = Callable[..., Ended]
Refusal = Callable[..., str]  # the line of an error
# The beginning of a program for which {packages} are not installed.
BLOCK = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def run(*arguments):
    """Its exit code; what it prints is left to whoever captures it."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


def fresh(code):
    """Run a program in an interpreter that has imported nothing."""
    call = [sys.executable, "-c", code]
    return subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
