"""Provenance: how a prediction was made, as typed fields.

Everything here is a value. `provenance_text` renders it for people and as JSON; nothing reads
rendered text back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from idisc.alignment import InverseFit
from idisc.ancestry import UNKNOWN, Parent
from idisc.camera import Camera
from idisc.errors import InputError
from idisc.sizes import Size

Unit = Literal["metre", "relative"]
"""Of depth. Relative: 1 / depth is right up to an unknown scale and shift; see `alignment`."""
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
        if isinstance(value, (list, tuple)) and value and not _is_single_distance(value):
            return tuple(map(cls.parse, value))
        return (cls.parse(value),)

    def __str__(self) -> str:
        (x1, y1), (x2, y2) = self.first, self.second
        return f"{x1:g},{y1:g} {x2:g},{y2:g} = {self.metres:g} m"


def _is_single_distance(value: Sequence[object]) -> bool:
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
