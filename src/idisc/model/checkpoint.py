"""Checkpoints: a JSON record that describes the network, and the weights that it names.

Training writes a folder with `config.json` and `model.safetensors`. A shipped model is the record
NAME.json next to several files, because models share an encoder (see `zoo.cards`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from idisc import checksums, configs, files
from idisc.configs.schema import ModelConfig
from idisc.errors import CheckpointError, InputError
from idisc.model.network import IDisc
from idisc.model.states import State, check_state, has_checksums, read_state, write_state

CONFIG, WEIGHTS = configs.FILE, "model.safetensors"


def save_checkpoint(
    folder: Path, model: ModelConfig, state: Mapping[str, Tensor], origin: Mapping[str, Any]
) -> None:
    """Write a new checkpoint folder atomically; `origin` describes where it comes from."""
    with files.atomic_folder(folder) as draft:
        write_files(draft, model, state, origin)


def write_files(
    folder: Path, model: ModelConfig, state: Mapping[str, Tensor], origin: Mapping[str, Any]
) -> None:
    """Write or replace both files of a checkpoint, each of them atomically."""
    record = {"format": configs.FORMAT, "model": configs.to_json(model), "origin": dict(origin)}
    with files.atomic(folder / WEIGHTS) as draft:
        write_state(draft, state)
    files.write_json(folder / CONFIG, checksums.sealed_record(record))


def load_network(source: str | Path) -> IDisc:
    """Return the network of a checkpoint in eval mode on the CPU; CheckpointError if invalid.

    `source` is a checkpoint folder, or the JSON record of a shipped model.
    """
    record, path = _read_record(Path(source))
    model = _model_config(record, path)
    try:
        with torch.device("meta"):  # shapes only: the stated network may not fit into memory
            expected = IDisc(model).state_dict()
    except InputError as error:  # an encoder that does not exist
        raise CheckpointError(*error.within(path).args) from None
    state: State = {}
    paths = _weight_files(record, path)
    for weights in paths:
        state.update({name: _to_float32(value) for name, value in read_state(weights).items()})
    check_state(state, expected, ", ".join(map(str, paths)))
    network = IDisc(model)
    network.load_state_dict(state)
    return network.eval()


def read_config(source: Path) -> ModelConfig:
    """Return the configuration of the network of a checkpoint."""
    return _model_config(*_read_record(source))


def read_origin(source: Path) -> dict[str, Any]:
    """Return what the record of a checkpoint says about its origin."""
    origin = _read_record(source)[0].get("origin")
    return origin if isinstance(origin, dict) else {}


def is_verified(folder: Path) -> bool:
    """Return whether both files of a checkpoint have checksums, which are compared on loading."""
    return checksums.KEY in _read_record(folder)[0] and has_checksums(folder / WEIGHTS)


def _read_record(source: Path) -> tuple[dict[str, Any], Path]:
    path = source / CONFIG if source.is_dir() else source
    if path.suffix != ".json" or not path.parent.is_dir():
        found = "a file" if source.is_file() else "no such folder"
        raise CheckpointError(source, found, "`idisc convert` makes a checkpoint folder")
    if not path.is_file():
        raise CheckpointError(source, f"not a checkpoint folder: contains no {CONFIG}")
    try:
        record = files.read_json(path)
    except InputError as error:
        raise CheckpointError(*error.args) from None
    stated = record.get("format") if isinstance(record, dict) else None
    if stated != configs.FORMAT:
        raise CheckpointError(path, f"format {stated!r}, this version reads {configs.FORMAT!r}")
    checksums.check_record(path, record)
    return record, path


def _model_config(record: Mapping[str, Any], path: Path) -> ModelConfig:
    try:
        return configs.from_json(ModelConfig, record.get("model"), f"{path}: model")
    except InputError as error:
        raise CheckpointError(*error.args) from None


def _weight_files(record: Mapping[str, Any], path: Path) -> list[Path]:
    """Return the files with the tensors, whose checksums must be those of the record, if any."""
    try:
        names = [str(name) for name in record.get("weights", [WEIGHTS])]
        stated = {file["path"]: file["crc32"] for file in record.get("files", [])}
    except (KeyError, TypeError):
        raise CheckpointError(path, "weights and files must be lists of files") from None
    checksums.check_files(path.parent, {name: stated[name] for name in names if name in stated})
    return [path.parent / name for name in names]


def _to_float32(value: Tensor) -> Tensor:
    """Convert fp16, in which models ship, to fp32, in which a network computes."""
    return value.float() if value.dtype == torch.float16 else value
