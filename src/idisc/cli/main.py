"""The group of commands. Each loads when it is used; an error of the user's is one line."""

from __future__ import annotations

import errno
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import click

from idisc import __version__
from idisc.cli import tables
from idisc.errors import IdiscError, describe

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a closed pipe is click's
COMMANDS = {
    "bench": "Speed, memory and size of a recipe's network on this machine.",
    "convert": "Turn a published checkpoint into one of ours.",
    "doctor": "Say what is wrong with a dataset, and what to change.",
    "evaluate": "Score a network or anybody's predictions on a dataset.",
    "explain": "What the network sees: its IDRs, its levels, depth without some.",
    "export": "Turn a checkpoint into one measured file for other runtimes.",
    "models": "List the models that ship, and the published ones.",
    "predict": "Metres out of photos and videos.",
    "prepare": "Turn a raw dataset into pictures, depth and a manifest.",
    "serve": "A web page and an HTTP API: depth, 3D, and the IDRs of a photo.",
    "train": "Train a recipe, fine-tune a checkpoint, or go on with a run.",
}


class Commands(click.Group):
    """Commands by name; their modules are imported when one of them runs, not to list them."""

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
    """Run the command line and exit: 0 done, 2 bad input, 3 a check said no, 130 interrupted."""
    try:
        code = cli.main(args, prog_name="idisc", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except IdiscError as error:
        _fail(str(error), error.exit_code)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "idisc"
        _fail(f"{error.format_message()} (see {command} --help)", error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), 2)  # click has 1 here, which is left to bugs
    except (click.Abort, KeyboardInterrupt) as error:
        if isinstance(error.__cause__, EOFError):  # to click a Ctrl-D; to us a bug, as any other
            raise error.__cause__ from None
        _fail("interrupted", 130)
    except OSError as error:  # no space, no permission: the system names the file
        if error.filename is None and error.errno not in NO_ROOM:
            raise
        if error.filename is None:  # files of ours are named, so that it is stdout
            tables.give_up_stdout()
            _fail(f"stdout: cannot be written ({error.strerror})", 2)
        _fail(describe(error), 2)
    sys.exit(code or 0)


def run_script(script: Callable[[], None]) -> None:
    """Run a script of docs/examples or benchmarks; errors of the user are printed as one line."""
    try:
        script()
    except IdiscError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except OSError as error:
        if error.filename is None:
            raise
        _fail(describe(error), 2)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"idisc: {message}", err=True)
    sys.exit(code)
