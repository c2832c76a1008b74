"""One row of a table for each picture: depth and what is known about it, or the error.

Depth is a 16-bit PNG, because Parquet would store floats in four times the space. Everything else
is in columns of its own, so that a query needs no picture.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from idisc import geometry
from idisc.errors import IdiscError
from idisc.formats import FORMATS, FormatOptions, encode
from idisc.formats.numbers import png16_unit
from idisc.prediction import Prediction
from idisc.provenance_text import provenance_json

_PROVENANCE = pa.struct(  # of `provenance_json`, which has more
    {
        "model": pa.struct(
            {name: pa.string() for name in ("name", "sha256", "domain", "licence", "precision")}
            | {"non_commercial": pa.bool_()}
        ),
        "network_size": pa.list_(pa.int32(), 2),  # height, width
        "network_size_reason": pa.string(),
        "camera_correction": pa.struct({"factor": pa.float64()}),  # null: depth is as predicted
        "flip": pa.bool_(),
        "tiles": pa.struct({"count": pa.int32()}),  # null: none
        "notes": pa.list_(pa.string()),
        "warnings": pa.list_(pa.struct({"code": pa.string(), "message": pa.string()})),
    }
)
_CAMERA = {name: pa.float64() for name in ("fx", "fy", "cx", "cy")}  # pixels
_STATISTICS = ("min", "p02", "median", "mean", "p98", "max", "present")
_ERROR = ("subject", "reason", "remedy")

RESULTS = pa.schema(
    {
        "size": pa.struct({"height": pa.int32(), "width": pa.int32()}),
        "camera": pa.struct({**_CAMERA, "origin": pa.string(), "source": pa.string()}),
        "depth_png16": pa.binary(),
        "metres_per_unit": pa.float64(),  # of depth_png16; 0 is no depth
        # Metres; `present` is the share of the pixels with depth.
        "statistics": pa.struct({name: pa.float32() for name in _STATISTICS}),
        "provenance": _PROVENANCE,
        "error": pa.struct({name: pa.string() for name in _ERROR}),  # null: none
    }
)
"""The columns of a result: either `error` is null or all others are."""
SCHEMA = pa.schema([("key", pa.string()), *RESULTS])
"""The columns of a part of a job."""


def row_of(found: Prediction | IdiscError) -> dict[str, Any]:
    """Return the columns of RESULTS for a prediction, or for the error of a picture."""
    if isinstance(found, IdiscError):
        return {"error": dict(zip(_ERROR, found.args, strict=True))}
    try:
        return _columns(found)
    except IdiscError as error:  # depth that is relative, or that 16 bits cannot hold
        return row_of(error.within(found.provenance.picture))


def _columns(found: Prediction) -> dict[str, Any]:
    depth = found.metres
    there = depth[geometry.is_present(depth)]
    deepest = float(there.max(initial=0))
    unit = png16_unit(found.provenance.model.domain, deepest)
    options = FormatOptions(metres_per_unit=unit, sidecar=False)
    (picture,) = encode(found, FORMATS["png16"], options).values()  # refuses a map without depth
    p02, median, p98 = np.percentile(there, [2, 50, 98])
    mean, present = there.mean(dtype=np.float64), there.size / depth.size
    numbers = (there.min(), p02, median, mean, p98, deepest, present)
    return {
        "size": {"height": found.size[0], "width": found.size[1]},
        "camera": asdict(found.camera),
        "depth_png16": bytes(picture),
        "metres_per_unit": unit,
        "statistics": dict(zip(_STATISTICS, map(float, numbers), strict=True)),
        "provenance": provenance_json(found),
    }
