"""What the commands that go through a dataset with a network ask of both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from idisc.cli import tables
from idisc.data import manifest
from idisc.errors import InputError
from idisc.recipes import PUBLISHED_RECIPES, RECIPES

if TYPE_CHECKING:
    from idisc.data.catalog import DatasetSpec
    from idisc.data.framing import SizeRule
    from idisc.predict.engine import Engine
    from idisc.sizes import Size


def check_task(name: str, engine: Engine, spec: DatasetSpec) -> None:
    """InputError, by its name, if a network predicts something else than a dataset holds."""
    if engine.task != spec.task:
        raise InputError(name, f"predicts {engine.task.name}, {spec.name} holds {spec.task.name}")


def named_in(data: Path) -> str:
    """The dataset a prepared folder says it is; pairs of one's own have no manifest."""
    if (data / manifest.NAME).is_file():
        return manifest.read(data).dataset
    return "folder"


def size_rule(engine: Engine, usual: Size | None) -> SizeRule | None:
    """That of prediction, if the dataset has none or the network knows another: the same metres.

    Networks trained at a size of the paper's keep to the dataset's, as in the paper.
    """
    from idisc.predict.predictor import Predictor

    predictor = Predictor(engine)
    papers = {RECIPES[make.__name__].data.size for make in PUBLISHED_RECIPES}
    if usual is not None and predictor.model.training_size in {None, usual, *papers}:
        return None
    tables.note(
        f"{engine.name}: sees pictures at {predictor.usual_size()}; --size asks for another"
    )
    return predictor.network_size
