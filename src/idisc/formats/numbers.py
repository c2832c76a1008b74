"""Formats for programs: depth as floats or in 16-bit steps of a stated size."""

from __future__ import annotations

import io
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc import geometry
from idisc.errors import InputError
from idisc.formats.options import AXES, Content, FormatOptions
from idisc.formats.png import png_bytes
from idisc.prediction import Prediction
from idisc.provenance_text import record

MAX_UINT16 = int(np.iinfo(np.uint16).max)
MILLIMETRE, ROAD_UNIT = 0.001, 1 / 256  # metres for each step: of most indoor sets, and of KITTI
_ROWS = 32  # converted at a time, which stay in the cache
FINE_UNIT, FEW_STEPS = 1e-5, 100  # of a scene that would have fewer steps of a millimetre


def png16_unit(domain: str, deepest: float) -> float:
    """Return the metres for each step of a 16-bit PNG whose largest depth is `deepest`."""
    if domain == "road" or deepest > MAX_UINT16 * MILLIMETRE:
        return ROAD_UNIT
    return FINE_UNIT if 0 < deepest < FEW_STEPS * MILLIMETRE else MILLIMETRE


def describe_unusual_unit(prediction: Prediction) -> str | None:
    """Return a note about a 16-bit PNG whose steps are not those that its domain suggests."""
    if prediction.unit == "relative":
        return None
    domain, deepest = prediction.provenance.model.domain, _deepest(prediction)
    unit = png16_unit(domain, deepest)
    if domain == "road" or unit == MILLIMETRE:
        return None
    if unit == FINE_UNIT:
        return f"png16 in steps of {1000 * unit:g} mm, as depth ends at {1000 * deepest:.2g} mm"
    limit = MAX_UINT16 * MILLIMETRE
    return f"png16 in steps of 1/256 m, as depth of {deepest:.1f} m is beyond {limit:.1f} m"


def _deepest(prediction: Prediction) -> float:
    depth = prediction.metres
    return float(np.max(depth, where=geometry.is_present(depth), initial=0.0))


def encode_png16(prediction: Prediction, options: FormatOptions) -> dict[str, bytes]:
    """Encode depth rounded to the nearest step; 0 means none, so the smallest depth is one step.

    Relative depth is stored as its inverse, which has no metres and no end at infinity.
    """
    if prediction.unit == "relative":
        return _encode_inverse(prediction, options)
    deepest = _deepest(prediction)
    unit = options.metres_per_unit or png16_unit(prediction.provenance.model.domain, deepest)
    more: dict[str, Any] = {"metres_per_unit": unit, "empty": 0}
    limit = MAX_UINT16 * unit
    if deepest > limit:
        if not options.drop_beyond:
            end = f"16 bits in steps of {unit:g} m end at {limit:.1f} m"
            reason = f"depth of {deepest:.1f} m, but {end}"
            raise InputError("format png16", reason, "save npy instead")
        more["empty_beyond_m"] = limit
    values = _to_steps(prediction.metres, lambda depth: depth / unit, limit)
    about = record(prediction, **more)
    description = f"depth along the optical axis; metres = value * {unit!r}, 0 = none"
    picture = png_bytes(values, about, metres_per_unit=repr(unit), Description=description)
    return {"_depth16.png": picture, **_sidecar("_depth16.json", about, options)}


def _to_steps(
    depth: NDArray[np.float32],
    convert: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    limit: float = math.inf,
) -> NDArray[np.uint16]:
    """Convert depth (H, W) to whole steps from 1 on; 0 where there is none up to `limit`."""
    steps = np.empty(depth.shape, np.uint16)
    for first in range(0, len(depth), _ROWS):
        band = depth[first : first + _ROWS]
        present = geometry.is_present(band) & (band <= limit)
        rounded = np.rint(convert(np.where(present, band, 1).astype(np.float64)))
        steps[first : first + _ROWS] = np.where(present, np.clip(rounded, 1, MAX_UINT16), 0)
    return steps


def inverse_unit(nearest: float) -> float:
    """Return the inverse relative depth of each step of a 16-bit PNG; `nearest` is the depth."""
    return 1 / (nearest * MAX_UINT16)


def _encode_inverse(prediction: Prediction, options: FormatOptions) -> dict[str, bytes]:
    depth = prediction.depth_values
    nearest = float(depth[geometry.is_present(depth)].min())
    unit = options.inverse_per_unit or inverse_unit(nearest)
    values = _to_steps(depth, lambda depth: 1 / (depth * unit))
    about = record(prediction, inverse_per_unit=unit, empty=0)
    description = f"relative inverse depth = value * {unit!r}, near is large, no metres; 0 = none"
    picture = png_bytes(values, about, Description=description)
    return {"_depth16.png": picture, **_sidecar("_depth16.json", about, options)}


def encode_npy(prediction: Prediction, options: FormatOptions) -> dict[str, bytes]:
    """Encode depth (H, W) float32 alone; the JSON file has the rest."""
    buffer = io.BytesIO()
    np.save(buffer, prediction.depth_values.astype(np.float32), allow_pickle=False)
    return {
        "_depth.npy": buffer.getvalue(),
        **_sidecar("_depth.json", record(prediction), options),
    }


def _sidecar(suffix: str, about: dict[str, Any], options: FormatOptions) -> dict[str, bytes]:
    return {suffix: (json.dumps(about, indent=2) + "\n").encode()} if options.sidecar else {}


def encode_npz(prediction: Prediction, options: FormatOptions) -> dict[str, Content]:
    """Encode all maps, the camera (3, 3), and `record` as JSON text."""
    axes, normals = options.axes or "opencv", prediction.normals
    if normals is not None and axes != "opencv":  # a copy takes gigabytes for a large picture
        normals = normals * np.array(AXES[axes].signs, np.float32)
    maps = {"depth": prediction.depth, "normals": normals, "uncertainty": prediction.level_std}
    maps |= prediction.others
    arrays: dict[str, Any] = {
        name: values.astype(np.float32, copy=False)
        for name, values in maps.items()
        if values is not None
    }
    about = np.array(json.dumps(record(prediction, axes=f"{axes}: {AXES[axes].text}")))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays, camera=prediction.camera.matrix, record=about)
    return {"_depth.npz": buffer.getbuffer()}


def encode_exr(prediction: Prediction, _: FormatOptions) -> dict[str, bytes]:
    """Encode depth as channel Z, float32, without loss."""
    import OpenEXR

    header = {
        "compression": OpenEXR.ZIP_COMPRESSION,
        "type": OpenEXR.scanlineimage,
        "comments": f"channel Z: depth along the optical axis, unit {prediction.unit};"
        " 0 and NaN are none",
        "idisc": json.dumps(record(prediction)),
    }
    depth = np.ascontiguousarray(prediction.depth_values, np.float32)
    # OpenEXR writes to named files only.
    with tempfile.TemporaryDirectory() as folder, OpenEXR.File(header, {"Z": depth}) as file:
        path = Path(folder) / "depth.exr"
        try:
            file.write(str(path))
        except RuntimeError as error:  # a full disk, for example
            raise InputError("format exr", f"cannot be written ({error})") from None
        return {"_depth.exr": path.read_bytes()}
