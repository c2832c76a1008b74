"""Prediction: depth, normals or another map of one picture, with its camera and provenance.

`formats` writes predictions to files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from idisc import geometry, visualize
from idisc.alignment import Span, fit_spans
from idisc.camera import Camera
from idisc.errors import InputError
from idisc.provenance import (
    SCALE_WARNINGS,
    Alignment,
    BorrowedScale,
    CameraCorrection,
    KnownDistance,
    Provenance,
    Rescaling,
    Unit,
    Warning,
)
from idisc.sizes import Size
from idisc.tasks import DEPTH, NORMALS, TASKS, Task

if TYPE_CHECKING:
    from idisc.formats import FormatOptions

FloatMap = NDArray[np.float32]
RELATIVE_FAR = 20.0  # times the nearest: where colours of relative depth end, as sky has no depth
MAX_KNOWN_FACTOR = 10.0  # a known distance that changes the scale by more is probably a mistake


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Depth, normals or another map of one picture at its own size; a network predicts one."""

    image: NDArray[np.uint8]  # (H, W, 3) RGB, upright
    depth: FloatMap | None  # (H, W) along the optical axis, in `unit`; 0 and NaN are none
    camera: Camera  # of the picture; its `origin` says where it comes from
    level_std: FloatMap | None = None  # (H, W), as depth; see `provenance.level_std`
    normals: FloatMap | None = None  # (H, W, 3) unit, x right, y down, z forward; NaN for none
    others: Mapping[str, FloatMap] = field(default_factory=dict)  # (H, W, ...) of further TASKS
    pixels_per_feature: int = 1  # side of the square that one pixel of the finest map covers
    provenance: Provenance

    def __post_init__(self) -> None:
        depth = self.depth
        if depth is None and self.normals is None and not self.others:
            raise InputError("prediction", "depth or normals are needed")
        if depth is not None and (depth.dtype.kind != "f" or depth.ndim != 2):
            raise InputError(f"depth {depth.shape} of {depth.dtype}", "(H, W) float32 needed")
        maps = {"depth": depth, "normals": self.normals, "level_std": self.level_std}
        maps |= self.others
        shapes = {name: values.shape[:2] for name, values in maps.items() if values is not None}
        for name, shape in {**shapes, "camera": tuple(self.camera.size)}.items():
            if shape != self.size:
                raise InputError(f"{name} of size {shape}, image of {self.size}", "they must agree")

    def __repr__(self) -> str:
        height, width = self.size
        content = self.task.name
        if self.depth is not None:
            there = self.depth[geometry.is_present(self.depth)]
            unit = "m" if self.unit == "metre" else "(relative)"
            content = f"{there.min():.2f} to {there.max():.2f} {unit}" if there.size else "no depth"
        name = self.provenance.picture
        return f"<Prediction {name}: {height}x{width}, {content}, camera {self.camera.origin}>"

    @property
    def size(self) -> Size:
        """(height, width) of the picture."""
        return self.image.shape[0], self.image.shape[1]

    @property
    def task(self) -> Task:
        """What the network predicted."""
        if self.depth is not None:
            return DEPTH
        return NORMALS if self.normals is not None else TASKS[next(iter(self.others))]

    @property
    def unit(self) -> Unit:
        """The unit of depth: that of the model, unless relative depth was aligned."""
        provenance = self.provenance
        return "metre" if provenance.alignment is not None else provenance.model.unit

    @property
    def depth_values(self) -> FloatMap:
        """The depth (H, W) in `unit`; InputError if the network predicts something else."""
        if self.depth is None:
            name = self.provenance.model.name
            raise InputError(name, f"predicts {self.task.name}, not depth")
        return self.depth

    @property
    def metres(self) -> FloatMap:
        """The depth (H, W) in metres; InputError if there is none, or if it is relative."""
        self._check_metric()
        return self.depth_values

    @property
    def points(self) -> FloatMap:
        """(H, W, 3) metres: x right, y down, z forward from the camera."""
        return geometry.unproject(self.metres, self.camera)

    def save(
        self,
        folder: str | Path,
        formats: str | Sequence[str] | None = None,
        *,
        name: str | None = None,
        options: FormatOptions | None = None,
    ) -> list[Path]:
        """Write the result into a folder as NAME_depth.png and so on; return the files.

        `formats` are names of `formats.FORMATS`, as a list or as "npy,ply"; by default a picture
        and a 16-bit PNG, or the normals. `name` is by default that of the picture. Files of that
        name are replaced.
        """
        from idisc import formats as table

        if name is None:
            name = Path(self.provenance.picture).stem or "picture"
        rows = table.default_formats(self.task) if formats is None else table.parse(formats)
        return table.save(self, Path(folder), name, rows, options or table.FormatOptions())

    def with_normals(self) -> Prediction:
        """Return the prediction with normals, computed from depth and camera if it has none."""
        if self.normals is not None:
            return self
        normals = geometry.normals_from_depth(
            self.metres, self.camera, pixels_per_feature=self.pixels_per_feature
        )
        return replace(self, normals=normals, provenance=replace(self.provenance, normals="depth"))

    def measure(self, first: tuple[float, float], second: tuple[float, float]) -> float:
        """Return the distance in metres between the points seen at two pixels (x, y)."""
        self._check_metric()
        ends = [ray * depth for ray, depth in map(self._ray_and_depth, (first, second))]
        return float(np.linalg.norm(ends[0] - ends[1]))

    def scale_for(self, known: KnownDistance) -> float:
        """Return the factor that gives two points their known distance; metric depth only."""
        predicted = self.measure(known.first, known.second)
        if not predicted > 1e-6:  # also NaN
            reason = f"the predicted distance is {predicted:g} m"
            remedy = "choose two points that are apart"
            raise InputError(f"known distance {known}", reason, remedy)
        return known.metres / predicted

    def rescaled(self, known: object) -> Prediction:
        """Return the prediction in metres that give the points of known distances these distances.

        `known` is "x1,y1 x2,y2 = 2.40m", in pixels of the upright picture, the tuple ((x1, y1),
        (x2, y2), 2.40), or a list of these. Metric depth takes one distance or more, and is
        scaled by the geometric mean of their factors; relative depth takes two, which fix scale
        and shift.
        """
        return self.apply(self.change_for(KnownDistance.parse_all(known)))

    def change_for(
        self, known: Sequence[KnownDistance], *, first_frame: bool = False
    ) -> Rescaling | Alignment:
        """Return the change that gives the points of known distances these distances."""
        if self.unit == "metre":
            factors = [self.scale_for(one) for one in known]
            return Rescaling(
                factor=geometric_mean(factors),
                known=tuple(known),
                disagreement=max(factors) / min(factors),
                first_frame=first_frame,
            )
        if len(known) != 2:
            raise InputError(
                f"known distance {'; '.join(map(str, known))}",
                "relative depth takes two",
                "give one that is near and one that is far",
            )
        first, second = (self._span(one) for one in known)
        return Alignment(fit=fit_spans(first, second), known=tuple(known), first_frame=first_frame)

    def apply(self, change: CameraCorrection | Rescaling | BorrowedScale | Alignment) -> Prediction:
        """Return the prediction with depth changed, which the provenance records."""
        before = self.provenance
        factor: FloatMap | np.float32
        if isinstance(change, Alignment):
            depth = change.fit.metres(self.depth_values)
            # The deviation is scaled by the slope d metres / d relative = (metres / relative)^2 s.
            factor = (depth / self.depth_values) ** 2 * np.float32(change.fit.scale)
            provenance = replace(before, alignment=change)
        else:
            factor = np.float32(change.factor)
            depth = self.metres * factor
            if isinstance(change, CameraCorrection):
                provenance = replace(before, camera_correction=change)
            else:
                warnings = [each for each in before.warnings if each.code not in SCALE_WARNINGS]
                if max(change.factor, 1 / change.factor) > MAX_KNOWN_FACTOR:
                    details = {"factor": change.factor}
                    warnings.append(Warning(code="known_distance", details=details))
                rescalings = (*before.rescalings, change)
                provenance = replace(before, rescalings=rescalings, warnings=tuple(warnings))
        level_std = None if self.level_std is None else self.level_std * factor
        return replace(self, depth=depth, level_std=level_std, provenance=provenance)

    def _check_metric(self) -> None:
        if self.unit == "relative":
            raise InputError(
                self.provenance.model.name,
                "its depth is relative, so there are no metres",
                "give two distances with --known-distance",
            )

    def _span(self, known: KnownDistance) -> Span:
        """Return two points in relative depth, with their known distance."""
        first, near = self._ray_and_depth(known.first)
        second, far = self._ray_and_depth(known.second)
        if not min(near, far) > 0:  # also NaN
            raise InputError(f"known distance {known}", "there is no depth at a point")
        return Span(np.stack([first, second]), np.array([near, far]), known.metres)

    def _ray_and_depth(self, point: tuple[float, float]) -> tuple[NDArray[np.float64], float]:
        """Return the ray (3,) through a pixel (x, y), with z = 1, and the depth there."""
        depth, camera, (x, y) = self.depth_values, self.camera, point
        column, row = round(x), round(y)
        if not (0 <= row < depth.shape[0] and 0 <= column < depth.shape[1]):
            height, width = depth.shape
            reason = f"outside of the picture, which is {width} pixels wide and {height} high"
            raise InputError(f"point {x:g},{y:g}", reason)
        ray = ((column - camera.cx) / camera.fx, (row - camera.cy) / camera.fy, 1.0)
        return np.array(ray), float(depth[row, column])


def colour_limits(unit: Unit, *depths: FloatMap) -> tuple[float, float]:
    """Return the range of colours for dense depth maps in `unit`."""
    steps = [1 + max(depth.shape) // 1000 for depth in depths]  # sample large maps
    low, high = visualize.depth_limits(
        *(depth[::step, ::step] for depth, step in zip(depths, steps, strict=True))
    )
    if unit == "metre" or high <= RELATIVE_FAR * low:
        return low, high
    return low, RELATIVE_FAR * low
