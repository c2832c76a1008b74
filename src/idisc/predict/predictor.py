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
from numpy.typing import ArrayLike, NDArray

from idisc.camera import Camera, camera_of, matrix_camera
from idisc.errors import CheckpointError, IdiscWarning, InputError
from idisc.images import MOST_SEEN, Photo, PhotoSource, read_photo
from idisc.outputs.pictures import spread_meaning
from idisc.predict import doubts, tiles
from idisc.predict.engine import UNKNOWN, USUAL_SIZE, Engine, ModelFacts, open_model
from idisc.predict.prediction import Known, Prediction, Scale
from idisc.settings import Precision
from idisc.sizes import Size, resize_smooth, size_text

CameraRule = Camera | Callable[[Size], Camera] | ArrayLike | None
"""A camera, its matrix, or how to make one for a picture of some size; None: EXIF, or assumed."""
FloatMaps = NDArray[np.float32]
STRIDE, FINEST = 32, 4  # of the coarsest map of every encoder, and of the finest that is fused
BATCH, BATCH_PIXELS = 4, 4_000_000  # pictures of one size in one pass, and pixels of their results
_LEVELS, _MIRROR = "at its resolutions", "for the picture and its mirror image"


@dataclass(frozen=True, kw_only=True)
class Request:
    """How to predict; the arguments of `Predictor.predict`."""

    camera: CameraRule = None
    size: Size | None = None  # of the picture in the network
    tta: bool = False  # also predict the mirrored picture, and take the mean
    tile: Size | bool = False  # of a tile, or True: chosen by the picture
    known: Known | Scale | None = None  # two points and their distance, or what follows from them
    camera_correction: bool = True  # for a known focal length that is not that of training
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
        camera_correction: bool = True,
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
        camera_correction: bool = True,
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
        camera_correction: bool = True,
        normals: bool = False,
    ) -> Prediction | list[Prediction]:
        """Depth of a picture, or of each of a list; `images.read_photo` says what a picture is.

        `camera` is the picture's, its 3x3 matrix in pixels of the picture, or a function of its
        size; without it EXIF is read, or 60 deg assumed. `size` is the network's, `tta` adds the
        mirrored picture, `tile` (a size, or True) refines large pictures in tiles. `known`,
        "x1,y1 x2,y2 = 2.40m" or ((x1, y1), (x2, y2), 2.40), scales the scene of one picture;
        Depth is corrected for a focal length that is known and not that of training, unless
        `camera_correction` is False. `normals` adds those of the depth.
        """
        request = Request(
            camera=camera,
            size=None if size is None else self._seen(_pair(size, "size")),
            tta=tta,
            tile=tile if isinstance(tile, bool) else _pair(tile, "tile"),
            known=known if known is None or isinstance(known, Scale) else Known.parse(known),
            camera_correction=camera_correction,
            normals=normals,
        )
        if self.engine.task == "normals" and (request.tile or request.known):
            raise InputError(
                f"{self.engine.name} predicts normals, no depth; tiles and a known distance are"
                " for depth"
            )
        if isinstance(source, (list, tuple)):
            if known is not None and len(source) > 1:
                raise InputError(
                    "known distance: its points are pixels of one picture; predict that one alone,"
                    " or use rescaled() of its result"
                )
            return self._predict_all(_read_all(source), request)
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
        cameras = [_camera(photo, request) for photo in photos]
        found: dict[int, Prediction] = {}
        for indices in _batches(photos, request):
            answer = self._ask(np.stack([photos[index].image for index in indices]), request)
            for place, index in enumerate(indices):
                spread = None if answer.spread is None else answer.spread[place]
                one = Answer(answer.maps[place], spread, answer.spread_of)
                try:
                    found[index] = self._finished(photos[index], cameras[index], one, request)
                except InputError as error:
                    raise InputError(f"{photos[index].name}: {error}") from None
                if doubt := found[index].facts.get("warning"):
                    warnings.warn(f"{photos[index].name}: {doubt}", IdiscWarning, stacklevel=3)
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

    def _finished(
        self, photo: Photo, camera: Camera, answer: Answer, request: Request
    ) -> Prediction:
        """All that follows from the network's answer for one picture."""
        facts = self._facts(photo, camera, request)
        if self.engine.task == "normals":
            return _of_normals(photo, camera, answer.maps, facts)
        depth, spread, cell = answer.maps, answer.spread, self._cell(photo.size, request)
        if request.tile:
            layout = self.layout(photo.size, request)
            facts["tiles"] = (
                f"{len(layout)} of {size_text(layout.size)}, aligned to the whole picture"
            )
            if len(layout) > 1:
                cell = self._cell(layout.size, request)
                ask = partial(self._ask_tile, request=request)
                depth, spread = tiles.refine(photo.image, depth, ask, layout)
        if spread is not None:
            facts["spread"] = spread_meaning(*answer.spread_of)
        prediction = Prediction(
            image=photo.image, depth=depth, camera=camera, spread=spread, cell=cell, facts=facts
        )
        if request.camera_correction and self._corrects(camera):
            prediction = prediction.corrected(*doubts.correction(self.facts, camera))
        if isinstance(request.known, Scale):
            prediction = prediction.scaled(request.known.factor, request.known.why)
        elif request.known is not None:
            prediction = prediction.rescaled(request.known)
        return prediction.with_normals() if request.normals else prediction

    def _corrects(self, camera: Camera) -> bool:
        """Whether depth depends on the focal length in a way that can be undone."""
        return camera.known and self.facts.training_camera is not None

    def _cell(self, picture: Size, request: Request) -> int:
        """Pixels of a picture, or of a tile, for one of the network's finest map."""
        seen = request.size or self.network_size(picture)
        return max(1, round(FINEST * math.sqrt(picture[0] * picture[1] / (seen[0] * seen[1]))))

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
            "range": f"depth to {model.depth_range[1]:g} m in training"
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
        if found := self._doubts(photo.size, camera, request):
            facts["warning"] = "; ".join(found)
        return facts

    def _doubts(self, picture: Size, camera: Camera, request: Request) -> list[str]:
        """What the user should know before believing the metres."""
        corrected = request.camera_correction or request.known is not None
        found = [
            doubts.of_matrix(camera),
            None if corrected else doubts.of_camera(self.facts, camera),
            doubts.of_pixels(picture, self.facts.training_size),
        ]
        if seen := request.size or self.engine.fixed_size:
            better = None if self.engine.fixed_size else adapted(seen, picture)
            found.append(doubts.of_shape(seen, picture, better))
        if request.size and request.known is None:
            found.append(doubts.of_size(request.size, self.facts.training_size))
        if isinstance(request.known, Scale):
            found.append(doubts.of_scale(request.known.factor))
        return [doubt for doubt in found if doubt]

    def _seen(self, size: Size) -> Size:
        """A size that is asked for and that this network can see; InputError for others."""
        fixed = self.engine.fixed_size
        if fixed and size != fixed:
            raise InputError(
                f"size {size_text(size)}: {self.engine.name} is for {size_text(fixed)} alone; leave"
                " it out, or export the checkpoint again for any size"
            )
        if size[0] * size[1] > MOST_SEEN:
            raise InputError(
                f"size {size_text(size)}: more than {MOST_SEEN / 1e6:.1f} million pixels in the"
                " network; choose a smaller one, and tiles for detail"
            )
        return size

    def _size_text(self, picture: Size, request: Request) -> str:
        if request.size:
            return f"{size_text(request.size)}, as asked for"
        if self.engine.fixed_size:
            return f"{size_text(self.engine.fixed_size)}, the only size of this file"
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


def adapted(trained: Size, picture: Size) -> Size:
    """A size with as many pixels as `trained` in the shape of the picture, by steps of 32."""
    pixels, aspect = trained[0] * trained[1], picture[0] / picture[1]
    height, width = math.sqrt(pixels * aspect), math.sqrt(pixels / aspect)
    if (round(height), round(width)) == trained:
        return trained  # which need not be of such steps
    # A panorama's shorter side cannot shrink below a step, so the longer one stops growing.
    steps = [min(side, pixels / STRIDE) / STRIDE for side in (height, width)]
    rows, columns = ({max(1, math.floor(step)), max(1, math.ceil(step))} for step in steps)

    def misfit(size: Size) -> float:
        """The shape counts most: what is squeezed has other metres."""
        squeezed, more = size[0] / size[1] / aspect, size[0] * size[1] / pixels
        return abs(math.log(squeezed)) + abs(math.log(more)) / 4

    return min(((STRIDE * row, STRIDE * column) for row in rows for column in columns), key=misfit)


def _read_all(sources: Sequence[Any]) -> list[Photo]:
    """The pictures of a list; of those without a name, each gets one of its own."""
    photos = [read_photo(source) for source in sources]
    numbered = len(photos) > 1
    return [
        replace(photo, name=f"{photo.name}_{number}") if numbered and not photo.named else photo
        for number, photo in enumerate(photos, start=1)
    ]


def _camera(photo: Photo, request: Request) -> Camera:
    """Of a picture, as given, read or assumed; an error names the picture."""
    given = request.camera
    try:
        if given is not None and not isinstance(given, Camera):
            given = given(photo.size) if callable(given) else matrix_camera(given, photo.size)
        return camera_of(given, photo.lens, photo.size)
    except InputError as error:
        raise InputError(f"{photo.name}: {error}") from None


def _batches(photos: Sequence[Photo], request: Request) -> Iterator[list[int]]:
    """Indices of photos that have one size, few enough for one pass."""
    seen = request.size[0] * request.size[1] if request.size else 0
    by_size: dict[Size, list[int]] = {}
    for index, photo in enumerate(photos):
        by_size.setdefault(photo.size, []).append(index)
    for (height, width), indices in by_size.items():
        pixels = max(height * width, seen)
        most = 1 if request.tile else max(1, min(BATCH, BATCH_PIXELS // pixels))
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
