"""`idisc models`: the models that ship with the package, and the published files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
        _list_shipped(cards.shipped())
        _list_published()
        return
    table: dict[str, ModelCard | published.Published]
    table = {**cards.shipped(), **published.PUBLISHED}
    model = lookup(table, name, "model")
    if isinstance(model, cards.ModelCard):
        tables.show_fields(_describe_card(model))
    else:
        tables.show_fields(describe_file(model))


def _list_shipped(models: Mapping[str, ModelCard]) -> None:
    if not models:
        click.echo("No model ships with this version.\n")
        return
    candidates = cards.candidates(models.values())
    rows = [
        [
            f"{card.name} (default)" if candidates == [card] else card.name,
            f"{card.bytes / 1e6:.0f} MB",
            card.domain,
            card.licence,
            _numbers(_first_scores(card)) or "-",
        ]
        for card in models.values()
    ]
    columns = ["shipped model", "size", "domain", "licence", "measured"]
    tables.show("Ready to use", columns, rows)
    for card in models.values():
        made_of = "; ".join(card.data)
        tables.paragraph(f"{card.name} is made of {made_of}; more: idisc models {card.name}")
    click.echo()


def _first_scores(card: ModelCard) -> dict[str, float]:
    """Return the LISTED metrics of the first dataset of a card."""
    first = next(iter(_by_dataset(card).values()), [])
    return {score.metric: score.value for score in first if score.metric in LISTED}


def _list_published() -> None:
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


def _numbers(metrics: Mapping[str, float]) -> str:
    return " ".join(f"{name} {value:.3f}" for name, value in metrics.items())


def describe_file(entry: published.Published) -> Iterator[tuple[str, str]]:
    """Yield labels and texts about a published file."""
    recipe = RECIPES[entry.recipes[0]]
    yield "file", f"{entry.file}, {entry.bytes / 1e6:.0f} MB, {entry.parameters:.1f} M parameters"
    yield "from", entry.address
    yield "licence", f"{published.LICENCE}: not for commercial use"
    yield "encoder", recipe.model.encoder
    yield "data", catalog.find(recipe.data.train).title
    yield "recipes", ", ".join(entry.recipes)
    yield "paper", _numbers(entry.expected)
    yield "use", f"idisc convert {entry.file} --out DIR, then idisc predict PICTURE --weights DIR"


def _describe_card(card: ModelCard) -> Iterator[tuple[str, str]]:
    """Yield labels and texts about a shipped model."""
    fov = "" if card.training_fov_deg is None else f", {card.training_fov_deg:g} deg across"
    yield "name", card.name
    yield "what", card.title
    yield "size", f"{card.bytes / 1e6:.1f} MB, {card.parameters:g} M parameters"
    yield "licence", card.licence
    yield "domain", card.domain
    yield "range", f"depth to {card.depth_range[1]:g} m in training"
    height, width = card.training_size
    yield "pictures", f"{describe_size((height, width))} in training{fov}"
    for ingredient in card.ingredients:
        source = f", {ingredient.source}" if ingredient.source else ""
        terms = f"({ingredient.licence}{source})"
        yield "made of", f"{ingredient.role}: {ingredient.name} {terms}"
    for parent in card.parents:
        yield "from", describe_parent(parent)
    for (dataset, protocol), scores in _by_dataset(card).items():
        yield "measured", f"{dataset}, protocol {protocol}: {', '.join(map(str, scores))}"
    for file in card.files:
        yield "file", f"{file.path}, {file.bytes} bytes, SHA-256 {file.sha256}"
    if card.notes:
        yield "notes", card.notes


def _by_dataset(card: ModelCard) -> dict[tuple[str, str], list[Score]]:
    scores: dict[tuple[str, str], list[Score]] = {}
    for score in card.scores:
        scores.setdefault((score.dataset, score.protocol), []).append(score)
    return scores
