"""A gallery: one HTML page about many predictions, with thumbnails and a link to each result.

Pictures are embedded as thumbnails, so the page is complete without its neighbours; a click opens
the viewer or another file of the result, which is expected beside the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import TypeAlias
from urllib.parse import quote

from PIL import Image

from idisc.errors import InputError, pluralize
from idisc.files import name_text
from idisc.html_parts import picture_address
from idisc.prediction import Prediction, colour_limits
from idisc.provenance_text import describe_camera, describe_depth, describe_warning

NAME = "index.html"
WIDTH = 420  # px, of a thumbnail
_GENERATOR = b'<meta name="generator" content="idisc">'
_ENTRY = Template(
    """<article><a href="$link">
<div class="pair"><img src="$photo" alt="$title"><img src="$map" alt="$kind of $title">$badge</div>
<div class="text"><h2>$title</h2>$lines</div>
</a></article>"""
)


Entry: TypeAlias = str
"""One result in a gallery, as HTML."""


def describe(
    title: str, prediction: Prediction, files: Sequence[Path], folder: Path, clip: str = ""
) -> Entry:
    """Return the entry of a prediction; `files` are its results, `folder` is that of the page.

    For a clip, the prediction is that of its last frame, and `clip` says how long it is.
    """
    photo = Image.fromarray(prediction.image)
    photo.thumbnail((WIDTH, WIDTH))
    drawn = _draw(prediction)
    drawn.thumbnail((WIDTH, WIDTH))
    provenance, camera = prediction.provenance, describe_camera(prediction.camera)
    lines = [_range(prediction), f"model {provenance.model.name}, camera {camera}"]
    paragraphs = [f"<p>{_safe(line)}</p>" for line in lines]
    warnings = map(describe_warning, provenance.warnings)
    paragraphs += [f'<p class="warning">{_safe(text)}</p>' for text in warnings]
    return _ENTRY.substitute(
        link=_safe(_link(files, folder)),
        photo=picture_address(photo, "JPEG", quality=80),
        map=picture_address(drawn, "JPEG", quality=85),
        kind=prediction.task.name,
        badge=f'<span class="badge">{_safe(clip)}</span>' if clip else "",
        title=_safe(title),
        lines="".join(paragraphs),
    )


def render(entries: Sequence[Entry], title: str, models: Sequence[str]) -> bytes:
    """Return the page as UTF-8."""
    page = resources.files("idisc").joinpath("assets", "gallery.html").read_text("utf-8")
    noun = "model" if len(models) == 1 else "models"
    lead = f"{pluralize(len(entries), 'result')}, {noun} {', '.join(models)}. Click for details."
    text = Template(page).substitute(
        title=_safe(title), lead=_safe(lead), entries="\n".join(entries)
    )
    return text.encode()


def check_free(path: Path) -> None:
    """Raise an InputError if `path` is a page that idisc did not write."""
    if path.is_file() and _GENERATOR not in path.read_bytes()[:1000]:
        raise InputError(path, "exists and was not written by idisc", "pass --no-gallery")


def _safe(text: str) -> str:
    return escape(name_text(text))


def _draw(prediction: Prediction) -> Image.Image:
    task, normals = prediction.task, prediction.normals
    values = next(
        m for m in (prediction.depth, normals, *prediction.others.values()) if m is not None
    )
    step = max(1, max(prediction.size) // (2 * WIDTH))  # enough for a thumbnail
    limits = None
    if prediction.depth is not None:
        limits = colour_limits(prediction.unit, prediction.depth[::step, ::step])
    return Image.fromarray(task.draw(values[::step, ::step], limits, None))


def _range(prediction: Prediction) -> str:
    if prediction.depth is None:
        return prediction.task.name
    low, high = colour_limits(prediction.unit, prediction.depth)
    return describe_depth(low, high, prediction.unit)


def _link(files: Sequence[Path], folder: Path) -> str:
    """Return the viewer, or else the first file, such as a film, relative to the folder."""
    if not files:
        return ""
    best = min(files, key=lambda path: not path.name.endswith("_viewer.html"))
    return quote(best.relative_to(folder).as_posix().encode("utf-8", "surrogateescape"))
