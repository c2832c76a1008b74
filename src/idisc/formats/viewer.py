"""A prediction as one HTML page with a 3D view; it works as a local file, without a network.

The page consists of `viewer.html`, `viewer.css`, `viewer.js`, `known_distances.js` and three.js
from `assets/`, all in one file. Its content security policy allows these scripts and nothing else.
The page of `idisc serve` shows the same `scene` with the same style and script.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from html import escape
from importlib import resources
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import geometry, html_parts, visualize
from idisc.formats.numbers import MAX_UINT16
from idisc.formats.options import DEFAULT_OPTIONS, FormatOptions
from idisc.prediction import Prediction, colour_limits
from idisc.provenance_text import (
    describe_camera,
    describe_warning,
    describe_with_intrinsics,
    record,
)
from idisc.sizes import describe_size

_SCRIPTS = ("three.min.js", "known_distances.js", "viewer.js")
_PHOTO_WIDTH = 1280  # px, at most, of the picture inside


def scene(prediction: Prediction, options: FormatOptions = DEFAULT_OPTIONS) -> dict[str, Any]:
    """Return what `assets/viewer.js` shows, as JSON: every n-th pixel, colours and camera."""
    camera, picks = geometry.thin(prediction.camera, options.grid)
    unit, depth = prediction.unit, prediction.depth_values[picks, picks]
    depth = np.where(geometry.is_present(depth), depth, 0)
    low, high = options.limits or colour_limits(unit, prediction.depth_values)
    if unit == "relative":
        depth = np.where(depth <= high, depth, 0)  # sky, far behind everything else
    ticks = visualize.ticks(low, high)
    return {
        "unit": unit,
        "size": prediction.size,
        "grid": camera.size,
        "first": picks.start,
        "step": picks.step,
        "camera": [camera.fx, camera.fy, camera.cx, camera.cy],  # of the grid
        "limits": [low, high],
        "ticks": list(zip(ticks, visualize.format_ticks(ticks), strict=True)),
        "empty": visualize.EMPTY,
        "colours": colour_table(options.colormap),
        **packed_depth(depth),
        "edges": _packed(geometry.is_between(depth).astype(np.uint8).tobytes()),
    }


def colour_table(colormap: str) -> str:
    """Return 256 colours of a colormap as RGB bytes, base64."""
    table = visualize.colourise(np.linspace(0, 1, 256)[None], 0, 1, colormap)
    return base64.b64encode(table.tobytes()).decode()


def packed_depth(depth: NDArray[np.float32]) -> dict[str, Any]:
    """Pack metres (H, W), 0 for none, in 16-bit steps: row differences, deflated, base64."""
    unit = float(depth.max()) / MAX_UINT16 or 1.0
    units = np.rint(depth / unit).astype("<u2")
    steps = np.diff(units, axis=1, prepend=np.uint16(0)).astype("<u2")  # modulo 65536; packs well
    return {"metres_per_unit": unit, "depth": _packed(steps.tobytes())}


def encode_html(prediction: Prediction, options: FormatOptions) -> dict[str, bytes]:
    """Encode the page: picture, depth and a point cloud that can be turned."""
    data = {**scene(prediction, options), "record": record(prediction)}
    assets = resources.files("idisc").joinpath("assets")
    scripts = [assets.joinpath(name).read_text("utf-8") for name in _SCRIPTS]
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    height, width = prediction.size
    page = Template(assets.joinpath("viewer.html").read_text("utf-8")).substitute(
        title=escape(prediction.provenance.picture),
        style=assets.joinpath("viewer.css").read_text("utf-8"),
        allowed=" ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests),
        lead=escape(_lead(prediction)),
        unit="metres" if prediction.unit == "metre" else "relative",
        photo=photo_uri(prediction),
        width=width,
        height=height,
        wide=" wide" if width > 2 * height else "",
        known_distances=assets.joinpath("known_distances.html").read_text("utf-8"),
        space=assets.joinpath("space.html").read_text("utf-8"),
        provenance=html_parts.entries(scene_description(prediction, data)),
        data=json.dumps(data).replace("<", "\\u003c"),
        three=scripts[0],
        distances=scripts[1],
        viewer=scripts[2],
    )
    return {"_viewer.html": page.encode()}


def _lead(prediction: Prediction) -> str:
    provenance = prediction.provenance
    about = f"Camera: {describe_camera(prediction.camera)}. Model: {provenance.model.name}."
    warnings = [f"Warning: {describe_warning(warning)}." for warning in provenance.warnings]
    unit = "in metres" if prediction.unit == "metre" else "in relative units, without metres"
    return " ".join([f"Depth along the camera's axis {unit}.", about, *warnings])


def scene_description(prediction: Prediction, data: Mapping[str, Any]) -> dict[str, str]:
    """Return provenance and intrinsics as sentences, and how much of the depth a scene holds."""
    step, unit = data["step"], data["metres_per_unit"]
    every = "every pixel" if step == 1 else f"one pixel of {step} x {step}"
    steps = f"{unit * 1000:.2g} mm" if prediction.unit == "metre" else f"{unit:.2g}, relative"
    stored = f"depth of {every} of {describe_size(prediction.size)}, in steps of {steps}"
    return {**describe_with_intrinsics(prediction), "in this page": stored}


def photo_uri(prediction: Prediction) -> str:
    """Return the picture, reduced if it is large, as a data: address."""
    picture = Image.fromarray(prediction.image)
    picture.thumbnail((_PHOTO_WIDTH, _PHOTO_WIDTH))
    return html_parts.picture_address(picture, "JPEG", quality=88, optimize=True)


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()
