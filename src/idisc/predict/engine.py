"""Engine: what every network that is ready to run offers, whichever runtime executes it.

`open` finds the engine of a path or name, `model_info` reads what its file says about the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from idisc.sizes import Size
from idisc.tasks import Task


class Engine(Protocol):
    """A network that is ready to run."""

    name: str  # of the file or folder it was loaded from
    sha256: str  # of its weights
    task: Task
    origin: Mapping[str, Any]  # metadata of the file; see `model_info`
    fixed_size: Size | None  # the only size of pictures it accepts; None: any

    def __call__(self, images: NDArray[np.uint8], size: Size | None = None) -> NDArray[np.float32]:
        """Map RGB (B, H, W, 3) to depth (B, H, W) in metres, or normals (B, H, W, 3).

        `size` is that of the result, by default the size of the pictures.
        """
        ...

    def with_spread(
        self, images: NDArray[np.uint8], size: Size | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Return the same, and the standard deviation over the levels (B, H, W) in metres.

        The second value is None if the engine has no levels to compare.
        """
        ...
