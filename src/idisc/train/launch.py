"""Launch: start a run from random weights or a checkpoint, or resume one where it stopped.

`RUN/config.json` is written before the first step: the recipe, the folders with hashes of their
contents, the initial weights. Resuming needs nothing else from the user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from idisc import __version__, checksums, configs, files
from idisc.ancestry import Ancestry, read_ancestry
from idisc.configs.schema import ModelConfig, Recipe
from idisc.data import catalog, manifest
from idisc.data.catalog import DATASETS
from idisc.data.dataset import Dataset, open_dataset
from idisc.errors import CheckpointError, DataError, InputError, lookup
from idisc.model.backbones import load_encoder_weights
from idisc.model.checkpoint import WEIGHTS, load_network, read_config, read_origin
from idisc.model.discretization import CrossAttention
from idisc.model.network import IDisc
from idisc.predict.model_info import ancestry_of
from idisc.train import state
from idisc.train.distributed import World
from idisc.train.features import OnProgress
from idisc.train.trainer import RunData, Trainer
from idisc.zoo import cards

HOLDOUT_SEED = 13  # runs of every seed are validated on the same scenes


@dataclass(frozen=True, kw_only=True)
class Source:
    """A folder to train or to validate on."""

    folder: str
    dataset: str  # a name of DATASETS

    @classmethod
    def parse(cls, text: str, default: str) -> Source:
        """Read DIR or NAME=DIR.

        Without a name, the dataset is that of the manifest, `default` for a folder with published
        lists, or `folder` for other pairs.
        """
        name, equals, rest = text.partition("=")
        if equals and (name in DATASETS or not Path(text).exists()):
            lookup(DATASETS, name.partition(":")[0], "--data: dataset")
            return cls(folder=str(Path(rest).resolve()), dataset=name)
        folder = Path(text)
        if not folder.is_dir():
            raise InputError(f"--data {text}", "no such folder")
        if (folder / manifest.NAME).is_file():
            default = manifest.read(folder).dataset
        elif not (folder / "train.txt").is_file():
            default = "folder"
        return cls(folder=str(folder.resolve()), dataset=default)

    def open(self, split: str, recipe: Recipe, *, as_stored: bool = False) -> Dataset:
        """Open one split, with pictures at the size of the recipe or `as_stored`."""
        height, width = recipe.data.size
        name = catalog.name_for_task(self.dataset, recipe.model.output)
        size = None if as_stored else (height, width)
        return open_dataset(Path(self.folder), name, split, size=size)


def start(
    recipe: Recipe,
    data: Sequence[str],
    out: Path,
    world: World,
    *,
    weights: str | None = None,
    workers: int = 0,
    on_caching: OnProgress | None = None,
) -> Trainer:
    """Start a run. `weights` is a checkpoint folder, "imagenet", or a file for the encoder.

    A checkpoint decides what the network is, except for its task (a network for depth may become
    one for normals) and for adapters, which the recipe may add.
    """
    sources = [Source.parse(text, recipe.data.train) for text in data]
    fine_tunes = False
    if checkpoint := _checkpoint(weights):
        model = read_config(checkpoint)
        fine_tunes = model.task == recipe.model.task
        recipe = _with_network(recipe, model)
    if world.is_main:
        _check_free(out)
    opened = _open(sources, recipe)
    torch.manual_seed(recipe.train.seed)
    run = Trainer(
        recipe,
        out,
        world,
        network=_network(recipe, weights, checkpoint),
        data=opened,
        workers=workers,
        on_caching=on_caching,
        fine_tunes=fine_tunes,
        inherited=_parent_ancestry(weights, checkpoint),
    )
    if world.is_main:
        out.mkdir(parents=True, exist_ok=True)
    record = _new_record(run, sources, opened, weights)
    with state.locked(out, world.is_main):  # all options are checked by now
        if world.is_main:
            _check_free(out)
            files.write_json(out / configs.FILE, checksums.sealed_record(record))
        run.save()
    return run


def _with_network(recipe: Recipe, model: ModelConfig) -> Recipe:
    """Return the recipe with the network of a checkpoint; task and new adapters stay its own."""
    rank = model.adapter_rank or recipe.model.adapter_rank
    return replace(recipe, model=replace(model, task=recipe.model.task, adapter_rank=rank))


def _new_record(
    run: Trainer, sources: Sequence[Source], opened: RunData, weights: str | None
) -> dict[str, Any]:
    return {
        "format": configs.FORMAT,
        "recipe": configs.to_json(run.recipe),
        "data": [configs.to_json(source) for source in sources],
        "manifests": opened.manifests,
        "pairs": opened.pairs,
        "weights": weights,
        "fine_tunes": run.fine_tunes,
        "workers": run.workers,
        "idisc": __version__,
        "torch": torch.__version__,
        "inherited": run.inherited.to_json(),
    }


def resume(
    out: Path, world: World, workers: int | None = None, on_caching: OnProgress | None = None
) -> Trainer:
    """Resume a run. Its data must not have changed; `workers` are by default as before."""
    record = _read_record(out)
    where = out / configs.FILE
    recipe = configs.from_json(Recipe, record["recipe"], f"{where}: recipe")
    sources = [configs.from_json(Source, item, f"{where}: data") for item in record["data"]]
    opened = _open(sources, recipe)
    if opened.manifests != record["manifests"] or opened.pairs != record["pairs"]:
        raise DataError(out, "its data have changed since it started", "start a new run")
    stored = state.read_training(out)
    network = IDisc(recipe.model)
    network.load_state_dict(stored["network"])  # before features of its encoder are computed
    run = Trainer(
        recipe,
        out,
        world,
        network=network,
        data=opened,
        workers=record["workers"] if workers is None else workers,
        on_caching=on_caching,
        fine_tunes=record["fine_tunes"],
        inherited=read_ancestry(record["inherited"], str(where)),
    )
    run.resume(stored)
    return run


def _check_free(out: Path) -> None:
    """Accept a new folder, or that of a run that ended before its first step."""
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    drafts = {name for name in names if name.startswith(".") and name.endswith(".part")}
    if configs.FILE in names and names - drafts <= {configs.FILE, state.LAST}:
        _read_record(out)
    elif not drafts or names != drafts:  # only drafts: killed while the record was written
        files.check_new_folder(out)


def _read_record(out: Path) -> dict[str, Any]:
    path = out / configs.FILE
    if not path.is_file():
        raise CheckpointError(out, f"not the folder of a run: contains no {configs.FILE}")
    record: dict[str, Any] = files.read_json(path)
    known = isinstance(record, dict) and record.get("format") == configs.FORMAT
    if not known or "recipe" not in record:
        raise CheckpointError(path, "not the record of a run")
    checksums.check_record(path, record)
    return record


def _open(sources: Sequence[Source], recipe: Recipe) -> RunData:
    as_stored = recipe.data.canonical_focal > 0  # views are cut out of the stored pictures
    training: list[Dataset] = []
    used: list[Source] = []
    for source in sources:
        try:
            dataset = source.open("train", recipe, as_stored=as_stored)
        except manifest.EmptySplit:  # a folder for testing only
            continue
        if dataset.spec.task != recipe.model.output:
            reason = f"holds {dataset.spec.task.name}, the recipe is for {recipe.model.task}"
            raise InputError(dataset.source.root, reason)
        training.append(dataset)
        used.append(source)
    if not training:
        raise DataError(sources[0].folder, "no training pictures in any of the folders")
    if recipe.data.holdout:
        held = recipe.data.holdout, HOLDOUT_SEED
        training[0], _ = training[0].hold_out_scenes(*held)
        _, testing = used[0].open("train", recipe).hold_out_scenes(*held)
    else:
        named = [source for source in sources if source.dataset == recipe.data.test]
        testing = (named or list(sources))[0].open("test", recipe)
    for dataset in (*training, testing):
        if not any(dataset[index].valid.any() for index in range(len(dataset))):
            use = "validation" if dataset is testing else "training"
            raise DataError(
                dataset.source.root,
                f"no picture for {use} has a valid pixel",
                "run `idisc doctor` for details",
            )
    return RunData(training, testing)


def _checkpoint(weights: str | None) -> Path | None:
    """Return the checkpoint folder that a run starts from, if `weights` is one."""
    folder = Path(weights) if weights else None
    if not folder or not (folder.is_dir() or folder.suffix == ".json"):
        return None
    if (folder / state.LAST).is_dir():
        raise InputError(
            f"--weights {folder}", "a run", f"name its checkpoint, {folder}/{state.BEST}"
        )
    return folder


def _parent_ancestry(weights: str | None, checkpoint: Path | None) -> Ancestry:
    """Return the ancestry of the initial weights: a checkpoint, or a file with an encoder."""
    if weights == "imagenet":
        return Ancestry().as_parent("imagenet", "")
    if checkpoint is None:
        path = Path(weights or "")
        return Ancestry().as_parent(path.name, files.sha256(path)) if path.is_file() else Ancestry()
    if checkpoint.suffix == ".json":
        card = cards.read_card(checkpoint)
        cards.check_files(card, "checkpoint", checkpoint.parent)
        sha256 = files.sha256(*(checkpoint.parent / name for name in card.weights))
        return ancestry_of(card.origin, card.name).as_parent(card.name, sha256)
    path = checkpoint / WEIGHTS
    parts = checkpoint.resolve().parts
    name = "/".join(parts[-2:]) if parts[-1] in (state.BEST, state.LAST) else parts[-1]
    sha256 = files.sha256(path) if path.is_file() else ""  # if not, opening it fails
    return ancestry_of(read_origin(checkpoint), str(checkpoint)).as_parent(name, sha256)


def _network(recipe: Recipe, weights: str | None, checkpoint: Path | None) -> IDisc:
    network = IDisc(recipe.model)
    if checkpoint:
        trained, own = load_network(checkpoint), network.state_dict()
        tensors = trained.state_dict()
        if trained.config.task != recipe.model.task:  # the last layers have other channels
            tensors |= {name: own[name] for name in tensors if _is_output_layer(name)}
        network.load_state_dict(own | tensors)  # new adapters change nothing at first
        return network
    if weights:
        load_encoder_weights(network.encoder, recipe.model.encoder, weights)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, CrossAttention):
                module.query.weight *= recipe.train.query_scale
    return network


def _is_output_layer(name: str) -> bool:
    """Return whether a tensor belongs to the last layer of a head."""
    return re.fullmatch(r"heads\.\d+\.layers\.3\.(weight|bias)", name) is not None
