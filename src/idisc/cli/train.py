"""`idisc train`: train a recipe, or resume a run."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from idisc import configs
from idisc.cli import options, progress, tables
from idisc.configs import paper, recipes
from idisc.errors import pluralize, require
from idisc.zoo import cards

if TYPE_CHECKING:
    from idisc.configs.schema import Recipe
    from idisc.train.guard import Guard
    from idisc.train.trainer import OnStep, Step, Summary, Trainer


@click.command(name="train", epilog=options.RECIPES_TEXT)
@click.argument("recipe", type=recipes.find, required=False)
@click.option(
    "--data",
    multiple=True,
    metavar="DIR",
    help="Prepared dataset or your own pairs, also as NAME=DIR; repeat it to mix several.",
)
@click.option("--out", type=options.PATH, help="New folder for the run.")
@click.option("--resume", type=options.PATH, metavar="RUN", help="Resume the run in this folder.")
@click.option(
    "--weights",
    metavar="SOURCE",
    help="Start from a checkpoint folder, a shipped model by name, a file with encoder weights, or"
    " `imagenet` (downloaded).",
)
@click.option(
    "--workers",
    type=click.IntRange(0),
    help="Processes that load pictures [2, or 0 for cached features; with --resume, as before]",
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 ...")
@options.changes
def command(
    recipe: Recipe | None,
    data: tuple[str, ...],
    out: Path | None,
    resume: Path | None,
    changes: tuple[str, ...],
    **given: Any,
) -> None:
    """Train RECIPE and write all files to the folder of the run, or resume a run.

    Several processes, on one machine or many: torchrun --nproc-per-node N -m idisc train ...
    """
    _check(click.get_current_context().params)
    weights, workers = _locate_weights(given["weights"], changes), given["workers"]
    require("torch", "timm", "safetensors", "torchvision", "tensorboard", extra="train")
    from idisc.train import launch  # heavy: only when this command runs
    from idisc.train.distributed import join_processes

    with join_processes(given["device"]) as world:
        with _on_signals(_interrupt), progress.bar("starting") as advance:

            def on_caching(done: int, total: int) -> None:
                advance(done, total, "caching features")

            if recipe is None or out is None:
                run = launch.resume(cast(Path, resume), world, workers, on_caching)
            else:
                recipe = configs.override(recipe, changes)
                if workers is None:  # cached features are read faster than sent
                    workers = 0 if recipe.train.cache_features else 2
                run = launch.start(
                    recipe,
                    data,
                    out,
                    world,
                    weights=weights,
                    workers=workers,
                    on_caching=on_caching,
                )
        if world.is_main and resume is None:
            _note_start(run, weights)
        with _on_signals(lambda _: setattr(run, "stop", True)) as received, _shown(run) as on_step:
            summary = run.train(on_step)
        if world.is_main:
            report(run, summary)
    if received and not summary.finished:
        sys.exit(128 + received[0])  # so that `idisc train ... && idisc evaluate ...` stops here


def _check(params: Mapping[str, Any]) -> None:
    """Raise UsageError unless the options are those of a new run, or only --resume."""
    new = all(params[name] for name in ("recipe", "data", "out"))
    resumed = params["resume"] is not None
    if new == resumed:
        raise click.UsageError("either RECIPE, --data and --out, or --resume RUN is needed")
    if resumed and any(params[name] for name in ("recipe", "data", "out", "weights", "changes")):
        raise click.UsageError("--resume keeps the options of the run; leave out all others")


def _locate_weights(weights: str | None, changes: Sequence[str]) -> str | None:
    """Return the checkpoint of a shipped model by its name; other weights as they are."""
    from idisc.predict.open import find_card

    if weights is None or weights == "imagenet":
        return weights
    path = Path(weights)
    card = None if path.suffix else find_card(weights)
    path = cards.locate(card, "checkpoint") if card else path
    checkpoint = path.is_dir() or path.suffix == ".json"
    if checkpoint and any(change.strip().startswith("model.") for change in changes):
        raise click.UsageError("--set model: a checkpoint determines the network; leave it out")
    return str(path) if card else weights


def _interrupt(number: int) -> None:
    """Stop before the run exists, when there is nothing to save."""
    click.echo("nothing is trained yet; start again with the same command", err=True)
    sys.exit(128 + number)


@contextmanager
def _on_signals(react: Callable[[int], None]) -> Iterator[list[int]]:
    """Call `react` with the first SIGINT or SIGTERM; the second one has its usual effect.

    Yields the list of the signals received.
    """
    received: list[int] = []

    def first(number: int, _frame: Any) -> None:
        signal.signal(number, before[signal.Signals(number)])
        received.append(number)
        react(number)

    before = {number: signal.signal(number, first) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _note_start(run: Trainer, weights: str | None) -> None:
    """Print notes about a new run that its user may not expect."""
    if not weights:
        tables.note("the encoder starts from random weights; --weights imagenet has better ones")
    if run.recipe.data.holdout:
        count = sum(len(folder) for folder in run.stream.folders)
        held_out = pluralize(len(run.testing), "picture")
        tables.note(f"{held_out}, whole scenes, held out; {count} for training")
    if run.origin.get("non_commercial"):
        terms = "; ".join(run.origin["licence"])
        tables.note(
            f"the result is not for commercial use, like its data or initial weights: {terms}"
        )


@contextmanager
def _shown(run: Trainer) -> Iterator[OnStep]:
    """Show steps: a progress bar on a terminal, otherwise lines."""
    if not run.world.is_main:
        yield lambda step: None  # noqa: ARG005
        return
    total = run.recipe.train.iterations
    with progress.bar("training, step") as advance:
        advance(run.progress.step, total)
        yield lambda step: advance(step.step, total, _describe(step))


def _describe(step: Step) -> str:
    skipped = step.skipped + step.empty
    return (
        f"loss {step.loss:.3f}, rate {step.lr:.1e}, {_speed(step.images_per_s)},"
        f" waiting {step.wait_share:.0%}, {step.memory_gb:.1f} GB,"
        + (f" {skipped} skipped," if skipped else "")
        + " step"
    )


def _speed(images_per_s: float) -> str:
    """Return the speed as images per second, or as seconds per image if it is slow."""
    if images_per_s >= 1:
        return f"{images_per_s:.1f} images/s"
    return f"{1 / images_per_s:.1f} s per image"


def _failures(guard: Guard) -> str:
    """Return the failed steps of a run as text; empty if there are none."""
    counts = {
        "steps skipped (loss or gradient not finite)": guard.skipped,
        "batches without a valid pixel": guard.empty,
        "roll-backs": guard.rollbacks,
    }
    return ", ".join(f"{kind}: {count}" for kind, count in counts.items() if count)


def report(run: Trainer, summary: Summary) -> None:
    """Print the end of a run: how to resume it, or its numbers next to those of the paper."""
    from idisc.train import state  # heavy, as above

    if failures := _failures(summary.guard):
        tables.note(f"{run.out}: {failures}")
    if not summary.finished:
        start = "torchrun as before, with -m idisc" if run.world.size > 1 else "idisc"
        out = shlex.quote(str(run.out))
        click.echo(f"stopped after step {summary.step}; resume with: {start} train --resume {out}")
        return
    published = paper.RESULTS.get(run.recipe.name.partition(":")[0], {})
    names = list(dict.fromkeys([*published, *summary.metrics]))
    best = f"best, step {summary.best['step']:.0f}"
    rows = [("last", summary.metrics), (best, summary.best)]
    if summary.start:
        names = [name for name in names if name in summary.start]
        change = {name: summary.best[name] - summary.start[name] for name in names}
        rows = [("before", summary.start), (f"after, {best}", summary.best), ("change", change)]
    if published:
        rows.append(("the paper", published))
    tables.show(
        f"{run.recipe.name} on {run.testing.spec.title}, {pluralize(summary.pictures, 'picture')}",
        ["", *names],
        [[title, *(tables.number(values.get(name)) for name in names)] for title, values in rows],
    )
    if summary.best["step"] == 0:
        tables.note("training has not improved on the weights it started from; they are the best")
    click.echo(f"best checkpoint: {run.out / state.BEST}")
