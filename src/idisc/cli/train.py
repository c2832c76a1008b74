"""`idisc train`: a recipe into a run, or a run that goes on."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from idisc import config, paper
from idisc.cli import options, tables
from idisc.errors import require

if TYPE_CHECKING:
    from idisc.settings import Recipe
    from idisc.train.loop import Run, Step, Summary


@click.command(name="train")
@click.argument("recipe", type=options.RecipeName(), required=False)
@click.option(
    "--data",
    multiple=True,
    metavar="DIR",
    help="Prepared dataset or own pairs, also as NAME=DIR; several are mixed.",
)
@click.option("--out", type=options.PATH, help="New folder for the run.")
@click.option("--resume", type=options.PATH, metavar="RUN", help="Go on with a run.")
@click.option(
    "--weights",
    metavar="SOURCE",
    help="Start from a checkpoint folder, a file of the encoder's, or `imagenet` (a download).",
)
@click.option("--workers", type=click.IntRange(0), default=2, show_default=True)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 ...")
@options.changes
def command(
    recipe: Recipe | None,
    data: tuple[str, ...],
    out: Path | None,
    resume: Path | None,
    weights: str | None,
    workers: int,
    device: str,
    changes: tuple[str, ...],
) -> None:
    """Train RECIPE and keep all of it in the run's folder; or go on with --resume RUN.

    Several processes, on one machine or many: torchrun --nproc-per-node N -m idisc train ...
    """
    new = recipe is not None and bool(data) and out is not None
    if new == (resume is not None):
        raise click.UsageError("either RECIPE, --data and --out, or --resume RUN is needed")
    if resume and (recipe or data or out or weights or changes):
        raise click.UsageError("--resume goes on as the run began; leave out everything else")
    require("torch", "timm", "safetensors", "torchvision", "tensorboard", extra="train")
    from idisc.train import runs  # heavy: only when this command runs
    from idisc.train.distributed import joined

    with joined(device) as world:
        if resume is not None:
            run = runs.resume(resume, world)
        else:
            changed = config.override(cast("Recipe", recipe), changes)
            run = runs.start(
                changed, data, cast(Path, out), world, weights=weights, workers=workers
            )
        with _stopping(run), _shown(run) as tell:
            summary = run.train(tell)
        if world.leads:
            _print(run, summary)


@contextmanager
def _stopping(run: Run) -> Iterator[None]:
    """The first signal lets the step end and saves; a second one is taken at its word."""

    def stop(number: int, _frame: Any) -> None:
        run.stop = True
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _shown(run: Run) -> Iterator[Callable[[Step], None]]:
    """A bar with the loss on a terminal, a line now and then elsewhere."""
    if not run.world.leads:
        yield lambda step: None  # noqa: ARG005
        return
    total = run.recipe.train.iterations
    if not sys.stderr.isatty():
        every = max(total // 100, 1)

        def line(step: Step) -> None:
            if step.step % every == 0 or step.step == total:
                click.echo(f"step {step.step}/{total}  {_spoken(step)}", err=True)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, completed=run.step)
        yield lambda step: bar.update(task, completed=step.step, description=_spoken(step))


def _spoken(step: Step) -> str:
    hours, minutes = divmod(int(step.eta_s) // 60, 60)
    return (
        f"loss {step.loss:.3f}  rate {step.lr:.1e}  {step.images_per_s:.1f} images/s"
        f"  waiting {step.wait:.0%}  {step.memory_gb:.1f} GB  {hours} h {minutes:02d} min left"
    )


def _print(run: Run, summary: Summary) -> None:
    if not summary.finished:
        click.echo(f"stopped after step {summary.step}; go on with: idisc train --resume {run.out}")
        return
    theirs = paper.RESULTS.get(run.recipe.name.partition(":")[0], {})
    names = [*theirs, *(name for name in summary.metrics if name not in theirs)]
    rows = [("last", summary.metrics), (f"best, step {summary.best['step']:.0f}", summary.best)]
    if theirs:
        rows.append(("the paper", theirs))
    tables.show(
        f"{run.recipe.name} on {run.testing.spec.title}, {len(run.testing)} pictures",
        ["", *names],
        [[title, *(tables.number(values.get(name)) for name in names)] for title, values in rows],
    )
    click.echo(f"best checkpoint: {run.out / 'best'}")
