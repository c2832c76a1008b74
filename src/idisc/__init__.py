"""Metric depth and surface normals from one photo, by the network of iDisc (CVPR 2023).

Names resolve on first use (PEP 562): `import idisc` loads no heavy package.
"""

from __future__ import annotations

import importlib

from idisc.errors import require

__version__ = "0.1.0"
__all__ = ["Camera", "IdiscError", "Prediction", "__version__", "load", "load_network"]

_HOMES = {
    "Camera": "idisc.camera",
    "IdiscError": "idisc.errors",
    "Prediction": "idisc.predict.prediction",
    "load": "idisc.predict.predictor",
    "load_network": "idisc.model.checkpoint",
}
_NEEDS = {"load_network": ("torch", "safetensors")}  # heavy packages of the extra "train"


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'idisc' has no attribute '{name}'")
    require(*_NEEDS.get(name, ()), extra="train")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
