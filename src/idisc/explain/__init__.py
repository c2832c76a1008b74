"""Figures and statistics of the internal representations (IDRs) of a network."""

from __future__ import annotations

from idisc.errors import require


def __getattr__(name: str) -> object:
    """Resolve the function `explain` on first use."""
    if name == "explain":
        require("torch", extra="train")
        from idisc.explain import idrs

        return idrs.explain
    raise AttributeError(f"module 'idisc.explain' has no attribute '{name}'")
