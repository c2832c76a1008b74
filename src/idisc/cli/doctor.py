"""`idisc doctor`: check a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from idisc.cli import options, progress, tables
from idisc.errors import CheckFailed, pluralize
from idisc.sizes import size_text

if TYPE_CHECKING:
    from idisc.data.doctor import Report


@click.command(name="doctor")
@click.argument("data", type=options.FOLDER, metavar="DIR")
@click.option(
    "--dataset", metavar="NAME", help="Dataset name, or name:paper [from the manifest, else folder]"
)
@click.option(
    "--list",
    "lists",
    type=options.PATH,
    multiple=True,
    help="Published list file with paths relative to DIR; repeat it for train and test.",
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Number of pairs whose pixels are read; the files of the others must only exist.",
)
def command(data: Path, dataset: str | None, lists: tuple[Path, ...], samples: int) -> None:
    """Find out what is wrong with the dataset in DIR, and what to change.

    DIR is a prepared folder, a folder of your own pairs (images/ and depth/, or a CSV, JSONL or
    list.txt), or the tree that a published list names. Nothing is changed. The exit code is 3 if
    there are errors.
    """
    from idisc.data import doctor
    from idisc.data.dataset import open_source

    source, spec = open_source(data, dataset, lists, complete=False)
    with progress.bar("inspecting pairs") as advance:
        report = doctor.examine(source, spec, samples, advance)
    fields = [*_summary(report)]
    fields += [(row.severity, f"{row.code}: {row.describe()}") for row in report.findings]
    errors, warnings = report.count("error"), report.count("warning")
    if not errors and not warnings:
        fields.append(("result", "no problems found"))
    tables.show_fields(fields)
    if errors:
        raise CheckFailed(data, f"{pluralize(errors, 'error')}, {pluralize(warnings, 'warning')}")


def _summary(report: Report) -> Iterator[tuple[str, str]]:
    """Yield labels and texts that describe the dataset."""
    listing = f", listed in {report.listing}" if report.listing else ""
    yield "dataset", f"{report.spec.name}: {report.spec.title}{listing}"
    published = report.spec.counts
    for split, stated in (("train", published.train), ("test", published.test)):
        count = report.counts.get(split, 0)
        if count or stated is not None:
            paper = f" (the paper: {stated:,})" if stated is not None else ""
            yield split, f"{pluralize(count, 'picture')}{paper}"
    yield "inspected", f"{report.inspected:,} of {pluralize(report.pairs, 'pair')}"
    if report.sizes:
        total, common = sum(report.sizes.values()), list(report.sizes.items())[:3]
        shares = [f"{size_text(size)} ({count / total:.0%})" for size, count in common]
        more = f" and {len(report.sizes) - 3} more sizes" if len(report.sizes) > 3 else ""
        yield "pictures", f"{', '.join(shares)}{more} (height x width)"
    if report.depth_m:
        low, middle, high = report.depth_m
        yield "depth", f"median {middle:.3g} m, 98 % between {low:.3g} and {high:.3g} m"
        yield "valid", f"{report.valid:.1%} of the pixels"
