"""Our checkpoint: a folder of `config.json` (the network) and `model.safetensors` (its weights)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from idisc import config, files
from idisc.errors import CheckpointError, InputError
from idisc.model.network import IDisc
from idisc.model.states import check_state, read_state
from idisc.settings import ModelConfig

CONFIG, WEIGHTS = config.FILE, "model.safetensors"


def save_checkpoint(
    folder: Path, model: ModelConfig, state: Mapping[str, Tensor], origin: Mapping[str, Any]
) -> None:
    """Write a new checkpoint folder, whole or not at all; `origin` says where it comes from."""
    record = {"format": config.FORMAT, "model": config.to_json(model), "origin": dict(origin)}
    with files.atomic_folder(folder) as draft:
        files.write_json(draft / CONFIG, record)
        # safetensors refuses views and shared memory, so every tensor becomes its own.
        save_file(
            {name: value.detach().clone().contiguous() for name, value in state.items()},
            draft / WEIGHTS,
        )


def load_network(folder: str | Path) -> IDisc:
    """The network of a checkpoint folder, in eval mode on the CPU; CheckpointError if amiss."""
    folder = Path(folder)
    if not folder.is_dir():
        found = "a file" if folder.is_file() else "no such folder"
        raise CheckpointError(f"{folder}: {found}; `idisc convert` makes a checkpoint folder")
    model = read_config(folder)
    try:
        with torch.device("meta"):  # sizes alone: what a record states may not fit into memory
            expected = IDisc(model).state_dict()
    except InputError as error:  # an encoder that does not exist
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None
    state = read_state(folder / WEIGHTS)
    check_state(state, expected, str(folder / WEIGHTS))
    network = IDisc(model)
    network.load_state_dict(state)
    return network.eval()


def read_config(folder: Path) -> ModelConfig:
    """The network a checkpoint folder describes."""
    path = folder / CONFIG
    if not path.is_file():
        raise CheckpointError(f"{folder}: no {CONFIG} in it, so not a checkpoint folder")
    try:
        record = files.read_json(path)
        found = record.get("format") if isinstance(record, dict) else None
        if found != config.FORMAT:
            raise CheckpointError(f"{path}: format {found!r}, this version reads {config.FORMAT!r}")
        return config.from_json(ModelConfig, record.get("model"), f"{path}: model")
    except InputError as error:  # to its reader a checkpoint is one thing
        raise CheckpointError(str(error)) from None
