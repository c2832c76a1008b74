"""A result as one HTML page: it opens offline, on a phone, in the dark and on paper.

The page's frame and style are `assets/report.html`; here are its parts. Nothing is loaded from
elsewhere: pictures are inside as JPEG, charts are SVG. All text from outside goes through `escape`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from PIL import Image

from idisc import html_parts, metrics, visualize
from idisc.evaluate import svg_charts, tables
from idisc.evaluate.calibration import MEANING
from idisc.evaluate.run import Case, Result
from idisc.evaluate.tables import TableRow
from idisc.visualize import DEPTH_COLOURS, ERROR_COLOURS, Picture

PICTURE_WIDTH = 640  # pixels, at most: sharp at a quarter of a page, a few MB in all
_WIDE = 2.0  # width over height from which pictures stand two in a row instead of four


def page(result: Result, record: Mapping[str, Any]) -> str:
    """The whole page; `record` is the result's JSON, for hashes and versions."""
    return html_parts.report(
        kind="evaluation",
        title=escape(f"{result.spec.title}, {result.split}"),
        lead=_lead(result),
        headline=_headline(result),
        beside=_beside_paper(result),
        measured=escape(tables.measured(result)),
        charts=_charts(result),
        metrics=_all_metrics(result),
        cases=_cases(result),
        sources=_sources(result, record),
        gradients=html_parts.gradient("depth", DEPTH_COLOURS)
        + html_parts.gradient("error", ERROR_COLOURS),
    )


def _lead(result: Result) -> str:
    """What was measured; the first entry of `about` names what made the predictions."""
    maker = next(iter(result.about.values()), "")
    parts = [maker] if maker else []
    parts += [tables.scored(result), f"protocol {result.protocol.name}"]
    return escape(" · ".join(parts))


def _headline(result: Result) -> str:
    return "".join(
        f"<div><dt>{escape(name)}</dt>"
        f'<dd class="value">{tables.text(name, result.totals[name]) or "&ndash;"}'
        f'<span class="unit">{escape(tables.MEANINGS[name].unit)}</span></dd>'
        f'<dd class="small">{_interval(result, name) or "no interval"}</dd>'
        f'<dd class="small">{_direction(name)} is better</dd></div>'
        for name in tables.headline(result)
    )


def _beside_paper(result: Result) -> str:
    columns, rows = tables.rows_beside_paper(result)
    if len(rows) < 2:
        return ""
    clouds = [place for place, name in enumerate(columns) if metrics.is_of_clouds(name)]
    others = [place for place in range(len(columns)) if place not in clouds]
    return html_parts.section(
        "Beside the paper",
        "The paper's own networks, as it reports them. It does not state its averaging; a protocol"
        " other than its own gives other numbers. Bold: the best of a column.",
        "".join(_table_of(places, columns, rows) for places in (others, clouds) if places),
    )


def _table_of(places: Sequence[int], columns: Sequence[str], rows: Sequence[TableRow]) -> str:
    """Some of the columns, and the rows that have a number in them."""
    columns = [columns[place] for place in places]
    rows = [row._replace(values=tuple(row.values[place] for place in places)) for row in rows]
    rows = [row for row in rows if any(value is not None for value in row.values)]
    best = [
        tables.best_of(column, [row.values[place] for row in rows])
        for place, column in enumerate(columns)
    ]
    head = "".join(f'<th scope="col">{escape(column)} {_arrow(column)}</th>' for column in columns)
    body = "".join(_network(row, columns, best, number) for number, row in enumerate(rows))
    return html_parts.table(f'<th scope="col">network</th>{head}', body)


def _network(row: TableRow, columns: Sequence[str], best: Sequence[int | None], number: int) -> str:
    note = f"<small>{escape(row.note)}</small>" if row.note else ""
    cells = "".join(
        f"<td{' class=best' if winner == number else ''}>{tables.text(column, value)}</td>"
        for column, value, winner in zip(columns, row.values, best, strict=True)
    )
    ours = "" if number else ' class="ours"'
    return f'<tr{ours}><th scope="row">{escape(row.name)}{note}</th>{cells}</tr>'


def _all_metrics(result: Result) -> str:
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{tables.text(name, value)}</td>'
        f"<td>{_interval(result, name, bare=True)}</td>"
        f"<td>{escape(tables.MEANINGS[name].unit)}</td>"
        f'<td class="words">{_direction(name)}</td>'
        f'<td class="words">{escape(tables.MEANINGS[name].text)}</td></tr>'
        for name, value in result.totals.items()
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("metric", "value", "95 % interval"))
    head += '<th scope="col">unit</th><th scope="col" class="words">better</th>'
    head += '<th scope="col" class="words">meaning</th>'
    return html_parts.section(
        "All metrics",
        "Intervals by drawing the pictures anew, with replacement: how far a number would move"
        " with other pictures of the same kind.",
        html_parts.table(head, body),
    )


def _charts(result: Result) -> str:
    name = tables.ranking_metric(result)
    values = [row.numbers[name] for row in result.rows if row.numbers]
    meaning = tables.MEANINGS[name]
    charts = ""
    if result.by_distance:
        charts += html_parts.section(
            "Error against distance",
            "Mean of |error| / depth over all pixels at that distance; below, how many there are.",
            svg_charts.by_distance(result.by_distance),
        )
    if result.calibration:
        found = result.calibration
        charts += html_parts.section(
            "Error against spread",
            f"{escape(MEANING)} Rank correlation over all pixels: {found.rank_correlation:.2f};"
            f" mean |error| is {found.error_per_spread:.1f} times the mean spread.",
            svg_charts.by_spread(found.parts),
        )
    label = f"{name}, {meaning.unit}" if meaning.unit else name
    return charts + html_parts.section(
        "Picture by picture",
        f"How many pictures have which {escape(name)} ({escape(meaning.text)}).",
        svg_charts.histogram(values, label),
    )


def _cases(result: Result) -> str:
    if not result.worst:
        return ""
    name = tables.ranking_metric(result)
    normals = result.spec.task == "normals"
    limit = visualize.ERROR_LIMIT_DEG if normals else _limit_m(result)
    unit = "°" if normals else "\u00a0m"
    text = (
        f"By {escape(name)}, the worst first. Error colours stop at {limit:g}{unit}: what is worse"
        " has the same red. Grey: no ground truth, or not counted by the protocol."
    )
    if not normals:
        text += (
            " Depth colours run over the middle 96 % of each picture's ground truth, pale is near;"
            " sparse points are drawn thicker than they are."
        )
    cases = "".join(_case(case, name, limit) for case in result.worst if case.row.numbers)
    return html_parts.section("Worst pictures", text, cases)


def _case(case: Case, name: str, limit: float) -> str:
    shown = dict.fromkeys((name, "rmse", "d1", "silog", "median_deg", "a11.5"))
    numbers = " · ".join(
        f"<span>{escape(metric)} {tables.text(metric, case.row.numbers[metric], unit=True)}</span>"
        for metric in shown
        if metric in case.row.numbers
    )
    height, width = case.sample.image.shape[:2]
    wide = " wide" if width > _WIDE * height else ""
    pictures = _normals(case, limit) if case.sample.target.ndim == 3 else _depths(case, limit)
    photo = _figure(_photo(case.sample.image), "Picture", case.row.name)
    return (
        f"<article><h3>{escape(case.row.name)}</h3>"
        f'<p class="note">{numbers} · <span>{case.row.pixels:,} pixels</span></p>'
        f'<div class="pictures{wide}">{photo}{pictures}</div></article>'
    )


def _depths(case: Case, limit_m: float) -> str:
    target, prediction, name = case.sample.target, case.prediction, case.row.name
    low, high = visualize.depth_limits(target)
    scale = html_parts.legend("depth", f"{low:.2g} m", f"{high:.2g} m")
    truth, ours = (
        visualize.depth_picture(depth, low, high, width=PICTURE_WIDTH)
        for depth in (target, prediction)
    )
    error = visualize.error_picture(prediction, target, case.valid, limit_m, PICTURE_WIDTH)
    return (
        _figure(truth, "Ground truth", name, scale)
        + _figure(ours, "Prediction", name, scale)
        + _figure(error, "Error", name, html_parts.legend("error", "0", f"≥ {limit_m:g} m"))
    )


def _normals(case: Case, limit_deg: float) -> str:
    target, prediction, name = case.sample.target, case.prediction, case.row.name
    error = visualize.angle_picture(prediction, target, case.valid, limit_deg, PICTURE_WIDTH)
    return (
        _figure(visualize.normals_picture(target, PICTURE_WIDTH), "Ground truth", name)
        + _figure(visualize.normals_picture(prediction, PICTURE_WIDTH), "Prediction", name)
        + _figure(error, "Error", name, html_parts.legend("error", "0°", f"≥ {limit_deg:g}°"))
    )


def _limit_m(result: Result) -> float:
    targets = [case.sample.target for case in result.worst]
    return visualize.error_limit_m(result.spec.domain, *targets)


def _photo(image: Picture) -> Picture:
    picture = Image.fromarray(image)
    picture.thumbnail((PICTURE_WIDTH, PICTURE_WIDTH))
    return np.asarray(picture)


def _figure(picture: Picture, caption: str, name: str, legend: str = "") -> str:
    # No colour subsampling: a legend is read against single pixels of a sparse map
    # Not optimised: Pillow then guesses the size, too small for noise, and fails.
    source = html_parts.picture_address(Image.fromarray(picture), "JPEG", quality=85, subsampling=0)
    height, width = picture.shape[:2]
    return (
        f'<figure><img src="{source}" width="{width}" height="{height}"'
        f' alt="{escape(caption)} of {escape(name)}">'
        f"<figcaption>{escape(caption)}{legend}</figcaption></figure>"
    )


def _sources(result: Result, record: Mapping[str, Any]) -> str:
    versions = " · ".join(f"{name} {version}" for name, version in record["versions"].items())
    bootstrap = record["bootstrap"]
    entries = {
        **result.about,
        "dataset": f"{result.spec.title} ({result.spec.name}), split {result.split}",
        "manifest SHA-256": result.manifest_sha256 or "none",
        "licence": result.spec.licence,
        "protocol": result.protocol.name,
        "intervals": f"95 %, {bootstrap['resamples']} resamples, seed {bootstrap['seed']}",
        "versions": versions,
    }
    return html_parts.entries(entries)


def _interval(result: Result, name: str, bare: bool = False) -> str:
    if name not in result.intervals:
        return ""
    low, high = (tables.text(name, end) for end in result.intervals[name])
    return f"{low} to {high}" if bare else f"95 %: {low} to {high}"


def _direction(name: str) -> str:
    return "higher" if tables.MEANINGS[name].higher else "lower"


def _arrow(name: str) -> str:
    arrow = "↑" if tables.MEANINGS[name].higher else "↓"
    return f'<span title="{_direction(name)} is better">{arrow}</span>'
