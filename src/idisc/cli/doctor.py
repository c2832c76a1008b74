"""`idisc doctor`: what is wrong with a dataset, and what to change."""

from __future__ import annotations

from pathlib import Path

import click

from idisc.cli import options, progress
from idisc.errors import CheckFailed, counted


@click.command(name="doctor")
@click.argument("data", type=options.FOLDER, metavar="DIR")
@click.option("--dataset", help="Name, or name:paper [that of the manifest, else folder]")
@click.option(
    "--list",
    "lists",
    type=options.PATH,
    multiple=True,
    help="Published list file of paths below DIR; give that of train and that of test.",
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Pairs whose pixels are read; the files of all are looked for.",
)
def command(data: Path, dataset: str | None, lists: tuple[Path, ...], samples: int) -> None:
    """Say what is wrong with the dataset in DIR, and what to change.

    DIR is a prepared folder, a folder of your own pairs (images/ and depth/, or a CSV, JSONL or
    list.txt), or the tree that a published list names. Nothing is changed. Errors end with exit
    code 3.
    """
    from idisc.data import doctor

    source, spec = doctor.gather(data, dataset, lists)
    with progress.bar("looking at pairs") as advance:
        report = doctor.examine(source, spec, samples, advance)
    for label, text in report.facts:
        click.echo(f"{label:<11}{text}")
    for finding in report.findings:
        click.echo(f"{finding.severity:<11}{finding.check}: {finding.message}")
    errors, warnings = report.count("error"), report.count("warning")
    if errors:
        raise CheckFailed(f"{data}: {counted(errors, 'error')}, {counted(warnings, 'warning')}")
    if not warnings:
        click.echo(f"{'result':<11}nothing wrong found")
