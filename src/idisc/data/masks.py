"""Windows of an image in which ground truth is scored, as is usual for each dataset.

A window is a function of the size (height, width) and returns half-open rows and columns. The
catalog states which dataset uses which one; the evaluation protocol applies it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from idisc.sizes import Size

Window = tuple[slice, slice]
WindowRule = Callable[[Size], Window]


def eigen_indoor(size: Size) -> Window:
    """Return the window of NYU: rows 45..470, columns 41..600 of 480x640, scaled to other sizes."""
    down, across = size[0] / 480, size[1] / 640
    return (
        slice(round(45 * down), round(471 * down)),
        slice(round(41 * across), round(601 * across)),
    )


def garg(size: Size) -> Window:
    """Return KITTI's window of Garg et al. (ECCV 2016): the part that LiDAR covers."""
    return _shares(size, 0.40810811, 0.99189189)


def eigen_road(size: Size) -> Window:
    """Return KITTI's window of Eigen et al. (NeurIPS 2014)."""
    return _shares(size, 0.3324324, 0.91351351)


def _shares(size: Size, top: float, bottom: float) -> Window:
    height, width = size
    return (
        slice(int(top * height), int(bottom * height)),
        slice(int(0.03594771 * width), int(0.96405229 * width)),
    )


def inside(size: Size, window: Window) -> NDArray[np.bool_]:
    """Return a window as a mask (H, W)."""
    mask = np.zeros(size, dtype=bool)
    mask[window] = True
    return mask


def shifted(window: Window, down: int, right: int) -> Window:
    """Return a window of the full frame in the coordinates of a crop at (down, right)."""
    rows, columns = window
    return (
        slice(max(rows.start - down, 0), max(rows.stop - down, 0)),
        slice(max(columns.start - right, 0), max(columns.stop - right, 0)),
    )
