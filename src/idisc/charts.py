"""Charts as SVG for HTML reports, drawn by matplotlib (extra `figures`).

Colours refer to the CSS variables of `assets/report/page.html`, so that charts have the colours of
the page in dark mode and in print. Text stays text, in the font of the page. The gid of an artist
becomes its tooltip if it contains a space.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from idisc.errors import MissingExtra, require
from idisc.html_parts import Markup, fill

ACCENT, QUIET, SOFT, LINE, INK = "#b13a78", "#b9bdc6", "#626975", "#e3e3dd", "#1e2228"
MISSING = "The charts of this report need matplotlib: pip install 'idisc[figures]'."
_VARIABLES = {ACCENT: "accent", QUIET: "quiet", SOFT: "soft", LINE: "line", INK: "ink"}
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "idisc",  # the same chart gives the same bytes
    "text.parse_math": False,
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.edgecolor": QUIET,
    "axes.xmargin": 0,
    "grid.color": LINE,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 7,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), SOFT),
}
_TOOLTIP = re.compile(r'<g id="([^"]* [^"]*)">')
_DROPPED = re.compile(
    r' id="[\w.]+_\d+"|<style.*?</style>|<metadata>.*?</metadata>| font-family:[^;]*;', re.DOTALL
)


def is_available() -> bool:
    """Return whether matplotlib is installed."""
    try:
        require("matplotlib", extra="figures")
    except MissingExtra:
        return False
    return True


def styled(parameters: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return a context with matplotlib's default style and some parameters, not the user's."""
    require("matplotlib", extra="figures")
    from matplotlib import style

    context: AbstractContextManager[None] = style.context(["default", dict(parameters)])
    return context


def draw(plot: Callable[[Any], None], label: str, size: tuple[int, int] = (480, 290)) -> Markup:
    """Return a chart as inline SVG; `plot` draws it into a matplotlib figure.

    `size` is (width, height) in points, `label` describes the chart to screen readers.
    """
    buffer = io.StringIO()
    with styled(_STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(size[0] / 72, size[1] / 72), layout="constrained")
        plot(figure)
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawing = buffer.getvalue().partition("<svg")[2].partition(">")[2].rpartition("</svg>")[0]
    drawing = _TOOLTIP.sub(r"<g><title>\1</title>", _DROPPED.sub("", drawing))
    for colour, variable in _VARIABLES.items():
        drawing = drawing.replace(colour, f"var(--{variable})")
    return fill("chart", width=size[0], height=size[1], label=label, drawing=Markup(drawing))


def bars(
    axes: Any,
    x: Sequence[float],
    heights: Sequence[float],
    width: float,
    tooltips: Sequence[str],
    colour: str = ACCENT,
) -> None:
    """Draw bars whose left edges are at `x`, each with a tooltip of several words."""
    drawn = axes.bar(x, heights, width, align="edge", color=colour, edgecolor="none")
    for bar, tooltip in zip(drawn, tooltips, strict=True):
        bar.set_gid(tooltip)
