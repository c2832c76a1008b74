"""What tests of several commands share."""

import pytest
from tests.fakes import called, onnx_files
from tests.fakes.photographed import three_photos

from idisc.cli import progress


@pytest.fixture(autouse=True)
def _no_lines_every_ten_seconds(monkeypatch):
    """On a busy machine, commands would print some beside what tests expect."""
    monkeypatch.setattr(progress, "INTERVAL_S", 1e6)


@pytest.fixture
def run(capsys):
    """Call the command line: exit code, stdout, stderr."""

    def call(*arguments):
        return (called.run(*arguments), *capsys.readouterr())

    return call


@pytest.fixture
def refusal(run):
    """Call the command line wrongly: the only line on stderr, after exit code 2."""

    def call(*arguments):
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), (arguments, err)
        assert err.startswith("idisc: ")
        return err

    return call


@pytest.fixture
def model(tmp_path):
    """A network whose depth is 0.5 m + brightness / 50."""
    return onnx_files.sealed(onnx_files.depth_of_brightness(tmp_path / "small.onnx"))


@pytest.fixture
def photos(tmp_path):
    """A folder of three photos."""
    return three_photos(tmp_path)
