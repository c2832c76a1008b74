"""The charts of a report as inline SVG, coloured by the page's own style.

Each bar carries its numbers as a title, which browsers show under the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from idisc.evaluate.calibration import Part
from idisc.evaluate.run import Bin
from idisc.visualize import ticks, written

_WIDTH, _HEIGHT = 480, 290  # of the drawing; the page stretches it to its column
_LEFT, _RIGHT = 46, 468
_TOP, _FLOOR = 26, 244  # of the bars
_SPLIT = 186  # floor of the upper bars, where there are two rows of them
_GAP = 1.0  # between bars


def by_distance(bins: Sequence[Bin]) -> str:
    """Bars of abs_rel over the distance of the ground truth; below them, the shares of pixels."""
    far = max(each.stop for each in bins)
    highest = max(each.abs_rel for each in bins) or 1.0
    most = max(each.pixels for each in bins)
    total = sum(each.pixels for each in bins)
    bars = []
    for each in bins:
        left, right = _x(each.start, 0, far), _x(each.stop, 0, far)
        story = (
            f"{each.start:g} to {each.stop:g} m: abs_rel {each.abs_rel:.3f}, mean |error|"
            f" {each.abs_error:.2f} m, bias {each.bias:+.2f} m, {each.pixels:,} pixels"
            f" ({each.pixels / total:.1%})"
        )
        error = _bar(left, right, _SPLIT, (_SPLIT - _TOP) * each.abs_rel / highest, "bar")
        count = _bar(left, right, _FLOOR, (_FLOOR - _SPLIT - 28) * each.pixels / most, "count")
        bars.append(_told(story, error + count))
    return _drawing(
        "abs_rel against the distance of the ground truth in metres, and shares of pixels",
        _rows(highest, _SPLIT),
        *bars,
        _line(_FLOOR, "axis"),
        _columns(0, far),
        _label(0, 12, "abs_rel"),
        _label(0, _SPLIT + 20, f"pixels, at most {most / total:.0%} in a bar"),
        _label((_LEFT + _RIGHT) / 2, _HEIGHT - 6, "distance of the ground truth, m", "middle"),
    )


def by_spread(parts: Sequence[Part]) -> str:
    """Bars of mean |error|, one for each part of the pixels from the least spread to the most.

    The number below a bar is the part's mean spread; a dashed line marks it on the scale of errors.
    """
    highest = max(max(each.abs_error, each.spread) for each in parts) or 1.0
    bars = []
    for number, each in enumerate(parts):
        left, right = _x(number, 0, len(parts)), _x(number + 1, 0, len(parts))
        story = (
            f"spread {each.spread:.3f} m: mean |error| {each.abs_error:.3f} m, abs_rel"
            f" {each.abs_rel:.3f}, {each.pixels:,} pixels"
        )
        level = _FLOOR - _height(each.spread, highest)
        bars.append(
            _told(story, _bar(left, right, _FLOOR, _height(each.abs_error, highest), "bar"))
            + f'<path class="mark" d="M{left + _GAP:.1f} {level:.1f}H{right - _GAP:.1f}"/>'
            + _label((left + right) / 2, _FLOOR + 18, f"{each.spread:.2g}", "middle")
        )
    return _drawing(
        "mean error in metres against the spread of the network's answers",
        _rows(highest, _FLOOR),
        *bars,
        _label(0, 12, "mean |error|, m; dashed: spread"),
        _label(
            (_LEFT + _RIGHT) / 2,
            _HEIGHT - 6,
            "mean spread of each part of the pixels, m",
            "middle",
        ),
    )


def histogram(values: Sequence[float], label: str) -> str:
    """How many pictures have which value, with the median marked; NaN is left out."""
    numbers = np.array([value for value in values if math.isfinite(value)])
    if not len(numbers):
        return ""
    edges = _edges(float(numbers.max()), min(24, max(4, round(math.sqrt(len(numbers))))))
    counts: list[int] = np.histogram(numbers, edges)[0].tolist()
    far, highest = edges[-1], max(counts)
    bars = [
        _told(
            f"{low:g} to {high:g}: {count:,} pictures",
            _bar(_x(low, 0, far), _x(high, 0, far), _FLOOR, _height(count, highest), "bar"),
        )
        for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True)
    ]
    median = float(np.median(numbers))
    x = _x(median, 0, far)
    side, shift = ("end", -6) if x > _WIDTH / 2 else ("", 6)
    return _drawing(
        f"how many pictures have which {label}; the median is {median:.3g}",
        _rows(highest, _FLOOR, whole=True),
        *bars,
        _columns(0, far),
        f'<path class="mark" d="M{x:.1f} 4V{_FLOOR}"/>',
        _label(x + shift, 14, f"median {median:.3g}", f"strong {side}"),
        _label(0, 12, "pictures"),
        _label((_LEFT + _RIGHT) / 2, _HEIGHT - 6, label, "middle"),
    )


def _edges(highest: float, count: int) -> list[float]:
    """About `count` round, evenly spaced steps from 0 to at least the highest value."""
    edges = ticks(0, highest or 1.0, count)
    step = edges[1]
    return edges if edges[-1] >= highest else [*edges, float(f"{edges[-1] + step:.12g}")]


def _drawing(title: str, *parts: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def _rows(highest: float, floor: float, whole: bool = False) -> str:
    """Lines across at round values from 0 to the highest, each with its number."""
    values = [v for v in ticks(0, highest, 4) if not whole or v == int(v)]
    heights = [floor - (floor - _TOP) * value / highest for value in values]
    return "".join(
        _line(y, "grid" if value else "axis") + _label(_LEFT - 8, y + 4, number, "end")
        for value, number, y in zip(values, written(values), heights, strict=True)
    )


def _columns(low: float, high: float) -> str:
    values = ticks(low, high, 7)
    return "".join(
        _label(_x(value, low, high), _FLOOR + 18, number, "middle")
        for value, number in zip(values, written(values), strict=True)
    )


def _x(value: float, low: float, high: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * (value - low) / (high - low)


def _height(value: float, highest: float) -> float:
    return (_FLOOR - _TOP) * value / highest


def _bar(left: float, right: float, floor: float, height: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{left + _GAP / 2:.1f}" y="{floor - height:.1f}"'
        f' width="{max(right - left - _GAP, 0.5):.1f}" height="{height:.1f}"/>'
    )


def _line(y: float, kind: str) -> str:
    return f'<path class="{kind}" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'


def _label(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _told(story: str, drawing: str) -> str:
    return f"<g><title>{escape(story)}</title>{drawing}</g>"
