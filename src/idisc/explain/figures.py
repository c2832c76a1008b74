"""Figures of explanations, among them those of the paper; each function returns a `Grid`.

    contact_sheet   the maps of all IDRs of a level over one picture
    idr_grid        the maps of some IDRs over several pictures (the attention figure of the paper)
    partition       which IDR owns which pixel, by majority and by shares
    levels          the prediction of each level, and the prediction without it
    muting          the prediction without one IDR, for some IDRs
    muted_together  the prediction without several IDRs
    similarity      the similarity of the maps as matrices
    panels          picture, ground truth, prediction and error of several networks

docs/explain.md explains how to read them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import visualize
from idisc.explain.ablate import Effect
from idisc.explain.grid import ColourBar, Grid, Tile
from idisc.explain.idrs import QUANTILES, Explanation, FloatMaps, Level, stretch
from idisc.explain.usage import KINDS, LevelUsage, Usage
from idisc.sizes import Size
from idisc.tasks import Task
from idisc.visualize import Picture

_TILE_WIDTH = 480  # pixels of a picture at most: 240 dpi at two inches
_COLUMNS = 8  # of a contact sheet
_WEIGHT = ColourBar(0.0, 1.0, visualize.WEIGHT_COLOURS, "weight, each map in its own range")
_PAGE, _CAPTION, _MIN_ROW = 9.7, 0.2, 0.17  # inches: heights of a page, a caption, and pictures
_MIN_AREA = 0.01  # share of the picture that an IDR must own to be numbered on it
_LABEL_MARGIN = 0.05  # least distance of a label from the edges, as a share of the picture
_LABEL_DISTANCE = 0.11, 0.14  # least distance of two labels, as shares of height and width
_PHOTO_OPACITY = 0.3  # of the grey photo behind a partition
_SHORT_LENGTH = 0.1  # metres; shorter lengths are written in millimetres
_MIN_CHANGE = {"m": 0.01, "deg": 0.1}  # at the end of a colour bar


@dataclass(frozen=True)
class Comparison:
    """A picture with its ground truth and the predictions of several networks."""

    name: str
    image: Picture
    target: NDArray[Any]  # depth (H, W) in metres, or normals (H, W, 3)
    valid: NDArray[np.bool_]  # (H, W), the pixels that are scored
    predictions: Mapping[str, NDArray[Any]]  # by network, at the size of the target


def contact_sheet(explanation: Explanation, level: Level, usage: Usage, name: str) -> Grid:
    """Show all IDRs of a level in their order, with their shares of the attention."""
    image = _photo(explanation, _TILE_WIDTH // 2)
    tiles = [
        _attention(image, attention, f"{idr} · {share:.1%} ·")
        for idr, (attention, share) in enumerate(zip(level.attention, usage.shares, strict=True))
    ]
    return Grid(
        rows=[tiles[first : first + _COLUMNS] for first in range(0, len(tiles), _COLUMNS)],
        title=f"{name}: all {level.idrs} IDRs of {level.name}",
        note="Attention to each IDR in the first layer of ISD, clamped between its 2nd and 98th"
        " percentile and rescaled. Captions: number of the IDR, share of the attention in the"
        f" picture, weight at the bright end. {usage.effective:.1f} effective IDRs"
        f" ({usage.used:.1f} by shares alone).",
        bars=[_WEIGHT],
    )


def idr_grid(
    pictures: Sequence[tuple[str, Explanation]], chosen: Mapping[int, Sequence[int]]
) -> Grid:
    """Show one IDR per row over several pictures; `chosen` is {level: IDRs}."""
    images = [_photo(explanation) for _, explanation in pictures]
    rows, labels = [[Tile(image) for image in images]], [""]
    for index, idrs in sorted(chosen.items()):
        levels = [explanation.levels[index] for _, explanation in pictures]
        for idr in idrs:
            maps = [level.attention[idr] for level in levels]
            rows.append([_attention(*pair) for pair in zip(images, maps, strict=True)])
            labels.append(f"IDR {idr}\nlevel {index}\nstride {levels[0].stride}")
    return Grid(
        rows=rows,
        columns=[name for name, _ in pictures],
        row_labels=labels,
        title="The same IDRs over several pictures",
        note="Attention to each IDR in the first layer of ISD; captions: weight at the bright end."
        " If a row is bright at the same kind of place in every picture, the network has learned"
        " a pattern.",
        bars=[_WEIGHT],
        max_height=min(2.1, max(_PAGE / len(rows) - _CAPTION, _MIN_ROW)),
    )


def partition(explanation: Explanation, name: str) -> Grid:
    """Show the dominant IDR of each pixel and the shares of all IDRs, at every level."""
    image = _photo(explanation)
    grey = np.repeat(np.asarray(Image.fromarray(image).convert("L"))[..., None], 3, axis=2)
    hard: list[Tile | None] = [Tile(image)]
    soft: list[Tile | None] = [None]
    for level in explanation.levels:
        shares = _enlarged(level.membership, (image.shape[0], image.shape[1]))
        dominant = shares.argmax(axis=0)
        areas = np.bincount(dominant.ravel(), minlength=level.idrs)
        order = np.argsort(-areas, kind="stable").tolist()
        colours = visualize.member_colours(order)
        coloured = order[: len(visualize.MEMBER_COLOURS)]
        labels = place_labels(dominant, [i for i in coloured if areas[i] > _MIN_AREA * areas.sum()])
        mixed = (1 - _PHOTO_OPACITY) * colours[dominant] + _PHOTO_OPACITY * grey
        hard.append(Tile(mixed.astype(np.uint8), f"{(areas > 0).sum()} of {level.idrs}", labels))
        caption = f"largest share {shares.max(axis=0).mean():.0%} on average"
        soft.append(Tile(visualize.member_picture(shares, colours), caption))
    afp = all(level.partition is not None for level in explanation.levels)
    source = "the last iteration of AFP" if afp else "the first layer of ISD, without AFP"
    return Grid(
        rows=[hard, soft],
        columns=["", *(level.name for level in explanation.levels)],
        row_labels=["majority", "shares"],
        title=f"{name}: which IDR owns which pixel",
        note=f"The share of each pixel in each IDR ({source}). Majority: the IDR with the largest"
        " share; the seven largest areas are coloured and, if there is room, numbered, the others"
        " are grey; captions: how many IDRs own a pixel. Shares: the mixture of all colours; muddy"
        " colours are undecided.",
    )


def levels(
    explanation: Explanation, alone: Sequence[Effect], without: Sequence[Effect], name: str
) -> Grid:
    """Show each level alone, its difference to the prediction, and the prediction without it."""
    scales = _Scales.of(explanation, alone, without)
    first = [Tile(_photo(explanation)), scales.captioned(explanation.prediction)]
    first += [scales.captioned(effect.prediction) for effect in alone]
    second = [None, None, *map(scales.change, alone)]
    third = [None, None, *map(scales.change, without)]
    ranges = (
        "of depths: their range without 2 % of the pixels at each end; " if scales.depth else ""
    )
    return Grid(
        rows=[first, second, third] if without else [first, second],
        columns=["picture", "prediction", *(level.name for level in explanation.levels)],
        row_labels=[
            scales.task.name,
            "alone, minus the prediction",
            "without it, minus the prediction",
        ],
        title=f"{name}: the prediction of each level",
        note=f"The prediction is the mean of the levels. {scales.signs} Captions {ranges}of"
        " changes: the mean of their absolute value.",
        bars=scales.bars,
    )


def muting(
    explanation: Explanation, level: Level, effects: Mapping[int, Effect], name: str
) -> Grid:
    """Show where some IDRs of a level are read, and the prediction without each of them."""
    scales, image = _Scales.of(explanation, [*effects.values()]), _photo(explanation)
    predictions = [explanation.prediction, *(effect.prediction for effect in effects.values())]
    return Grid(
        rows=[
            [Tile(image), *(_attention(image, level.attention[idr]) for idr in effects)],
            [*map(scales.prediction, predictions)],
            [None, *map(scales.change, effects.values())],
        ],
        columns=["nothing muted", *(f"IDR {idr}" for idr in effects)],
        row_labels=["attention", f"{scales.task.name} without it", "change"],
        title=f"{name}: one IDR muted at a time, {level.name}",
        note="A muted IDR is removed from the softmax of ISD, and the others share its weight."
        " Captions: the weight at the bright end, and the mean absolute change."
        f" {scales.signs}",
        bars=[_WEIGHT, *scales.bars],
    )


def muted_together(explanation: Explanation, effect: Effect, name: str) -> Grid:
    """Show the prediction without several IDRs, and the change."""
    scales = _Scales.of(explanation, [effect])
    row = [
        Tile(_photo(explanation)),
        scales.prediction(explanation.prediction),
        scales.prediction(effect.prediction),
        scales.change(effect),
    ]
    return Grid(
        rows=[row],
        columns=["picture", scales.task.name, effect.name, "change"],
        title=f"{name}: {scales.task.name} {effect.name}",
        note="The IDRs, written as LEVEL:IDRS, are all removed from the softmax of ISD at once."
        f" {scales.signs}",
        bars=scales.bars,
    )


def similarity(levels: Sequence[LevelUsage], title: str) -> Grid:
    """Show cosines of maps as matrices, a column for each level."""
    colours = visualize.SIMILARITY_COLOURS
    return Grid(
        rows=[
            [
                Tile(
                    visualize.colourise(usage.similarity, 0.0, 1.0, colours),
                    f"{usage.effective:.1f} of {len(usage.shares)} effective,"
                    f" {len(usage.merged)} merged, {len(usage.dead)} dead",
                    is_matrix=True,
                )
                for usage in (level.total[kind] for level in levels)
            ]
            for kind in levels[0].total
        ],
        columns=[level.name for level in levels],
        row_labels=[KINDS[kind] for kind in levels[0].total],
        title=f"{title}: similarity of IDRs",
        note="Cosine of the maps of IDRs i (row) and j (column). A bright row and column is an IDR"
        " that is everywhere; a bright block is a collapse.",
        bars=[ColourBar(0.0, 1.0, colours, "cosine of two maps")],
        max_height=1.8,
    )


def panels(comparisons: Sequence[Comparison], limit: float, title: str, task: Task) -> Grid:
    """Show picture, ground truth, and prediction and error of each network.

    `limit` is where the colours of errors end, in metres or degrees. The colours of depth have one
    range in the whole figure.
    """
    bars = [ColourBar(0.0, limit, visualize.ERROR_COLOURS, f"error, {task.error_unit}", "max")]
    ends = None
    if task.colour_limits:
        ends = task.colour_limits(*(each.target for each in comparisons))
        colours, label = visualize.DEPTH_COLOURS, f"{task.name}, {task.unit}"
        bars.insert(0, ColourBar(*ends, colours, label, "both"))
    columns = ["picture", "ground truth"]
    for network in comparisons[0].predictions:
        columns += [network, "error"]
    return Grid(
        rows=[_panel(each, ends, limit, task) for each in comparisons],
        columns=columns,
        title=title,
        note="Errors are absolute. Grey pixels have no ground truth or are not scored.",
        bars=bars,
    )


def _panel(
    comparison: Comparison, ends: tuple[float, float] | None, limit: float, task: Task
) -> list[Tile]:
    target, valid = comparison.target, comparison.valid
    photo = Tile(_with_aspect_of(target, comparison.image), comparison.name)
    row = [photo, Tile(task.draw(target, ends, _TILE_WIDTH))]
    digits = 2 if task.metric else 1
    for prediction in comparison.predictions.values():
        wrong = task.error(prediction[valid], target[valid])
        error = task.draw_error(prediction, target, valid, limit, _TILE_WIDTH)
        caption = f"mean {wrong.mean():.{digits}f} {task.error_unit}" if wrong.size else ""
        row += [Tile(task.draw(prediction, ends, _TILE_WIDTH)), Tile(error, caption)]
    return row


@dataclass(frozen=True)
class _Scales:
    """The colour scales of the predictions and of the changes in one figure."""

    task: Task
    depth: tuple[float, float] | None  # metres; None: the predictions are no depth
    limit: float  # of changes, metres or degrees

    @classmethod
    def of(
        cls, explanation: Explanation, effects: Sequence[Effect], changes: Sequence[Effect] = ()
    ) -> _Scales:
        """Return scales for a prediction and some effects; of `changes`, only changes are shown.

        The range of depth covers each map except 2 % of its pixels at each end, so that a level
        that is far from the others still has contrast.
        """
        task = explanation.task
        limit = _limit([*effects, *changes], task.error_unit)
        if not task.metric:
            return cls(task, None, limit)
        depths = [explanation.depth, *(effect.prediction for effect in effects)]
        lows, highs = zip(*(visualize.depth_limits(depth) for depth in depths), strict=True)
        return cls(task, (min(lows), max(highs)), limit)

    @property
    def signs(self) -> str:
        return "Orange: farther, purple: nearer." if self.depth else "Changes have no sign."

    @property
    def bars(self) -> list[ColourBar]:
        if self.depth is None:  # the colours of normals are directions and have no bar
            label = f"change, {self.task.error_unit}"
            return [ColourBar(0.0, self.limit, visualize.ERROR_COLOURS, label, "max")]
        scale, unit = (1000, "mm") if self.limit < _SHORT_LENGTH else (1, "m")
        end = round(self.limit * scale, 6)
        return [
            ColourBar(*self.depth, visualize.DEPTH_COLOURS, "depth, m", "both"),
            ColourBar(-end, end, visualize.CHANGE_COLOURS, f"change, {unit}", "both"),
        ]

    def prediction(self, prediction: FloatMaps) -> Tile:
        return Tile(self.task.draw(prediction, self.depth, _TILE_WIDTH))

    def captioned(self, prediction: FloatMaps) -> Tile:
        """Return a prediction; the caption of depth is its own range."""
        tile = self.prediction(prediction)
        if self.depth is None:
            return tile
        low, high = visualize.depth_limits(prediction)
        return replace(tile, caption=f"{low:.2f} to {high:.2f} m")

    def change(self, effect: Effect) -> Tile:
        """Return a change; the caption is the mean of its absolute value."""
        if self.depth is None:
            colours = visualize.ERROR_COLOURS
            picture = visualize.map_picture(effect.change, 0.0, self.limit, colours, _TILE_WIDTH)
            return Tile(picture, f"{effect.mean:.2f} {self.task.error_unit}")
        picture = visualize.change_picture(effect.change, self.limit, _TILE_WIDTH)
        return Tile(picture, length_text(effect.mean))


def length_text(metres: float) -> str:
    """Return a length as 0.4 mm, 12 mm or 1.23 m."""
    if metres < _SHORT_LENGTH:
        return f"{1000 * metres:.{1 if metres < 0.01 else 0}f} mm"
    return f"{metres:.2f} m"


def _limit(effects: Sequence[Effect], unit: str) -> float:
    """Return a round number that 99 % of the pixels of each change do not exceed."""
    largest = max([_MIN_CHANGE.get(unit, 0.01), *(effect.largest for effect in effects)])
    power = 10.0 ** math.floor(math.log10(largest))
    digits = next(n for n in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if n * power >= largest * 0.999)
    return float(f"{digits * power:.12g}")


def _attention(image: Picture, attention: FloatMaps, caption: str = "to") -> Tile:
    """Return the weights (h, w) of an IDR over a picture; the caption ends with the brightest."""
    brightest = np.quantile(attention, QUANTILES[1])
    return Tile(visualize.overlay(image, stretch(attention[None])[0]), f"{caption} {brightest:.2f}")


def _photo(explanation: Explanation, width: int = _TILE_WIDTH) -> Picture:
    return _with_aspect_of(explanation.prediction, explanation.image, width)


def _with_aspect_of(values: NDArray[Any], image: Picture, width: int = _TILE_WIDTH) -> Picture:
    """Return a picture with the aspect of its map (H, W, ...), as the network may change it."""
    size = width, max(1, round(values.shape[0] * width / values.shape[1]))
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.LANCZOS))


def _enlarged(maps: FloatMaps, size: Size) -> FloatMaps:
    """Return maps (N, h, w) as (N, H, W), bilinear."""
    size_xy, bilinear = size[::-1], Image.Resampling.BILINEAR
    return np.stack([np.asarray(Image.fromarray(map_).resize(size_xy, bilinear)) for map_ in maps])


def place_labels(dominant: NDArray[np.intp], idrs: Sequence[int]) -> list[tuple[float, float, str]]:
    """Return where to write the numbers of IDRs: near the middle of their areas (H, W), and apart.

    Each label is x and y as shares of width and height, and the number. An IDR whose area has no
    room for a label is left out.
    """
    labels: list[tuple[float, float, str]] = []
    for idr in idrs:
        area = (np.argwhere(dominant == idr) + 0.5) / dominant.shape  # (P, 2) shares, y and x
        free = ((area > _LABEL_MARGIN) & (area < 1 - _LABEL_MARGIN)).all(axis=1)
        for x, y, _ in labels:
            free &= (np.abs(area - (y, x)) >= _LABEL_DISTANCE).any(axis=1)
        if free.any():
            off_centre = ((area - np.median(area, axis=0)) ** 2).sum(axis=1)
            y, x = area[np.where(free, off_centre, np.inf).argmin()].tolist()
            labels.append((x, y, str(idr)))
    return labels
