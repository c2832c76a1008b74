"""The command group: commands are imported on demand, and an error is printed as one line."""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click

from idisc import __version__
from idisc.cli import tables
from idisc.cli.batch import Terminated
from idisc.errors import IdiscError, describe, one_line

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LEAK_WARNINGS = "ignore:resource_tracker:UserWarning"  # in the syntax of -W
COMMANDS = {
    "bench": "Measure speed, memory and size of a network on this machine.",
    "compare": "Show and score two networks side by side.",
    "convert": "Convert a published checkpoint to the format of this package.",
    "demo": "Predict the example photos and show them in a browser.",
    "doctor": "Check a dataset, and report what to change.",
    "evaluate": "Score a network or stored predictions on a dataset.",
    "explain": "Show the internal representations (IDRs) of a network.",
    "export": "Export a checkpoint to an ONNX file, compared with the network.",
    "models": "List the shipped and the published models.",
    "predict": "Predict metric depth for photos and videos.",
    "prepare": "Convert a raw dataset to pictures, depth and a manifest.",
    "serve": "Serve a web page and an HTTP API for depth, 3D views and IDRs.",
    "train": "Train a recipe, fine-tune a checkpoint, or resume a run.",
}


class Commands(click.Group):
    """Commands by name; a module is imported when its command runs, not to list it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"idisc.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="idisc")
def cli() -> None:
    """Metric depth and surface normals from a single photo."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with one of the codes in `docs/reference/cli.md`."""
    _prepare_streams()
    with _errors_as_lines():
        code = cli.main(args, prog_name="idisc", standalone_mode=False)
    sys.exit(code or 0)


def run_script(script: Callable[[], None]) -> None:
    """Run a script of docs/examples or benchmarks; errors of the user are printed as one line."""
    with _errors_as_lines():
        script()


@contextmanager
def _errors_as_lines() -> Iterator[None]:
    """Print an error that is not a bug as one line, and exit with its code."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except IdiscError as error:
        _fail(str(error), error.exit_code)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "idisc"
        _fail(f"{error.format_message()} (see {command} --help)", error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), 2)  # click uses 1, which is reserved for bugs
    except SystemExit as end:
        if end.code == 1:  # of click and rich, if the program that reads stdout has ended
            sys.exit(141)  # the code of SIGPIPE; 1 is reserved for bugs
        if end.code == signal.SIGTERM:  # of Ray, while it starts or ends
            _fail("interrupted", 143)
        raise
    except (click.Abort, KeyboardInterrupt) as error:
        if isinstance(error.__cause__, EOFError):  # Ctrl-D for click, but a bug here
            raise error.__cause__ from None
        terminated = isinstance(error.__cause__ or error, Terminated)
        _fail("interrupted", 143 if terminated else 130)
    except OSError as error:  # no space, no permission
        if error.filename is None and error.errno not in DISK_FULL:
            raise
        if error.filename is None:  # errors of our own files have a name, so this is stdout
            tables.discard_stdout()
            _fail(f"stdout: cannot be written ({error.strerror})", 2)
        _fail(describe(error), 2)


def _prepare_streams() -> None:
    """Refuse a closed stdout, and let both streams print every file name."""
    if sys.stderr is None:  # Python's way to say that it was closed
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - stays open
    if sys.stdout is None:
        _fail("stdout: closed; redirect it to a file or a program", 2)
    if isinstance(sys.stdout, io.TextIOWrapper):  # as stderr does by default
        sys.stdout.reconfigure(errors="backslashreplace")
    # Worker processes of a killed command leave semaphores, which Python removes with a warning.
    if LEAK_WARNINGS not in sys.warnoptions:
        sys.warnoptions.append(LEAK_WARNINGS)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"idisc: {one_line(message)}", err=True)
    sys.exit(code)
