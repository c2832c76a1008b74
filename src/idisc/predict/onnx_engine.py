"""The engine that runs an exported file with onnxruntime, without torch.

The graph maps the input `image` uint8 (B, H, W, 3) to `depth` (B, H, W) in metres or `normals`
(B, H, W, 3). An optional input `size` int64 (2,) is the size of the output. Optional outputs are
`level_std` (B, H, W), the standard deviation over the levels in metres, and `scene` (B, C), the
class token of the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc import checksums, files
from idisc.errors import CheckpointError, first_line
from idisc.predict.conventions import Convention
from idisc.predict.engine import Images, Output
from idisc.predict.onnx_session import AGAIN, OpenFile, open_session
from idisc.sizes import Size, describe_size, resize_map, size_text
from idisc.tasks import TASKS
from idisc.zoo.cards import ModelCard

LEVEL_STD, SCENE = "level_std", "scene"  # names of the optional outputs
LARGE = 20_000_000  # pixels, of outputs whose memory is not kept for the next picture
_AXES = {LEVEL_STD: 3, SCENE: 2}


def is_ours(session: Any) -> bool:
    """Tell whether a graph was exported by `idisc export`."""
    inputs = {item.name: item for item in session.get_inputs()}
    outputs = [item.name for item in session.get_outputs()]
    image = inputs.get("image")
    known = image is not None and image.type == "tensor(uint8)" and len(image.shape) == 4
    return known and bool(outputs) and outputs[0] in TASKS


class OnnxEngine:
    """An exported file; see `engine.Engine`. `threads`: 0 is one for each core of the CPU."""

    convention: Convention | None = None

    def __init__(
        self,
        path: Path,
        device: str = "cpu",
        *,
        threads: int = 0,
        card: ModelCard | None = None,
        opened: OpenFile | None = None,
    ) -> None:
        """`opened` is the file, if it is open already."""
        session, sealed = opened or open_session(path, device, threads)
        texts = dict(session.get_modelmeta().custom_metadata_map)
        # `cards.locate` has checked the files of a card, also those that a graph refers to.
        self.verified = card is not None or (
            sealed and checksums.check_external(path.parent, texts.get(checksums.EXTERNAL))
        )
        self._session = session
        if not is_ours(session):
            reason = "not an export of this package (image bytes to metres)"
            raise CheckpointError(path, reason, "`idisc export` makes one")
        inputs = {item.name: item.shape for item in session.get_inputs()}
        outputs = [item.name for item in session.get_outputs()]
        # The file name of a shipped model says less than its card.
        self.name, self.card = card.name if card else path.name, card
        # The hashes of a card were verified when its file was located.
        stated = {file.path: file.sha256 for file in card.files} if card else {}
        self.sha256 = stated.get(path.name) or files.sha256(path)
        self.task = TASKS[outputs[0]]
        self._map_axes = 3 if self.task.components == 1 else 4
        self._takes_size = "size" in inputs
        self._outputs = [n for n in outputs if n in (self.task.name, LEVEL_STD, SCENE)]
        self.origin: Mapping[str, Any] = {**texts, **(card.origin if card else {})}
        batch, height, width = inputs["image"][:3]
        self._one_by_one = batch == 1
        dynamic = not (isinstance(height, int) and isinstance(width, int))
        self.fixed_size: Size | None = None if dynamic else (height, width)

    def run(self, images: Images, size: Size | None = None) -> Output:
        seen = images.shape[1], images.shape[2]
        if self.fixed_size not in (None, seen):
            own = describe_size(self.fixed_size)
            reason = f"is for pictures of {own} alone, not of {size_text(seen)}"
            raise CheckpointError(self.name, reason, "export the checkpoint again for any size")
        step = 1 if self._one_by_one else len(images)
        parts = [
            self._run_together(images[first : first + step], size or seen)
            for first in range(0, len(images), step)
        ]
        outputs = parts[0]
        if len(parts) > 1:
            outputs = {name: np.concatenate([part[name] for part in parts]) for name in outputs}
        return Output(outputs[self.task.name], outputs.get(LEVEL_STD), outputs.get(SCENE))

    def _run_together(self, images: Images, size: Size) -> dict[str, NDArray[np.float32]]:
        """Return the outputs of the graph by name, maps at `size`."""
        feeds: dict[str, NDArray[np.generic]] = {"image": np.ascontiguousarray(images)}
        if self._takes_size:
            feeds["size"] = np.array(size, dtype=np.int64)
        try:
            values = self._session.run(self._outputs, feeds, _run_options(size[0] * size[1]))
        except Exception as error:  # a file for one size, or from another program
            seen = describe_size((images.shape[1], images.shape[2]))
            reason = f"does not run on {seen} ({first_line(error)})"
            raise CheckpointError(self.name, reason) from None
        outputs: dict[str, NDArray[np.float32]] = dict(zip(self._outputs, values, strict=True))
        for name, maps in outputs.items():
            self._check(maps, _AXES.get(name, self._map_axes), len(images))
            if name != SCENE and maps.shape[1:3] != size:
                outputs[name] = np.stack([resize_map(each, size) for each in maps])
        return outputs

    def _check(self, values: NDArray[np.float32], axes: int, count: int) -> None:
        """Check an output: those of a damaged graph may be anything."""
        fits = isinstance(values, np.ndarray) and values.dtype == np.float32
        if not fits or values.ndim != axes or len(values) != count or not values.size:
            raise CheckpointError(
                self.name, "the output of the graph is not a map of floats", AGAIN
            )


def _run_options(pixels: int) -> Any:
    """Return options that give the memory of large outputs back; None for small ones."""
    if pixels < LARGE:
        return None
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options
