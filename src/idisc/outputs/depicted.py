"""What can be written, how it may be asked for, and what is stored with every file."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, PngImagePlugin

from idisc import config, files, geometry
from idisc.camera import Camera
from idisc.errors import InputError
from idisc.visualize import DEPTH_COLOURS, Picture

MOST_STEPS = 65535  # that 16 bits can count


class Axes(NamedTuple):
    """Which way x, y and z point."""

    text: str
    signs: tuple[int, int, int]  # of our own axes


AXES = {
    "opencv": Axes("x right, y down, z forward", (1, 1, 1)),
    "opengl": Axes("x right, y up, z back", (1, -1, -1)),
}


class Depicted(Protocol):
    """What can be written: a picture, its depth and all that is known of them."""

    @property
    def image(self) -> Picture:
        """RGB (H, W, 3)."""

    @property
    def depth(self) -> NDArray[np.float32]:
        """(H, W) metres; 0 and NaN are none."""

    @property
    def camera(self) -> Camera:
        """Of the picture at this size."""

    @property
    def normals(self) -> NDArray[np.float32] | None:
        """(H, W, 3), x right, y down, z forward."""

    @property
    def spread(self) -> NDArray[np.float32] | None:
        """(H, W) metres."""

    @property
    def cell(self) -> int:
        """Pixels of the picture for one of the map that depth was enlarged from."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Model, domain, depth range, camera, rescaling: stored with every output."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to write; a format looks at what concerns it."""

    colours: str = DEPTH_COLOURS  # of depth: any matplotlib name
    limits: tuple[float, float] | None = None  # metres at both ends of the colours; None: by depth
    axes: str | None = None  # of AXES; None: opengl in GLB, whose viewers expect it, else opencv
    edge: float = geometry.DEPTH_EDGE  # share of the nearer depth from which a mesh is cut
    grid: int = 640  # most vertices of mesh and viewer along the longer side; more are thinned
    metres_per_unit: float | None = None  # of png16; None: by domain and depth
    beside: bool = True  # also the JSON of formats that have one; frames of a clip share theirs

    def __post_init__(self) -> None:
        if self.limits is not None and not 0 <= self.limits[0] < self.limits[1] < math.inf:
            low, high = self.limits
            raise InputError(f"range {low:g} to {high:g}: two rising distances in metres needed")
        if self.axes is not None:
            config.lookup(AXES, self.axes, "axis convention")
        if not self.edge > 0 or self.grid < 2:
            raise InputError(f"edge {self.edge:g}, grid {self.grid}: above 0 and above 1 needed")
        if self.metres_per_unit is not None and not 0 < self.metres_per_unit < math.inf:
            raise InputError(f"{self.metres_per_unit:g} metres per unit: a number above 0 needed")


USUAL = Options()


def record(depicted: Depicted, **more: Any) -> dict[str, Any]:
    """What is stored with a result as JSON: camera, facts and what else a format has to say."""
    camera = dataclasses.asdict(depicted.camera)
    return {"format": config.FORMAT, **more, "camera": camera, "facts": dict(depicted.facts)}


def fact_line(depicted: Depicted, but: str = "") -> str:
    """The facts in one line."""
    facts = depicted.facts.items()
    return " · ".join(f"{key}: {' '.join(value.split())}" for key, value in facts if key != but)


def camera_facts(depicted: Depicted) -> dict[str, str]:
    """The facts, and the camera in pixels even if they leave it out."""
    camera = depicted.camera
    numbers = f"fx {camera.fx:.2f} fy {camera.fy:.2f} cx {camera.cx:.2f} cy {camera.cy:.2f}"
    height, width = camera.size
    intrinsics = f"{numbers} for {width} x {height} pixels, {camera.fov_deg:.1f} deg across"
    known = {"camera": camera.origin} if "camera" not in depicted.facts else {}
    return {**depicted.facts, **known, "intrinsics": intrinsics}


def save_png(path: Path, picture: NDArray[Any], about: dict[str, Any], **texts: str) -> None:
    """A PNG that carries its record as text: all of it under `idisc`, single values by name."""
    info = PngImagePlugin.PngInfo()
    for key, text in {**texts, "idisc": json.dumps(about)}.items():
        info.add_text(key, text)
    with files.atomic(path) as draft:
        Image.fromarray(picture).save(draft, format="PNG", pnginfo=info)
