"""The pinhole camera of a picture: how pixels become rays, through every crop, resize and flip.

Pixel centres are at whole numbers, as in the calibrations of all seven datasets: the left edge of a
picture of width W is at x = -0.5, its right edge at W - 0.5. Axes: x right, y down, z forward.
A camera says where it comes from; nothing here guesses silently. Lens distortion is not its
business (`data.lidar` handles it where a calibration has it).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idisc.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Camera:
    """Intrinsics of a picture of one size, all in pixels."""

    fx: float
    fy: float
    cx: float
    cy: float
    size: tuple[int, int]  # (height, width) of the picture they belong to
    origin: str  # where the numbers come from, for people: "calibration", "assumed 60 deg"

    def __post_init__(self) -> None:
        if min(self.size) < 1:
            raise InputError(f"camera: a picture of {self.size} pixels has none")
        values = (self.fx, self.fy, self.cx, self.cy)
        if not all(map(math.isfinite, values)) or min(self.fx, self.fy) <= 0:
            raise InputError(
                f"camera {values}: fx and fy more than 0, and four finite numbers, are needed"
            )

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, size: tuple[int, int], origin: str) -> Camera:
        """From the matrix K, (3, 3) or the (3, 4) of a projection, without skew."""
        k = np.asarray(matrix, dtype=np.float64)
        if k.ndim != 2 or k.shape[0] != 3 or k.shape[1] not in (3, 4):
            raise InputError(f"camera matrix: shape {k.shape}; (3, 3) is needed")
        if k[2, 2] == 0:
            raise InputError("camera matrix: 0 at its lower right; 1 is usual there")
        k = k / k[2, 2]
        return cls(
            fx=float(k[0, 0]),
            fy=float(k[1, 1]),
            cx=float(k[0, 2]),
            cy=float(k[1, 2]),
            size=size,
            origin=origin,
        )

    @classmethod
    def from_fov(cls, fov_deg: float, size: tuple[int, int], origin: str) -> Camera:
        """From the horizontal field of view: square pixels, the axis through the middle."""
        if not 0 < fov_deg < 180:
            raise InputError(f"field of view {fov_deg:g}: between 0 and 180 degrees is needed")
        height, width = size
        focal_px = width / 2 / math.tan(math.radians(fov_deg) / 2)
        return cls(
            fx=focal_px,
            fy=focal_px,
            cx=(width - 1) / 2,
            cy=(height - 1) / 2,
            size=size,
            origin=origin,
        )

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
