"""The static files of the server: those of the page, and the example photos.

They are read once, when the server starts. No path or address of a client is ever opened.
"""

from __future__ import annotations

import hashlib
from html import escape
from importlib import resources
from pathlib import PurePath
from string import Template
from typing import NamedTuple

from idisc.predict.inputs import PICTURES
from idisc.serve.service import WEB_FORMATS

PAGE = {  # address -> file and media type
    "/": ("serve/page/index.html", "text/html; charset=utf-8"),
    "/page/style.css": ("serve/page/style.css", "text/css; charset=utf-8"),
    "/page/page.js": ("serve/page/page.js", "text/javascript; charset=utf-8"),
    "/page/explorer.js": ("serve/page/explorer.js", "text/javascript; charset=utf-8"),
    "/page/viewer.css": ("assets/viewer.css", "text/css; charset=utf-8"),
    "/page/viewer.js": ("assets/viewer.js", "text/javascript; charset=utf-8"),
    "/page/known_distances.js": ("assets/known_distances.js", "text/javascript; charset=utf-8"),
    "/page/three.min.js": ("assets/three.min.js", "text/javascript; charset=utf-8"),
}


class StaticFile(NamedTuple):
    """A file in memory."""

    content: bytes
    media_type: str
    etag: str  # hash of the content


def read_examples() -> dict[str, StaticFile]:
    """Return the example photos of the package and their credits, by name."""
    found: dict[str, StaticFile] = {}
    folder = resources.files("idisc").joinpath("assets", "examples")
    for file in sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else ():
        suffix = PurePath(file.name.lower()).suffix
        if suffix in PICTURES:
            media_type = f"image/{suffix[1:].replace('jpg', 'jpeg')}"
            found[file.name] = _static_file(file.read_bytes(), media_type)
        elif file.name.lower().startswith("credits"):
            found[file.name] = _static_file(file.read_bytes(), "text/plain; charset=utf-8")
    return found


def read_page() -> dict[str, StaticFile]:
    """Return the static files of the page by address."""
    found: dict[str, StaticFile] = {}
    package = resources.files("idisc")
    for address, (name, media_type) in PAGE.items():
        content = package.joinpath(name).read_bytes()
        if address == "/":  # shares the 3D view and the known distances with the offline viewer
            parts = {
                name: package.joinpath("assets", f"{name}.html").read_text("utf-8")
                for name in ("space", "known_distances")
            }
            page = Template(content.decode()).substitute(parts, downloads=_download_buttons())
            content = page.encode()
        found[address] = _static_file(content, media_type)
    return found


def _static_file(content: bytes, media_type: str) -> StaticFile:
    return StaticFile(content, media_type, f'"{hashlib.sha256(content).hexdigest()}"')


def _download_buttons() -> str:
    """Return the buttons for all formats of the server."""
    return "\n".join(
        f'<button type="button" data-format="{row.name}" title="{escape(row.description)}">'
        f"{row.name.upper()}</button>"
        for row in WEB_FORMATS.values()
    )
