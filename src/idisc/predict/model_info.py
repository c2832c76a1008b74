"""Reads what is known about a network beyond its weights from the file it was loaded from.

The fields of `Ancestry` and the precision are in `origin` of the config.json of a checkpoint, or in
the metadata of an ONNX file. Missing fields are unknown. The card of a shipped model overrides its
files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from idisc import files
from idisc.ancestry import UNKNOWN, Ancestry, Parent, read_ancestry
from idisc.configs.recipes import RECIPES
from idisc.data import catalog
from idisc.data.catalog import DatasetSpec
from idisc.data.framing import as_stored
from idisc.predict.engine import Engine
from idisc.provenance import ModelInfo
from idisc.sizes import Size
from idisc.zoo.published import LICENCE, PUBLISHED

DEFAULT_SIZE: Size = (480, 640)  # of networks that do not say at which size they were trained


def read_model_info(engine: Engine) -> ModelInfo:
    """Return what the file of an engine says about the model, or the table of published files."""
    known = ancestry_of(engine.origin, engine.name)
    return ModelInfo(
        name=files.name_text(engine.name),
        sha256=engine.sha256,
        unit=engine.convention.unit if engine.convention else "metre",
        convention=engine.convention.name if engine.convention else None,
        domain=known.domain,
        depth_range=known.depth_range,
        training_size=known.training_size,
        training_fov_deg=known.training_fov_deg,
        data=known.data,
        licence="; ".join(known.licence) or UNKNOWN,
        precision=str(engine.origin.get("precision") or UNKNOWN),
        canonical=known.canonical,
        non_commercial=known.non_commercial,
        parents=known.parents,
        verified=engine.verified,
    )


def ancestry_of(origin: Mapping[str, Any], name: str) -> Ancestry:
    """Return the ancestry in the metadata of the network `name`."""
    return read_ancestry({**_published(origin), **origin}, name)


def dataset_ancestry(spec: DatasetSpec, size: Size) -> Ancestry:
    """Return what a network inherits from a training dataset, whose pictures it sees at `size`."""
    found = Ancestry(
        domain=spec.domain,
        depth_range=None if spec.max_depth is None else (spec.min_depth, spec.max_depth),
        training_size=size,
        data=(spec.title,),
        licence=(f"data of {spec.title}: {spec.licence}",),
        non_commercial=spec.non_commercial,
    )
    camera = spec.camera_of(next(iter(spec.cameras), ""))
    if camera is not None:  # that of the stored frames; the network sees a part of them
        blank = np.zeros((*camera.size, 3), np.uint8)
        framed = spec.framing(as_stored(blank, blank[..., 0].astype(np.float32), camera)).camera
        if framed is not None:
            return replace(found, training_fov_deg=round(framed.fov_deg, 1))
    return found


def _published(origin: Mapping[str, Any]) -> dict[str, Any]:
    """Fields for published files; their licence covers what they were trained on."""
    file = origin.get("file")
    if not isinstance(file, str) or file not in PUBLISHED:
        return {}
    data = RECIPES[PUBLISHED[file].recipes[0]].data
    known = dataset_ancestry(catalog.find(data.train), (data.size[0], data.size[1]))
    parent = Parent(name=file, sha256=str(origin.get("sha256", "")))
    return replace(known, licence=(LICENCE,), non_commercial=True, parents=(parent,)).to_json()
