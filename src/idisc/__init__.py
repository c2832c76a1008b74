"""Metric depth and surface normals from one photo, by the network of iDisc (CVPR 2023).

Names resolve on first use (PEP 562): `import idisc` loads no heavy package. `evaluate` and
`explain` are packages; each has a function of the same name.
"""

from __future__ import annotations

import importlib

from idisc.errors import (
    CheckFailed,
    CheckpointError,
    DataError,
    IdiscError,
    InputError,
    MissingExtra,
    require,
)

__version__ = "0.2.0"
__all__ = [
    "RECIPES",
    "Camera",
    "CheckFailed",
    "CheckpointError",
    "DataError",
    "IDisc",
    "IdiscError",
    "InputError",
    "MissingExtra",
    "ModelConfig",
    "Prediction",
    "Predictor",
    "__version__",
    "evaluate",
    "explain",
    "load",
    "load_network",
]

_MODULES = {
    "Camera": "idisc.camera",
    "IDisc": "idisc.model.network",
    "ModelConfig": "idisc.configs.schema",
    "Prediction": "idisc.prediction",
    "Predictor": "idisc.predict.predictor",
    "RECIPES": "idisc.configs.recipes",
    "load": "idisc.predict.predictor",
    "load_network": "idisc.model.checkpoint",
}
_PACKAGES = ("evaluate", "explain")
_NEED_TORCH = ("IDisc", "load_network")


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return importlib.import_module(f"idisc.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'idisc' has no attribute '{name}'")
    if name in _NEED_TORCH:
        require("torch", "safetensors", extra="train")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
