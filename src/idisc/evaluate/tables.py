"""Results as text: comparison with the paper, units, digits, protocol, hints, origin and terms.

The numbers of the paper are in `paper`; this module decides which of them belong to a result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from idisc import metrics
from idisc.ancestry import UNKNOWN
from idisc.configs import paper, recipes
from idisc.errors import pluralize
from idisc.evaluate.calibration import Calibration
from idisc.evaluate.protocols import PROTOCOLS
from idisc.evaluate.run import Result
from idisc.evaluate.units import UnitHint
from idisc.provenance import ModelInfo
from idisc.provenance_text import describe_data, describe_parent

_RESCALED = {
    "none": "not rescaled",
    "median": "multiplied so that each picture's median is that of its ground truth",
    "mean": "multiplied so that each picture's mean is that of its ground truth",
    "inverse": "aligned to the ground truth of each picture by scale and shift of 1 / depth (least"
    " squares)",
}
_AVERAGED = {
    "image": "Each metric is taken of each picture, then averaged over the pictures.",
    "pixel": "Each metric is taken over all pixels of all pictures at once.",
    "batch": "Shares and relative errors are pooled over the pixels of {size} pictures at a time,"
    " roots and deviations are taken by picture: these numbers depend on the batch size, here N ="
    " {size}, and change with it.",
}

_HINTS = {
    "unit": "predictions look like {unit}, but were read with {used:.6g} m per unit; try --scale"
    " {scale:.8g}",
    "inverse_depth": "predictions look like inverse depth or disparity (rank correlation with the"
    " depth {correlation:.2f}); convert them to metres, or pass other files",
    "ratio": "predictions and ground truth differ by more than any network errs; check the unit"
    " of both: --scale for predictions, idisc doctor for ground truth",
}


class Meaning(NamedTuple):
    """The meaning of a metric."""

    text: str
    unit: str = ""
    higher: bool = False  # higher is better
    digits: int = 3  # decimal places


class TableRow(NamedTuple):
    """The numbers of one network by metric."""

    name: str
    note: str
    numbers: Mapping[str, float]


MEANINGS: dict[str, Meaning] = {
    **{
        name: Meaning(f"pixels within a factor {bound:.3g} of the truth", higher=True)
        for name, bound in metrics.RATIOS.items()
    },
    "abs_rel": Meaning("mean of |error| / depth"),
    "sq_rel": Meaning("mean of error² / depth", "m"),
    "rmse": Meaning("root mean square error", "m"),
    "rmse_log": Meaning("root mean square error of log depth"),
    "log10": Meaning("mean of |log10 depth ratio|"),
    "silog": Meaning("100 times the standard deviation of the log error, free of scale", digits=2),
    "sq_rel_percent": Meaning("mean of (error / depth)²", "%", digits=2),
    "abs_rel_percent": Meaning("mean of |error| / depth", "%", digits=2),
    "irmse": Meaning("root mean square error of inverse depth", "1/km", digits=2),
    **{
        f"a{angle:g}": Meaning(f"normals less than {angle:g}° off", higher=True)
        for angle in metrics.ANGLES_DEG
    },
    "mean_deg": Meaning("mean angular error", "°", digits=1),
    "rmse_deg": Meaning("root mean square angular error", "°", digits=1),
    "median_deg": Meaning("median angular error", "°", digits=1),
    **{
        f"f1_{distance:g}": Meaning(f"F1 of points nearer than {distance:g} m", higher=True)
        for distance in metrics.CLOUD_DISTANCES
    },
    "chamfer": Meaning("chamfer distance of the point clouds", "m"),
    "boundary_f1": Meaning("F1 of depth edges", higher=True),
}


def format_value(name: str, value: float | None, unit: bool = False) -> str:
    """Return the value of a metric with sensible digits; empty for None, NaN and infinity."""
    if value is None or not math.isfinite(value):
        return ""
    meaning = MEANINGS[name]
    digits = min(meaning.digits, 2) if abs(value) >= 10 else meaning.digits
    space = " " if meaning.unit not in ("", "°") else ""
    return f"{value:.{digits}f}" + (space + meaning.unit if unit else "")


def describe_pictures(result: Result) -> str:
    """Return how many pictures were scored, compared with the paper, and what was left out."""
    count, counts = len(result.rows), result.spec.counts
    stated = counts.train if result.split == "train" else counts.test
    pictures = pluralize(count - result.skipped, "picture")
    if stated is not None and count < stated:
        pictures = f"{count - result.skipped:,} of the {stated:,} pictures"
    elif stated is not None and count > stated:
        pictures += f" (the paper: {stated:,})"
    parts = [pictures]
    if faults := result.prepared.get("faults"):
        parts.append(f"preparation incomplete, {pluralize(faults, 'fault')}")
    if result.skipped:
        parts.append(f"{result.skipped:,} without a valid pixel left out")
    if result.holes:
        share = f"{result.holes:.1%}" if result.holes >= 0.0005 else "less than 0.1%"
        parts.append(f"holes skipped: {share} of the valid pixels not scored")
    return ", ".join(parts)


def headline(result: Result) -> tuple[str, ...]:
    """Return the names of the metrics to show first."""
    benchmark = result.protocol.numbers == "kitti_benchmark"
    names = metrics.KITTI_BENCHMARK if benchmark else result.spec.task.headlines
    return tuple(name for name in names if name in result.totals)


def ranking_metric(result: Result) -> str:
    """Return the metric by which pictures are ranked; lower is better."""
    return next(name for name in result.spec.task.ranking if name in result.totals)


def compare_with_paper(result: Result) -> tuple[tuple[str, ...], list[TableRow]]:
    """Return the metrics of the paper for that dataset, and rows of this result and its networks.

    If the paper has no numbers for the dataset, there is one row, and the columns are all metrics.
    """
    published = _published(result)
    # Networks that were trained on the dataset report most metrics; zero-shot ones may add some.
    ordered = sorted(published, key=lambda name: _zero_shot(name) is not None)
    columns = tuple(dict.fromkeys(metric for name in ordered for metric in published[name]))
    rows = [TableRow(name, _note(name, result), numbers) for name, numbers in published.items()]
    ours = TableRow("this result", "", result.totals)
    return columns or tuple(result.totals), [ours, *rows]


def best_of(column: str, values: list[float | None]) -> int | None:
    """Return the index of the best value of a column; None if there are not two to compare."""
    known = [
        (value, index)
        for index, value in enumerate(values)
        if value is not None and math.isfinite(value)
    ]
    if len(known) < 2:
        return None
    return (max if MEANINGS[column].higher else min)(known)[1]


def _published(result: Result) -> dict[str, Mapping[str, float]]:
    """Return the numbers of the paper for the dataset by recipe.

    There are none if the protocol aligns predictions to the ground truth and the paper does not.
    """
    dataset, rescaled = result.spec.published_as, result.protocol.rescale_of(result.spec)
    if rescaled not in ("none", PROTOCOLS["paper"].rescale_of(result.spec)):
        return {}
    devkit = result.protocol.numbers == "kitti_benchmark"
    table = paper.KITTI_BENCHMARK if devkit else paper.RESULTS
    clouds = paper.CLOUDS if "chamfer" in result.totals else {}
    return {
        name: {**numbers, **clouds.get(name, {})}
        for name, numbers in table.items()
        if recipes.RECIPES[name].data.test == dataset
    }


def _zero_shot(name: str) -> str | None:
    """Return the training dataset of a network if it differs from the test dataset."""
    data = recipes.RECIPES[name].data
    return data.train if data.train != data.test else None


def _note(name: str, result: Result) -> str:
    recipe = recipes.RECIPES[name]
    notes = [recipe.model.encoder]
    if trained := _zero_shot(name):
        notes.append(f"trained on {trained}")
    if result.protocol.numbers == "kitti_benchmark":
        notes.append("online test set")
    return ", ".join(notes)


def describe_protocol(result: Result) -> str:
    """Return the protocol in sentences: scored pixels, changes of predictions, averaging."""
    protocol, spec = result.protocol, result.spec
    parts = [f"Protocol {protocol.name}, after {protocol.source}."]
    where = "everywhere in the picture"
    if (window := protocol.window_of(spec)) != "none":
        authors = {"garg": "of Garg et al.", "eigen": "of Eigen et al."}
        which = authors.get(window, "that is customary for this dataset")
        frame = "full frame" if window == "full_frame" else "picture as the network sees it"
        where = f"inside the window {which}, counted on the {frame}"
    if not spec.task.metric:
        parts.append(f"Every pixel with ground truth counts, {where}.")
    else:
        low, cap = protocol.min_depth_of(spec), protocol.cap_of(spec)
        bound = f"less than {cap:g} m" if cap is not None else "no upper bound"
        parts.append(f"Ground truth of more than {low:g} m and {bound} counts, {where}.")
        clamped = "clamped to that range" if protocol.clamp else "not clamped"
        parts.append(f"Predictions are {clamped}; they are {_RESCALED[protocol.rescale_of(spec)]}.")
    parts.append(_AVERAGED[protocol.averaging].format(size=protocol.batch_size_of(spec)))
    return " ".join(parts)


def describe_ratio(result: Result) -> str:
    """Return the ratio of predictions to ground truth as a sentence; empty if it is unknown."""
    if result.median_ratio is None:
        return ""
    return (
        f"Predictions are {result.median_ratio:.3g} times the ground truth before any rescaling"
        " (median over the pixels of each picture, then over the pictures)."
    )


def describe_calibration(curve: Calibration) -> str:
    """Return how the error grows with the standard deviation of levels."""
    first, last = curve.parts[0], curve.parts[-1]
    return (
        f"Standard deviation of levels: rank correlation with |error| {curve.rank_correlation:.2f};"
        f" mean |error| {first.abs_error:.3f} m at the smallest deviation"
        f" ({first.level_std:.3f} m), {last.abs_error:.3f} m at the largest"
        f" ({last.level_std:.3f} m). No error bound."
    )


def describe_hint(hint: UnitHint) -> str:
    """Return a hint about the unit of predictions as a sentence with its remedy."""
    return _HINTS[hint.code].format(**hint.details)


def describe_sources(result: Result) -> dict[str, dict[str, str]]:
    """Return the origin and the terms of the predictions, then of the dataset, as name -> text."""
    predictions = {"Predictions": dict(result.about)} if result.about else {}
    if result.model:
        predictions = {"Model": _describe_model(result.model)}
    spec = result.spec
    dataset = {
        "name": f"{spec.title} ({spec.name}), split {result.split}",
        "licence of the dataset": spec.licence,
        "manifest SHA-256": result.manifest_sha256 or "none",
    }
    return {**predictions, "Dataset": dataset}


def _describe_model(model: ModelInfo) -> dict[str, str]:
    commercial = UNKNOWN if model.licence == UNKNOWN else "not excluded by these terms"
    fields = {
        "name": model.name,
        "SHA-256": model.sha256,
        "licence of the model": model.licence,
        "commercial use": "excluded" if model.non_commercial else commercial,
        "trained on": describe_data(model),
        "trained from": ", ".join(map(describe_parent, model.parents)) or UNKNOWN,
        "checksum": "verified" if model.verified else "none in the file, so it is unverified",
        "precision": "" if model.precision in ("fp32", UNKNOWN) else model.precision,
        "convention": model.convention or "",
    }
    return {name: text for name, text in fields.items() if text}
