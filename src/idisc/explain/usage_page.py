"""The usage of IDRs over a dataset as one HTML page, in the frame and style of all reports.

It opens offline, on a phone, in the dark and on paper: pictures are inside as PNG, charts are SVG.
All text from outside goes through `escape`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from PIL import Image

from idisc import html_parts, visualize
from idisc.errors import counted
from idisc.explain.usage import (
    COLUMNS,
    IDLE,
    KINDS,
    MERGED,
    LevelUsage,
    Report,
    Usage,
    numbered_idrs,
)

_MATRIX, _AXIS = 256, 24  # of a matrix and of the numbers at its edges
_WIDTH, _LEFT, _FLOOR, _TOP = 480, 40, 150, 16  # of a chart


def page(report: Report, title: str, about: Mapping[str, str]) -> str:
    """The whole page; `about` says which network and which pictures."""
    return html_parts.report(
        kind="usage of IDRs",
        title=escape(title),
        lead=escape(f"{next(iter(about.values()), '')} · {counted(len(report.names), 'picture')}"),
        headline="".join(_headline(level) for level in report.levels),
        beside=_table(report.levels),
        measured=_METHOD,
        charts="".join(_chart(level) for level in report.levels),
        metrics=_matrices(report.levels),
        cases=_collapsed(report.levels) + _extremes(report),
        sources=html_parts.entries(about),
        gradients=html_parts.gradient("likeness", visualize.LIKENESS_COLOURS),
    )


_METHOD = (
    "The maps of an IDR say how much of it each pixel reads (ISD, first layer) or gives to it (AFP,"
    " last round); at each pixel they sum to 1. <em>In effect</em> is the Vendi score of the maps:"
    " exp of the entropy of the eigenvalues of √p<sub>i</sub> S<sub>ij</sub> √p<sub>j</sub>, with"
    " the shares p and the cosines S of the maps. N different IDRs of equal share give N; N that"
    " are in the same places give 1; one that nobody reads does not count. <em>Used</em> is exp of"
    " the entropy of the shares alone. An IDR is <em>merged</em> if a stronger one's map has a"
    f" cosine of {MERGED:g} or more with its own, <em>idle</em> below {IDLE:g} of an even share."
)


def _headline(level: LevelUsage) -> str:
    usage, each = level.total["attention"], level.pictures["attention"]
    return (
        f"<div><dt>{level.name}</dt>"
        f'<dd class="value">{usage.effective:.1f}<span class="unit">of {len(usage.shares)}</span>'
        f'</dd><dd class="small">IDRs in effect</dd>'
        f'<dd class="small">single pictures: {min(each):.1f} to {max(each):.1f}</dd></div>'
    )


def _table(levels: Sequence[LevelUsage]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    body = "".join(
        f'<tr><th scope="row">{level.name}<small>{KINDS[kind]}</small></th>'
        + "".join(f"<td>{value}</td>" for value in level.row(kind))
        + "</tr>"
        for level in levels
        for kind in level.total
    )
    return html_parts.section(
        "How many IDRs count",
        "Over the maps of all pictures side by side; <em>in a picture</em> is the mean of the"
        " effective numbers of single pictures. IDRs that differ from scene to scene make the"
        " first larger than the second.",
        html_parts.table(f'<th scope="col">maps</th>{head}', body),
    )


def _chart(level: LevelUsage) -> str:
    """Shares of all IDRs as bars: what is read beside what is dealt out."""
    usages = level.total
    count = len(usages["attention"].shares)
    most = max(float(usage.shares.max()) for usage in usages.values())
    step, numbered = (_WIDTH - _LEFT) / count, numbered_idrs(count)
    wide = step * 0.8 / len(usages)
    bars = ""
    for idr in range(count):
        told, drawn = [f"IDR {idr}"], ""
        for place, (kind, usage) in enumerate(usages.items()):
            share = float(usage.shares[idr])
            high = (_FLOOR - _TOP) * share / most
            x = _LEFT + idr * step + place * wide
            style = "bar" if kind == "attention" else "count"
            drawn += (
                f'<rect class="{style}" x="{x:.1f}" y="{_FLOOR - high:.1f}"'
                f' width="{wide:.1f}" height="{high:.1f}"/>'
            )
            told.append(f"{KINDS[kind]} {share:.2%}")
        bars += f"<g><title>{': '.join([told[0], ', '.join(told[1:])])}</title>{drawn}</g>"
        if idr in numbered:
            middle = _LEFT + (idr + 0.4) * step
            bars += f'<text class="middle" x="{middle:.1f}" y="{_FLOOR + 16}">{idr}</text>'
    rows = "".join(
        f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH}"/>'
        f'<text class="end" x="{_LEFT - 6}" y="{y + 4:.1f}">{100 * value:g} %</text>'
        for value in visualize.ticks(0, most, 3)
        for y in [_FLOOR - (_FLOOR - _TOP) * value / most]
    )
    even = _FLOOR - (_FLOOR - _TOP) / count / most
    label = f"share of each IDR at level {level.index}"
    chart = (
        f'<svg viewBox="0 0 {_WIDTH} {_FLOOR + 24}" role="img" aria-label="{label}">'
        f'{rows}{bars}<path class="mark" d="M{_LEFT} {even:.1f}H{_WIDTH}"/></svg>'
    )
    text = f"Colour: {KINDS['attention']}; grey: {KINDS['partition']}. Dashed: even shares."
    return html_parts.section(f"Shares at {level.name}", text, chart)


def _matrices(levels: Sequence[LevelUsage]) -> str:
    rows = ""
    for kind in levels[0].total:
        figures = (
            _matrix(each.total[kind], f"level {each.index}, {KINDS[kind]}") for each in levels
        )
        rows += f'<div class="pictures">{"".join(figures)}</div>'
    return html_parts.section(
        "Which IDRs are alike",
        "Cosine of the maps of two IDRs, dark 0, bright 1; the numbers are those of IDRs.",
        rows,
    )


def _matrix(usage: Usage, caption: str) -> str:
    cells = visualize.colourise(usage.likeness, 0.0, 1.0, visualize.LIKENESS_COLOURS)
    source = html_parts.picture_address(Image.fromarray(cells), "PNG", optimize=True)
    legend = html_parts.legend("likeness", "0", "1")
    return (
        f'<figure><svg class="matrix" viewBox="{-_AXIS} 0 {_MATRIX + _AXIS} {_MATRIX + _AXIS}"'
        f' role="img" aria-label="likeness of maps, {caption}">'
        f'<image href="{source}" width="{_MATRIX}" height="{_MATRIX}"/>'
        f"{_axis(len(usage.shares))}</svg><figcaption>{caption}{legend}</figcaption></figure>"
    )


def _axis(count: int) -> str:
    """Numbers of some IDRs left of and below a matrix of N."""
    places = {idr: (idr + 0.5) * _MATRIX / count for idr in numbered_idrs(count)}
    return "".join(
        f'<text class="end" x="-4" y="{place:.1f}" dy="0.35em">{idr}</text>'
        f'<text class="middle" x="{place:.1f}" y="{_MATRIX + 15}">{idr}</text>'
        for idr, place in places.items()
    )


def _collapsed(levels: Sequence[LevelUsage]) -> str:
    rows = "".join(
        f'<tr><th scope="row">level {level.index}<small>{KINDS[kind]}</small></th>'
        f'<td class="words wraps">{_merged_text(usage)}</td>'
        f'<td class="words wraps">{", ".join(map(str, usage.idle)) or "none"}</td></tr>'
        for level in levels
        for kind, usage in level.total.items()
    )
    head = (
        '<th scope="col">maps</th>'
        '<th scope="col" class="words wraps">merged onto a stronger one</th>'
        '<th scope="col" class="words">idle</th>'
    )
    return html_parts.section(
        "What has collapsed",
        "Groups of IDRs whose maps are nearly the same: behind the arrow those merged onto the one"
        " before it, directly or by way of another; it is the strongest and not merged itself.",
        html_parts.table(head, rows),
    )


def _merged_text(usage: Usage) -> str:
    parts = [f"{root}\u00a0← {', '.join(map(str, idrs))}" for root, idrs in usage.groups.items()]
    return "; ".join(parts) or "none"


def _extremes(report: Report) -> str:
    """Pictures that take the fewest and the most IDRs, summed over the levels."""
    totals = np.sum([level.pictures["attention"] for level in report.levels], axis=0)
    order = np.argsort(totals, kind="stable").tolist()
    chosen = order if len(order) <= 10 else [*order[:5], *order[-5:]]
    head = "".join(f'<th scope="col">level {level.index}</th>' for level in report.levels)
    body = "".join(
        f'<tr><th scope="row">{escape(report.names[place])}</th>'
        + "".join(f"<td>{lev.pictures['attention'][place]:.2f}</td>" for lev in report.levels)
        + "</tr>"
        for place in chosen
    )
    return html_parts.section(
        "Pictures with the fewest and the most",
        f"IDRs in effect, {KINDS['attention']}.",
        html_parts.table(f'<th scope="col">picture</th>{head}', body),
    )
