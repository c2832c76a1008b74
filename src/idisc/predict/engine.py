"""Engine: what every network that is ready to run offers, whichever runtime executes it.

`open` finds the engine of a path or name, `model_info` reads what its file says about the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.predict.conventions import Convention
from idisc.sizes import Size
from idisc.tasks import Task

Images = NDArray[np.uint8]  # RGB (B, H, W, 3)
Cameras = Sequence[Camera]  # of the pictures; none if they are not known


class RawOutput(NamedTuple):
    """What a network computes from a batch of pictures."""

    maps: NDArray[np.float32]  # depth (B, H, W) in metres or relative, or normals (B, H, W, 3)
    level_std: NDArray[np.float32] | None = None  # (B, H, W) metres; None: no levels to compare
    scene: NDArray[np.float32] | None = None  # class token of a ViT encoder (B, C); see `scene`
    fov_deg: NDArray[np.float32] | None = None  # (B,) horizontal, as the network estimates it


class Engine(Protocol):
    """A network that is ready to run."""

    name: str  # of the file or folder it was loaded from
    sha256: str  # of its weights
    verified: bool  # whether the file has checksums, which are right then
    task: Task
    origin: Mapping[str, Any]  # metadata of the file; see `model_info`
    fixed_size: Size | None  # the only size of pictures it accepts; None: any
    convention: Convention | None  # of a third-party network; None: one of this package

    def run(self, images: Images, size: Size | None = None, cameras: Cameras = ()) -> RawOutput:
        """Map pictures to depth in metres or normals, and to what else the network computes.

        `size` is that of the result, by default the size of the pictures. `cameras` are for
        conventions that use them.
        """
        ...
