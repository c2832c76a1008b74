"""A result as one HTML page to look around in; it works from a file, without a network.

The page is `assets/viewer.html`, what it does `assets/viewer.js`, with three.js beside them. All of
it goes inside, and the page's own policy allows these scripts alone and nothing from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zlib
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

import numpy as np
from PIL import Image

from idisc import files, geometry, visualize
from idisc.outputs.depicted import USUAL, Depicted, Options, camera_facts, fact_line
from idisc.visualize import Picture

_PHOTO_WIDTH = 1280  # px, at most, of the picture inside
_MOST = 65535  # steps in 16 bits


def viewer_page(depicted: Depicted, title: str, options: Options = USUAL) -> str:
    """A page that works from a file, without a network: picture, depth and an orbiting cloud."""
    camera, picks = geometry.thin(depicted.camera, options.grid)
    depth = depicted.depth[picks, picks]
    depth = np.where(geometry.is_present(depth), depth, 0)
    low, high = options.limits or visualize.depth_limits(depicted.depth)
    unit = float(depth.max()) / _MOST or 1.0
    units = np.rint(depth / unit).astype("<u2")
    steps = np.diff(units, axis=1, prepend=np.uint16(0)).astype("<u2")  # modulo 65536; packs well
    table = visualize.colourise(np.linspace(0, 1, 256)[None], 0, 1, options.colours)
    data = {
        "size": depicted.depth.shape,
        "grid": camera.size,
        "first": picks.start,
        "step": picks.step,
        "camera": [camera.fx, camera.fy, camera.cx, camera.cy],  # of the grid
        "limits": [low, high],
        "metres_per_unit": unit,
        "empty": visualize.EMPTY,
        "colours": base64.b64encode(table.tobytes()).decode(),
        "depth": _packed(steps.tobytes()),
        "edges": _packed(geometry.is_between(depth).astype(np.uint8).tobytes()),
    }
    assets = resources.files("idisc").joinpath("assets")
    scripts = [assets.joinpath(name).read_text("utf-8") for name in ("three.min.js", "viewer.js")]
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    facts = {**camera_facts(depicted), "in this page": _stored(depicted, picks.step, unit)}
    height, width = depicted.depth.shape
    return Template(assets.joinpath("viewer.html").read_text("utf-8")).substitute(
        title=escape(title),
        allowed=" ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests),
        lead=escape(fact_line(depicted, but="picture")),
        photo=_jpeg(depicted.image),
        width=width,
        height=height,
        wide=" wide" if width > 2 * height else "",
        gradient=", ".join(visualize.stops(options.colours, 17)),
        ticks=_ticks(low, high),
        facts="".join(
            f"<dt>{escape(key)}</dt><dd>{escape(text)}</dd>" for key, text in facts.items()
        ),
        data=json.dumps(data).replace("<", "\\u003c"),
        three=scripts[0],
        viewer=scripts[1],
    )


def write_html(depicted: Depicted, path: Path, options: Options) -> None:
    """The page, under the picture's name."""
    title = depicted.facts.get("picture") or path.stem.removesuffix("_viewer")
    page = viewer_page(depicted, title, options)
    with files.atomic(path) as draft:
        draft.write_text(page, encoding="utf-8")


def _stored(depicted: Depicted, step: int, unit: float) -> str:
    height, width = depicted.depth.shape
    every = "every pixel" if step == 1 else f"one pixel of {step} x {step}"
    return f"depth of {every} of {width} x {height}, in steps of {unit * 1000:.2g} mm"


def _ticks(low: float, high: float) -> str:
    values = visualize.ticks(low, high)
    return "".join(
        f'<span style="left:{(value - low) / (high - low):.2%}">{number}&#8239;m</span>'
        for value, number in zip(values, visualize.written(values), strict=True)
    )


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _jpeg(image: Picture) -> str:
    picture, buffer = Image.fromarray(image), io.BytesIO()
    picture.thumbnail((_PHOTO_WIDTH, _PHOTO_WIDTH))
    picture.save(buffer, format="JPEG", quality=88, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
