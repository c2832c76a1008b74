"""The engine that runs a third-party depth network by its convention.

A `Network` maps named arrays to named arrays, with onnxruntime or torch. This module turns bytes
into the input that the network expects, and its output into depth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.errors import CheckpointError, first_line
from idisc.predict.convention_choice import Graph
from idisc.predict.conventions import Convention
from idisc.predict.engine import Images, Output
from idisc.predict.onnx_session import graph_of
from idisc.sizes import Size, interpolate_map, resize_map, size_text
from idisc.tasks import DEPTH

FloatMaps = NDArray[np.float32]
Arrays = Mapping[str, NDArray[Any]]
MIN_DEPTH = 1e-4  # metres: depth stays above 0, also where an interpolation overshoots
MIN_INVERSE = 1e-4  # inverse depth stays above 0, so that depth is finite
MAX_RELATIVE_DEPTH = 1000.0  # times the nearest depth of a picture: where disparity is 0 or below
_INTERPOLATIONS: dict[str, Callable[[FloatMaps, Size], FloatMaps]] = {
    "corners": resize_map,
    "linear": interpolate_map,
    "cubic": partial(interpolate_map, cubic=True),
}
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}


class Network(Protocol):
    """A network with named inputs and outputs."""

    graph: Graph

    def __call__(self, feeds: Arrays, names: Sequence[str]) -> Arrays:
        """Return the named outputs."""
        ...


class OnnxNetwork:
    """The graph of an ONNX file; see `Network`."""

    def __init__(self, session: Any) -> None:
        self.session, self.graph = session, graph_of(session)
        self.types = {item.name: _TYPES.get(item.type) for item in session.get_inputs()}

    def __call__(self, feeds: Arrays, names: Sequence[str]) -> Arrays:
        """Run the graph with inputs of the types that it has."""
        typed = {
            name: values.astype(self.types[name] or values.dtype) for name, values in feeds.items()
        }
        return dict(zip(names, self.session.run(list(names), typed), strict=True))


class ConventionEngine:
    """A third-party network; see `engine.Engine`."""

    def __init__(self, name: str, sha256: str, rule: Convention, network: Network) -> None:
        self.name, self.sha256, self.verified, self.task = name, sha256, False, DEPTH
        self._network, self._rule = network, rule
        self.convention: Convention | None = rule
        self.origin: Mapping[str, Any] = {**rule.origin, **network.graph.metadata}
        self.fixed_size: Size | None = network.graph.size(rule.layout)

    def run(
        self, images: Images, size: Size | None = None, cameras: Sequence[Camera] = ()
    ) -> Output:
        """Return depth (B, H, W); pictures go through the network one by one.

        Pictures may also be float32 from 0 to 255; see `sizes.RESIZES`. If the convention needs
        `cameras`, in pixels of `images`, and none are given, they are assumed.
        """
        seen = images.shape[1], images.shape[2]
        cameras = cameras or [Camera.assumed(seen)] * len(images)
        results = [
            self._run_one(image, size or seen, camera)
            for image, camera in zip(images, cameras, strict=True)
        ]
        fovs = [fov for _, fov in results if fov is not None]
        return Output(
            np.stack([depth for depth, _ in results]),
            fov_deg=np.array(fovs, np.float32) if fovs else None,
        )

    def _run_one(
        self, image: NDArray[np.uint8], size: Size, camera: Camera
    ) -> tuple[FloatMaps, float | None]:
        """Return the depth (H, W) of one picture, and the field of view that was estimated."""
        rule, graph = self._rule, self._network.graph
        name = rule.output_name or (
            "predicted_depth" if "predicted_depth" in graph.outputs else next(iter(graph.outputs))
        )
        estimates = bool(rule.fov_output) and rule.fov_output in graph.outputs
        names = [name, rule.fov_output] if estimates else [name]
        try:
            outputs = self._network(self._feeds(image, camera), names)
        except Exception as error:  # a picture of a size that the graph does not take
            raise CheckpointError(
                self.name, f"does not run on {size_text(camera.size)} ({first_line(error)})"
            ) from None
        fov = float(outputs[rule.fov_output].reshape(-1)[0]) if estimates else None
        if fov is not None and not camera.known:
            camera = Camera.predicted(fov, camera.size)
        return self._decode(self._map(outputs[name]), size, self._focal(camera)), fov

    def _focal(self, camera: Camera) -> float:
        """Return the focal length in relation to that of the convention."""
        rule = self._rule
        if rule.canonical_focal is None:
            return 1.0
        unit = camera.size[1] if rule.focal_unit == "width" else 1
        return camera.fx / (unit * rule.canonical_focal)

    def _feeds(self, image: NDArray[np.uint8], camera: Camera) -> dict[str, NDArray[Any]]:
        """Return the inputs of the network for a picture of its size."""
        rule, graph = self._rule, self._network.graph
        colours = image[..., ::-1] if rule.colours == "bgr" else image
        mean, std = (np.array(values, np.float32) for values in (rule.mean, rule.std))
        values = (colours.astype(np.float32) / np.float32(rule.divisor) - mean) / std
        if rule.layout == "nchw":
            values = values.transpose(2, 0, 1)
        picture = graph.picture(rule.layout) or ""
        feeds: dict[str, NDArray[Any]] = {picture: np.ascontiguousarray(values[None])}
        if rule.camera_input in graph.inputs:
            given = _rays(camera) if rule.camera == "rays" else camera.matrix
            feeds[rule.camera_input] = given[None].astype(np.float32)
        return feeds

    def _map(self, values: object) -> FloatMaps:
        """Return the map (h, w) of one output: (1, h, w), (1, C, h, w) or (1, h, w, 1)."""
        if isinstance(values, np.ndarray) and values.dtype.kind == "f":
            if values.ndim == 4 and values.shape[3] == 1:
                values = values[..., 0]
            if values.ndim == 4 and self._rule.channel < values.shape[1]:
                values = values[:, self._rule.channel]
            if values.ndim == 3 and len(values) == 1 and values.size:
                depth: FloatMaps = values[0].astype(np.float32)
                return depth
        raise CheckpointError(self.name, "its output is not a map of floats", "see --convention")

    def _decode(self, values: FloatMaps, size: Size, focal: float) -> FloatMaps:
        """Resize the numbers of the network, and convert them to depth (H, W)."""
        rule = self._rule
        depth = np.float32(rule.factor) * _INTERPOLATIONS[rule.interpolation](values, size)
        if rule.output == "log_depth":
            depth = np.exp(depth)
        elif rule.output == "inverse_depth":
            depth = np.float32(1) / np.maximum(depth / np.float32(focal), np.float32(MIN_INVERSE))
            focal = 1.0
        elif rule.output == "disparity":
            least = max(float(depth.max()) / MAX_RELATIVE_DEPTH, 1e-9)  # its scale is unknown
            depth = np.float32(1) / np.maximum(depth, np.float32(least))
        if rule.unit == "metre":
            depth = np.maximum(np.float32(focal) * depth, np.float32(MIN_DEPTH))
        return depth


def _rays(camera: Camera) -> NDArray[np.float64]:
    """Return the directions (3, H, W) of all pixels, of length 1."""
    rows, columns = np.mgrid[: camera.size[0], : camera.size[1]]
    rays = np.stack(
        [
            (columns - camera.cx) / camera.fx,
            (rows - camera.cy) / camera.fy,
            np.ones(camera.size),
        ]
    )
    unit: NDArray[np.float64] = rays / np.linalg.norm(rays, axis=0)
    return unit
