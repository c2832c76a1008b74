"""The group of commands: help, one line for what the user got wrong, tracebacks for bugs."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from tests.fakes.called import Ended, Refusal, Run

import idisc
from idisc import errors
from idisc.cli import main as command_line

Fail = Callable[[BaseException], Ended]


@pytest.fixture
def fail(run: Run, monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Run a command that raises the given error."""

    def call(error: BaseException) -> Ended:
        @click.command()
        def command() -> None:
            raise error

        monkeypatch.setattr(command_line.Commands, "get_command", lambda *_: command)
        return run("fail")

    return call


def test_help_lists_every_command_with_its_line(run: Run) -> None:
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    assert out.startswith("Usage: idisc [OPTIONS] COMMAND [ARGS]...\n")
    listed = re.findall(r"^  (\w+) +(.+)$", out.partition("Commands:\n")[2], re.MULTILINE)
    assert dict(listed) == command_line.COMMANDS


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("name", command_line.COMMANDS)
def test_every_command_has_its_help(run: Run, name: str, option: str) -> None:
    code, out, err = run(name, option)
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: idisc {name} [OPTIONS]")


def test_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version") == (0, f"idisc, version {idisc.__version__}\n", "")


def test_no_arguments_show_the_help_as_an_error(run: Run) -> None:
    _, help_text, _ = run("--help")
    assert run() == (2, "", help_text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bnech"], "No such command 'bnech'. (see idisc --help)"),
        (["--fast"], "No such option '--fast'. (see idisc --help)"),
        (["bench"], "Missing argument 'RECIPE'. (see idisc bench --help)"),
        (["convert", "a.pt", "--to", "b"], "No such option '--to'."),
        (["convert", "a.pt", "--out"], "Option '--out' requires an argument."),
        (["convert", "a.pt"], "FILE and --out are needed (or --list) (see idisc convert --help)"),
        (["convert", "a.pt", "b.pt", "--out", "c"], "Got unexpected extra argument (b.pt)"),
    ],
)
def test_a_wrong_call_is_one_line_on_stderr(
    refusal: Refusal, arguments: list[str], message: str
) -> None:
    assert refusal(*arguments).startswith(f"idisc: {message}")


def test_the_module_runs_as_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "idisc", "bnech"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert (done.stdout, done.stderr) == (
        "",
        "idisc: No such command 'bnech'. (see idisc --help)\n",
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InputError("depth.png", "8-bit", "save it as 16-bit PNG"), 2),
        (errors.DataError("nyu", "no frames"), 2),
        (errors.CheckpointError("a.pt", "truncated"), 2),
        (errors.MissingExtra("scipy", "not installed"), 2),
        (errors.CheckFailed("parity", "0.3 m"), 3),
    ],
)
def test_an_error_of_the_family_is_one_line_and_its_exit_code(
    fail: Fail, error: errors.IdiscError, code: int
) -> None:
    assert fail(error) == (code, "", f"idisc: {error}\n")


def test_an_error_of_the_system_names_the_file_in_one_line(fail: Fail) -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "out/depth.png")
    assert fail(error) == (2, "", "idisc: out/depth.png: No space left on device\n")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_an_error_of_the_system_without_a_file_is_of_stdout(fail: Fail, number: int) -> None:
    code, out, err = fail(OSError(number, "No room"))
    assert (code, out, err) == (2, "", "idisc: stdout: cannot be written (No room)\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full, of Linux")
def test_a_full_stdout_is_one_line_and_no_second_error_at_the_end() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "idisc", "models"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    message = "idisc: stdout: cannot be written (No space left on device)\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_a_reader_of_stdout_that_has_ended_is_no_bug_and_no_message() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    call = [sys.executable, "-m", "idisc", "models"]
    done = subprocess.run(call, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_file_that_click_cannot_open_is_bad_input_too(fail: Fail) -> None:
    message = "idisc: Could not open file 'a.txt': not there\n"
    assert fail(click.FileError("a.txt", "not there")) == (2, "", message)


@pytest.mark.parametrize(
    ("error", "expected"),
    [(KeyboardInterrupt(), 130), (click.Abort(), 130), (SystemExit(signal.SIGTERM), 143)],
)
def test_an_interruption_says_so_and_has_a_code_of_its_own(
    fail: Fail, error: BaseException, expected: int
) -> None:
    code, out, err = fail(error)
    assert (code, out) == (expected, "")
    assert err.strip() == "idisc: interrupted"


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("a bug"),
        AssertionError("a bug"),
        OSError("a bug that names no file"),
        EOFError("a bug with a truncated file, not a Ctrl-D"),
    ],
)
def test_a_bug_keeps_its_traceback(fail: Fail, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)) as caught:
        fail(error)
    assert caught.value is error
    assert caught.traceback[-1].name == "command"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (errors.InputError("a.jpg", "no such file"), 2, "idisc: a.jpg: no such file\n"),
        (errors.CheckFailed("parity", "off"), 3, "idisc: parity: off\n"),
        (FileNotFoundError(errno.ENOENT, "Nothing there", "b"), 2, "idisc: b: Nothing there\n"),
        (KeyboardInterrupt(), 130, "idisc: interrupted\n"),
    ],
)
def test_an_example_answers_a_mistake_in_one_line(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def script() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        command_line.run_script(script)
    assert (ended.value.code, capsys.readouterr().err) == (code, message)
