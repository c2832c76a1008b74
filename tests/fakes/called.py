"""Calls of the command line: in this process, and programs in a new interpreter."""

import subprocess
import sys

import pytest

from idisc.cli.main import main

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
    """Call `idisc` and return its exit code; the test captures the output if it needs it."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


def fresh(code):
    """Run a program in a new interpreter, which has imported nothing."""
    call = [sys.executable, "-c", code]
    return subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
