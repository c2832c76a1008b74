"""All that a run needs to go on, and the two checkpoints it keeps.

    RUN/last/training.pt       everything resume needs, one file, replaced in one move
    RUN/last/, RUN/best/       folders that `load_network` opens: config.json, model.safetensors

The weights are in `last` twice on purpose: resume reads one file only, so no crash between two
files can leave it with halves that do not belong together.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from idisc import config, files
from idisc.errors import CheckpointError, InputError, first_line
from idisc.model.checkpoint import CONFIG, WEIGHTS
from idisc.settings import ModelConfig
from idisc.train import migrations

LAST, BEST, TRAINING = "last", "best", "training.pt"


@dataclass
class Progress:
    """How far a run has come, and how good it is; part of what resume needs."""

    step: int = 0  # steps that are done
    validated: int = 0  # after how many of them it was last measured
    metrics: dict[str, float] = field(default_factory=dict)  # then
    best: dict[str, float] = field(default_factory=dict)  # of the best validation, and its step


def write_training(run: Path, state: Mapping[str, Any]) -> None:
    """Replace what resume will read."""
    path = run / LAST / TRAINING
    with _room_for(path), files.atomic(path) as draft, draft.open("wb") as file:
        torch.save({"format": config.FORMAT, **state}, file)  # a file says what it has no room for


def read_training(run: Path) -> dict[str, Any]:
    """What `write_training` wrote last."""
    path = run / LAST / TRAINING
    if not path.is_file():
        raise CheckpointError(
            run,
            f"no {LAST}/{TRAINING} in it, so there is nothing to resume",
            "the command that began the run starts it again",
        )
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch, pickle and zipfile each have their own
        raise CheckpointError(
            path, "not readable, so damaged", f"a new run may start with --weights {run / LAST}"
        ) from None
    if state.get("format") != config.FORMAT:
        raise CheckpointError(path, f"format {state.get('format')!r}, not {config.FORMAT!r}")
    return migrations.renewed_training(state)


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
        advice = "make room and start again"
        if path.exists():
            advice = "the checkpoint before it is whole: make room and resume"
        reason = first_line(error)
        raise CheckpointError(path, f"cannot be written ({reason})", advice) from None


@contextmanager
def locked(run: Path, leads: bool) -> Iterator[None]:
    """Keep others out of a run's folder while this process, if it leads, writes there."""
    if not leads:
        yield
        return
    folder = os.open(run, os.O_RDONLY)  # itself, not a file in it: the lock ends with the process
    try:
        _claim(folder, run)
        yield
    finally:
        os.close(folder)


def _claim(folder: int, run: Path) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(run, "another process is training it", "stop that one first") from None
    except OSError:  # a file system without locks
        return


def clear_drafts(run: Path) -> None:
    """Remove what a killed process was writing."""
    for draft in run.rglob(".*.part"):
        draft.unlink()
