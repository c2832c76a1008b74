"""The usage of IDRs over a dataset as one self-contained HTML page, in the style of the reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from idisc import charts, visualize
from idisc.charts import ACCENT, INK, QUIET
from idisc.errors import pluralize
from idisc.explain.usage import COLUMNS, DEAD, KINDS, MERGED, LevelUsage, Report, Usage
from idisc.html_parts import Markup, entries, fill, join, legend, section, table

_COLOURS = {"attention": ACCENT, "partition": QUIET}
_EXTREMES = 5  # pictures at each end of the last table


def page(report: Report, title: str, about: Mapping[str, str]) -> str:
    """Return the whole page; `about` says which network and which pictures."""
    return fill(
        "page",
        kind="usage of IDRs",
        title=title,
        lead=f"{next(iter(about.values()), '')} · {pluralize(len(report.names), 'picture')}",
        headline=join(_headline(level) for level in report.levels),
        overview=_overview(report.levels),
        method=fill("usage_method", merged=MERGED, dead=DEAD),
        charts=join(_shares(level) for level in report.levels),
        details=join(
            [_matrices(report.levels), _collapsed(report.levels), _extreme_pictures(report)]
        ),
        sources=entries(about),
    )


def _headline(level: LevelUsage) -> Markup:
    usage, pictures = level.total["attention"], level.pictures["attention"]
    return fill(
        "number",
        name=level.name,
        value=f"{usage.effective:.1f}",
        unit=f"of {len(usage.shares)}",
        range="effective IDRs",
        note=f"single pictures: {min(pictures):.1f} to {max(pictures):.1f}",
    )


def _overview(levels: Sequence[LevelUsage]) -> Markup:
    rows = [
        [fill("network", name=level.name, note=KINDS[kind]), *level.row(kind)]
        for level in levels
        for kind in level.total
    ]
    return section(
        "How many IDRs are used",
        "Computed from the maps of all pictures together; “per picture” is the mean of the"
        " effective numbers of single pictures. It is the smaller one if different scenes use"
        " different IDRs.",
        table(["maps", *COLUMNS], rows),
    )


def _shares(level: LevelUsage) -> Markup:
    text = f"Colour: {KINDS['attention']}; grey: {KINDS['partition']}. Dashed: equal shares."
    label = f"share of each IDR at {level.name}"
    drawing = charts.draw(partial(_plot_shares, level), label, (480, 180))
    return section(f"Shares at {level.name}", text, drawing)


def _plot_shares(level: LevelUsage, figure: Any) -> None:
    axes = figure.subplots()
    idrs = np.arange(len(level.total["attention"].shares))
    width = 0.8 / len(level.total)
    for place, (kind, usage) in enumerate(level.total.items()):
        shares = (100 * usage.shares).tolist()
        tooltips = [f"IDR {idr}, {KINDS[kind]}: {share:.2f} %" for idr, share in enumerate(shares)]
        left = idrs - 0.4 + place * width
        charts.bars(axes, left.tolist(), shares, width, tooltips, _COLOURS[kind])
    axes.axhline(100 / len(idrs), color=INK, linestyle="dashed", linewidth=1)
    axes.set(title="share, %", xlabel="IDR")
    axes.locator_params(axis="x", integer=True)


def _matrices(levels: Sequence[LevelUsage]) -> Markup:
    rows = [
        fill("pictures", pictures=join(_matrix(level, kind) for level in levels))
        for kind in levels[0].total
    ]
    text = "Cosine similarity of the maps of two IDRs; rows and columns are numbered by IDR."
    return section("Similarity of IDRs", text, join(rows))


def _matrix(level: LevelUsage, kind: Any) -> Markup:
    caption = f"level {level.index}, {KINDS[kind]}"
    drawing = charts.draw(
        partial(_plot_matrix, level.total[kind]), f"similarity of maps, {caption}", (280, 280)
    )
    scale = legend(visualize.SIMILARITY_COLOURS, "0", "1")
    return fill("figure", content=drawing, caption=caption, legend=scale)


def _plot_matrix(usage: Usage, figure: Any) -> None:
    axes = figure.subplots()
    axes.imshow(
        usage.similarity,
        cmap=visualize.SIMILARITY_COLOURS,
        vmin=0,
        vmax=1,
        interpolation="none",
    )
    axes.grid(visible=False)
    axes.locator_params(integer=True)


def _collapsed(levels: Sequence[LevelUsage]) -> Markup:
    rows = [
        [
            fill("network", name=f"level {level.index}", note=KINDS[kind]),
            _groups(usage) or "none",
            ", ".join(map(str, usage.dead)) or "none",
        ]
        for level in levels
        for kind, usage in level.total.items()
    ]
    return section(
        "Merged and dead IDRs",
        "Groups of IDRs with nearly the same map: those after the arrow are merged, directly or"
        " through others, with the one before it, which has the largest share and is not merged.",
        table(["maps", "merged", "dead"], rows, kind="words"),
    )


def _groups(usage: Usage) -> str:
    return "; ".join(
        f"{root}\u00a0← {', '.join(map(str, merged))}" for root, merged in usage.groups.items()
    )


def _extreme_pictures(report: Report) -> Markup:
    """Return the pictures with the fewest and the most effective IDRs, summed over the levels."""
    numbers = [level.pictures["attention"] for level in report.levels]
    order = np.argsort(np.sum(numbers, axis=0), kind="stable").tolist()
    if len(order) > 2 * _EXTREMES:
        order = [*order[:_EXTREMES], *order[-_EXTREMES:]]
    rows = [
        [report.names[index], *(f"{effective[index]:.2f}" for effective in numbers)]
        for index in order
    ]
    return section(
        "Pictures with the fewest and the most",
        f"Effective IDRs ({KINDS['attention']}).",
        table(["picture", *(f"level {level.index}" for level in report.levels)], rows),
    )
