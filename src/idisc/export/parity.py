"""How far an exported file is from the network it was made from, in metres, on pictures.

Both see the same pictures at two sizes. The result is written into the file and fails it when out
of `TOLERANCES`. In fp32 that is a millimetre: rounding in another order, nothing else. Beyond 10 m,
where a float32 network itself rounds by more, a ten-thousandth of the depth takes its place. In
fp16 and int8 the numbers are those of a network that is another one by a little, so their bounds
are on the mean and on d1, and what counts is that they are reported.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idisc.errors import CheckFailed, InputError
from idisc.images import read_image
from idisc.predict.engine import Engine
from idisc.predict.inputs import PICTURES, list_folder
from idisc.settings import FilePrecision, Task
from idisc.sizes import Size, resize_smooth, size_text

Images = Sequence[NDArray[np.uint8]]
FAR = 10.0  # metres; from here on a difference counts as a share of the depth
D1 = 1.25  # two depths agree if neither is more than this times the other
D1_DEG = 11.25  # and two normals if the angle between them is less
EXAMPLES = Path(str(resources.files("idisc").joinpath("assets", "examples")))  # photos of rooms
UNITS: dict[Task, str] = {"depth": "m", "normals": "of a unit vector"}  # of differences


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What a file may differ by, in metres (for normals in units of a unit vector)."""

    largest: float  # of any pixel
    mean: float
    d1: float  # share of pixels that agree, at least


_REMEDIES = {"int8": "; --pictures with more of them, to calibrate on, brings it nearer"}
TOLERANCES: dict[FilePrecision, Tolerance] = {
    "fp32": Tolerance(largest=1e-3, mean=1e-3, d1=1.0),
    "fp16-weights": Tolerance(largest=float("inf"), mean=0.01, d1=0.999),
    "fp16": Tolerance(largest=float("inf"), mean=0.02, d1=0.999),
    "int8": Tolerance(largest=float("inf"), mean=0.25, d1=0.9),
}


@dataclass(frozen=True, kw_only=True)
class Parity:
    """The differences over all pictures and sizes."""

    precision: FilePrecision
    largest: float
    mean: float
    unit: str  # of both
    d1: float
    spread: float | None  # largest difference of the spread in metres; None: one of them has none
    pictures: int
    pictures_from: str  # a folder's name
    sizes: tuple[str, ...]  # of the picture in the network, and of the result where that differs

    def text(self) -> str:
        """As JSON, for the metadata of a file; an infinite bound is left out."""
        bounds = {k: v for k, v in asdict(TOLERANCES[self.precision]).items() if np.isfinite(v)}
        return json.dumps({**asdict(self), "tolerance": bounds})

    def check(self, name: str) -> None:
        """CheckFailed if out of tolerance."""
        bound = TOLERANCES[self.precision]
        largest = max(self.largest, self.spread or 0.0)
        fine = largest <= bound.largest and self.mean <= bound.mean and self.d1 >= bound.d1
        if not fine:  # also for NaN
            raise CheckFailed(
                f"{name}: differs from the network by {self.in_words()}; {self.precision} allows"
                f" {_bounds(bound, self.unit)}{_REMEDIES.get(self.precision, '')}"
            )

    def in_words(self) -> str:
        """The numbers with their unit."""
        spread = "" if self.spread is None else f"; its spread by {self.spread:.2g} m at most"
        return (
            f"{self.largest:.2g} {self.unit} at most, {self.mean:.2g} {self.unit} on average,"
            f" d1 {self.d1:.4f}{spread}"
        )


def measure(
    exported: Engine,
    network: Engine,
    images: Images,
    sizes: Sequence[Size],
    *,
    precision: FilePrecision = "fp32",
    pictures_from: str = EXAMPLES.name,
) -> Parity:
    """Both engines on all pictures, resized to each of the two sizes.

    A file for one size gets its pictures at that size, and is asked for results of both.
    """
    if not images or not sizes:
        raise InputError("parity: at least one picture and one size are needed")
    largest, total, count = 0.0, 0.0, 0
    agreeing, pixels = 0, 0
    spread: float | None = None
    for image in images:
        for size in sizes:
            shown = resize_smooth(image, exported.fixed_size or size)[None]
            ours, our_spread = exported.with_spread(shown, size)
            theirs, their_spread = network.with_spread(shown, size)
            far = np.maximum(np.abs(theirs) / FAR, 1) if network.task == "depth" else 1.0
            difference = _difference(ours, theirs) / far
            if our_spread is not None and their_spread is not None:
                apart = _largest(_difference(our_spread, their_spread) / far)
                spread = max(spread or 0.0, apart)
            largest = max(largest, _largest(difference))
            total += float(difference.sum())
            count += difference.size
            agree = _agree(ours, theirs, network.task)
            agreeing += int(agree.sum())
            pixels += agree.size
    fixed = exported.fixed_size
    names = tuple(f"{size_text(fixed)} to {size_text(s)}" if fixed else size_text(s) for s in sizes)
    return Parity(
        precision=precision,
        largest=largest,
        mean=total / count,
        unit=UNITS[network.task],
        d1=agreeing / pixels,
        spread=spread,
        pictures=len(images),
        pictures_from=pictures_from,
        sizes=names,
    )


def two_sizes(size: Size) -> tuple[Size, Size]:
    """The usual size and one about three quarters of it that is no multiple of anything."""
    height, width = (max(length * 3 // 4 // 2 * 2 + 1, 33) for length in size)
    return size, (height, width)


def paths_of(folder: Path) -> list[Path]:
    """The pictures of a folder by name; InputError if there are none."""
    paths = list_folder(folder, PICTURES)
    if not paths:
        raise InputError(f"{folder}: no pictures in it ({', '.join(PICTURES)})")
    return paths


def read_some(paths: Sequence[Path], count: int) -> list[NDArray[np.uint8]]:
    """Up to so many of these pictures, evenly spread over them."""
    chosen = np.linspace(0, len(paths) - 1, min(count, len(paths))).round().astype(int)
    return [read_image(paths[index]) for index in chosen]


def _difference(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.abs(ours.astype(np.float64) - theirs)


def _largest(difference: NDArray[np.float64]) -> float:
    """NaN is as far as can be, and must not hide behind a comparison."""
    value = float(difference.max())
    return value if np.isfinite(value) else float("inf")


def _agree(ours: NDArray[np.float32], theirs: NDArray[np.float32], task: Task) -> NDArray[np.bool_]:
    """Of each pixel, (B, H, W)."""
    agree: NDArray[np.bool_]
    if task == "depth":
        low, high = np.minimum(ours, theirs), np.maximum(ours, theirs)
        agree = (high < D1 * low) | (high == low)
        return agree
    lengths = np.linalg.norm(ours, axis=-1) * np.linalg.norm(theirs, axis=-1)
    agree = (ours * theirs).sum(-1) >= np.cos(np.radians(D1_DEG)) * lengths
    return agree


def _bounds(bound: Tolerance, unit: str) -> str:
    parts = [f"{bound.largest:g} {unit} at most"] if np.isfinite(bound.largest) else []
    return ", ".join([*parts, f"{bound.mean:g} {unit} on average", f"d1 {bound.d1:g}"])
