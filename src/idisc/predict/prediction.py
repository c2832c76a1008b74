"""What a prediction is: the picture, its depth, the camera, and everything that was assumed.

A value that computes on demand and changes nothing of itself. Files are `outputs`' business.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from idisc import geometry
from idisc.camera import Camera
from idisc.errors import InputError
from idisc.predict import doubts
from idisc.settings import Task

if TYPE_CHECKING:
    from idisc.outputs import Options

USUAL_FORMATS: dict[Task, tuple[str, ...]] = {"depth": ("png", "png16"), "normals": ("normals",)}
"""What is saved when nothing else is asked for, by what the network predicts."""
FloatMap = NDArray[np.float32]
_NUMBER = r"(-?\d+(?:\.\d*)?|-?\.\d+)"
_KNOWN = re.compile(
    rf"\s*{_NUMBER}\s*,\s*{_NUMBER}\s+{_NUMBER}\s*,\s*{_NUMBER}\s*=\s*{_NUMBER}\s*(m|cm|mm)\s*"
)
_METRES = {"m": 1.0, "cm": 0.01, "mm": 0.001}


@dataclass(frozen=True)
class Known:
    """Two points of a picture, (x, y) in pixels, and their true distance in metres."""

    first: tuple[float, float]
    second: tuple[float, float]
    metres: float

    def __post_init__(self) -> None:
        numbers = (*self.first, *self.second, self.metres)
        if not all(map(math.isfinite, numbers)) or self.metres <= 0:
            raise InputError(f"known distance {self}: finite numbers, more than 0 m are needed")

    @classmethod
    def parse(cls, value: object) -> Known:
        """From "x1,y1 x2,y2 = 2.40m" or ((x1, y1), (x2, y2), 2.40)."""
        if isinstance(value, Known):
            return value
        if isinstance(value, str):
            match = _KNOWN.fullmatch(value)
            if not match and _KNOWN.fullmatch(f"{value}m"):
                raise InputError(f"known distance '{value}': without a unit; end it in m, cm or mm")
            if not match:
                raise InputError(f"known distance '{value}': write it as 'x1,y1 x2,y2 = 2.40m'")
            x1, y1, x2, y2, length = map(float, match.groups()[:5])
            return cls((x1, y1), (x2, y2), length * _METRES[match[6]])
        try:
            (x1, y1), (x2, y2), length = value  # type: ignore[misc]
            return cls((float(x1), float(y1)), (float(x2), float(y2)), float(length))
        except (TypeError, ValueError):
            raise InputError(
                f"known distance {value!r}: ((x1, y1), (x2, y2), metres) is needed"
            ) from None

    def __str__(self) -> str:
        (x1, y1), (x2, y2) = self.first, self.second
        return f"{x1:g},{y1:g} {x2:g},{y2:g} = {self.metres:g} m"


@dataclass(frozen=True)
class Scale:
    """What a known distance in one frame of a clip says of the others."""

    factor: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The metres of one picture, at its size, and how they came about."""

    image: NDArray[np.uint8]  # (H, W, 3) RGB, upright
    depth: FloatMap  # (H, W) metres along the optical axis; of a network for normals all NaN
    camera: Camera  # of the picture; its `origin` says where it comes from
    spread: FloatMap | None = None  # (H, W) metres; `facts["spread"]` says of what
    normals: FloatMap | None = None  # (H, W, 3) unit, x right, y down, z forward; NaN for none
    cell: int = 1  # pixels of the picture for one of the network's finest map
    facts: Mapping[str, str]  # model, domain, range, size, camera, changes, warnings, for people

    def __repr__(self) -> str:
        height, width = self.depth.shape
        there = self.depth[geometry.is_present(self.depth)]
        metres = f"{there.min():.2f} to {there.max():.2f} m" if there.size else "no depth"
        name = self.facts.get("picture", "picture")
        return f"<Prediction {name}: {height}x{width}, {metres}, camera {self.camera.origin}>"

    @property
    def task(self) -> Task:
        """What the network predicted: depth, or normals and no metres."""
        return "normals" if self.normals is not None and np.isnan(self.depth).all() else "depth"

    @property
    def points(self) -> FloatMap:
        """(H, W, 3) metres: x right, y down, z forward from the camera."""
        return geometry.unproject(self.depth, self.camera)

    def save(
        self,
        folder: str | Path,
        formats: str | Sequence[str] | None = None,
        *,
        name: str | None = None,
        options: Options | None = None,
    ) -> list[Path]:
        """Write the result into a folder as NAME_depth.png and so on; returns the files.

        `formats` are names of `outputs.WRITERS`, as a list or as "npy,ply", by default those of
        USUAL_FORMATS; `name` is by default that of the picture. Files of that name are replaced.
        """
        from idisc import outputs

        if Path(folder).suffix.lower() in outputs.ENDINGS and not Path(folder).is_dir():
            raise InputError(
                f"{folder}: a folder is needed, files in it are NAME_depth.png and so on; pass"
                " name= for another name than the picture's"
            )
        if name is None:
            name = Path(self.facts.get("picture", "")).stem or "picture"
        kinds = outputs.formats_of(USUAL_FORMATS[self.task] if formats is None else formats)
        shown = self.with_normals() if "normals" in kinds else self  # other formats have them, too
        return outputs.save(shown, Path(folder), name, kinds, options or outputs.Options())

    def with_normals(self) -> Prediction:
        """The same with normals: those it has, else those of its depth."""
        if self.normals is not None:
            return self
        normals = geometry.normals_from_depth(self.depth, self.camera, cell=self.cell)
        facts = {**self.facts, "normals": "from depth and camera"}
        return replace(self, normals=normals, facts=facts)

    def scaled(self, factor: float, why: str) -> Prediction:
        """The same scene, larger by a factor; `why` goes into the facts."""
        before = f"{self.facts['rescaled']}; " if "rescaled" in self.facts else ""
        facts = {**self.facts, "rescaled": f"{before}depth x {factor:.4g}, {why}"}
        return self._times(factor, facts)

    def corrected(self, factor: float, why: str) -> Prediction:
        """The metres of another camera than that of training; `why` goes into the facts."""
        return self._times(factor, {**self.facts, "correction": f"depth x {factor:.4g}, {why}"})

    def _times(self, factor: float, facts: Mapping[str, str]) -> Prediction:
        depth = self.depth * np.float32(factor)
        spread = None if self.spread is None else self.spread * np.float32(factor)
        return replace(self, depth=depth, spread=spread, facts=facts)

    def measured(self, first: tuple[float, float], second: tuple[float, float]) -> float:
        """Distance in metres between what is seen at two pixels (x, y)."""
        depth, camera = self.depth, self.camera
        ends = []
        for x, y in (first, second):
            column, row = round(x), round(y)
            if not (0 <= row < depth.shape[0] and 0 <= column < depth.shape[1]):
                raise InputError(
                    f"point {x:g},{y:g}: outside of a picture {depth.shape[1]} pixels wide and"
                    f" {depth.shape[0]} high"
                )
            ray = ((column - camera.cx) / camera.fx, (row - camera.cy) / camera.fy, 1.0)
            ends.append(float(depth[row, column]) * np.array(ray))
        return float(np.linalg.norm(ends[0] - ends[1]))

    def rescaled(self, known: object) -> Prediction:
        """The scene scaled so that two points are as far apart as they are known to be.

        `known` is "x1,y1 x2,y2 = 2.40m", pixels of the upright picture, or the same as one tuple,
        ((x1, y1), (x2, y2), 2.40). A factor beyond reason is a warning among the facts.
        """
        wanted = Known.parse(known)
        factor = self.factor(wanted)
        why = f"known {wanted}, predicted {wanted.metres / factor:.4g} m"
        return self.scaled(factor, why)._doubted(doubts.of_scale(factor))

    def _doubted(self, doubt: str | None) -> Prediction:
        """With one more warning, if there is one."""
        if doubt is None:
            return self
        before = f"{self.facts['warning']}; " if "warning" in self.facts else ""
        return replace(self, facts={**self.facts, "warning": f"{before}{doubt}"})

    def factor(self, known: object) -> float:
        """By how much a known distance, as for `rescaled`, enlarges the scene."""
        wanted = Known.parse(known)
        found = self.measured(wanted.first, wanted.second)
        if not found > 1e-6:  # nor NaN, which is all that a network for normals gives
            raise InputError(
                f"known distance {wanted}: {found:g} m are predicted, nothing to scale; choose two"
                " points that are apart"
            )
        return wanted.metres / found
