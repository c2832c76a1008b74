"""The pinhole camera of a picture: intrinsics that follow every crop, resize and flip.

Pixel centres are at whole numbers, as in the calibrations of all seven datasets: the left edge of a
picture of width W is at x = -0.5, its right edge at W - 0.5. Axes: x right, y down, z forward.
Every camera records its origin. Lens distortion is not modelled here; `data.lidar` handles it where
a calibration has it.

For a photo, a camera given by the user takes precedence over EXIF, and EXIF over an assumed camera.
The 35 mm equivalent compares diagonals (CIPA DCG-001: that of the picture with the 43.27 mm of
film), so it does not depend on the orientation of the picture. Manufacturers that compare widths
instead differ by 4 % for pictures of 4:3, and not at all for 3:2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idisc.errors import InputError
from idisc.sizes import describe_size

ASSUMED_FOV_DEG = 60.0  # of the longer side: between a phone's wide and normal lens
FILM_DIAGONAL_MM = math.hypot(36, 24)
PLAUSIBLE_LENSES_MM = (4.0, 2000.0)  # 35 mm equivalents, from fisheyes to telescopes
Source = Literal[
    "given",  # by the user or a dataset
    "matrix",  # by the user as a matrix in pixels, perhaps of another size of the picture
    "exif",  # by the file
    "predicted",  # by the network
    "assumed",
]
_MAX_SKEW = 1e-3  # of the focal length: half a pixel at the edge of most pictures
_MAX_SHAPE_CHANGE = 0.02  # sides are whole numbers, and cameras round them to multiples of 16


@dataclass(frozen=True, kw_only=True)
class Lens:
    """The camera according to EXIF; None for what it does not say."""

    focal_35mm: float | None = None  # focal length in mm with the same field of view on film
    focal_mm: float | None = None  # of the lens itself
    pixels_per_mm: float | None = None  # on the sensor, of the picture as it was taken
    taken_size: tuple[int, int] | None = None  # of that picture, as EXIF states it


@dataclass(frozen=True, kw_only=True)
class Camera:
    """Intrinsics in pixels for pictures of one size."""

    fx: float
    fy: float
    cx: float
    cy: float
    size: tuple[int, int]  # (height, width) of the picture they belong to
    origin: str  # where the numbers come from, as text: "calibration", "assumed 60 deg"
    source: Source = "given"  # the same, as a code

    def __post_init__(self) -> None:
        if min(self.size) < 1:
            raise InputError("camera", f"its size is {self.size}", "at least 1x1 is needed")
        values = (self.fx, self.fy, self.cx, self.cy)
        if not all(map(math.isfinite, values)) or min(self.fx, self.fy) <= 0:
            raise InputError(
                f"camera {values}", "four finite numbers with fx and fy above 0 are needed"
            )

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, size: tuple[int, int], origin: str = "") -> Camera:
        """Create a camera from the matrix K (3, 3), or a projection (3, 4), without skew.

        A matrix with an `origin`, such as a calibration, is taken to be for this size.
        """
        try:
            k = np.asarray(matrix, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"camera matrix {matrix!r}", "3x3 numbers are needed") from None
        if k.ndim != 2 or k.shape[0] != 3 or k.shape[1] not in (3, 4):
            raise InputError("camera matrix", f"shape {k.shape}", "(3, 3) is needed")
        if k[2, 2] == 0:
            raise InputError("camera matrix", "its lower right number is 0", "1 is needed")
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
        _check_pinhole(k)
        return camera

    @classmethod
    def from_fov(cls, fov_deg: float, size: tuple[int, int], origin: str = "") -> Camera:
        """Create a camera from its horizontal field of view: square pixels, centred axis."""
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
        """Create a camera from its focal length in pixels: square pixels, centred axis."""
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
        """Create a camera from its 35 mm equivalent focal length."""
        focal_px = focal_mm * math.hypot(*size) / FILM_DIAGONAL_MM
        return cls.from_focal(focal_px, size, origin or f"given {focal_mm:g} mm")

    @classmethod
    def from_exif(cls, lens: Lens, size: tuple[int, int]) -> Camera | None:
        """Create a camera from the EXIF of a picture that now has `size`; None if it is not enough.

        Uses the 35 mm equivalent if there is one, otherwise the focal length and the pixel pitch of
        the sensor; values that no real lens has are ignored. A picture that was cropped later has
        an unknown field of view.
        """
        if not _same_shape(lens.taken_size, size):
            return None
        for focal_px, origin in _focal_lengths(lens, size):
            if (
                PLAUSIBLE_LENSES_MM[0]
                <= focal_px * FILM_DIAGONAL_MM / math.hypot(*size)
                <= PLAUSIBLE_LENSES_MM[1]
            ):
                return cls.from_focal(focal_px, size, origin, "exif")
        return None

    @classmethod
    def assumed(cls, size: tuple[int, int], fov_deg: float = ASSUMED_FOV_DEG) -> Camera:
        """Create a camera with this field of view along the longer side, if nothing is known."""
        along = cls.from_fov(fov_deg, (min(size), max(size)))
        return cls.from_focal(along.fx, size, f"assumed {fov_deg:g} deg", "assumed")

    @classmethod
    def predicted(cls, fov_deg: float, size: tuple[int, int]) -> Camera:
        """Create a camera from the horizontal field of view that a network estimates."""
        camera = cls.from_fov(fov_deg, size, f"estimated by the model, {fov_deg:.0f} deg")
        return replace(camera, source="predicted")

    @property
    def known(self) -> bool:
        """Whether the camera is given, calibrated or read from EXIF, and not estimated."""
        return self.source not in ("predicted", "assumed")

    @property
    def relative_focal(self) -> float:
        """Focal length over sqrt(height * width), which does not change when a picture is resized.

        For pictures of one aspect ratio it compares focal lengths at equal width; for others, what
        a network sees if it is given the same number of pixels of each.
        """
        return math.sqrt(self.fx * self.fy / (self.size[0] * self.size[1]))

    @property
    def matrix(self) -> NDArray[np.float64]:
        """K (3, 3)."""
        return np.array([[self.fx, 0, self.cx], [0, self.fy, self.cy], [0, 0, 1]])

    @property
    def fov_deg(self) -> float:
        """Horizontal field of view, from the left to the right edge of the picture."""
        left, right = self.cx + 0.5, self.size[1] - 0.5 - self.cx
        return math.degrees(math.atan(left / self.fx) + math.atan(right / self.fx))

    def resized(self, size: tuple[int, int]) -> Camera:
        """Return the camera of the picture resized to `size`."""
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
        """Return the camera of a window of the picture."""
        return replace(self, cx=self.cx - left, cy=self.cy - top, size=size)

    def flipped(self) -> Camera:
        """Return the camera of the picture mirrored left to right."""
        return replace(self, cx=self.size[1] - 1 - self.cx)

    def fitted(self, size: tuple[int, int]) -> Camera:
        """Return the camera for a picture of `size`, which must have the same aspect ratio."""
        height, width = size
        if abs(width * self.size[0] / (height * self.size[1]) - 1) > _MAX_SHAPE_CHANGE:
            reason = f"it is for {describe_size(self.size)}, and the picture has {height}x{width}"
            raise InputError("camera", reason, "crop the camera together with its picture")
        return self if self.size == size else self.resized(size)


def matrix_camera(matrix: ArrayLike, size: tuple[int, int]) -> Camera:
    """Return the camera of a matrix that a user gives in the pixels of a picture of `size`."""
    camera = Camera.from_matrix(matrix, size)
    height, width = size
    if not (0 <= camera.cx < width and 0 <= camera.cy < height):
        point = f"cx {camera.cx:g}, cy {camera.cy:g}"
        reason = f"{point} are outside of a picture {width} pixels wide and {height} high"
        raise InputError("camera matrix", reason, "scale it as the picture was scaled")
    return camera


def camera_of(given: Camera | None, lens: Lens, size: tuple[int, int]) -> Camera:
    """Return the camera of a picture of `size`: given, or from EXIF, or assumed."""
    if given is not None:
        return given.fitted(size)
    found = Camera.from_exif(lens, size)
    if found is not None:
        return found
    camera, focal_lengths = Camera.assumed(size), _focal_lengths(lens, size)
    if not focal_lengths:
        return camera
    reason = f"{focal_lengths[0][1]} not plausible"
    if not _same_shape(lens.taken_size, size):
        reason = "cropped since EXIF was written"
    return replace(camera, origin=f"{camera.origin}, {reason}")


def _focal_lengths(lens: Lens, size: tuple[int, int]) -> list[tuple[float, str]]:
    """Return the focal lengths in pixels that EXIF states, each with its text, best first."""
    focal_lengths = []
    if lens.focal_35mm:
        focal_px = lens.focal_35mm * math.hypot(*size) / FILM_DIAGONAL_MM
        focal_lengths.append((focal_px, f"EXIF {lens.focal_35mm:g} mm"))
    if lens.focal_mm and lens.pixels_per_mm:
        length = max(lens.taken_size or size)  # px
        focal_px = lens.focal_mm * lens.pixels_per_mm * max(size) / length
        sensor = f"{length / lens.pixels_per_mm:.3g} mm sensor"
        focal_lengths.append((focal_px, f"EXIF {lens.focal_mm:g} mm, {sensor}"))
    return focal_lengths


def _check_pinhole(k: NDArray[np.float64]) -> None:
    """Raise an InputError for a matrix K (3, 3) that a `Camera` cannot represent."""
    skew = np.abs([k[0, 1], k[1, 0]]).max()
    if not skew <= _MAX_SKEW * k[0, 0]:  # nor NaN
        raise InputError(
            "camera matrix",
            f"skew {skew:g} at a focal length of {k[0, 0]:g}, which is not supported",
            "rectify the picture, or set the skew to 0",
        )
    if np.any(k[2, :2] != 0):
        raise InputError(
            "camera matrix",
            f"its last row is {k[2, 0]:g}, {k[2, 1]:g}, 1",
            "0, 0, 1 is needed (is it transposed?)",
        )


def _same_shape(one: tuple[int, int] | None, other: tuple[int, int]) -> bool:
    """Tell whether one may be the other resized or turned by 90 degrees; None fits everything."""
    if one is None:
        return True
    shapes = (max(size) / min(size) for size in (one, other))
    return abs(next(shapes) / next(shapes) - 1) <= _MAX_SHAPE_CHANGE
