"""The difference between an exported file and its network, in metres, measured on images.

Both predict the same images at two sizes. The result is written into the file; a file outside of
`TOLERANCES` is not kept. For fp32 the limit is a millimetre, which covers rounding in another order
and nothing else. Beyond 3 m, where a float32 network itself rounds by more, the limit is a
three-thousandth of the depth. fp16 and int8 give a slightly different network; their limits are on
the mean and d1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idisc.configs.schema import FilePrecision
from idisc.errors import CheckFailed, InputError
from idisc.images import read_image
from idisc.predict.engine import Engine
from idisc.predict.inputs import PICTURES, list_folder
from idisc.sizes import Size, resize_smooth, size_text

Images = Sequence[NDArray[np.uint8]]
FAR = 3.0  # metres; beyond, a difference is relative to the depth
EXAMPLES = Path(str(resources.files("idisc").joinpath("assets", "examples")))  # photos of rooms


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """The largest permitted differences, in metres (for normals: of a unit vector)."""

    largest: float = float("inf")  # of any pixel
    mean: float
    d1: float  # smallest permitted share of pixels that agree


TOLERANCES: dict[FilePrecision, Tolerance] = {
    "fp32": Tolerance(largest=1e-3, mean=1e-3, d1=1.0),
    "fp16-weights": Tolerance(mean=0.01, d1=0.999),
    "fp16": Tolerance(mean=0.02, d1=0.999),
    "int8": Tolerance(mean=0.25, d1=0.9),
}


@dataclass(frozen=True, kw_only=True)
class Parity:
    """The differences over all images and sizes."""

    precision: FilePrecision
    largest: float
    mean: float
    unit: str  # of largest and mean
    d1: float
    level_std: float | None  # largest difference of level_std in metres; None without it
    pictures: int
    pictures_from: str  # the name of a folder
    sizes: tuple[str, ...]  # of the network's input, and of the result if that differs

    def to_json(self) -> str:
        """Return the measurement and its tolerance as JSON, for the metadata of a file."""
        limits = {k: v for k, v in asdict(TOLERANCES[self.precision]).items() if np.isfinite(v)}
        return json.dumps({**asdict(self), "tolerance": limits})

    def check(self, name: str) -> None:
        """Raise CheckFailed about the file `name` if the differences are out of tolerance."""
        limit, unit = TOLERANCES[self.precision], self.unit
        largest = max(self.largest, self.level_std or 0.0)
        if largest <= limit.largest and self.mean <= limit.mean and self.d1 >= limit.d1:
            return  # not with NaN
        largest_text = f"{limit.largest:g} {unit} at most, " if np.isfinite(limit.largest) else ""
        remedy = "; calibrate on more images with --pictures" if self.precision == "int8" else ""
        raise CheckFailed(
            name,
            f"differs from the network by {self.describe()}",
            f"{self.precision} allows {largest_text}{limit.mean:g} {unit} on average, d1"
            f" {limit.d1:g}{remedy}",
        )

    def describe(self) -> str:
        """Return the differences with their unit."""
        deviation = "" if self.level_std is None else f"; level_std by {self.level_std:.2g} m"
        return (
            f"{self.largest:.2g} {self.unit} at most, {self.mean:.2g} {self.unit} on average,"
            f" d1 {self.d1:.4f}{deviation}"
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
    """Compare two engines on all images, resized to each of the sizes.

    A file for one size gets its images at that size, and is asked for results of all sizes.
    """
    differences, agreements, deviations = [], [], []
    fixed = exported.fixed_size
    for image in images:
        for size in sizes:
            shown = resize_smooth(image, fixed or size)[None]
            maps, std, *_ = exported.run(shown, size)
            expected, expected_std, *_ = network.run(shown, size)
            far = np.maximum(np.abs(expected) / FAR, 1) if network.task.metric else 1.0
            differences.append((np.abs(maps.astype(np.float64) - expected) / far).ravel())
            agreements.append(network.task.agree(maps, expected).ravel())
            if std is not None and expected_std is not None:
                deviations.append((np.abs(std.astype(np.float64) - expected_std) / far).ravel())
    prefix = f"{size_text(fixed)} to " if fixed else ""
    return Parity(
        precision=precision,
        largest=_largest(differences),
        mean=float(np.concatenate(differences).mean()),
        unit=network.task.unit,
        d1=float(np.concatenate(agreements).mean()),
        level_std=_largest(deviations) if deviations else None,
        pictures=len(images),
        pictures_from=pictures_from,
        sizes=tuple(prefix + size_text(size) for size in sizes),
    )


def two_sizes(size: Size) -> tuple[Size, Size]:
    """Return the size and one of about three quarters of it with odd sides."""
    height, width = (max(length * 3 // 4 // 2 * 2 + 1, 33) for length in size)
    return size, (height, width)


def list_pictures(folder: Path) -> list[Path]:
    """Return the pictures of a folder, sorted by name; InputError if there are none."""
    paths = list_folder(folder, PICTURES)
    if not paths:
        raise InputError(folder, f"contains no images ({', '.join(PICTURES)})")
    return paths


def read_evenly(paths: Sequence[Path], count: int) -> list[NDArray[np.uint8]]:
    """Read at most `count` of these pictures, evenly distributed over them."""
    chosen = np.linspace(0, len(paths) - 1, min(count, len(paths))).round().astype(int)
    return [read_image(paths[index]) for index in chosen]


def _largest(differences: list[NDArray[np.float64]]) -> float:
    value = float(np.concatenate(differences).max())
    return value if np.isfinite(value) else float("inf")  # NaN would compare as no difference
