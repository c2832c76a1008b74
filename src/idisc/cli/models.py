"""`idisc models`: the models that ship with the package, and the published files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from idisc.cli import tables
from idisc.configs.recipes import RECIPES
from idisc.data import catalog
from idisc.errors import lookup
from idisc.provenance_text import describe_parent
from idisc.sizes import describe_size
from idisc.zoo import cards, published

if TYPE_CHECKING:
    from idisc.zoo.cards import ModelCard, Score

LISTED = ("d1", "rmse", "abs_rel", "a11.5", "mean_deg")  # metrics in the list


@click.command(name="models")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the shipped and the published models, or describe the model NAME.

    The names of shipped models are valid for `--weights` and `idisc.load`. The published files are
    not part of this package: download one yourself, then run `idisc convert`.
    """
    if name is None:
        _print_shipped(cards.shipped())
        _print_published()
        return
    table: dict[str, ModelCard | published.Published]
    table = {**cards.shipped(), **published.PUBLISHED}
    found = lookup(table, name, "model")
    if isinstance(found, cards.ModelCard):
        _print_card(found)
    else:
        _print_file(found)


def _print_shipped(found: dict[str, ModelCard]) -> None:
    if not found:
        click.echo("No model ships with this version.\n")
        return
    candidates = cards.candidates(found.values())
    rows = [
        [
            f"{card.name} (default)" if candidates == [card] else card.name,
            f"{card.bytes / 1e6:.0f} MB",
            card.domain,
            card.licence,
            _numbers(_first_scores(card)) or "-",
        ]
        for card in found.values()
    ]
    columns = ["shipped model", "size", "domain", "licence", "measured"]
    tables.show("Ready to use", columns, rows)
    for card in found.values():
        made_of = "; ".join(card.data)
        tables.paragraph(f"{card.name} is made of {made_of}; more: idisc models {card.name}")
    click.echo()


def _first_scores(card: ModelCard) -> dict[str, float]:
    """Return the LISTED metrics of the first dataset of a card."""
    first = next(iter(_by_dataset(card).values()), [])
    return {score.metric: score.value for score in first if score.metric in LISTED}


def _print_published() -> None:
    rows = [
        [
            entry.file,
            f"{entry.bytes / 1e6:.0f} MB",
            catalog.find(RECIPES[entry.recipes[0]].data.train).title,
            _numbers({name: entry.expected[name] for name in LISTED if name in entry.expected}),
        ]
        for entry in published.PUBLISHED.values()
    ]
    columns = ["published file", "size", "trained on", "the paper's numbers"]
    tables.show("Published with the paper, not part of this package", columns, rows)
    click.echo(
        f"Published files are {published.LICENCE}: not for commercial use. They are at"
        f" {published.HOME}; `idisc convert FILE --out DIR` makes one usable."
    )


def _numbers(of: Mapping[str, float]) -> str:
    return " ".join(f"{name} {value:.3f}" for name, value in of.items())


def _print_file(entry: published.Published) -> None:
    recipe = RECIPES[entry.recipes[0]]
    lines = {
        "file": f"{entry.file}, {entry.bytes / 1e6:.0f} MB, {entry.parameters:.1f} M parameters",
        "from": entry.address,
        "licence": f"{published.LICENCE}: not for commercial use",
        "encoder": recipe.model.encoder,
        "data": catalog.find(recipe.data.train).title,
        "recipes": ", ".join(entry.recipes),
        "paper": _numbers(entry.expected),
        "use": f"idisc convert {entry.file} --out DIR, then idisc predict PICTURE --weights DIR",
    }
    _print_lines(lines)


def _print_card(card: ModelCard) -> None:
    height, width = card.training_size
    fov = "" if card.training_fov_deg is None else f", {card.training_fov_deg:g} deg across"
    lines = {
        "name": card.name,
        "what": card.title,
        "size": f"{card.bytes / 1e6:.1f} MB, {card.parameters:g} M parameters",
        "licence": card.licence,
        "domain": card.domain,
        "range": f"depth to {card.depth_range[1]:g} m in training",
        "pictures": f"{describe_size((height, width))} in training{fov}",
    }
    _print_lines(lines)
    for ingredient in card.ingredients:
        source = f", {ingredient.source}" if ingredient.source else ""
        text = f"{ingredient.role}: {ingredient.name} ({ingredient.licence}{source})"
        _print_lines({"made of": text})
    for parent in card.parents:
        _print_lines({"from": describe_parent(parent)})
    for (dataset, protocol), scores in _by_dataset(card).items():
        _print_lines({"measured": f"{dataset}, protocol {protocol}: {', '.join(map(str, scores))}"})
    for file in card.files:
        _print_lines({"file": f"{file.path}, {file.bytes} bytes, SHA-256 {file.sha256}"})
    if card.notes:
        _print_lines({"notes": card.notes})


def _by_dataset(card: ModelCard) -> dict[tuple[str, str], list[Score]]:
    found: dict[tuple[str, str], list[Score]] = {}
    for score in card.scores:
        found.setdefault((score.dataset, score.protocol), []).append(score)
    return found


def _print_lines(lines: dict[str, str]) -> None:
    for label, text in lines.items():
        click.echo(f"{label:<10}{text}")
