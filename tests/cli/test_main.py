"""The group of commands: help, one line for what the user got wrong, tracebacks for bugs."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

import idisc
from idisc import errors
from idisc.cli import main as command_line


@pytest.fixture
def fail(run, monkeypatch):
    """Run a command that raises the given error."""

    def call(error):
        @click.command()
        def command():
            raise error

        monkeypatch.setattr(command_line.Commands, "get_command", lambda *_: command)
        return run("fail")

    return call


def test_help_lists_every_command_with_its_line(run):
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    assert out.startswith("Usage: idisc [OPTIONS] COMMAND [ARGS]...\n")
    listed = re.findall(r"^  (\w+) +(.+)$", out.partition("Commands:\n")[2], re.MULTILINE)
    assert dict(listed) == command_line.COMMANDS


def test_version_is_that_of_the_package(run):
    assert run("--version") == (0, f"idisc, version {idisc.__version__}\n", "")


def test_no_arguments_show_the_help_as_an_error(run):
    _, help_text, _ = run("--help")
    assert run() == (2, "", help_text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bnech"], "No such command 'bnech'. (see idisc --help)"),
        (["bench"], "Missing argument 'RECIPE'. (see idisc bench --help)"),
        (["convert", "a.pt", "--to", "b"], "No such option '--to'."),
    ],
)
def test_a_wrong_call_is_one_line_on_stderr(refusal, arguments, message):
    assert refusal(*arguments).startswith(f"idisc: {message}")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (errors.InputError("depth.png", "8-bit", "convert it"), 2, "depth.png: 8-bit; convert it"),
        (errors.CheckFailed("parity", "0.3 m"), 3, "parity: 0.3 m"),
        (OSError(errno.ENOSPC, "No space", "out/depth.png"), 2, "out/depth.png: No space"),
        (OSError(errno.ENOSPC, "No room"), 2, "stdout: cannot be written (No room)"),
        (click.FileError("a.txt", "not there"), 2, "Could not open file 'a.txt': not there"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (SystemExit(signal.SIGTERM), 143, "interrupted"),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(fail, error, code, line):
    found, out, err = fail(error)
    assert (found, out, err.strip()) == (code, "", f"idisc: {line}")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full, of Linux")
@pytest.mark.parametrize("arguments", [["models"], ["predict", "-", "--weights", "small.onnx"]])
def test_a_full_stdout_is_one_line_and_no_second_error_at_the_end(arguments, model, photos):
    call = [sys.executable, "-m", "idisc", *arguments]
    with Path("/dev/full").open("wb") as full, (photos / "a.png").open("rb") as photo:
        done = subprocess.run(
            call, cwd=model.parent, stdin=photo, stdout=full, stderr=subprocess.PIPE, text=True
        )
    message = "idisc: stdout: cannot be written (No space left on device)\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_a_reader_of_stdout_that_has_ended_is_no_bug_and_no_message():
    reader, writer = os.pipe()
    os.close(reader)
    call = [sys.executable, "-m", "idisc", "models"]
    done = subprocess.run(call, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("a bug"),
        AssertionError("a bug"),
        OSError("a bug that names no file"),
        EOFError("a bug with a truncated file, not a Ctrl-D"),
    ],
)
def test_a_bug_keeps_its_traceback(fail, error):
    with pytest.raises(type(error), match=str(error)) as caught:
        fail(error)
    assert caught.value is error
    assert caught.traceback[-1].name == "command"


def test_a_script_has_the_same_errors(capsys):
    def script():
        raise errors.CheckFailed("parity", "off")

    with pytest.raises(SystemExit) as ended:
        command_line.run_script(script)
    assert (ended.value.code, capsys.readouterr().err) == (3, "idisc: parity: off\n")
