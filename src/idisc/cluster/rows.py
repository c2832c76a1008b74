"""One row of a table for each picture: depth and its provenance, or the error.

Depth is a 16-bit PNG, because floats in Parquet need four times the space. All other values have
columns of their own, so that queries do not decode pictures.
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
"""The columns of a result: `error` is null, or all others are."""
SCHEMA = pa.schema([("key", pa.string()), *RESULTS])
"""The columns of the tables of a job."""


def row_of(result: Prediction | IdiscError) -> dict[str, Any]:
    """Return the columns of RESULTS for a prediction, or for the error of a picture."""
    if isinstance(result, IdiscError):
        return {"error": dict(zip(_ERROR, result.args, strict=True))}
    try:
        return _columns(result)
    except IdiscError as error:  # depth is relative, or does not fit into 16 bits
        return row_of(error.within(result.provenance.picture))


def _columns(prediction: Prediction) -> dict[str, Any]:
    depth = prediction.metres
    values = depth[geometry.is_present(depth)]
    maximum = float(values.max(initial=0))
    unit = png16_unit(prediction.provenance.model.domain, maximum)
    options = FormatOptions(metres_per_unit=unit, sidecar=False)
    (png,) = encode(prediction, FORMATS["png16"], options).values()  # refuses a map without depth
    p02, median, p98 = np.percentile(values, [2, 50, 98])
    mean, present = values.mean(dtype=np.float64), values.size / depth.size
    numbers = (values.min(), p02, median, mean, p98, maximum, present)
    return {
        "size": {"height": prediction.size[0], "width": prediction.size[1]},
        "camera": asdict(prediction.camera),
        "depth_png16": bytes(png),
        "metres_per_unit": unit,
        "statistics": dict(zip(_STATISTICS, map(float, numbers), strict=True)),
        "provenance": provenance_json(prediction),
    }
