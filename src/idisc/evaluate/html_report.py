"""An evaluation result as one self-contained HTML page, from the templates of `assets/report/`.

The charts need matplotlib (extra `figures`); without it, the page says so in their place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from idisc import charts, metrics, visualize
from idisc.charts import INK, QUIET
from idisc.evaluate import tables
from idisc.evaluate.calibration import MEANING, Part
from idisc.evaluate.distances import Bin
from idisc.evaluate.run import Result
from idisc.evaluate.scoring import Case
from idisc.evaluate.tables import TableRow
from idisc.html_parts import Markup, entries, fill, join, legend, picture_address, section, table
from idisc.tasks import Task
from idisc.visualize import DEPTH_COLOURS, ERROR_COLOURS, Picture

PICTURE_WIDTH = 640  # pixels at most: sharp at a quarter of the page, a few MB for all pictures
_DEVIATION = "Error by deviation of the levels"
_WIDE = 2.0  # aspect ratio above which there are two pictures in a row instead of four


def page(result: Result, record: Mapping[str, Any]) -> str:
    """Return the whole page; `record` is the JSON of the result, for hashes and versions."""
    source = next(iter(result.about.values()), "")  # the name of the network or of the files
    if result.model and result.model.non_commercial:
        source += " (not for commercial use)"
    lead = [source, tables.describe_pictures(result), f"protocol {result.protocol.name}"]
    return fill(
        "page",
        kind="evaluation",
        title=f"{result.spec.title}, {result.split}",
        lead=" · ".join(filter(None, lead)),
        headline=_headline(result),
        overview=join([_hint(result), _paper(result)]),
        method=f"{tables.describe_protocol(result)} {tables.describe_ratio(result)}",
        charts=_charts(result),
        details=join([_all_metrics(result), _worst(result)]),
        sources=_sources(result, record),
    )


def _headline(result: Result) -> Markup:
    return join(
        fill(
            "number",
            name=name,
            value=tables.format_value(name, result.totals[name]) or "n/a",
            unit=tables.MEANINGS[name].unit,
            range=f"95 %: {interval}" if (interval := _interval(result, name)) else "no interval",
            note=f"{_direction(name)} is better",
        )
        for name in tables.headline(result)
    )


def _hint(result: Result) -> Markup:
    if result.unit_hint is None:
        return Markup()
    return fill("note", text=f"Check the unit: {tables.describe_hint(result.unit_hint)}.")


def _paper(result: Result) -> Markup:
    columns, rows = tables.compare_with_paper(result)
    if len(rows) < 2:
        return Markup()
    clouds = [name for name in columns if metrics.compares_clouds(name)]
    others = [name for name in columns if name not in clouds]
    return section(
        "Comparison with the paper",
        "The numbers that the paper reports for its own networks. It does not state how it"
        " averages, and every protocol gives different numbers. Bold: the best of a column.",
        join(_paper_table(names, rows) for names in (others, clouds) if names),
    )


def _paper_table(columns: Sequence[str], rows: Sequence[TableRow]) -> Markup:
    """Return a table of some metrics, with the rows that have a number in it."""
    rows = [row for row in rows if any(name in row.numbers for name in columns)]
    head = [f"{name} {'↑' if tables.MEANINGS[name].higher else '↓'}" for name in columns]
    body: list[list[str]] = [[fill("network", name=row.name, note=row.note)] for row in rows]
    for name in columns:
        values = [row.numbers.get(name) for row in rows]
        best = tables.best_of(name, values)
        for index, value in enumerate(values):
            text = tables.format_value(name, value)
            body[index].append(fill("best", text=text) if index == best else text)
    return table(["network", *head], body, kind="paper")


def _all_metrics(result: Result) -> Markup:
    rows = [
        [
            name,
            tables.format_value(name, value),
            _interval(result, name),
            tables.MEANINGS[name].unit,
            _direction(name),
            tables.MEANINGS[name].text,
        ]
        for name, value in result.totals.items()
    ]
    head = ["metric", "value", "95 % interval", "unit", "better", "meaning"]
    return section(
        "All metrics",
        "Intervals come from resampling the pictures with replacement: they show how far a number"
        " would change with other pictures of the same kind.",
        table(head, rows, kind="metrics"),
    )


def _charts(result: Result) -> Markup:
    name = tables.ranking_metric(result)
    meaning, curve = tables.MEANINGS[name], result.calibration
    plots: dict[str, tuple[str, Any]] = {}
    if bins := result.by_distance:
        text = "Mean of |error| / depth over all pixels at that distance, and their number below."
        plots["Error by distance"] = text, partial(_plot_distances, bins)
    if curve:
        text = (
            f"{MEANING} Rank correlation over all pixels: {curve.rank_correlation:.2f};"
            f" mean |error| is {curve.error_per_std:.1f} times the mean deviation."
        )
        plots[_DEVIATION] = text, partial(_plot_deviations, curve.parts)
    values = np.array([row.numbers[name] for row in result.rows if row.numbers])
    values = values[np.isfinite(values)]
    if len(values):
        text = f"The number of pictures by {name} ({meaning.text})."
        label = f"{name}, {meaning.unit}" if meaning.unit else name
        plots["Picture by picture"] = text, partial(_plot_histogram, values, label)
    if charts.is_available():
        return join(
            section(title, text, charts.draw(plot, title)) for title, (text, plot) in plots.items()
        )
    note = fill("note", text=charts.MISSING)
    return join([section(_DEVIATION, plots[_DEVIATION][0]), note] if curve else [note])


def _plot_distances(bins: Sequence[Bin], figure: Any) -> None:
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    total = sum(bin_.pixels for bin_ in bins)
    tooltips = [
        f"{bin_.start:g} to {bin_.stop:g} m: abs_rel {bin_.abs_rel:.3f}, mean |error|"
        f" {bin_.abs_error:.2f} m, bias {bin_.bias:+.2f} m, {bin_.pixels:,} pixels"
        f" ({bin_.pixels / total:.1%})"
        for bin_ in bins
    ]
    step = bins[0].stop - bins[0].start  # the last bin may be wider
    x, width = [bin_.start for bin_ in bins], 0.96 * step
    charts.bars(upper, x, [bin_.abs_rel for bin_ in bins], width, tooltips)
    shares = [100 * bin_.pixels / total for bin_ in bins]
    charts.bars(lower, x, shares, width, tooltips, QUIET)
    upper.set(title="abs_rel", xlim=(bins[0].start, bins[-1].start + step))
    lower.set(title="pixels, %", xlabel="distance of the ground truth, m")


def _plot_deviations(parts: Sequence[Part], figure: Any) -> None:
    axes = figure.subplots()
    tooltips = [
        f"deviation {part.level_std:.3f} m: mean |error| {part.abs_error:.3f} m, abs_rel"
        f" {part.abs_rel:.3f}, {part.pixels:,} pixels"
        for part in parts
    ]
    places = np.arange(len(parts))
    charts.bars(axes, (places + 0.02).tolist(), [part.abs_error for part in parts], 0.96, tooltips)
    axes.hlines([part.level_std for part in parts], places, places + 1, INK, linestyles="dashed")
    axes.set_xticks(places + 0.5, [f"{part.level_std:.2g}" for part in parts])
    axes.set(title="mean |error|, m; dashed: deviation", xlabel="mean deviation of each tenth, m")


def _plot_histogram(values: metrics.Double, label: str, figure: Any) -> None:
    axes = figure.subplots()
    count = min(24, max(4, round(math.sqrt(len(values)))))
    edges = visualize.ticks(0, float(values.max()) or 1.0, count)
    if edges[-1] < values.max():
        edges.append(float(f"{edges[-1] + edges[1]:.12g}"))
    counts = np.histogram(values, edges)[0].tolist()
    tooltips = [
        f"{low:g} to {high:g}: {count:,} pictures"
        for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True)
    ]
    charts.bars(axes, edges[:-1], counts, 0.96 * edges[1], tooltips)
    median = float(np.median(values))
    axes.axvline(median, color=INK, linestyle="dashed", linewidth=1)
    axes.set(title="pictures", xlabel=label, xlim=(0, edges[-1]))
    axes.set_title(f"median {median:.3g}", loc="right", color=INK)
    axes.locator_params(axis="y", integer=True)


def _worst(result: Result) -> Markup:
    cases = [case for case in result.worst if case.row.numbers]
    if not cases:
        return Markup()
    name = tables.ranking_metric(result)
    task = result.spec.task
    targets = [case.sample.target for case in result.worst]
    limit = task.error_limit(result.spec.domain, *targets)
    text = (
        f"By {name}, the worst first. The colours of errors end at {_error_text(limit, task)};"
        " larger errors have the same red. Grey: no ground truth, or not counted by the protocol."
    )
    if task.metric:
        text += (
            " Depth colours cover the middle 96 % of the ground truth of each picture, pale is"
            " near; sparse points are drawn thicker than they are."
        )
    return section("Worst pictures", text, join(_case(case, name, limit) for case in cases))


def _case(case: Case, name: str, limit: float) -> Markup:
    names = dict.fromkeys((name, "rmse", "d1", "silog", "median_deg", "a11.5"))
    numbers = [
        f"{metric} {tables.format_value(metric, case.row.numbers[metric], unit=True)}"
        for metric in names
        if metric in case.row.numbers
    ]
    height, width = case.sample.image.shape[:2]
    return fill(
        "case",
        name=case.row.name,
        numbers=" · ".join([*numbers, f"{case.row.pixels:,} pixels"]),
        shape="wide" if width > _WIDE * height else "",
        pictures=_pictures(case, limit),
    )


def _pictures(case: Case, limit: float) -> Markup:
    """Return photo, ground truth, prediction and error with their legends."""
    target, prediction, name = case.sample.target, case.prediction, case.row.name
    photo = Image.fromarray(case.sample.image)
    photo.thumbnail((PICTURE_WIDTH, PICTURE_WIDTH))
    task, scale = case.sample.task, Markup()
    limits = task.colour_limits(target) if task.colour_limits else None
    if limits:
        scale = legend(DEPTH_COLOURS, *(f"{limit:.2g} {task.unit}" for limit in limits))
    error = task.draw_error(prediction, target, case.valid, limit, PICTURE_WIDTH)
    ends = "0", f"≥ {_error_text(limit, task)}"
    return join(
        [
            _picture(np.asarray(photo), "Picture", name),
            _picture(task.draw(target, limits, PICTURE_WIDTH), "Ground truth", name, scale),
            _picture(task.draw(prediction, limits, PICTURE_WIDTH), "Prediction", name, scale),
            _picture(error, "Error", name, legend(ERROR_COLOURS, *ends)),
        ]
    )


def _error_text(error: float, task: Task) -> str:
    return f"{error:g}°" if task.error_unit == "deg" else f"{error:g} {task.error_unit}"


def _picture(picture: Picture, caption: str, name: str, scale: str = Markup()) -> Markup:
    # Without colour subsampling, because readers compare single pixels of sparse maps with the
    # legend. Not optimised, because Pillow then underestimates the size of noisy files and fails.
    source = picture_address(Image.fromarray(picture), "JPEG", quality=85, subsampling=0)
    height, width = picture.shape[:2]
    image = fill("image", source=source, width=width, height=height, caption=caption, name=name)
    return fill("figure", content=image, caption=caption, legend=scale)


def _sources(result: Result, record: Mapping[str, Any]) -> Markup:
    bootstrap = record["bootstrap"]
    measured = {
        "protocol": result.protocol.name,
        "intervals": f"95 %, {bootstrap['resamples']} resamples, seed {bootstrap['seed']}",
        "versions": " · ".join(f"{name} {text}" for name, text in record["versions"].items()),
    }
    groups = {**tables.describe_sources(result), "Evaluation": measured}
    return join(
        fill("group", title=title, content=entries(values)) for title, values in groups.items()
    )


def _interval(result: Result, name: str) -> str:
    if name not in result.intervals:
        return ""
    low, high = (tables.format_value(name, end) for end in result.intervals[name])
    return f"{low} to {high}"


def _direction(name: str) -> str:
    return "higher" if tables.MEANINGS[name].higher else "lower"
