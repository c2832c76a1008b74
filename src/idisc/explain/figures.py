"""The paper's figures, and those it has words for only: each a `sheets.Grid`, ready to be saved.

    contact_sheet   all IDRs of a level over one picture
    idr_grid        some IDRs, one in a row, over several pictures (the paper's attention figure)
    partition       which IDR owns which pixel, by majority and softly
    levels          prediction of each resolution, its difference, and what it is without it
    muting          prediction without one IDR, for some of them
    likeness        which maps are alike, as matrices
    panels          picture, ground truth, prediction and error, several models side by side

Depth, errors and changes stand above colour bars in metres, small changes in millimetres (normals:
degrees). How to read each one is in its own note and, at length, in docs/explain.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import metrics, visualize
from idisc.explain.ablate import Effect
from idisc.explain.idrs import QUANTILES, Explanation, FloatMaps, Level, shown
from idisc.explain.look import TILE_WIDTH, Look
from idisc.explain.sheets import Bar, Grid, Tile
from idisc.explain.usage import Usage, numbered_idrs
from idisc.visualize import Picture

_COLUMNS = 8  # of a contact sheet
_WEIGHT = Bar(0.0, 1.0, visualize.WEIGHT_COLOURS, "weight, each map over its own range", "")
_PAGE = 700.0  # points: rows of a figure that should fit on one
_CAPTION = 15.0  # points of a row that are not its pictures
_LEAST_ROW = 12.0  # points of its pictures, even if that is more than a page
_LEAST_AREA = 0.01  # of the picture, for an IDR to be named on it
_RIM, _APART = 0.05, (0.11, 0.14)  # shares of a picture: around names on it, and between two
_BACK = 0.3  # share of the grey photo behind a partition


@dataclass(frozen=True)
class Case:
    """A picture with its ground truth and what some models say of it."""

    name: str
    image: Picture
    target: NDArray[Any]  # depth (H, W) in metres, or normals (H, W, 3)
    valid: NDArray[np.bool_]  # (H, W), pixels that count
    predictions: Mapping[str, NDArray[Any]]  # by model, at the target's size


def contact_sheet(explanation: Explanation, level: Level, usage: Usage, name: str) -> Grid:
    """All IDRs of a level in their order, with their shares of the picture's attention."""
    image = _photo(explanation, TILE_WIDTH // 2)
    maps = [_where_read(image, each) for each in level.attention]
    tiles = [
        replace(tile, caption=f"{idr} · {usage.shares[idr]:.1%} · {tile.caption}")
        for idr, tile in enumerate(maps)
    ]
    return Grid(
        rows=[tiles[first : first + _COLUMNS] for first in range(0, len(tiles), _COLUMNS)],
        title=f"{name}: all {level.idrs} IDRs of {level.name}",
        note="Where each IDR is read: weights of ISD's first layer, each map clamped between its"
        " 2nd and 98th percentile and rescaled. Below: number, share of all weight in the picture,"
        f" weight at the bright end. {usage.effective:.1f} IDRs in effect"
        f" ({usage.used:.1f} if likeness is left out).",
        bars=[_WEIGHT],
    )


def idr_grid(
    pictures: Sequence[tuple[str, Explanation]], chosen: Mapping[int, Sequence[int]]
) -> Grid:
    """One IDR in a row over several pictures, {level: IDRs}: what it stands for, if anything."""
    images = [_photo(explanation) for _, explanation in pictures]
    rows: list[list[Tile | None]] = [[Tile(image) for image in images]]
    sides = [""]
    for index, idrs in sorted(chosen.items()):
        levels = [explanation.levels[index] for _, explanation in pictures]
        for idr in idrs:
            maps = [level.attention[idr] for level in levels]
            rows.append([_where_read(*pair) for pair in zip(images, maps, strict=True)])
            sides.append(f"IDR {idr}\nlevel {index}\nstride {levels[0].stride}")
    return Grid(
        rows=rows,
        heads=[name for name, _ in pictures],
        sides=sides,
        title="The same IDRs over several pictures",
        note="Where each IDR is read (ISD's first layer); below, the weight at the bright end. A"
        " row that lights up the same kind of place in every picture is a pattern that the network"
        " has learnt.",
        bars=[_WEIGHT],
        tallest=min(150, max(_PAGE / len(rows) - _CAPTION, _LEAST_ROW)),
    )


def partition(explanation: Explanation, name: str) -> Grid:
    """Each pixel's dominant IDR, and its soft membership, at every level."""
    image = _photo(explanation)
    grey = np.repeat(np.asarray(Image.fromarray(image).convert("L"))[..., None], 3, axis=2)
    hard: list[Tile | None] = [Tile(image)]
    soft: list[Tile | None] = [None]
    for level in explanation.levels:
        shares = _enlarged(level.membership, image.shape[:2])
        dominant = shares.argmax(axis=0)
        areas = np.bincount(dominant.ravel(), minlength=level.idrs)
        order = np.argsort(-areas, kind="stable").tolist()
        colours = visualize.member_colours(order)
        coloured = order[: len(visualize.MEMBER_COLOURS)]
        named = [idr for idr in coloured if areas[idr] > _LEAST_AREA * areas.sum()]
        marks = place_names(dominant, named)
        owners = int((areas > 0).sum())
        hard.append(Tile(_mixed(colours[dominant], grey), f"{owners} of {level.idrs}", marks=marks))
        sure = f"largest share {shares.max(axis=0).mean():.0%} on average"
        soft.append(Tile(visualize.member_picture(shares, colours), sure))
    afp = all(level.partition is not None for level in explanation.levels)
    source = "AFP's last round" if afp else "no AFP here, so ISD's first layer"
    return Grid(
        rows=[hard, soft],
        heads=["", *(level.name for level in explanation.levels)],
        sides=["majority", "shares"],
        title=f"{name}: which IDR owns which pixel",
        note=f"Shares of each pixel in each IDR ({source}). Above: the largest wins; the seven"
        " largest areas have colours and, with room for them, numbers, the others are grey, and the"
        " number below is how many own anything. Below: the mixture of all colours by shares;"
        " muddy is undecided.",
    )


def levels(
    explanation: Explanation, alone: Sequence[Effect], without: Sequence[Effect], name: str
) -> Grid:
    """Each resolution by itself, its difference to all together, and all without it."""
    look = Look.of(explanation, alone, without)
    first = [Tile(_photo(explanation)), look.ranged(explanation.prediction)]
    first += [look.ranged(each.prediction) for each in alone]
    second = [None, None, *(look.change(each) for each in alone)]
    third = [None, None, *(look.change(each) for each in without)]
    heads = [level.name for level in explanation.levels]
    ranges = "Below each depth its range but for 2 % of pixels at each end. " if look.ends else ""
    return Grid(
        rows=[first, second, third] if without else [first, second],
        heads=["picture", "prediction", *heads],
        sides=[look.task, "alone, against the prediction", "without it, against the prediction"],
        title=f"{name}: what each resolution says",
        note=f"The prediction is the mean of the levels. {look.signs} {ranges}"
        "Below each change the mean of its size.",
        bars=look.bars,
    )


def muting(
    explanation: Explanation, level: Level, effects: Mapping[int, Effect], name: str
) -> Grid:
    """Where some IDRs of a level are read, the prediction without each, and how it changes."""
    look, image = Look.of(explanation, [*effects.values()]), _photo(explanation)
    where = [Tile(image), *(_where_read(image, level.attention[idr]) for idr in effects)]
    rest = [explanation.prediction, *(effect.prediction for effect in effects.values())]
    return Grid(
        rows=[
            where,
            [look.answer(each) for each in rest],
            [None, *(look.change(effect) for effect in effects.values())],
        ],
        heads=["nothing muted", *(f"IDR {idr}" for idr in effects)],
        sides=["where it is read", f"{look.task} without it", "change"],
        title=f"{name}: one IDR muted at a time, {level.name}",
        note="A muted IDR is taken out of the softmax of ISD; the others share its weight."
        " Below where it is read, the weight at the bright end; below each change the mean of its"
        f" size. {look.signs}",
        bars=[_WEIGHT, *look.bars],
    )


def muted_together(explanation: Explanation, effect: Effect, name: str) -> Grid:
    """Picture, prediction, prediction without what was muted, and the change."""
    look = Look.of(explanation, [effect])
    row = [
        Tile(_photo(explanation)),
        look.answer(explanation.prediction),
        look.answer(effect.prediction),
        look.change(effect),
    ]
    return Grid(
        rows=[row],
        heads=["picture", look.task, effect.name, "change"],
        title=f"{name}: {look.task} {effect.name}",
        note=f"LEVEL:IDRs, all muted at once: taken out of the softmax of ISD. {look.signs}",
        bars=look.bars,
    )


def likeness(usages: Mapping[str, Sequence[Usage]], names: Sequence[str], title: str) -> Grid:
    """Cosines of maps as matrices, {kind: one for each level}; `names` are those of the levels."""
    rows = [
        [
            Tile(
                visualize.colourise(usage.likeness, 0.0, 1.0, visualize.LIKENESS_COLOURS),
                f"{usage.effective:.1f} of {count} in effect,"
                f" {len(usage.merged)} merged, {len(usage.idle)} idle",
                smooth=False,
                axis=[((idr + 0.5) / count, str(idr)) for idr in numbered_idrs(count)],
            )
            for usage in each
            for count in [len(usage.shares)]
        ]
        for each in usages.values()
    ]
    return Grid(
        rows=rows,
        heads=names,
        sides=list(usages),
        title=f"{title}: which IDRs are alike",
        note="Cosine of the maps of IDRs i (down) and j (across), numbered at the edges. A bright"
        " line that crosses the matrix is an IDR that is everywhere; a bright block is a collapse.",
        bars=[Bar(0.0, 1.0, visualize.LIKENESS_COLOURS, "cosine of two maps", "")],
        tallest=130,
    )


def panels(cases: Sequence[Case], limit: float, title: str) -> Grid:
    """Picture, ground truth, then prediction and error of each model; `limit` ends error colours.

    Metres for depth, degrees for normals. One range of depth colours for the whole figure.
    """
    normals = cases[0].target.ndim == 3
    low, high = (0.0, 1.0) if normals else visualize.depth_limits(*(c.target for c in cases))
    heads = ["picture", "ground truth"]
    for model in cases[0].predictions:
        heads += [model, "error"]
    bars = [
        Bar(0.0, limit, visualize.ERROR_COLOURS, "error, and beyond", "deg" if normals else "m")
    ]
    if not normals:
        bars.insert(0, Bar(low, high, visualize.DEPTH_COLOURS, "depth, and beyond"))
    return Grid(
        rows=[_panel(case, low, high, limit) for case in cases],
        heads=heads,
        title=title,
        note="Errors are absolute; grey has no ground truth or does not count.",
        bars=bars,
    )


def _where_read(image: Picture, attention: FloatMaps) -> Tile:
    """The weights (h, w) of an IDR over a picture, above the weight at the bright end."""
    bright = np.quantile(attention, QUANTILES[1])
    return Tile(visualize.overlay(image, shown(attention[None])[0]), f"to {bright:.2f}")


def _photo(explanation: Explanation, width: int = TILE_WIDTH) -> Picture:
    return _in_shape(explanation.image, explanation.prediction, width)


def _in_shape(image: Picture, of: NDArray[Any], width: int = TILE_WIDTH) -> Picture:
    """A picture in the shape of a map of it: the network may have seen it squeezed."""
    height, length = of.shape[:2]
    size = width, max(1, round(height * width / length))
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.LANCZOS))


def _panel(case: Case, low: float, high: float, limit: float) -> list[Tile | None]:
    row: list[Tile | None] = [Tile(_in_shape(case.image, case.target), case.name)]
    if case.target.ndim == 3:
        row.append(Tile(visualize.normals_picture(case.target, TILE_WIDTH)))
        for prediction in case.predictions.values():
            error = visualize.angle_picture(
                prediction, case.target, case.valid, limit, width=TILE_WIDTH
            )
            wrong = metrics.angular_error_deg(prediction[case.valid], case.target[case.valid])
            row += [
                Tile(visualize.normals_picture(prediction, TILE_WIDTH)),
                Tile(error, f"mean {wrong.mean():.1f} deg" if wrong.size else ""),
            ]
        return row
    row.append(Tile(visualize.depth_picture(case.target, low, high, width=TILE_WIDTH)))
    for prediction in case.predictions.values():
        error = visualize.error_picture(
            prediction, case.target, case.valid, limit, width=TILE_WIDTH
        )
        wrong = np.abs(prediction - case.target)[case.valid]
        row += [
            Tile(visualize.depth_picture(prediction, low, high, width=TILE_WIDTH)),
            Tile(error, f"mean {wrong.mean():.2f} m" if wrong.size else ""),
        ]
    return row


def _enlarged(maps: FloatMaps, size: tuple[int, ...]) -> FloatMaps:
    """(N, h, w) -> (N, H, W), bilinear."""
    height, width = size[:2]
    large = [
        np.asarray(Image.fromarray(each).resize((width, height), Image.Resampling.BILINEAR))
        for each in maps
    ]
    return np.stack(large)


def _mixed(colours: Picture, grey: Picture) -> Picture:
    mixed: Picture = ((1 - _BACK) * colours + _BACK * grey).astype(np.uint8)
    return mixed


def place_names(dominant: NDArray[np.intp], idrs: Sequence[int]) -> list[tuple[float, float, str]]:
    """Where to write the numbers of IDRs: each deep in its area (H, W), and apart from the others.

    Of each: x and y as shares of width and height, and the number. One that has no such place is
    left out.
    """
    found: list[tuple[float, float, str]] = []
    rows, columns = ((np.arange(length) + 0.5) / length for length in dominant.shape)  # shares
    for idr in idrs:
        steps = _steps_inside(dominant == idr)
        steps[(rows < _RIM) | (rows > 1 - _RIM)] = 0
        steps[:, (columns < _RIM) | (columns > 1 - _RIM)] = 0
        for across, down, _ in found:
            near = np.ix_(np.abs(rows - down) < _APART[0], np.abs(columns - across) < _APART[1])
            steps[near] = 0
        row, column = np.unravel_index(steps.argmax(), steps.shape)
        if steps[row, column]:
            found.append((float(columns[column]), float(rows[row]), str(idr)))
    return found


def _steps_inside(area: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Steps from each pixel of an area (H, W) to its end; 0 is outside."""
    inside, steps = np.pad(area, 1), np.zeros(area.shape, np.intp)
    while inside.any():  # peel it until nothing is left
        core = inside[1:-1, 1:-1]
        steps += core
        core = core & inside[:-2, 1:-1] & inside[2:, 1:-1] & inside[1:-1, :-2] & inside[1:-1, 2:]
        inside = np.pad(core, 1)
    return steps
