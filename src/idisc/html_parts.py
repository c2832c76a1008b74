"""Building blocks of the HTML reports: templates of `assets/report/`, tables, legends, images.

Every value that is filled into a template is escaped unless it is `Markup`. Reports are
self-contained: images are embedded as data URIs, and nothing is loaded from elsewhere.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import Any

from PIL import Image

from idisc import visualize


class Markup(str):
    """Text that is already HTML, so that it is not escaped again."""


def fill(template: str, **values: object) -> Markup:
    """Fill in a template of `assets/report/`; values other than `Markup` are escaped."""
    texts = {name: _escaped(value) for name, value in values.items()}
    return Markup(_template(template).substitute(texts))


def join(parts: Iterable[Markup]) -> Markup:
    """Concatenate the parts."""
    return Markup("".join(parts))


def section(title: str, text: str, content: str = Markup()) -> Markup:
    """Return a section: a heading, a note below it, and the content."""
    return fill("section", title=title, text=text, content=content)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> Markup:
    """Return a table that scrolls if it is too wide; `kind` is its CSS class.

    The first cell of a row is its heading.
    """
    columns = join(Markup(f'<th scope="col">{_escaped(name)}</th>') for name in head)
    return fill("table", kind=kind, head=columns, body=join(_row(*cells) for cells in rows))


def entries(values: Mapping[str, str]) -> Markup:
    """Return a list of names and their values, both escaped."""
    rows = (
        Markup(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>") for name, text in values.items()
    )
    return fill("entries", rows=join(rows))


def legend(colours: str, low: str, high: str) -> Markup:
    """Return a strip of a colour map between the texts of its two ends."""
    return fill("legend", low=low, high=high, stops=", ".join(visualize.gradient(colours)))


def picture_address(picture: Image.Image, kind: str, **options: Any) -> str:
    """Return a data URI of the picture as a file of that kind, JPEG or PNG."""
    buffer = io.BytesIO()
    picture.save(buffer, format=kind, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


@cache
def _template(name: str) -> Template:
    asset = resources.files("idisc").joinpath("assets", "report", f"{name}.html")
    return Template(asset.read_text("utf-8").rstrip("\n"))


def _escaped(value: object) -> str:
    return value if isinstance(value, Markup) else escape(str(value))


def _row(heading: str, *cells: str) -> Markup:
    body = "".join(f"<td>{_escaped(cell)}</td>" for cell in cells)
    return Markup(f'<tr><th scope="row">{_escaped(heading)}</th>{body}</tr>')
