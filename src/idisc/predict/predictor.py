"""What `idisc.load()` returns: pictures of any size in, metres at their size out.

Around an engine: which size the network sees, mirrored passes, tiles, the camera and what follows
from it, and the facts that every result carries. The network size is that of training, adapted to
the shape of the picture: as many pixels, sides that are multiples of 32, nothing squeezed; a
picture of the shape of training gets exactly that size. Results come back in one step, corners
aligned, as evaluation does it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from idisc import geometry
from idisc.camera import Camera, camera_of
from idisc.errors import CheckpointError, IdiscWarning, InputError
from idisc.images import Photo, PhotoSource, Size, read_photo, resize_smooth, size_text
from idisc.predict import tiles
from idisc.predict.engine import UNKNOWN, USUAL_SIZE, Engine, ModelFacts, Precision, open_model
from idisc.predict.prediction import Known, Prediction

CameraRule = Camera | Callable[[Size], Camera] | None
"""A camera, or how to make one for a picture of some size; None: EXIF, or else assumed."""
FloatMaps = NDArray[np.float32]
STRIDE = 32  # of the coarsest map of every encoder
FAR_DEG, FAR_RATIO = 15.0, 1.25  # how unlike training a camera may be without a warning
BATCH, BATCH_PIXELS = 4, 4_000_000  # pictures of one size in one pass, and pixels of their results
_SPREAD = "standard deviation of the network's answers {}, in metres; no error bound"
_LEVELS, _MIRROR = "at its resolutions", "for the picture and its mirror image"


@dataclass(frozen=True, kw_only=True)
class Request:
    """How to predict; the arguments of `Predictor.predict`."""

    camera: CameraRule = None
    size: Size | None = None  # of the picture in the network
    tta: bool = False  # also predict the mirrored picture, and take the mean
    tile: Size | bool = False  # of a tile, or True: chosen by the picture
    known: Known | None = None  # two points and their distance
    rescale_to_training_camera: bool = False
    normals: bool = False  # of a network for depth: from depth and camera


class Answer(NamedTuple):
    """What the network says of pictures of one size."""

    maps: FloatMaps  # depth (B, H, W) in metres, or normals (B, H, W, 3)
    spread: FloatMaps | None  # (B, H, W) metres
    spread_of: tuple[str, ...] = (_LEVELS,)  # what was compared, for people


def load(
    model: str | Path | None = None, device: str = "cpu", precision: Precision | None = None
) -> Predictor:
    """The predictor of a checkpoint folder, an .onnx file or a shipped model's name.

    None is the default model. `device` is cpu, cuda, cuda:1 ..., `precision` fp32, bf16 or fp16
    (checkpoints only: an .onnx file has the precision it was exported with).
    """
    return Predictor(open_model(model, device, precision))


class Predictor:
    """A network that answers in metres, or in normals."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.facts = ModelFacts.of(engine)

    @overload
    def predict(
        self,
        source: PhotoSource | Photo,
        *,
        camera: CameraRule = None,
        size: Size | None = None,
        tta: bool = False,
        tile: Size | bool = False,
        known: object = None,
        rescale_to_training_camera: bool = False,
        normals: bool = False,
    ) -> Prediction: ...

    @overload
    def predict(
        self,
        source: list[Any] | tuple[Any, ...],
        *,
        camera: CameraRule = None,
        size: Size | None = None,
        tta: bool = False,
        tile: Size | bool = False,
        known: object = None,
        rescale_to_training_camera: bool = False,
        normals: bool = False,
    ) -> list[Prediction]: ...

    def predict(
        self,
        source: PhotoSource | Photo | list[Any] | tuple[Any, ...],
        *,
        camera: CameraRule = None,
        size: Size | None = None,
        tta: bool = False,
        tile: Size | bool = False,
        known: object = None,
        rescale_to_training_camera: bool = False,
        normals: bool = False,
    ) -> Prediction | list[Prediction]:
        """Depth of a picture, or of each of a list; `images.read_photo` says what a picture is.

        `camera` is the picture's, or a function of its size; without it EXIF is read, or 60 deg
        assumed. `size` is the network's, `tta` adds the mirrored picture, `tile` (a size, or True)
        refines large pictures in tiles. `known`, "x1,y1 x2,y2 = 2.40m" or ((x1, y1), (x2, y2),
        2.40), scales the scene; `rescale_to_training_camera` corrects depth for a focal length
        that is known and not that of training. `normals` adds those of the depth.
        """
        request = Request(
            camera=camera,
            size=None if size is None else _pair(size, "size"),
            tta=tta,
            tile=tile if isinstance(tile, bool) else _pair(tile, "tile"),
            known=None if known is None else Known.parse(known),
            rescale_to_training_camera=rescale_to_training_camera,
            normals=normals,
        )
        depth_only = request.tile or request.known or rescale_to_training_camera
        if self.engine.task == "normals" and depth_only:
            raise InputError(
                f"{self.engine.name} predicts normals, no depth; tiles, a known distance and"
                " rescaling are for depth"
            )
        if isinstance(source, (list, tuple)):
            return self._predict_all([read_photo(each) for each in source], request)
        return self._predict_all([read_photo(source)], request)[0]

    def network_size(self, picture: Size) -> Size:
        """The size at which the network sees a picture, unless another one is asked for."""
        if self.engine.fixed_size:
            return self.engine.fixed_size
        return adapted(self.facts.training_size or USUAL_SIZE, picture)

    def usual_size(self) -> str:
        """The same rule in words, of all pictures."""
        if self.engine.fixed_size:
            return f"{size_text(self.engine.fixed_size)}, the only size of this file"
        trained = self.facts.training_size
        said = "as in training" if trained else "the usual, as it does not say its own"
        return f"{size_text(trained or USUAL_SIZE)}, {said}, each in its own shape"

    def _predict_all(self, photos: Sequence[Photo], request: Request) -> list[Prediction]:
        found: dict[int, Prediction] = {}
        for indices in _batches(photos, alone=bool(request.tile)):
            answer = self._ask(np.stack([photos[index].image for index in indices]), request)
            for place, index in enumerate(indices):
                spread = None if answer.spread is None else answer.spread[place]
                one = Answer(answer.maps[place], spread, answer.spread_of)
                try:
                    found[index] = self._finished(photos[index], one, request)
                except InputError as error:
                    raise InputError(f"{photos[index].name}: {error}") from None
        return [found[index] for index in range(len(photos))]

    def _ask(self, images: NDArray[np.uint8], request: Request) -> Answer:
        """The network's answer for pictures (B, H, W, 3), at their size."""
        size = images.shape[1], images.shape[2]
        seen = request.size or self.network_size(size)
        small = np.stack([resize_smooth(image, seen) for image in images])
        answer = Answer(*self.engine.with_spread(small, size))
        if request.tta:
            mirrored = np.ascontiguousarray(small[:, :, ::-1])
            answer = _joined(answer, Answer(*self.engine.with_spread(mirrored, size)))
        if not np.isfinite(answer.maps).all():
            raise CheckpointError(f"{self.engine.name}: predicts NaN or infinity")
        return answer

    def _finished(self, photo: Photo, answer: Answer, request: Request) -> Prediction:
        """All that follows from the network's answer for one picture."""
        given = request.camera(photo.size) if callable(request.camera) else request.camera
        camera = camera_of(given, photo.lens, photo.size)
        facts = self._facts(photo, camera, request)
        if self.engine.task == "normals":
            return _of_normals(photo, camera, answer.maps, facts)
        depth, spread = answer.maps, answer.spread
        if request.tile:
            layout = self.layout(photo.size, request)
            facts["tiles"] = (
                f"{len(layout)} of {size_text(layout.size)}, aligned to the whole picture"
            )
            if len(layout) > 1:
                ask = partial(self._ask_tile, request=request)
                depth, spread = tiles.refine(photo.image, depth, ask, layout)
        if spread is not None:
            facts["spread"] = _SPREAD.format(", ".join(answer.spread_of))
        prediction = Prediction(
            image=photo.image, depth=depth, camera=camera, spread=spread, facts=facts
        )
        if request.rescale_to_training_camera:
            prediction = prediction.scaled(*_correction(self.facts, camera))
        if request.known is not None:
            prediction = prediction.rescaled(request.known)
        if request.normals:
            normals = geometry.normals_from_depth(prediction.depth, camera)
            facts = {**prediction.facts, "normals": "from depth and camera"}
            prediction = replace(prediction, normals=normals, facts=facts)
        return prediction

    def layout(self, picture: Size, request: Request) -> tiles.Tiles:
        """Where the tiles of a picture lie."""
        if isinstance(request.tile, tuple):
            return tiles.lay_out(picture, request.tile)
        network = request.size or self.network_size(picture)
        return tiles.lay_out(picture, tiles.choose_size(picture, network))

    def _ask_tile(self, image: NDArray[np.uint8], request: Request) -> tiles.Depths:
        answer = self._ask(image[None], request)
        return tiles.Depths(answer.maps[0], None if answer.spread is None else answer.spread[0])

    def _facts(self, photo: Photo, camera: Camera, request: Request) -> dict[str, str]:
        """What every result says of itself, in the order of its importance."""
        model = self.facts
        facts = {
            "picture": photo.name,
            "model": f"{model.name} (sha256 {model.sha256[:12] or UNKNOWN})",
            "domain": model.domain,
            "range": f"{model.depth_range[0]:g} to {model.depth_range[1]:g} m in training"
            if model.depth_range
            else UNKNOWN,
            "camera": _camera_text(camera),
            "network size": self._size_text(photo.size, request),
            "trained on": model.data,
            "licence of weights": model.licence,
        }
        if model.precision not in (UNKNOWN, "fp32"):
            facts["precision"] = model.precision
        if request.tta:
            facts["tta"] = "mean of the picture and its mirror image"
        if photo.notes:
            facts["notes"] = "; ".join(photo.notes)
        corrected = request.rescale_to_training_camera or request.known is not None
        unlike = None if corrected else _unlike_training(model, camera)
        if unlike:
            facts["warning"] = unlike
            warnings.warn(f"{photo.name}: {unlike}", IdiscWarning, stacklevel=5)
        return facts

    def _size_text(self, picture: Size, request: Request) -> str:
        if request.size:
            return f"{size_text(request.size)}, as asked for"
        if self.engine.fixed_size:
            return f"{size_text(self.engine.fixed_size)}, the only one of this file"
        size, trained = self.network_size(picture), self.facts.training_size
        if size == trained:
            return f"{size_text(size)}, as in training"
        start = (
            f"{size_text(trained)} of training" if trained else f"{size_text(USUAL_SIZE)} (usual)"
        )
        return f"{size_text(size)}: {start} in the shape of the picture"


def _pair(size: object, what: str) -> Size:
    """(height, width) of a pair of whole numbers; InputError for anything else."""
    pair = tuple(size) if isinstance(size, (list, tuple)) else ()
    if len(pair) != 2 or not all(isinstance(side, int) and side > 0 for side in pair):
        raise InputError(f"{what} {size!r}: (height, width) in pixels is needed")
    return pair


def _of_normals(
    photo: Photo, camera: Camera, normals: FloatMaps, facts: dict[str, str]
) -> Prediction:
    """The answer of a network for normals, which knows no metres."""
    length = np.linalg.norm(normals, axis=-1, keepdims=True)
    return Prediction(
        image=photo.image,
        depth=np.full(photo.size, np.nan, np.float32),
        camera=camera,
        normals=normals / np.maximum(length, np.float32(1e-6)),
        facts={**facts, "normals": "from the model", "depth": "none, a model for normals"},
    )


def _unlike_training(model: ModelFacts, camera: Camera) -> str | None:
    """A warning if the camera is known and far from that of training."""
    training = model.training_camera
    if training is None or not camera.known:
        return None
    ratio = camera.relative_focal / training.relative_focal
    half = math.tan(math.radians(training.fov_deg) / 2) / ratio
    seen_deg = math.degrees(2 * math.atan(half))  # of a picture shaped as in training
    if max(ratio, 1 / ratio) <= FAR_RATIO and abs(seen_deg - training.fov_deg) <= FAR_DEG:
        return None
    return (
        f"field of view {seen_deg:.0f} deg, {training.fov_deg:.0f} deg in training: true depth"
        f" may be {ratio:.2f} times this; rescale to the training camera, or by a known distance"
    )


def _correction(model: ModelFacts, camera: Camera) -> tuple[float, str]:
    """Factor and reason: of two lenses the longer makes all look nearer, by their ratio."""
    training = model.training_camera
    if training is None:
        raise InputError(
            f"{model.name} does not say with which field of view it was trained, so depth cannot"
            " be rescaled for it"
        )
    if not camera.known:
        raise InputError(
            f"the camera is {camera.origin}, so depth cannot be rescaled for it; give its field"
            " of view or focal length"
        )
    factor = camera.relative_focal / training.relative_focal
    return factor, f"focal length over that of training ({training.fov_deg:.0f} deg)"


def adapted(trained: Size, picture: Size) -> Size:
    """A size with as many pixels as `trained` in the shape of the picture, by steps of 32."""
    pixels, aspect = trained[0] * trained[1], picture[0] / picture[1]
    height, width = math.sqrt(pixels * aspect), math.sqrt(pixels / aspect)
    if (round(height), round(width)) == trained:
        return trained  # which need not be of such steps
    # A panorama's shorter side cannot shrink below a step, so the longer one stops growing.
    rows, columns = (
        max(STRIDE, round(min(side, pixels / STRIDE) / STRIDE) * STRIDE) for side in (height, width)
    )
    return rows, columns


def _batches(photos: Sequence[Photo], alone: bool) -> Iterator[list[int]]:
    """Indices of photos that have one size, few enough for one pass."""
    by_size: dict[Size, list[int]] = {}
    for index, photo in enumerate(photos):
        by_size.setdefault(photo.size, []).append(index)
    for (height, width), indices in by_size.items():
        most = 1 if alone else max(1, min(BATCH, BATCH_PIXELS // (height * width)))
        yield from (indices[start : start + most] for start in range(0, len(indices), most))


def _joined(plain: Answer, mirrored: Answer) -> Answer:
    """The mean of an answer and that for the mirrored pictures, and the spread of both."""
    there, half = mirrored.maps[:, :, ::-1], np.float32(0.5)
    if there.ndim == 4:  # x of normals points the other way in the mirror
        return Answer((plain.maps + there * np.array([-1, 1, 1], np.float32)) * half, None)
    mean, variance = (plain.maps + there) * half, ((plain.maps - there) * half) ** 2
    if plain.spread is None or mirrored.spread is None:
        return Answer(mean, np.sqrt(variance), (_MIRROR,))
    variance += (plain.spread**2 + mirrored.spread[:, :, ::-1] ** 2) * half
    return Answer(mean, np.sqrt(variance), (_LEVELS, _MIRROR))


def _camera_text(camera: Camera) -> str:
    across = f"{camera.fov_deg:.0f} deg"
    return camera.origin if across in camera.origin else f"{camera.origin} ({across} across)"
