"""Reads what is known about a network beyond its weights from the file it was loaded from.

The fields are in `origin` of the config.json of a checkpoint, or in the metadata of an ONNX file:
domain, depth_range (metres), training_size, training_fov_deg, data, licence and precision, as JSON
or as text ("480x640"). Missing fields are unknown. The card of a shipped model overrides its files.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from idisc.configs.recipes import RECIPES
from idisc.data import catalog
from idisc.data.framing import as_stored
from idisc.errors import CheckpointError
from idisc.predict.engine import Engine
from idisc.prediction import UNKNOWN, ModelInfo
from idisc.sizes import Size
from idisc.zoo.published import PUBLISHED

DEFAULT_SIZE: Size = (480, 640)  # of networks that do not say at which size they were trained


def read_model_info(engine: Engine) -> ModelInfo:
    """Return what the file of an engine says about the model, or the table of published files."""
    origin = {**_published(engine.origin.get("file")), **engine.origin}

    def numbers(field: str, count: int) -> list[float] | None:
        """Read a JSON list, "480x640" or "0.01,10"."""
        text = str(origin.get(field) or UNKNOWN)
        if text in (UNKNOWN, "None"):
            return None
        found = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]
        if len(found) != count or found[-1] <= 0:
            raise CheckpointError(engine.name, f"{field} is {text!r} in its metadata")
        return found

    span, size = numbers("depth_range", 2), numbers("training_size", 2)
    fov = numbers("training_fov_deg", 1)
    texts = {
        field: str(origin.get(field) or UNKNOWN)
        for field in ("domain", "data", "licence", "precision")
    }
    return ModelInfo(
        name=engine.name,
        sha256=engine.sha256,
        depth_range=(span[0], span[1]) if span else None,
        training_size=(int(size[0]), int(size[1])) if size else None,
        training_fov_deg=fov[0] if fov else None,
        canonical=origin.get("canonical") in (True, "true"),
        **texts,
    )


def dataset_origin(name: str, size: Size) -> dict[str, Any]:
    """Return the fields of `ModelInfo` that follow from the training dataset, as JSON."""
    spec = catalog.find(name)
    found: dict[str, Any] = {"domain": spec.domain, "data": spec.title, "training_size": [*size]}
    if spec.max_depth is not None:
        found["depth_range"] = [spec.min_depth, spec.max_depth]
    camera = spec.camera_of(next(iter(spec.cameras), ""))
    if camera is not None:  # that of the stored frames; the network sees a part of them
        blank = np.zeros((*camera.size, 3), np.uint8)
        framed = spec.framing(as_stored(blank, blank[..., 0].astype(np.float32), camera)).camera
        if framed is not None:
            found["training_fov_deg"] = round(framed.fov_deg, 1)
    return found


def _published(file: object) -> dict[str, Any]:
    """Fields for published files that were converted before `origin` had them."""
    if not isinstance(file, str) or file not in PUBLISHED:
        return {}
    data = RECIPES[PUBLISHED[file].recipes[0]].data
    return dataset_origin(data.train, (data.size[0], data.size[1]))
