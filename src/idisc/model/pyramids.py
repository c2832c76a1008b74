"""The strides of all encoders, and the import of timm for those that need it."""

from __future__ import annotations

from typing import Any

from idisc.errors import require

STRIDES = (4, 8, 16, 32)  # of the four maps, fine to coarse


def load_timm() -> Any:
    """Import timm on demand: it takes 0.2 GB and some seconds, and Swin does not need it."""
    require("timm", extra="train")
    import timm

    return timm
