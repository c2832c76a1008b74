"""A result as one HTML page to look around in; it works from a file, without a network.

The page is `assets/viewer.html`, its look `viewer.css`, what it does `viewer.js`, with three.js
beside them. All of it goes inside, and the page's own policy allows these scripts alone and nothing
from elsewhere. The same style and script show the same `scene` on the page of `idisc serve`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import files, geometry, html_parts, visualize
from idisc.outputs.depicted import MOST_STEPS, USUAL, Depicted, Options, camera_facts, fact_line

_PHOTO_WIDTH = 1280  # px, at most, of the picture inside


def scene(depicted: Depicted, options: Options = USUAL) -> dict[str, Any]:
    """What `assets/viewer.js` needs of a result, as JSON: every n-th pixel, and how to show it."""
    camera, picks = geometry.thin(depicted.camera, options.grid)
    depth = depicted.depth[picks, picks]
    depth = np.where(geometry.is_present(depth), depth, 0)
    low, high = options.limits or visualize.depth_limits(depicted.depth)
    ticks = visualize.ticks(low, high)
    return {
        "size": depicted.depth.shape,
        "grid": camera.size,
        "first": picks.start,
        "step": picks.step,
        "camera": [camera.fx, camera.fy, camera.cx, camera.cy],  # of the grid
        "limits": [low, high],
        "ticks": list(zip(ticks, visualize.written(ticks), strict=True)),
        "empty": visualize.EMPTY,
        "colours": colour_table(options.colours),
        **packed_depth(depth),
        "edges": _packed(geometry.is_between(depth).astype(np.uint8).tobytes()),
    }


def colour_table(colours: str) -> str:
    """256 colours of a map as RGB bytes, base64."""
    table = visualize.colourise(np.linspace(0, 1, 256)[None], 0, 1, colours)
    return base64.b64encode(table.tobytes()).decode()


def packed_depth(depth: NDArray[np.float32]) -> dict[str, Any]:
    """Metres (H, W), 0 for none, in 16-bit steps: differences along each row, deflated, base64."""
    unit = float(depth.max()) / MOST_STEPS or 1.0
    units = np.rint(depth / unit).astype("<u2")
    steps = np.diff(units, axis=1, prepend=np.uint16(0)).astype("<u2")  # modulo 65536; packs well
    return {"metres_per_unit": unit, "depth": _packed(steps.tobytes())}


def viewer_page(depicted: Depicted, title: str, options: Options = USUAL) -> str:
    """A page that works from a file, without a network: picture, depth and an orbiting cloud."""
    data = scene(depicted, options)
    assets = resources.files("idisc").joinpath("assets")
    scripts = [assets.joinpath(name).read_text("utf-8") for name in ("three.min.js", "viewer.js")]
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    height, width = depicted.depth.shape
    return Template(assets.joinpath("viewer.html").read_text("utf-8")).substitute(
        title=escape(title),
        style=assets.joinpath("viewer.css").read_text("utf-8"),
        allowed=" ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests),
        lead=escape(fact_line(depicted, but="picture")),
        photo=photo_uri(depicted),
        width=width,
        height=height,
        wide=" wide" if width > 2 * height else "",
        space=assets.joinpath("space.html").read_text("utf-8"),
        facts=html_parts.entries(scene_facts(depicted, data)),
        data=json.dumps(data).replace("<", "\\u003c"),
        three=scripts[0],
        viewer=scripts[1],
    )


def scene_facts(depicted: Depicted, data: Mapping[str, Any]) -> dict[str, str]:
    """The facts of a result, its camera in pixels, and how much of it a scene holds."""
    height, width = depicted.depth.shape
    step, unit = data["step"], data["metres_per_unit"]
    every = "every pixel" if step == 1 else f"one pixel of {step} x {step}"
    stored = f"depth of {every} of {width} x {height}, in steps of {unit * 1000:.2g} mm"
    return {**camera_facts(depicted), "in this page": stored}


def photo_uri(depicted: Depicted) -> str:
    """The picture, reduced if it is large, as an address that holds it."""
    picture = Image.fromarray(depicted.image)
    picture.thumbnail((_PHOTO_WIDTH, _PHOTO_WIDTH))
    return html_parts.picture_address(picture, "JPEG", quality=88, optimize=True)


def write_html(depicted: Depicted, path: Path, options: Options) -> None:
    """The page, under the picture's name."""
    title = depicted.facts.get("picture") or path.stem.removesuffix("_viewer")
    page = viewer_page(depicted, title, options)
    with files.atomic(path) as draft:
        draft.write_text(page, encoding="utf-8")


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()
