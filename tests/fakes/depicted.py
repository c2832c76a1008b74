"""A small result as outputs take it: a box before a wall, in a picture of known colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import outputs
from idisc.camera import Camera
from idisc.outputs import Options

SIZE = (48, 64)
CAMERA = Camera(
    fx=60.0, fy=50.0, cx=30.0, cy=25.5, size=SIZE, origin="assumed 60 deg", source="assumed"
)
FACTS = {"model": "a test", "domain": "indoor", "depth range": "0.1 to 10 m", "camera": "assumed"}


def box_before_a_wall() -> NDArray[np.float32]:
    """A wall at 4 m, a box at 2 m before it; two pixels have no depth."""
    depth = np.full(SIZE, 4.0, np.float32)
    depth[15:35, 20:45] = 2.0
    depth[0, 0], depth[0, 1] = 0.0, np.nan
    return depth


def coloured() -> NDArray[np.uint8]:
    """Red grows to the right, green downwards."""
    image = np.zeros((*SIZE, 3), np.uint8)
    image[..., 0], image[..., 1] = np.arange(64) * 4, np.arange(48)[:, None] * 5
    return image


@dataclass(frozen=True)
class Result:
    """Depth, a picture and a camera."""

    depth: NDArray[np.float32] = field(default_factory=box_before_a_wall)
    image: NDArray[np.uint8] = field(default_factory=coloured)
    camera: Camera = CAMERA
    normals: NDArray[np.float32] | None = None
    spread: NDArray[np.float32] | None = None
    cell: int = 1
    facts: Mapping[str, str] = field(default_factory=lambda: dict(FACTS))


RESULT = Result()
WALL = Result(depth=np.full(SIZE, 3.0, np.float32))


def write(kind: str, folder: Path, result: Result = RESULT, **options: Any) -> Path:
    """One format of a result; the first of its files."""
    return outputs.save(result, folder, "room", [kind], Options(**options))[0]


def texts_of(path: Path) -> dict[str, str]:
    """What a PNG says of itself."""
    with Image.open(path) as picture:
        assert isinstance(picture.info, dict)
        return {str(key): str(value) for key, value in picture.info.items()}
