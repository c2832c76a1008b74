"""Evaluation: a dataset, somebody's predictions and a protocol become numbers with a name."""

from __future__ import annotations


def __getattr__(name: str) -> object:
    """Resolve the function `evaluate` on first use."""
    if name == "evaluate":
        from idisc.evaluate import run

        return run.evaluate
    raise AttributeError(f"module 'idisc.evaluate' has no attribute '{name}'")
