"""The paper's figures, and those it has words for only: each a `sheets.Grid`, ready to be saved.

    contact_sheet   all IDRs of a level over one picture
    idr_grid        some IDRs, one in a row, over several pictures (the paper's attention figure)
    partition       which IDR owns which pixel, by majority and softly
    levels          depth of each resolution, its difference, and depth without it
    muting          depth without one IDR, for some of them
    likeness        which maps are alike, as matrices
    panels          picture, ground truth, prediction and error, several models side by side

Depth, errors and changes stand above colour bars in metres (normals: degrees). How to read each
one is in its own note and, at length, in docs/explain.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import metrics, visualize
from idisc.explain.ablate import Effect
from idisc.explain.idrs import Explanation, FloatMaps, Level, shown
from idisc.explain.sheets import Bar, Grid, Tile
from idisc.explain.usage import Usage
from idisc.visualize import Picture

TILE_WIDTH = 480  # pixels of a tile's picture at most: 240 dpi at two inches
_COLUMNS = 8  # of a contact sheet
_LEAST_CHANGE_M = 0.01  # of a colour bar's end
_LABELS = 7  # IDRs named in a partition
_WEIGHT = Bar(0.0, 1.0, visualize.WEIGHT_COLOURS, "weight, each map over its own range", "")
_LIKENESS_COLOURS = "viridis"
_PAGE = 600.0  # points: rows of a figure that should fit on one
_LEAST_AREA = 0.01  # of the picture, for an IDR to be named on it
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
    spread = np.quantile(level.attention, (0.02, 0.98), axis=(1, 2))  # (2, N)
    tiles = [
        Tile(
            visualize.overlay(image, each),
            f"{idr} · {usage.shares[idr]:.1%} · to {spread[1, idr]:.2f}",
        )
        for idr, each in enumerate(level.maps)
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
            maps = [shown(level.attention[idr : idr + 1])[0] for level in levels]
            rows.append(
                [
                    Tile(visualize.overlay(image, each))
                    for image, each in zip(images, maps, strict=True)
                ]
            )
            sides.append(f"IDR {idr}\nlevel {index}\nstride {levels[0].stride}")
    return Grid(
        rows=rows,
        heads=[name for name, _ in pictures],
        sides=sides,
        title="The same IDRs over several pictures",
        note="Where each IDR is read (ISD's first layer). A row that lights up the same kind of"
        " place in every picture is a pattern that the network has learnt.",
        bars=[_WEIGHT],
        tallest=min(150, _PAGE / len(rows)),
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
        marks = [
            _mark(level.dominant, idr)
            for idr in order[:_LABELS]
            if areas[idr] > _LEAST_AREA * areas.sum()
        ]
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
        " largest areas have colours and numbers, the others are grey, and the number below is how"
        " many own anything. Below: the mixture of all colours by shares; muddy is undecided.",
    )


def levels(
    explanation: Explanation, alone: Sequence[FloatMaps], without: Sequence[Effect], name: str
) -> Grid:
    """Depth of each resolution by itself, its difference to the mean, and depth without it."""
    depth = explanation.depth
    low, high = visualize.depth_limits(depth, *alone)
    apart = [each - depth for each in alone]
    limit = _limit(*apart, *(effect.change for effect in without))
    first: list[Tile | None] = [
        Tile(_photo(explanation)),
        _depth(depth, low, high),
    ]
    first += [_depth(each, low, high) for each in alone]
    second: list[Tile | None] = [None, None]
    second += [_change(each, limit) for each in apart]
    third: list[Tile | None] = [None, None, *(_change(each.change, limit) for each in without)]
    return Grid(
        rows=[first, second, third] if without else [first, second],
        heads=["picture", "mean of all", *(level.name for level in explanation.levels)],
        sides=["depth", "level alone minus mean", "mean without it minus mean"],
        title=f"{name}: what each resolution says",
        note="Depth is the mean of the levels in metres. Orange: farther than the mean, purple:"
        " nearer. Below each difference the mean of its size.",
        bars=[
            Bar(low, high, visualize.DEPTH_COLOURS, "depth"),
            Bar(-limit, limit, visualize.CHANGE_COLOURS, "difference"),
        ],
    )


def muting(
    explanation: Explanation, level: Level, effects: Mapping[int, Effect], name: str
) -> Grid:
    """Where some IDRs of a level are read, depth without each, and how it changes."""
    depth = explanation.depth
    low, high = visualize.depth_limits(depth)
    image = _photo(explanation)
    limit = _limit(*(effect.change for effect in effects.values()))
    maps = shown(level.attention[list(effects)])
    where: list[Tile | None] = [Tile(image)]
    where += [Tile(visualize.overlay(image, each)) for each in maps]
    rest: list[Tile | None] = [_depth(depth, low, high)]
    rest += [_depth(effect.prediction, low, high) for effect in effects.values()]
    change: list[Tile | None] = [None, *(_change(e.change, limit) for e in effects.values())]
    return Grid(
        rows=[where, rest, change],
        heads=["nothing muted", *(f"IDR {idr}" for idr in effects)],
        sides=["where it is read", "depth without it", "change"],
        title=f"{name}: one IDR muted at a time, {level.name}",
        note="A muted IDR is taken out of the softmax of ISD; the others share its weight. Orange:"
        " depth grows without it, purple: it shrinks. Below each change the mean of its size.",
        bars=[
            _WEIGHT,
            Bar(low, high, visualize.DEPTH_COLOURS, "depth"),
            Bar(-limit, limit, visualize.CHANGE_COLOURS, "change"),
        ],
    )


def muted_together(explanation: Explanation, effect: Effect, name: str) -> Grid:
    """Picture, depth, depth without what was muted, and the change."""
    low, high = visualize.depth_limits(explanation.depth)
    limit = _limit(effect.change)
    row = [
        Tile(_photo(explanation)),
        _depth(explanation.depth, low, high),
        _depth(effect.prediction, low, high),
        _change(effect.change, limit),
    ]
    return Grid(
        rows=[row],
        heads=["picture", "depth", effect.name, "change"],
        title=f"{name}: depth {effect.name}",
        note="LEVEL:IDRs, all muted at once: taken out of the softmax of ISD.",
        bars=[
            Bar(low, high, visualize.DEPTH_COLOURS, "depth"),
            Bar(-limit, limit, visualize.CHANGE_COLOURS, "change"),
        ],
    )


def likeness(usages: Mapping[str, Sequence[Usage]], names: Sequence[str], title: str) -> Grid:
    """Cosines of maps as matrices, {kind: one for each level}; `names` are those of the levels."""
    rows = [
        [
            Tile(
                visualize.colourise(usage.likeness, 0.0, 1.0, _LIKENESS_COLOURS),
                f"{usage.effective:.1f} of {len(usage.shares)} in effect,"
                f" {len(usage.merged)} merged, {len(usage.idle)} idle",
                smooth=False,
            )
            for usage in each
        ]
        for each in usages.values()
    ]
    return Grid(
        rows=rows,
        heads=names,
        sides=list(usages),
        title=f"{title}: which IDRs are alike",
        note="Cosine of the maps of IDRs i (down) and j (across), both from 0 up. A bright line"
        " that crosses the matrix is an IDR that is everywhere; a bright block is a collapse.",
        bars=[Bar(0.0, 1.0, _LIKENESS_COLOURS, "cosine of two maps", "")],
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
        bars.insert(0, Bar(low, high, visualize.DEPTH_COLOURS, "depth"))
    return Grid(
        rows=[_panel(case, low, high, limit) for case in cases],
        heads=heads,
        title=title,
        note="Errors are absolute; grey has no ground truth or does not count.",
        bars=bars,
    )


def reduced(image: Picture, width: int) -> Picture:
    """A picture at most `width` pixels across."""
    picture = Image.fromarray(image)
    if picture.width <= width:
        return image
    height = max(1, round(picture.height * width / picture.width))
    return np.asarray(picture.resize((width, height), Image.Resampling.LANCZOS))


def _photo(explanation: Explanation, width: int = TILE_WIDTH) -> Picture:
    """The picture in the shape of its prediction: the network may have seen it squeezed."""
    height, length = explanation.prediction.shape[:2]
    size = width, max(1, round(height * width / length))
    return np.asarray(Image.fromarray(explanation.image).resize(size, Image.Resampling.LANCZOS))


def _panel(case: Case, low: float, high: float, limit: float) -> list[Tile | None]:
    row: list[Tile | None] = [Tile(reduced(case.image, TILE_WIDTH), case.name)]
    if case.target.ndim == 3:
        row.append(Tile(visualize.normals_picture(case.target, TILE_WIDTH)))
        for prediction in case.predictions.values():
            angles = np.full(case.valid.shape, np.nan)
            pair = prediction[case.valid], case.target[case.valid]
            angles[case.valid] = metrics.angular_error_deg(*pair)
            error = visualize.map_picture(angles, 0, limit, visualize.ERROR_COLOURS, TILE_WIDTH)
            row += [
                Tile(visualize.normals_picture(prediction, TILE_WIDTH)),
                Tile(error, f"mean {np.nanmean(angles):.1f} deg" if case.valid.any() else ""),
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


def _depth(depth: FloatMaps, low: float, high: float) -> Tile:
    return Tile(visualize.depth_picture(depth, low, high, width=TILE_WIDTH))


def _change(change: FloatMaps, limit: float) -> Tile:
    picture = visualize.change_picture(change, limit)
    return Tile(reduced(picture, TILE_WIDTH), f"{np.abs(change).mean():.3f} m")


def _limit(*changes: FloatMaps) -> float:
    """A round number that all but a hundredth of the pixels of each change stay below."""
    largest = max((float(np.quantile(np.abs(each), 0.99)) for each in changes), default=0.0)
    largest = max(largest, _LEAST_CHANGE_M)
    power = 10.0 ** math.floor(math.log10(largest))
    step = next(each for each in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if each * power >= largest * 0.999)
    return float(f"{step * power:.12g}")


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


def _mark(dominant: NDArray[np.intp], idr: int) -> tuple[float, float, str]:
    """Where to write the number of an IDR: its pixel that is farthest from any other's."""
    layer = inside = np.pad(dominant == idr, 1)
    while inside.any():  # peel the area until nothing is left; its last layer has the place
        layer, core = inside, inside[1:-1, 1:-1]
        core = core & inside[:-2, 1:-1] & inside[2:, 1:-1] & inside[1:-1, :-2] & inside[1:-1, 2:]
        inside = np.pad(core, 1)
    places = np.argwhere(layer)
    place = places[len(places) // 2]
    down, across = np.clip((place - 0.5) / dominant.shape, 0.05, 0.95).tolist()
    return across, down, str(idr)
