"""What all encoders are held to: the strides of their maps; and timm, for those that need it."""

from __future__ import annotations

from typing import Any

from idisc.errors import require

STRIDES = (4, 8, 16, 32)  # of the four maps, fine to coarse


def load_timm() -> Any:
    """timm, imported when it is needed: 0.2 GB and some seconds that Swin does without."""
    require("timm", extra="train")
    import timm

    return timm
