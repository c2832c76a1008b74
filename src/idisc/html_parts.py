"""The parts that HTML pages are made of: the frame of a report, sections, tables, legends.

The frame and style of all reports are `assets/report.html`. Nothing is loaded from elsewhere:
pictures are in the page as addresses that hold them. Text is escaped here where the argument says
so; everything else is markup, and trusted.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from html import escape
from importlib import resources
from string import Template
from typing import Any

import numpy as np
from PIL import Image

from idisc import visualize


def report(**parts: str) -> str:
    """A whole report; the names of its parts are those in the frame."""
    frame = resources.files("idisc").joinpath("assets", "report.html").read_text("utf-8")
    return Template(frame).substitute(**parts)


def section(title: str, text: str, content: str) -> str:
    """A heading, a note below it, and what they are about; all markup."""
    return f'<section><h2>{title}</h2><p class="note">{text}</p>{content}</section>'


def table(head: str, body: str) -> str:
    """Cells of the head and rows of the body, in a frame that scrolls where it is too wide."""
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def entries(facts: Mapping[str, str]) -> str:
    """Names and what they stand for, both escaped, for a `dl`."""
    return "".join(f"<dt>{escape(key)}</dt><dd>{escape(text)}</dd>" for key, text in facts.items())


def gradient(name: str, colours: str) -> str:
    """A colour map under the name that `legend` asks for."""
    shades = visualize.stops(colours)
    marks = zip(np.linspace(0, 1, len(shades)).tolist(), shades, strict=True)
    stops = "".join(f'<stop offset="{offset:g}" stop-color="{shade}"/>' for offset, shade in marks)
    return f'<linearGradient id="{name}">{stops}</linearGradient>'


def legend(gradient: str, low: str, high: str) -> str:
    """A strip of a gradient between its two ends, which are escaped."""
    return (
        f'<span class="legend">{escape(low)}<svg preserveAspectRatio="none" viewBox="0 0 1 1"'
        f' aria-hidden="true"><rect width="1" height="1" fill="url(#{gradient})"/></svg>'
        f"{escape(high)}</span>"
    )


def picture_address(picture: Image.Image, kind: str, **options: Any) -> str:
    """An address that holds the picture as a file of that kind, JPEG or PNG."""
    buffer = io.BytesIO()
    picture.save(buffer, format=kind, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"
