"""All that a run needs to go on, and the two checkpoints it keeps.

    RUN/last/training.pt       everything resume needs, one file, replaced in one move
    RUN/last/, RUN/best/       folders that `load_network` opens: config.json, model.safetensors

The weights are in `last` twice on purpose: resume reads one file only, so no crash between two
files can leave it with halves that do not belong together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from idisc import config, files
from idisc.errors import CheckpointError
from idisc.model.checkpoint import CONFIG, WEIGHTS
from idisc.settings import ModelConfig

LAST, BEST, TRAINING = "last", "best", "training.pt"


def write_training(run: Path, state: Mapping[str, Any]) -> None:
    """Replace what resume will read."""
    path = run / LAST / TRAINING
    with _room_for(path), files.atomic(path) as draft:
        torch.save({"format": config.FORMAT, **state}, draft)


def read_training(run: Path) -> dict[str, Any]:
    """What `write_training` wrote last."""
    path = run / LAST / TRAINING
    if not path.is_file():
        raise CheckpointError(f"{run}: no {LAST}/{TRAINING} in it, so there is nothing to resume")
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch, pickle and zipfile each have their own
        raise CheckpointError(f"{path}: not readable ({str(error).splitlines()[0]})") from None
    if state.get("format") != config.FORMAT:
        raise CheckpointError(f"{path}: format {state.get('format')!r}, not {config.FORMAT!r}")
    return state


def write_network(
    folder: Path, model: ModelConfig, state: Mapping[str, Tensor], origin: Mapping[str, Any]
) -> None:
    """A checkpoint in place of the one before it; each file changes in one move."""
    record = {"format": config.FORMAT, "model": config.to_json(model), "origin": dict(origin)}
    with _room_for(folder):
        with files.atomic(folder / WEIGHTS) as draft:
            save_file({name: value.cpu().contiguous() for name, value in state.items()}, draft)
        files.write_json(folder / CONFIG, record)


@contextmanager
def _room_for(path: Path) -> Iterator[None]:
    """A full disk is a clear stop: what was there before is still there."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:  # torch's writer has RuntimeError
        raise CheckpointError(
            f"{path}: cannot be written ({str(error).splitlines()[0]}); the checkpoint before it is"
            " whole: make room and resume"
        ) from None


def random_state(device: torch.device) -> dict[str, Tensor]:
    """State of torch's generators: dropped paths are drawn from them."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    """Put the generators back."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)


def clear_drafts(run: Path) -> None:
    """Remove what a killed process was writing."""
    for draft in run.rglob(".*.part"):
        draft.unlink()
