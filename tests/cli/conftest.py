"""What tests of several commands share."""

from __future__ import annotations

import pytest
from tests.fakes import called


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> called.Run:
    """Call the command line: exit code, stdout, stderr."""

    def call(*arguments: object) -> called.Ended:
        return (called.run(*arguments), *capsys.readouterr())

    return call
