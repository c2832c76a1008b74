"""FormatOptions: how a prediction is written; each format uses the fields that its row lists."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from idisc import geometry
from idisc.errors import InputError, lookup
from idisc.visualize import DEPTH_COLOURS

Content: TypeAlias = bytes | memoryview
"""The content of a file."""


class Axes(NamedTuple):
    """The directions of x, y and z."""

    text: str
    signs: tuple[int, int, int]  # relative to the package's own axes


AXES = {
    "opencv": Axes("x right, y down, z forward", (1, 1, 1)),
    "opengl": Axes("x right, y up, z back", (1, -1, -1)),
}


@dataclass(frozen=True, kw_only=True)
class FormatOptions:
    """Options of all formats."""

    colormap: str = DEPTH_COLOURS  # of depth: any matplotlib name
    limits: tuple[float, float] | None = None  # metres at both ends of the colormap; None: by depth
    axes: str | None = None  # of AXES; None: opengl in GLB, whose viewers expect it, else opencv
    edge: float = geometry.DEPTH_EDGE  # share of the nearer depth from which a mesh is cut
    grid: int = 640  # vertices of mesh and viewer along the longer side, at most
    metres_per_unit: float | None = None  # of png16; None: by domain and depth
    inverse_per_unit: float | None = None  # of png16 of relative depth; None: by depth
    drop_beyond: bool = False  # png16: store depth beyond 16 bits as none instead of an error
    full_size: bool = False  # coloured pictures as large as the photo, however large
    clean: bool = False  # pictures without legend and caption
    sidecar: bool = True  # write the JSON file of formats that have one; clips share one

    def __post_init__(self) -> None:
        if self.limits is not None and not 0 <= self.limits[0] < self.limits[1] < math.inf:
            low, high = self.limits
            raise InputError(f"range {low:g} to {high:g}", "two rising distances in metres needed")
        if self.axes is not None:
            lookup(AXES, self.axes, "axis convention")
        if not self.edge > 0 or self.grid < 2:
            raise InputError(f"edge {self.edge:g}, grid {self.grid}", "above 0 and above 1 needed")
        if self.metres_per_unit is not None and not 0 < self.metres_per_unit < math.inf:
            raise InputError(f"{self.metres_per_unit:g} metres per unit", "a number above 0 needed")


DEFAULT_OPTIONS = FormatOptions()
