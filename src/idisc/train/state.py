"""The files of a run: everything that resuming needs, and two checkpoints.

    RUN/last/training.pt       everything that resuming needs, one file, replaced atomically
    RUN/last/, RUN/best/       folders that `load_network` opens: config.json, model.safetensors

`last` contains the weights twice: resuming reads one file only, so a crash between two files cannot
leave parts of different steps.
"""

from __future__ import annotations

import importlib.util
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from idisc import configs, files
from idisc.configs.schema import ModelConfig
from idisc.errors import CheckpointError, InputError, first_line
from idisc.model.checkpoint import write_files

LAST, BEST, TRAINING = "last", "best", "training.pt"


@dataclass
class Progress:
    """The progress and the quality of a run; part of what resuming needs."""

    step: int = 0  # completed steps
    validated: int = 0  # the step of the last validation
    metrics: dict[str, float] = field(default_factory=dict)  # of the last validation
    best: dict[str, float] = field(default_factory=dict)  # of the best validation, and its step
    start: dict[str, float] = field(default_factory=dict)  # of the weights fine-tuning starts from


def write_training(run: Path, state: Mapping[str, Any]) -> None:
    """Replace what `read_training` reads."""
    path = run / LAST / TRAINING
    with _room_for(path), files.atomic(path) as draft, draft.open("wb") as file:
        torch.save({"format": configs.FORMAT, **state}, file)


def read_training(run: Path) -> dict[str, Any]:
    """Return the latest state; CheckpointError if there is none or it is damaged."""
    path = run / LAST / TRAINING
    if not path.is_file():
        raise CheckpointError(
            run,
            f"nothing to resume: contains no {LAST}/{TRAINING}",
            "start it again with the same command as before",
        )
    try:
        with zipfile.ZipFile(path) as archive:  # which torch does not compare with its checksums
            if archive.testzip():
                raise zipfile.BadZipFile
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch, pickle and zipfile each have their own
        raise CheckpointError(
            path, "damaged", f"start a new run with --weights {run / LAST}"
        ) from None
    if state.get("format") != configs.FORMAT:
        raise CheckpointError(path, f"format {state.get('format')!r}, not {configs.FORMAT!r}")
    return state


def write_network(
    folder: Path, model: ModelConfig, state: Mapping[str, Tensor], origin: Mapping[str, Any]
) -> None:
    """Replace a checkpoint; each of its files is replaced atomically."""
    with _room_for(folder):
        write_files(folder, model, state, origin)


@contextmanager
def _room_for(path: Path) -> Iterator[None]:
    """Turn the errors of a full disk into one that says what to do."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:  # torch raises RuntimeError
        remedy = "make room and start again"
        if path.exists():
            remedy = "make room and resume the run"
        reason = first_line(error)
        raise CheckpointError(path, f"cannot be written ({reason})", remedy) from None


@contextmanager
def locked(run: Path, is_main: bool) -> Iterator[None]:
    """Keep other processes from training in the same folder, where the system has such locks."""
    if not is_main or importlib.util.find_spec("fcntl") is None:  # Windows has none
        yield
        return
    import fcntl

    folder = os.open(run, os.O_RDONLY)  # of the folder itself: the lock ends with the process
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reason = "another process is training it"
            raise InputError(run, reason, "stop that one first") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(folder)


def clear_drafts(run: Path) -> None:
    """Remove incomplete files of a killed process."""
    for draft in run.rglob(".*.part"):
        draft.unlink()
