"""Prediction and Provenance: the result for one picture, and how it was made, as typed fields.

Everything here is a value. `provenance_text` renders it for people and as JSON, `formats` writes it
to files; nothing reads rendered text back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from idisc import geometry, visualize
from idisc.alignment import InverseFit, Span, fit_spans
from idisc.ancestry import UNKNOWN, Parent
from idisc.camera import Camera
from idisc.errors import InputError
from idisc.sizes import Size
from idisc.tasks import DEPTH, NORMALS, TASKS, Task

if TYPE_CHECKING:
    from idisc.formats import FormatOptions

FloatMap = NDArray[np.float32]
Unit = Literal["metre", "relative"]
"""Of depth. Relative: 1 / depth is right up to an unknown scale and shift; see `alignment`."""
RELATIVE_FAR = 20.0  # times the nearest: where colours of relative depth end, as sky has no depth
MAX_KNOWN_FACTOR = 10.0  # a known distance that changes the scale by more is probably a mistake

WarningCode = Literal[
    "camera_matrix",  # the principal point is far from the middle of the picture
    "field_of_view",  # the lens is unlike that of the training data
    "aspect",  # the network sees the picture with another aspect ratio
    "network_size",  # the network sees everything larger or smaller than in training
    "resolution",  # the picture has far fewer pixels than the training data
    "known_distance",  # a known distance contradicts the network
    "domain",  # the picture looks unlike the domain of the model
    "scale_camera",  # a scale was found with a camera that may be another one
    "scale_size",  # a scale was found at another network size
    "camera_assumed",  # the metres are proportional to the focal length of an assumed camera
]
SCALE_WARNINGS: frozenset[WarningCode] = frozenset({"field_of_view", "network_size"})
"""Warnings about a scale that a known distance corrects."""
SizeReason = Literal["training", "aspect", "user", "file", "convention"]
Compared = Literal["levels", "flip"]


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """What a user should know about a network before relying on it."""

    name: str
    sha256: str  # of the weights, or of the exported file
    unit: Unit = "metre"  # of its answers
    convention: str | None = None  # by which a third-party network is run
    domain: str = UNKNOWN  # indoor, road, any
    depth_range: tuple[float, float] | None = None  # metres; other depth was ignored in training
    training_size: Size | None = None  # of the network's input
    training_fov_deg: float | None = None  # horizontal, of that input
    data: tuple[str, ...] = ()  # everything that it or its parents were trained on
    licence: str = UNKNOWN  # of the weights
    precision: str = UNKNOWN  # of the arithmetic: fp32, bf16, fp16, int8
    canonical: bool = False  # trained on many cameras, all converted to the training camera
    non_commercial: bool = False  # the licence excludes commercial use
    parents: tuple[Parent, ...] = ()  # the weights that training started from, the nearest first
    verified: bool = False  # the file has checksums, and they are right

    @property
    def training_camera(self) -> Camera | None:
        """The camera of the training data, if it is known."""
        if self.training_fov_deg is None or self.training_size is None:
            return None
        return Camera.from_fov(self.training_fov_deg, self.training_size, "training")


@dataclass(frozen=True, kw_only=True)
class Warning:
    """A reason why the metres may be wrong."""

    code: WarningCode
    details: Mapping[str, str | float | Size | None] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownDistance:
    """Two points of a picture, (x, y) in pixels, and their true distance in metres."""

    first: tuple[float, float]
    second: tuple[float, float]
    metres: float

    def __post_init__(self) -> None:
        numbers = (*self.first, *self.second, self.metres)
        if not all(map(math.isfinite, numbers)) or self.metres <= 0:
            raise InputError(
                f"known distance {self}", "finite numbers and more than 0 m are needed"
            )

    @classmethod
    def parse(cls, value: object) -> KnownDistance:
        """Read "x1,y1 x2,y2 = 2.40m" or ((x1, y1), (x2, y2), 2.40)."""
        if isinstance(value, KnownDistance):
            return value
        if isinstance(value, str):
            match = _KNOWN.fullmatch(value)
            if not match and _KNOWN.fullmatch(f"{value}m"):
                raise InputError(
                    f"known distance '{value}'", "the unit is missing", "add m, cm or mm"
                )
            if not match:
                raise InputError(
                    f"known distance '{value}'", "not understood", "write x1,y1 x2,y2 = 2.40m"
                )
            x1, y1, x2, y2, length = map(float, match.groups()[:5])
            return cls((x1, y1), (x2, y2), length * _METRES[match[6]])
        try:
            (x1, y1), (x2, y2), length = value  # type: ignore[misc]
            return cls((float(x1), float(y1)), (float(x2), float(y2)), float(length))
        except (TypeError, ValueError):
            raise InputError(
                f"known distance {value!r}", "((x1, y1), (x2, y2), metres) is needed"
            ) from None

    @classmethod
    def parse_all(cls, value: object) -> tuple[KnownDistance, ...]:
        """Read one distance, a list of them, or a text with several, separated by semicolons."""
        if isinstance(value, str):
            value = value.split(";")
        if isinstance(value, (list, tuple)) and value and not _is_one(value):
            return tuple(map(cls.parse, value))
        return (cls.parse(value),)

    def __str__(self) -> str:
        (x1, y1), (x2, y2) = self.first, self.second
        return f"{x1:g},{y1:g} {x2:g},{y2:g} = {self.metres:g} m"


def _is_one(value: Sequence[object]) -> bool:
    """Tell whether a list is ((x1, y1), (x2, y2), metres), and not a list of distances."""
    return len(value) == 3 and isinstance(value[2], (int, float))


_NUMBER = r"(-?\d+(?:\.\d*)?|-?\.\d+)"
_KNOWN = re.compile(
    rf"\s*{_NUMBER}\s*,\s*{_NUMBER}\s+{_NUMBER}\s*,\s*{_NUMBER}\s*=\s*{_NUMBER}\s*(m|cm|mm)\s*"
)
_METRES = {"m": 1.0, "cm": 0.01, "mm": 0.001}


@dataclass(frozen=True, kw_only=True)
class CameraCorrection:
    """Depth was multiplied by the focal length over that of training."""

    factor: float
    training_fov_deg: float


@dataclass(frozen=True, kw_only=True)
class Rescaling:
    """Depth was multiplied so that two points are a known distance apart, or by such a mean."""

    factor: float  # the geometric mean of the factors that the distances give
    known: tuple[KnownDistance, ...]
    disagreement: float = 1.0  # the largest of these factors over the smallest
    first_frame: bool = False  # the points are pixels of the first frame of a clip


@dataclass(frozen=True, kw_only=True)
class BorrowedScale:
    """Depth was multiplied by a factor that known distances in another picture gave."""

    factor: float
    picture: str  # the file name of that picture
    known: tuple[KnownDistance, ...]  # in that picture


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Relative depth became metres by two known distances."""

    fit: InverseFit
    known: tuple[KnownDistance, ...]
    first_frame: bool = False  # the points are pixels of the first frame of a clip


@dataclass(frozen=True, kw_only=True)
class TileGrid:
    """Depth was refined in overlapping tiles."""

    count: int
    size: Size


@dataclass(frozen=True, kw_only=True)
class FrameTime:
    """The place of a frame in its clip."""

    index: int  # from 0
    seconds: float  # since the first frame


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a prediction was made, with warnings about unreliable scale."""

    picture: str  # file name, without the folder
    model: ModelInfo
    network_size: Size  # at which the network saw the picture
    network_size_reason: SizeReason
    camera_correction: CameraCorrection | None = None
    alignment: Alignment | None = None  # of relative depth
    rescalings: tuple[Rescaling | BorrowedScale, ...] = ()
    tiles: TileGrid | None = None
    flip: bool = False  # depth is the mean over the picture and its mirror image
    level_std: tuple[Compared, ...] = ()  # which answers the standard deviation compares
    normals: Literal["model", "depth"] | None = None  # where they come from
    frame: FrameTime | None = None  # of a video
    smoothing_s: float | None = None  # of a video
    notes: tuple[str, ...] = ()  # what was changed when the picture was read
    warnings: tuple[Warning, ...] = ()


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
        found = self.task.name
        if self.depth is not None:
            there = self.depth[geometry.is_present(self.depth)]
            unit = "m" if self.unit == "metre" else "(relative)"
            found = f"{there.min():.2f} to {there.max():.2f} {unit}" if there.size else "no depth"
        name = self.provenance.picture
        return f"<Prediction {name}: {height}x{width}, {found}, camera {self.camera.origin}>"

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
        made = self.provenance
        return "metre" if made.alignment is not None else made.model.unit

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
        ends = [ray * depth for ray, depth in map(self._seen, (first, second))]
        return float(np.linalg.norm(ends[0] - ends[1]))

    def scale_for(self, wanted: KnownDistance) -> float:
        """Return the factor that gives two points their known distance; metric depth only."""
        found = self.measure(wanted.first, wanted.second)
        if not found > 1e-6:  # also NaN
            raise InputError(
                f"known distance {wanted}",
                f"the predicted distance is {found:g} m",
                "choose two points that are apart",
            )
        return wanted.metres / found

    def rescaled(self, known: object) -> Prediction:
        """Return the prediction in metres that give the points of known distances these distances.

        `known` is "x1,y1 x2,y2 = 2.40m", in pixels of the upright picture, the tuple ((x1, y1),
        (x2, y2), 2.40), or a list of these. Metric depth takes one distance or more, and is
        scaled by the geometric mean of their factors; relative depth takes two, which fix scale
        and shift.
        """
        wanted = KnownDistance.parse_all(known)
        return self.apply(self.change_for(wanted))

    def change_for(
        self, wanted: Sequence[KnownDistance], *, first_frame: bool = False
    ) -> Rescaling | Alignment:
        """Return the change that gives the points of known distances these distances."""
        if self.unit == "metre":
            factors = [self.scale_for(known) for known in wanted]
            return Rescaling(
                factor=geometric_mean(factors),
                known=tuple(wanted),
                disagreement=max(factors) / min(factors),
                first_frame=first_frame,
            )
        if len(wanted) != 2:
            raise InputError(
                f"known distance {'; '.join(map(str, wanted))}",
                "relative depth takes two",
                "give one that is near and one that is far",
            )
        first, second = (self._span(known) for known in wanted)
        return Alignment(fit=fit_spans(first, second), known=tuple(wanted), first_frame=first_frame)

    def apply(self, change: CameraCorrection | Rescaling | BorrowedScale | Alignment) -> Prediction:
        """Return the prediction with depth changed, which the provenance records."""
        before = self.provenance
        if isinstance(change, Alignment):
            depth = change.fit.metres(self.depth_values)
            # The deviation is spread as depth is: d metres / d relative = (metres / relative)^2 s.
            slope = (depth / self.depth_values) ** 2 * np.float32(change.fit.scale)
            level_std = None if self.level_std is None else self.level_std * slope
            provenance = replace(before, alignment=change)
            return replace(self, depth=depth, level_std=level_std, provenance=provenance)
        if isinstance(change, CameraCorrection):
            provenance = replace(before, camera_correction=change)
        else:
            kept = [each for each in before.warnings if each.code not in SCALE_WARNINGS]
            if max(change.factor, 1 / change.factor) > MAX_KNOWN_FACTOR:
                kept.append(Warning(code="known_distance", details={"factor": change.factor}))
            rescalings = (*before.rescalings, change)
            provenance = replace(before, rescalings=rescalings, warnings=tuple(kept))
        factor = np.float32(change.factor)
        level_std = None if self.level_std is None else self.level_std * factor
        return replace(self, depth=self.metres * factor, level_std=level_std, provenance=provenance)

    def _check_metric(self) -> None:
        if self.unit == "relative":
            raise InputError(
                self.provenance.model.name,
                "its depth is relative, so there are no metres",
                "give two distances with --known-distance",
            )

    def _span(self, known: KnownDistance) -> Span:
        """Return two points in relative depth, with their known distance."""
        (first, near), (second, far) = (self._seen(at) for at in (known.first, known.second))
        if not min(near, far) > 0:  # also NaN
            raise InputError(f"known distance {known}", "there is no depth at a point")
        return Span(np.stack([first, second]), np.array([near, far]), known.metres)

    def _seen(self, point: tuple[float, float]) -> tuple[NDArray[np.float64], float]:
        """Return the ray (3,) through a pixel (x, y), with z = 1, and the depth there."""
        depth, camera, (x, y) = self.depth_values, self.camera, point
        column, row = round(x), round(y)
        if not (0 <= row < depth.shape[0] and 0 <= column < depth.shape[1]):
            raise InputError(
                f"point {x:g},{y:g}",
                (
                    f"outside of the picture, which is {depth.shape[1]} pixels wide and"
                    f" {depth.shape[0]} high"
                ),
            )
        ray = ((column - camera.cx) / camera.fx, (row - camera.cy) / camera.fy, 1.0)
        return np.array(ray), float(depth[row, column])


def colour_limits(unit: Unit, *depths: FloatMap) -> tuple[float, float]:
    """Return the range of colours for some dense depth maps in `unit`."""
    steps = [1 + max(depth.shape) // 1000 for depth in depths]  # a sample of large maps will do
    low, high = visualize.depth_limits(
        *(depth[::step, ::step] for depth, step in zip(depths, steps, strict=True))
    )
    if unit == "metre" or high <= RELATIVE_FAR * low:
        return low, high
    return low, RELATIVE_FAR * low
