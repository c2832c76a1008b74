"""The options of commands that can run on a cluster, and the executor that they choose."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idisc.cli import batch, options, progress, tables
from idisc.cli.cameras import MatrixRule
from idisc.errors import InputError, pluralize
from idisc.executors import Executor, LocalExecutor

if TYPE_CHECKING:
    from idisc.cluster.job import Progress as JobProgress
    from idisc.cluster.job import Summary
    from idisc.formats import FormatOptions

PARQUET = "parquet"  # --save parquet: tables with a row for each picture
MAX_SHOWN = 20  # failures that are printed; a file lists all of them


cluster = click.option(
    "--cluster",
    is_flag=False,
    flag_value="auto",
    metavar="[ADDRESS]",
    help="Run on the Ray cluster at HOST:PORT; without an address, on this machine.",
)
"""The option --cluster of commands that can run on a cluster."""


@contextmanager
def executor_of(address: str | None, workers: int | None, **needs: Any) -> Iterator[Executor]:
    """Yield the executor of an address; None: this machine.

    `needs` are those of one worker on a cluster, as fields of `RayExecutor`.
    """
    if address is None:
        yield LocalExecutor(workers or 1)
        return
    from idisc.cluster.connection import connected
    from idisc.cluster.executor import RayExecutor

    # Ray prints to stdout when a machine dies, but stdout is for results. It handles SIGTERM, too,
    # and ends the process with another exit code.
    with redirect_stdout(sys.stderr), connected(address), batch.terminable():
        yield RayExecutor(workers=workers, **needs)


@dataclass(frozen=True)
class ClusterOptions:
    """The options of a prediction on a cluster."""

    address: str
    destination: str  # a folder that all machines see, or an address
    workers: int | None
    gpus_per_worker: float | None
    part_size: int | None
    column: str | None
    key: str | None


def prediction_options(command: Any) -> Any:
    """The options of `idisc predict` for a cluster; `take_options` reads them."""
    for option in (
        click.option("--key", metavar="NAME", help="Parquet: column of names [detected]"),
        click.option(
            "--column", metavar="NAME", help="Parquet: column of pictures [the only one of bytes]"
        ),
        click.option(
            "--part-size",
            type=click.IntRange(1),
            help="Pictures per part [by the number of all pictures]",
        ),
        click.option(
            "--gpus-per-worker",
            type=click.FloatRange(0, min_open=True),
            help="GPUs per worker, may be a fraction; implies --device cuda [0]",
        ),
        click.option(
            "--workers", type=click.IntRange(1), help="Workers on the cluster [as many as fit]"
        ),
    ):
        command = option(command)
    return cluster(command)


def take_options(given: dict[str, Any], out: str | None) -> ClusterOptions | None:
    """Remove the options of a cluster from `given`; None if --cluster is not among them."""
    names = ("workers", "gpus_per_worker", "part_size", "column", "key")
    address, values = given.pop("cluster"), options.take(given, names)
    if address is None:
        options.refuse("--cluster", **values)
        if out and "://" in out:
            raise InputError(f"-o {out}", "an address", "--cluster writes to addresses")
        return None
    if out is None:
        raise InputError("--cluster", "results need a folder", "pass -o FOLDER")
    destination = out if "://" in out else str(Path(out).absolute())
    return ClusterOptions(address, destination, **values)


def predict(
    cluster: ClusterOptions,
    pictures: Sequence[str],
    recursive: bool,
    save: Sequence[str],
    format_options: FormatOptions,
    network: Mapping[str, Any],
) -> None:
    """Predict on a cluster and print the summary; InputError if pictures failed.

    `save` are the values of --save; `network` are the arguments of `DepthPredictor`.
    """
    from idisc.cluster import DepthPredictor
    from idisc.cluster import job as jobs
    from idisc.cluster.sources import Columns, list_parts

    parts = list_parts(pictures, recursive=recursive, part_size=cluster.part_size)
    device = {"device": "cuda"} if cluster.gpus_per_worker else {}
    job = jobs.Job(
        parts=tuple(parts),
        destination=cluster.destination,
        predictor=DepthPredictor(**{**network, **device}),
        columns=Columns(picture=cluster.column, key=cluster.key),
        formats=_format_names(save, files=all(part.kind == "files" for part in parts)),
        format_options=format_options,
    )
    jobs.check(job)  # before a cluster is started
    camera = job.predictor.options.camera
    if isinstance(camera, MatrixRule):  # workers do not see the first picture, whose size it is for
        first = jobs.first_size(job)
        if first is not None:
            camera(first)
    gpus = cluster.gpus_per_worker or 0.0
    with (
        executor_of(cluster.address, cluster.workers, gpus=gpus) as executor,
        progress.bar("predicting") as advance,
    ):
        summary = jobs.run(job, executor, partial(_advance, advance))
    _print_summary(summary, cluster.destination)


def _format_names(save: Sequence[str], files: bool) -> tuple[str, ...] | None:
    """Return the formats of files; None: tables, which are the default unless all are files."""
    from idisc import formats

    if tuple(save) == (PARQUET,) or not (save or files):
        return None
    return tuple(row.name for row in formats.parse(save)) if save else ()


def _advance(advance: progress.Advance, state: JobProgress) -> None:
    rate = f"{state.pictures:,} pictures, {state.pictures_per_s:.2g}/s, {state.failures:,} failed,"
    advance(state.done, state.parts, f"{rate} {state.done / state.parts:.0%}, parts")


def _print_summary(summary: Summary, destination: str) -> None:
    """Print how many pictures were predicted; InputError if some failed."""
    from idisc.cluster.job import FAILURES, NOTES

    failed, skipped = len(summary.failures), f", {summary.skipped:,} were there"
    click.echo(
        f"{pluralize(summary.pictures - failed, 'picture')} -> {destination}, in"
        f" {pluralize(summary.parts, 'part')}{skipped if summary.skipped else ''}"
    )
    if not failed:
        return
    for _, error in summary.failures[:MAX_SHOWN]:
        tables.note(f"failed: {error}")
    raise InputError(
        f"{destination}/{NOTES}/{FAILURES}",
        f"{failed:,} of {summary.pictures:,} pictures failed",
        "it lists all of them",
    )
