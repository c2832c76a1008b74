"""`idisc prepare`: a raw dataset into images, 16-bit depth and a manifest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import click

from idisc import configs
from idisc.cli import batch, clusters, options, progress, tables
from idisc.data import catalog, manifest
from idisc.data.prepare import PREPARATIONS
from idisc.errors import DataError, InputError, lookup, pluralize

if TYPE_CHECKING:
    from idisc.data.prepare.frames import Absent
    from idisc.data.prepare.runner import Summary


def _epilog() -> str:
    """Return the datasets, and a line for each field of --set: values and datasets that have it."""
    users: dict[str, list[str]] = {}
    for dataset, preparation in PREPARATIONS.items():
        hints = get_type_hints(preparation.options)
        for name, default in configs.to_json(preparation.options()).items():
            users.setdefault(f"{name}={_values(hints[name], default)}", []).append(dataset)
    raw = [dataset for dataset, preparation in PREPARATIONS.items() if preparation.raw]
    lines = [
        f"  {field:<40}{'all with raw files' if names == raw else ', '.join(names)}"
        for field, names in users.items()
    ]
    datasets = f"Datasets: {', '.join(PREPARATIONS)}."
    return "\n".join([datasets, "", "\b", "Options of --set, the default first:", *lines])


def _values(kind: Any, default: Any) -> str:
    if get_origin(kind) is Literal:
        return "|".join(sorted(get_args(kind), key=lambda value: value != default))
    if kind is bool:
        return "true|false" if default else "false|true"
    if isinstance(default, tuple):
        return "x".join(map(str, default)) or "NAME,NAME"
    return f"{default:g}"


def _dataset(name: str) -> str:
    if name == catalog.FOLDER.name:
        remedy = "pass it to doctor, evaluate or train as it is"
        raise InputError("dataset 'folder'", "your own pairs need no preparation", remedy)
    lookup(PREPARATIONS, name, "dataset")
    return name


@click.command(name="prepare", epilog=_epilog())
@click.argument("dataset", type=_dataset)
@click.option(
    "--raw", type=options.FOLDER, help="Folder of the raw dataset; not for synthetic ones."
)
@click.option("--out", type=options.PATH, required=True, help="Folder for the prepared dataset.")
@click.option(
    "--list",
    "lists",
    type=options.PATH,
    multiple=True,
    help="Published list file: prepare its pictures instead of the default selection.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="Number of processes [1; on a cluster, as many as fit]",
)
@clusters.cluster
@options.changes
def command(
    dataset: str,
    raw: Path | None,
    out: Path,
    lists: tuple[Path, ...],
    changes: tuple[str, ...],
    **given: Any,
) -> None:
    """Convert the raw files of DATASET to pictures, depth and a manifest.

    The same command continues an interrupted run.
    """
    from idisc.data.prepare import runner

    preparation = configs.override(PREPARATIONS[dataset].options(), changes)
    with (
        batch.terminable(),
        clusters.executor_of(given["cluster"], given["workers"]) as executor,
        progress.bar(f"preparing {dataset}") as advance,
    ):
        summary = runner.prepare(
            dataset,
            raw,
            out,
            preparation,
            lists=lists,
            executor=executor,
            progress=lambda done, total, _: advance(done, total),
        )
    tables.show_fields(_describe(dataset, summary, out))
    if summary.absent:
        tables.note(_describe_absent(summary.absent))
    if summary.repeated:
        tables.note(
            f"{pluralize(len(summary.repeated), 'line')} of the lists named a pair again, first"
            f" {summary.repeated[0]}; each pair is prepared once"
        )
    if summary.faults:
        first = summary.faults[0]
        wrong = pluralize(len({fault.subject for fault in summary.faults}), "raw file")
        raise DataError(
            out / runner.MISSING,
            f"{wrong} missing or unreadable, the first is {first.subject} ({first.reason})",
            f"get them from {catalog.find(dataset).home} and run the same command again",
        )


def _describe_absent(absent: Sequence[Absent]) -> str:
    """Return one line about scenes without some sensors."""
    scenes: dict[str, list[str]] = {}
    for missing in absent:
        scenes.setdefault(missing.scene, []).append(missing.sensor)
    first = next(iter(scenes))
    more = f" (and {pluralize(len(scenes) - 1, 'more scene')})" if len(scenes) > 1 else ""
    return f"{first}{more}: no {', '.join(scenes[first])} there; its other cameras are prepared"


def _describe(dataset: str, summary: Summary, out: Path) -> Iterator[tuple[str, str]]:
    """Yield labels and texts about what was prepared."""
    paper = catalog.find(dataset).counts
    for split, stated in (("train", paper.train), ("test", paper.test)):
        count = summary.counts.get(split, 0)
        if count or stated is not None:
            valid = f", {summary.valid[split]:.1%} of the pixels valid" if count else ""
            published = f" (the paper: {stated:,})" if stated is not None else ""
            yield split, f"{pluralize(count, 'picture')}{published}{valid}"
    yield "manifest", str(out / manifest.NAME)
    yield "sha256", summary.sha256
