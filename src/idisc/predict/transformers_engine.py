"""Opens a depth model of Hugging Face `transformers` from a local folder; nothing is downloaded.

The folder's own configuration says how pictures are prepared, see `convention_choice`, so the model
runs by the same `ConventionEngine` as an ONNX file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from idisc import files
from idisc.errors import CheckpointError, first_line, lookup, require
from idisc.predict.convention_choice import Graph, read_hub_folder
from idisc.predict.convention_engine import Arrays, ConventionEngine
from idisc.predict.conventions import CONVENTIONS, Convention

_PICTURE = "pixel_values"


class TransformersNetwork:
    """A model of `transformers` on its device; see `convention_engine.Network`."""

    def __init__(self, model: Any, convention: Convention, device: str) -> None:
        self.model, self.device = model, device
        extra = [convention.fov_output] if convention.fov_output else []
        self.graph = Graph(
            inputs={_PICTURE: (None, 3, None, None)},
            outputs=dict.fromkeys(["predicted_depth", *extra], (None, None, None)),
        )

    def __call__(self, feeds: Arrays, names: Sequence[str]) -> Arrays:
        """Run the model without gradients."""
        import torch

        pixels = torch.from_numpy(np.ascontiguousarray(feeds[_PICTURE])).to(self.device)
        with torch.inference_mode():
            found = self.model(pixel_values=pixels)
        return {name: found[name].float().cpu().numpy() for name in names}


def open_transformers(
    folder: Path, device: str = "cpu", name: str | None = None
) -> ConventionEngine:
    """Open the model of a folder that `save_pretrained` wrote, with safetensors.

    `name` is that of a convention, if the folder's own is not right.
    """
    stated = lookup(CONVENTIONS, name, "convention") if name else read_hub_folder(folder)
    if stated is None:
        raise CheckpointError(folder, "no depth model of transformers that has a convention")
    require("torch", "transformers", extra="transformers")
    from transformers import AutoModelForDepthEstimation
    from transformers.utils import logging

    logging.disable_progress_bar()  # only the command line prints
    try:
        model = AutoModelForDepthEstimation.from_pretrained(
            folder, local_files_only=True, use_safetensors=True
        )
    except Exception as error:  # transformers raises many kinds
        raise CheckpointError(
            folder, f"transformers cannot load it ({first_line(error)})"
        ) from None
    weights = sorted(folder.glob("*.safetensors"))
    network = TransformersNetwork(model.eval().to(device), stated, device)
    return ConventionEngine(folder.resolve().name, files.sha256(*weights), stated, network)
