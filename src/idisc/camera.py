"""The pinhole camera of a picture: how pixels become rays, through every crop, resize and flip.

Pixel centres are at whole numbers, as in the calibrations of all seven datasets: the left edge of a
picture of width W is at x = -0.5, its right edge at W - 0.5. Axes: x right, y down, z forward.
A camera says where it comes from; nothing here guesses silently. Lens distortion is not its
business (`data.lidar` handles it where a calibration has it).

Of a photo, the camera that the user gives counts before what EXIF says, and EXIF before the one
that is assumed. The 35 mm equivalent relates diagonals (CIPA DCG-001: that of the picture to the
43.27 mm of film), so that it means the same whether the picture is upright or lies; makers who
relate widths instead differ by 4 % for pictures of 4:3, by nothing for 3:2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idisc.errors import InputError

ASSUMED_FOV_DEG = 60.0  # of the longer side: between a phone's wide and normal lens
FILM_DIAGONAL_MM = math.hypot(36, 24)
LENSES_MM = (4.0, 2000.0)  # 35 mm equivalents that are made, fisheyes and telescopes included
Source = Literal["given", "matrix", "exif", "assumed"]
"""Who states a camera: a person or a dataset; a person by numbers in pixels, which may be those of
another size of the picture; its file; nobody."""
_SKEW = 1e-3  # of the focal length: half a pixel at the edge of most pictures
_SAME_SHAPE = 0.02  # sides are whole numbers, and cameras round them to multiples of 16


@dataclass(frozen=True, kw_only=True)
class Lens:
    """What a picture's EXIF says of its camera; None where it is silent."""

    focal_35mm: float | None = None  # focal length with the same field of view on film, mm
    focal_mm: float | None = None  # of the lens itself
    pixels_per_mm: float | None = None  # on the sensor, of the picture as it was taken
    taken_size: tuple[int, int] | None = None  # of that picture, as stored


@dataclass(frozen=True, kw_only=True)
class Camera:
    """Intrinsics of a picture of one size, all in pixels."""

    fx: float
    fy: float
    cx: float
    cy: float
    size: tuple[int, int]  # (height, width) of the picture they belong to
    origin: str  # where the numbers come from, for people: "calibration", "assumed 60 deg"
    source: Source = "given"  # the same, for programs

    def __post_init__(self) -> None:
        if min(self.size) < 1:
            raise InputError("camera", f"a picture of {self.size} pixels has none")
        values = (self.fx, self.fy, self.cx, self.cy)
        if not all(map(math.isfinite, values)) or min(self.fx, self.fy) <= 0:
            raise InputError(
                f"camera {values}", "fx and fy more than 0, and four finite numbers, are needed"
            )

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, size: tuple[int, int], origin: str = "") -> Camera:
        """From the matrix K, (3, 3) or the (3, 4) of a projection, without skew.

        One that comes with its origin, as a calibration does, is taken to be of this size.
        """
        try:
            k = np.asarray(matrix, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"camera matrix {matrix!r}", "3x3 numbers are needed") from None
        if k.ndim != 2 or k.shape[0] != 3 or k.shape[1] not in (3, 4):
            raise InputError("camera matrix", f"shape {k.shape}", "(3, 3) is needed")
        if k[2, 2] == 0:
            raise InputError("camera matrix", "0 at its lower right", "1 is usual there")
        k = k / k[2, 2]
        camera = cls(
            fx=float(k[0, 0]),
            fy=float(k[1, 1]),
            cx=float(k[0, 2]),
            cy=float(k[1, 2]),
            size=size,
            origin=origin or "given matrix",
            source="given" if origin else "matrix",
        )
        _check_form(k)
        return camera

    @classmethod
    def from_fov(cls, fov_deg: float, size: tuple[int, int], origin: str = "") -> Camera:
        """From the horizontal field of view: square pixels, the axis through the middle."""
        if not 1e-9 < fov_deg < 180:  # below, the tangent becomes 0
            raise InputError(
                f"field of view {fov_deg:g}", "more than 0 and less than 180 degrees is needed"
            )
        focal_px = size[1] / 2 / math.tan(math.radians(fov_deg) / 2)
        return cls.from_focal(focal_px, size, origin or f"given {fov_deg:g} deg")

    @classmethod
    def from_focal(
        cls, focal_px: float, size: tuple[int, int], origin: str = "", source: Source = "given"
    ) -> Camera:
        """From the focal length in pixels: square pixels, the axis through the middle."""
        if not focal_px > 0:
            raise InputError(f"focal length {focal_px:g}", "more than 0 is needed")
        height, width = size
        return cls(
            fx=focal_px,
            fy=focal_px,
            cx=(width - 1) / 2,
            cy=(height - 1) / 2,
            size=size,
            origin=origin or f"given {focal_px:g} px",
            source=source,
        )

    @classmethod
    def from_focal_35mm(cls, focal_mm: float, size: tuple[int, int], origin: str = "") -> Camera:
        """From the focal length in mm that has the same field of view on 35 mm film."""
        focal_px = focal_mm * math.hypot(*size) / FILM_DIAGONAL_MM
        return cls.from_focal(focal_px, size, origin or f"given {focal_mm:g} mm")

    @classmethod
    def from_exif(cls, lens: Lens, size: tuple[int, int]) -> Camera | None:
        """From what EXIF says of a picture that now has `size`; None if that is not enough.

        The 35 mm equivalent if there is one; else the focal length and the pitch of the sensor's
        pixels; neither if no such lens is made. A picture that was cropped since has another field
        of view, which nobody knows.
        """
        if not _same_shape(lens.taken_size, size):
            return None
        for focal_px, origin in _stated(lens, size):
            if LENSES_MM[0] <= focal_px * FILM_DIAGONAL_MM / math.hypot(*size) <= LENSES_MM[1]:
                return cls.from_focal(focal_px, size, origin, "exif")
        return None

    @classmethod
    def assumed(cls, size: tuple[int, int], fov_deg: float = ASSUMED_FOV_DEG) -> Camera:
        """When nothing is known: this field of view along the longer side of the picture."""
        along = cls.from_fov(fov_deg, (min(size), max(size)))
        return cls.from_focal(along.fx, size, f"assumed {fov_deg:g} deg", "assumed")

    @property
    def known(self) -> bool:
        """Given, calibrated or read; not assumed."""
        return self.source != "assumed"

    @property
    def relative_focal(self) -> float:
        """Focal length over the side of a square with as many pixels; no resize changes it.

        For pictures of one shape it compares focal lengths at equal width. For others it compares
        what a network sees that is given the same number of pixels of each.
        """
        return math.sqrt(self.fx * self.fy / (self.size[0] * self.size[1]))

    @property
    def matrix(self) -> NDArray[np.float64]:
        """K (3, 3)."""
        return np.array([[self.fx, 0, self.cx], [0, self.fy, self.cy], [0, 0, 1]])

    @property
    def fov_deg(self) -> float:
        """Horizontal field of view, from the left edge of the picture to the right one."""
        left, right = self.cx + 0.5, self.size[1] - 0.5 - self.cx
        return math.degrees(math.atan(left / self.fx) + math.atan(right / self.fx))

    def resized(self, size: tuple[int, int]) -> Camera:
        """The camera of the picture resized to `size`."""
        down, across = size[0] / self.size[0], size[1] / self.size[1]
        return replace(
            self,
            fx=self.fx * across,
            fy=self.fy * down,
            cx=(self.cx + 0.5) * across - 0.5,
            cy=(self.cy + 0.5) * down - 0.5,
            size=size,
        )

    def cropped(self, top: int, left: int, size: tuple[int, int]) -> Camera:
        """The camera of a window of the picture."""
        return replace(self, cx=self.cx - left, cy=self.cy - top, size=size)

    def flipped(self) -> Camera:
        """The camera of the picture mirrored left to right."""
        return replace(self, cx=self.size[1] - 1 - self.cx)

    def fitted(self, size: tuple[int, int]) -> Camera:
        """The same camera for a picture of `size`, which has to be of the same shape."""
        height, width = size
        if abs(width * self.size[0] / (height * self.size[1]) - 1) > _SAME_SHAPE:
            raise InputError(
                f"a camera for {self.size[0]}x{self.size[1]} with a picture of {height}x{width};"
                " crop the camera together with its picture"
            )
        return self if self.size == size else self.resized(size)


def matrix_camera(matrix: ArrayLike, size: tuple[int, int]) -> Camera:
    """The camera of a matrix that a user gives for a picture of `size`, in its pixels."""
    camera = Camera.from_matrix(matrix, size)
    height, width = size
    if not (0 <= camera.cx < width and 0 <= camera.cy < height):
        raise InputError(
            "camera matrix",
            (
                f"cx {camera.cx:g}, cy {camera.cy:g} are outside of a picture {width} pixels"
                f" wide and {height} high"
            ),
            "scale it as the picture was scaled",
        )
    return camera


def camera_of(given: Camera | None, lens: Lens, size: tuple[int, int]) -> Camera:
    """The camera of a picture of `size`: as given, else by its EXIF, else assumed."""
    if given is not None:
        return given.fitted(size)
    found = Camera.from_exif(lens, size)
    if found is not None:
        return found
    camera, stated = Camera.assumed(size), _stated(lens, size)
    if not stated:
        return camera
    doubt = f"{stated[0][1]} not believed"
    if not _same_shape(lens.taken_size, size):
        doubt = "cropped since EXIF was written"
    return replace(camera, origin=f"{camera.origin}, {doubt}")


def _stated(lens: Lens, size: tuple[int, int]) -> list[tuple[float, str]]:
    """Focal lengths in pixels that EXIF states for this `size`, each in words; best first."""
    found = []
    if lens.focal_35mm:
        focal_px = lens.focal_35mm * math.hypot(*size) / FILM_DIAGONAL_MM
        found.append((focal_px, f"EXIF {lens.focal_35mm:g} mm"))
    if lens.focal_mm and lens.pixels_per_mm:
        length = max(lens.taken_size or size)  # px; the longer side may lie or stand
        focal_px = lens.focal_mm * lens.pixels_per_mm * max(size) / length
        sensor = f"{length / lens.pixels_per_mm:.3g} mm sensor"
        found.append((focal_px, f"EXIF {lens.focal_mm:g} mm, {sensor}"))
    return found


def _check_form(k: NDArray[np.float64]) -> None:
    """InputError for what a `Camera` has no room for in K (3, 3), whose lower right is 1."""
    skew = np.abs([k[0, 1], k[1, 0]]).max()
    if not skew <= _SKEW * k[0, 0]:  # nor NaN
        raise InputError(
            "camera matrix",
            f"skew {skew:g} at a focal length of {k[0, 0]:g}, which is not supported",
            "rectify the picture, or write 0 if it is not meant",
        )
    if np.any(k[2, :2] != 0):
        raise InputError(
            "camera matrix",
            f"its last row is {k[2, 0]:g}, {k[2, 1]:g}, 1",
            "0, 0, 1 is needed (is it transposed?)",
        )


def _same_shape(one: tuple[int, int] | None, other: tuple[int, int]) -> bool:
    """Whether one may be the other resized, also by a quarter turn; None may be anything."""
    if one is None:
        return True
    shapes = (max(size) / min(size) for size in (one, other))
    return abs(next(shapes) / next(shapes) - 1) <= _SAME_SHAPE
