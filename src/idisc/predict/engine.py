"""Engine: what every network that is ready to run offers, whichever runtime executes it.

`open` finds the engine of a path or name, `model_info` reads what its file says about the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from idisc.predict.conventions import Convention
from idisc.provenance import Compared
from idisc.sizes import Size
from idisc.tasks import Task

Images = NDArray[np.uint8]
"""RGB pictures (B, H, W, 3)."""


class Output(NamedTuple):
    """Output of a network for a batch of pictures, or for one picture (without axis B)."""

    maps: NDArray[np.float32]  # depth (B, H, W) in metres or relative, or normals (B, H, W, 3)
    level_std: NDArray[np.float32] | None = None  # (B, H, W), as depth; None: nothing to compare
    scene: NDArray[np.float32] | None = None  # class token of a ViT encoder (B, C); see `scene`
    fov_deg: NDArray[np.float32] | None = None  # (B,) horizontal, as the network estimates it
    compared: tuple[Compared, ...] = ("levels",)  # answers that `level_std` compares

    def unbatched(self) -> Iterator[Output]:
        """Yield the output for each picture."""
        for index, maps in enumerate(self.maps):
            level_std, scene, fov_deg = (
                None if values is None else values[index]
                for values in (self.level_std, self.scene, self.fov_deg)
            )
            yield Output(maps, level_std, scene, fov_deg, self.compared)

    def mean_with_flipped(self, flipped: Output, task: Task) -> Output:
        """Return the mean with the output for the mirrored pictures, and their deviation."""
        maps, half = flipped.maps[:, :, ::-1], np.float32(0.5)
        if task.directions:  # x changes its sign in the mirror
            maps = maps * np.array([-1, 1, 1], np.float32)
        mean = (self.maps + maps) * half
        if not task.metric:
            return self._replace(maps=mean)
        variance = ((self.maps - maps) * half) ** 2
        compared: tuple[Compared, ...] = ("flip",)
        if self.level_std is not None and flipped.level_std is not None:
            variance += (self.level_std**2 + flipped.level_std[:, :, ::-1] ** 2) * half
            compared = ("levels", "flip")
        return self._replace(maps=mean, level_std=np.sqrt(variance), compared=compared)


class Engine(Protocol):
    """A network that is ready to run."""

    name: str  # of the file or folder it was loaded from
    sha256: str  # of its weights
    verified: bool  # whether the file has checksums, and they are right
    task: Task
    origin: Mapping[str, Any]  # metadata of the file; see `model_info`
    fixed_size: Size | None  # the only size of pictures it accepts; None: any
    convention: Convention | None  # of a `ConventionEngine`; None: a network of this package

    def run(self, images: Images, size: Size | None = None) -> Output:
        """Map pictures to depth or normals, and to what else the network computes.

        `size` is that of the result, by default the size of the pictures. A `ConventionEngine` also
        takes the cameras of the pictures.
        """
        ...
