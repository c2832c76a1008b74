"""Launch: start a run from nothing or from a checkpoint, or resume one where it stopped.

`RUN/config.json` is written before the first step: the recipe, the folders with the hashes of their
manifests, what the weights started from. Resuming reads it and needs nothing else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from idisc import __version__, config, files
from idisc.data import catalog, manifest
from idisc.data.catalog import DATASETS
from idisc.data.dataset import Dataset, open_dataset
from idisc.errors import CheckpointError, DataError, InputError
from idisc.model.backbones import load_encoder_weights
from idisc.model.checkpoint import load_network, read_config
from idisc.model.discretization import CrossAttention
from idisc.model.network import IDisc
from idisc.settings import Recipe
from idisc.train import migrations, state
from idisc.train.distributed import World
from idisc.train.features import Progress
from idisc.train.trainer import Trainer

HOLDOUT_SEED = 13  # runs of every seed are validated on the same scenes


@dataclass(frozen=True, kw_only=True)
class Source:
    """A folder to learn from or to be measured on."""

    folder: str
    dataset: str  # a name of DATASETS

    @classmethod
    def parse(cls, text: str, usual: str) -> Source:
        """From DIR or NAME=DIR; without a name, the manifest's, `folder` for pairs, or `usual`."""
        name, equals, rest = text.partition("=")
        if equals and (name in DATASETS or not Path(text).exists()):
            config.lookup(DATASETS, name.partition(":")[0], "--data: dataset")
            return cls(folder=str(Path(rest).resolve()), dataset=name)
        folder = Path(text)
        if not folder.is_dir():
            raise InputError(f"--data {text}", "no such folder")
        if (folder / manifest.NAME).is_file():
            usual = manifest.read(folder).dataset
        elif not (folder / "train.txt").is_file():
            usual = "folder"
        return cls(folder=str(folder.resolve()), dataset=usual)

    def open(self, split: str, recipe: Recipe) -> Dataset:
        """One split, its pictures at the size of the recipe."""
        height, width = recipe.data.size
        name = catalog.name_for_task(self.dataset, recipe.model.task)
        return open_dataset(Path(self.folder), name, split, size=(height, width))

    def open_training(self, recipe: Recipe) -> Dataset:
        """The training split; pictures keep their size where views are cut out of them."""
        if not recipe.data.canonical_focal:
            return self.open("train", recipe)
        name = catalog.name_for_task(self.dataset, recipe.model.task)
        return open_dataset(Path(self.folder), name, "train")


def start(
    recipe: Recipe,
    data: Sequence[str],
    out: Path,
    world: World,
    *,
    weights: str | None = None,
    workers: int = 0,
    caching: Progress | None = None,
) -> Trainer:
    """A new run. `weights` is a checkpoint folder, "imagenet", or a file of the encoder's.

    A checkpoint decides what the network is, except for its task: a network for depth may become
    one for normals.
    """
    sources = [Source.parse(text, recipe.data.train) for text in data]
    if checkpoint := _checkpoint(weights):
        model = replace(read_config(checkpoint), task=recipe.model.task)
        recipe = replace(recipe, model=model)
    if world.leads:
        _check_free(out)
    training, testing = _opened(sources, recipe)
    torch.manual_seed(recipe.train.seed)
    network = _network(recipe, weights)
    fine_tunes = checkpoint is not None and read_config(checkpoint).task == recipe.model.task
    run = Trainer(
        recipe,
        out,
        world,
        network=network,
        training=training,
        testing=testing,
        workers=workers,
        caching=caching,
        fine_tunes=fine_tunes,
    )
    record = {
        "format": config.FORMAT,
        "recipe": config.to_json(recipe),
        "data": [config.to_json(source) for source in sources],
        "manifests": _hashes(training),
        "pairs": _pairs([*training, testing]),
        "weights": weights,
        "fine_tunes": fine_tunes,
        "workers": workers,
        "idisc": __version__,
        "torch": torch.__version__,
    }
    if world.leads:
        out.mkdir(parents=True, exist_ok=True)
    with state.locked(out, world.leads):  # all that may be wrong with the options is known by now
        if world.leads:
            _check_free(out)
            files.write_json(out / config.FILE, record)
        run.save()
    return run


def resume(
    out: Path, world: World, workers: int | None = None, caching: Progress | None = None
) -> Trainer:
    """A run where it stopped; the data must be what they were. Workers are as before, or others."""
    record = migrations.renewed_record(_record(out))
    recipe = config.from_json(Recipe, record["recipe"], f"{out / config.FILE}: recipe")
    sources = [
        config.from_json(Source, each, f"{out / config.FILE}: data") for each in record["data"]
    ]
    training, testing = _opened(sources, recipe)
    pairs = _pairs([*training, testing])
    if _hashes(training) != record["manifests"] or record["pairs"] not in (None, pairs):
        raise DataError(out, "its data have changed since it started", "start a new run")
    stored = state.read_training(out)
    network = IDisc(recipe.model)
    network.load_state_dict(stored["network"])  # before features of its encoder are computed
    run = Trainer(
        recipe,
        out,
        world,
        network=network,
        training=training,
        testing=testing,
        workers=record["workers"] if workers is None else workers,
        caching=caching,
        fine_tunes=record.get("fine_tunes", False),
    )
    run.resume(stored)
    return run


def _check_free(out: Path) -> None:
    """A new folder, or what a run left behind that ended before it began to train."""
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    drafts = {name for name in names if name.startswith(".") and name.endswith(".part")}
    if config.FILE in names and names - drafts <= {config.FILE, state.LAST}:
        _record(out)
    elif not drafts or names != drafts:  # nothing but drafts: killed while it wrote its record
        files.check_new_folder(out)


def _record(out: Path) -> dict[str, Any]:
    path = out / config.FILE
    if not path.is_file():
        raise CheckpointError(out, f"no {config.FILE} in it, so not the folder of a run")
    record: dict[str, Any] = files.read_json(path)
    if record.get("format") != config.FORMAT or "recipe" not in record:
        raise CheckpointError(path, "not the record of a run")
    return record


def _opened(sources: Sequence[Source], recipe: Recipe) -> tuple[list[Dataset], Dataset]:
    """What to learn from, and what to validate on."""
    if not sources:
        raise InputError("--data", "a folder to learn from is needed")
    training: list[Dataset] = []
    learnt_from: list[Source] = []
    for source in sources:
        try:
            training.append(source.open_training(recipe))
            learnt_from.append(source)
        except manifest.EmptySplit:  # a folder for testing only
            continue
    if not training:
        raise DataError(sources[0].folder, "no training pictures in any of the folders")
    for dataset in training:
        if dataset.spec.task != recipe.model.task:
            raise InputError(
                dataset.source.root,
                f"holds {dataset.spec.task}, the recipe is for {recipe.model.task}",
            )
    if recipe.data.holdout:
        held = recipe.data.holdout, HOLDOUT_SEED
        training[0], _ = training[0].without_scenes(*held)
        _, testing = learnt_from[0].open("train", recipe).without_scenes(*held)
    else:
        named = [source for source in sources if source.dataset == recipe.data.test]
        testing = (named or list(sources))[0].open("test", recipe)
    for dataset, use in [*((each, "training") for each in training), (testing, "validation")]:
        if not any(dataset[index].valid.any() for index in range(len(dataset))):
            raise DataError(
                dataset.source.root,
                f"no picture for {use} has a valid pixel",
                "`idisc doctor` says more",
            )
    return training, testing


def _hashes(datasets: Sequence[Dataset]) -> list[str]:
    return [dataset.source.sha256 for dataset in datasets]


def _pairs(datasets: Sequence[Dataset]) -> list[str]:
    """Hashes of what is stated about the pictures in use: names, splits, scales, cameras."""
    texts = ["\n".join(map(repr, dataset.records)) for dataset in datasets]
    return [hashlib.sha256(text.encode()).hexdigest() for text in texts]


def _checkpoint(weights: str | None) -> Path | None:
    """The checkpoint folder that a run starts from, unless it starts from something else."""
    folder = Path(weights) if weights else None
    if not folder or not (folder.is_dir() or folder.suffix == ".json"):
        return None
    if (folder / state.LAST).is_dir():
        raise InputError(
            f"--weights {folder}", "a run", f"name its checkpoint, {folder}/{state.BEST}"
        )
    return folder


def _network(recipe: Recipe, weights: str | None) -> IDisc:
    network, checkpoint = IDisc(recipe.model), _checkpoint(weights)
    if checkpoint:
        trained = load_network(checkpoint)
        state = trained.state_dict()
        if trained.config.task != recipe.model.task:  # the last layers have other channels
            own = network.state_dict()
            state |= {name: own[name] for name in state if _is_output(name)}
        network.load_state_dict(state)
        return network
    if weights:
        load_encoder_weights(network.encoder, recipe.model.encoder, weights)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, CrossAttention):
                module.query.weight *= recipe.train.query_scale
    return network


def _is_output(name: str) -> bool:
    """Whether a tensor belongs to the last layer of a head."""
    return re.fullmatch(r"heads\.\d+\.layers\.3\.(weight|bias)", name) is not None
