"""Migrations: records of runs that were started by an earlier version, in the present form.

This is the only module that knows former field names. A run is resumed by the version that is
installed, so fields that were removed are dropped here, and renamed ones get their new name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def renewed_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """RUN/config.json."""
    recipe = dict(record["recipe"])
    # data.crop was read nowhere: the protocol knows the window.
    recipe["data"] = {name: value for name, value in recipe["data"].items() if name != "crop"}
    recipe["train"] = _with_patience(recipe["train"])
    return {"pairs": None, "fine_tunes": False, "inherited": {}, **record, "recipe": recipe}


def renewed_training(stored: Mapping[str, Any]) -> dict[str, Any]:
    """RUN/last/training.pt."""
    guard = _with_patience(stored["guard"])
    # A checkpoint that does not say so was written after the validation of its step.
    return {"validated": stored["step"], "start": {}, **stored, "guard": guard}


def _with_patience(fields: Mapping[str, Any]) -> dict[str, Any]:
    renewed = dict(fields)
    if "retries" in renewed:
        renewed["patience"] = max(renewed.pop("retries"), 1)  # 0 did what 1 does
    return renewed
