"""Predictor: maps pictures of any size to depth in metres at the same size.

`Predictor` chooses the size at which the network sees a picture, adds flipped passes and tiles,
finds the camera, corrects depth for it, and records all of this as provenance. The network size has
as many pixels as in training and the aspect ratio of the picture, with sides that are multiples of
32; a picture with the aspect ratio of training gets exactly the training size. The result is
resized once to the size of the picture, with aligned corners, as in evaluation. Third-party
networks have the size, resize and border of their convention.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from idisc import files
from idisc.camera import Camera
from idisc.configs.recipes import PUBLISHED_RECIPES
from idisc.configs.schema import Precision
from idisc.data.framing import SizeRule
from idisc.errors import CheckpointError, IdiscWarning, InputError
from idisc.images import MAX_NETWORK_PIXELS, Photo, PhotoSource, read_photo
from idisc.predict import reliability, tiles
from idisc.predict.batches import group_by_size, read_ahead
from idisc.predict.engine import Engine, Output
from idisc.predict.model_info import DEFAULT_SIZE, read_model_info
from idisc.predict.open import open_model
from idisc.predict.options import PredictOptions
from idisc.predict.scene import check_domain
from idisc.prediction import Prediction
from idisc.provenance import Provenance, SizeReason, TileGrid
from idisc.provenance_text import describe_warning
from idisc.sizes import RESIZES, STRIDE, Border, Size, Sizing, describe_size, resize_map, size_text
from idisc.tasks import NORMALS, Task

if TYPE_CHECKING:
    from idisc.data.dataset import Dataset
    from idisc.predict.convention_engine import ConventionEngine  # imported if a file needs it

FINEST_STRIDE = 4  # of the finest map that the network fuses


def load(
    model: str | Path | None = None,
    device: str = "cpu",
    precision: Precision | None = None,
    convention: str | None = None,
    pictures: int | None = None,
) -> Predictor:
    """Load a checkpoint folder, an .onnx file or a shipped model by name; None: the default model.

    "auto" chooses among the shipped models by the domain of each picture. `device` is cpu, cuda,
    cuda:1 ...; `precision` is fp32, bf16 or fp16 (checkpoints only: an .onnx file has its own).
    `convention` is for third-party networks whose convention is not detected; see `conventions`.
    The number of `pictures`, if it is known, saves time; see `open_model`.
    """
    if model == "auto" and convention is None:
        from idisc.predict.auto import AutoPredictor

        return AutoPredictor(device, precision, pictures)
    engine = open_model(model, device, precision, convention=convention, pictures=pictures)
    return Predictor(engine)


class Predictor:
    """A network that predicts depth in metres, or normals."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.model = read_model_info(engine)
        self.sizing = Sizing(
            kind="area", size=self.model.training_size or DEFAULT_SIZE, multiple=STRIDE
        )
        if engine.convention:
            self.sizing = engine.convention.sizing

    def predict(
        self, source: PhotoSource | Photo, options: PredictOptions | None = None, **changes: Any
    ) -> Prediction:
        """Predict one picture; `images.read_photo` says what can be a picture.

        `changes` are fields of `PredictOptions`, for convenience.
        """
        options = self._checked(options, changes)
        (prediction,) = self._predict_batch([read_photo(source)], options)
        return _with_warning(prediction)

    def predict_many(
        self,
        sources: Iterable[PhotoSource | Photo],
        options: PredictOptions | None = None,
        **changes: Any,
    ) -> Iterator[Prediction]:
        """Predict pictures one after the other, in their order; a thread reads ahead.

        Successive pictures of one size go through the network together. Pictures without a name
        are numbered.
        """
        options = self._checked(options, changes)
        if options.known_distance:
            raise InputError(
                "known distance",
                "its points are pixels of one picture",
                "use predict, or rescaled() of one result",
            )
        batches = group_by_size(read_ahead(sources), options)
        return (
            _with_warning(prediction)
            for photos in batches
            for prediction in self._predict_batch(photos, options)
        )

    def predict_at(
        self, image: NDArray[np.uint8], size: Size, camera: Camera | None = None
    ) -> Output:
        """Predict a picture (H, W, 3) that has the network's size already; the output has `size`.

        Evaluation uses it for the pictures of a dataset, whose ground truth has `size`. Published
        networks are scored as they are; see `camera_factor`. Pictures of third-party
        networks are resized by their convention.
        """
        if self.engine.convention:
            picture = image.shape[0], image.shape[1]
            cameras = [camera or Camera.assumed(picture)]
            (output,) = self._run(image[None], PredictOptions(), cameras).unbatched()
            return output._replace(maps=resize_map(output.maps, size))
        (output,) = self._infer(image[None], size).unbatched()
        factor = np.float32(self.camera_factor(camera))
        std = None if output.level_std is None else factor * output.level_std
        return output._replace(maps=factor * output.maps, level_std=std)

    def camera_factor(self, camera: Camera | None) -> float:
        """Return the factor from canonical depth to a known camera's.

        It is 1 for normals and for models that were not trained on many cameras.
        """
        if not self.model.canonical or camera is None or not self.engine.task.metric:
            return 1.0
        return reliability.camera_correction(self.model, camera).factor

    def size_rule(self, dataset: Dataset) -> SizeRule | None:
        """Return the rule for the network size of a dataset's pictures; None: its own size.

        Networks that were trained at a size of the paper use that of the dataset, as in the paper.
        Others see a dataset as they see photos, unless it was opened with a size.
        """
        if dataset.has_chosen_size or self.engine.convention:
            return None  # `predict_at` follows the convention
        size, published = dataset.spec.size, {recipe.data.size for recipe in PUBLISHED_RECIPES}
        if size and self.model.training_size in {None, size, *published}:
            return None
        return self.network_size

    def network_size(self, picture: Size) -> Size:
        """Return the size at which the network sees a picture if the options give none."""
        size = self.engine.fixed_size or self.sizing.network_size(picture)
        if size[0] * size[1] > MAX_NETWORK_PIXELS:  # of a rule that keeps the picture's own size
            shrunk = math.sqrt(MAX_NETWORK_PIXELS / (picture[0] * picture[1]))
            return self.sizing.network_size((int(picture[0] * shrunk), int(picture[1] * shrunk)))
        return size

    def describe_network_size(self) -> str:
        """Return the rule of `network_size` as text."""
        if self.engine.fixed_size:
            return f"{describe_size(self.engine.fixed_size)}, the only size of this file"
        if self.engine.convention:
            return f"the size of the convention {self.engine.convention.name}"
        trained = self.model.training_size
        reason = "as in training" if trained else "the default, as it does not say its own"
        size = describe_size(trained or DEFAULT_SIZE)
        return f"{size}, {reason}, with the aspect ratio of the picture"

    def _checked(self, options: PredictOptions | None, changes: dict[str, Any]) -> PredictOptions:
        """Return options that this network can follow."""
        options = replace(options or PredictOptions(), **changes)
        fixed = self.engine.fixed_size
        if fixed and options.size and options.size != fixed:
            raise InputError(
                f"size {size_text(options.size)}",
                f"{self.engine.name} accepts {size_text(fixed)} only",
                "leave it out, or export the checkpoint for any size",
            )
        scaled = options.known_distance or options.scale_from
        if not self.engine.task.metric and (options.tile or scaled):
            raise InputError(
                self.engine.name,
                "predicts normals, and tiles, a known distance and a scale need depth",
                "leave them out",
            )
        return options

    def _predict_batch(
        self, photos: Sequence[Photo], options: PredictOptions
    ) -> Iterator[Prediction]:
        """Predict pictures of one size."""
        cameras = [options.camera_of(photo) for photo in photos]
        outputs = self._run(np.stack([photo.image for photo in photos]), options, cameras)
        for photo, camera, output in zip(photos, cameras, outputs.unbatched(), strict=True):
            try:
                prediction = self._finish(photo, camera, output, options)
            except InputError as error:
                raise error.within(photo.name) from None
            yield prediction

    def _run(
        self, images: NDArray[np.uint8], options: PredictOptions, cameras: Sequence[Camera] = ()
    ) -> Output:
        """Run the network on pictures (B, H, W, 3) with their cameras; the output has their size.

        A convention may ask for a border around the pictures, which is cut off the output.
        """
        size, convention = (images.shape[1], images.shape[2]), self.engine.convention
        border, network_size = self._border_and_size(size, options)
        padded = border.around(size)
        resize = RESIZES["smooth"]
        if convention:
            resize = RESIZES[convention.resize]
            images = border.pad(images, mirrored=convention.padding == "reflect")
            cameras = [
                camera.cropped(-border.top, -border.left, padded).resized(network_size)
                for camera in cameras
            ]
        inputs = np.stack([resize(image, network_size) for image in images])
        output = self._infer(inputs, padded, cameras)
        if options.flip:
            mirrored = np.ascontiguousarray(inputs[:, :, ::-1])
            flipped = self._infer(mirrored, padded, [camera.flipped() for camera in cameras])
            output = output.mean_with_flipped(flipped, self.engine.task)
        rows, columns = border.inside(size)
        std = None if output.level_std is None else output.level_std[:, rows, columns]
        return output._replace(maps=output.maps[:, rows, columns], level_std=std)

    def _border_and_size(self, picture: Size, options: PredictOptions) -> tuple[Border, Size]:
        """Return the border around a picture, and the size at which the network sees both."""
        size = options.size or self.network_size(picture)
        if self.engine.convention is None:
            return Border(), size
        border = self.engine.convention.border(picture, size)
        return border, options.size or self.network_size(border.around(picture))

    def _infer(
        self, images: NDArray[np.uint8], size: Size, cameras: Sequence[Camera] = ()
    ) -> Output:
        """Run the network on pictures (B, H, W, 3) in their size; the output has `size`."""
        if self.engine.convention:
            output = cast("ConventionEngine", self.engine).run(images, size, cameras)
        else:
            output = self.engine.run(images, size)
        if not np.isfinite(output.maps).all():
            raise CheckpointError(self.engine.name, "predicts NaN or infinity")
        return output

    def _finish(
        self, photo: Photo, camera: Camera, output: Output, options: PredictOptions
    ) -> Prediction:
        """Make a prediction from the output of the network for one picture."""
        if output.fov_deg is not None and not camera.known:
            camera = Camera.predicted(float(output.fov_deg), photo.size)
        provenance = self._provenance(photo, camera, options)
        task = self.engine.task
        if output.scene is not None:
            warning = check_domain(self.model, task.name, output.scene)
            if warning:
                provenance = replace(provenance, warnings=(*provenance.warnings, warning))
        if not task.metric:
            return _without_depth(task, photo, camera, output.maps, provenance)
        finest = photo.size
        if options.tile:
            layout = self._layout(photo.size, options)
            grid = TileGrid(count=len(layout), size=layout.size)
            provenance = replace(provenance, tiles=grid)
            if len(layout) > 1:
                finest, run = layout.size, partial(self._run_tile, options=options)
                affine = self.model.unit == "relative"
                refined = tiles.refine(photo.image, output.maps, run, layout, affine=affine)
                output = refined._replace(compared=output.compared)
        if output.level_std is not None:
            provenance = replace(provenance, level_std=output.compared)
        prediction = Prediction(
            image=photo.image,
            depth=output.maps,
            camera=camera,
            level_std=output.level_std,
            pixels_per_feature=self._pixels_per_feature(finest, options),
            provenance=provenance,
        )
        if options.camera_correction and camera.known and self.model.training_camera is not None:
            prediction = prediction.apply(reliability.camera_correction(self.model, camera))
        if options.known_distance:
            prediction = prediction.apply(prediction.change_for(options.known_distance))
        prediction = options.scaled(prediction)
        return prediction.with_normals() if options.normals else prediction

    def _pixels_per_feature(self, picture: Size, options: PredictOptions) -> int:
        network_size = options.size or self.network_size(picture)
        ratio = math.prod(picture) / math.prod(network_size)
        return max(1, round(FINEST_STRIDE * math.sqrt(ratio)))

    def _layout(self, picture: Size, options: PredictOptions) -> tiles.Tiles:
        if isinstance(options.tile, tuple):
            return tiles.lay_out(picture, options.tile)
        network = options.size or self.network_size(picture)
        return tiles.lay_out(picture, tiles.choose_size(picture, network))

    def _run_tile(self, image: NDArray[np.uint8], options: PredictOptions) -> Output:
        return next(self._run(image[None], options).unbatched())

    def _provenance(self, photo: Photo, camera: Camera, options: PredictOptions) -> Provenance:
        size, reason = self._size_and_reason(photo.size, options)
        return Provenance(
            picture=files.name_text(photo.name),
            model=self.model,
            network_size=size,
            network_size_reason=reason,
            flip=options.flip,
            notes=photo.notes,
            warnings=reliability.check_all(self.model, self.engine, camera, options),
        )

    def _size_and_reason(self, picture: Size, options: PredictOptions) -> tuple[Size, SizeReason]:
        _, size = self._border_and_size(picture, options)
        if options.size:
            return size, "user"
        if self.engine.fixed_size:
            return size, "file"
        if self.engine.convention:
            return size, "convention"
        return size, "training" if size == self.model.training_size else "aspect"


def _with_warning(prediction: Prediction) -> Prediction:
    """Emit the warnings of a prediction as a Python warning, and return it."""
    provenance = prediction.provenance
    if provenance.warnings:
        text = "; ".join(map(describe_warning, provenance.warnings))
        warnings.warn(f"{provenance.picture}: {text}", IdiscWarning, stacklevel=3)
    return prediction


def _without_depth(
    task: Task, photo: Photo, camera: Camera, maps: NDArray[np.float32], provenance: Provenance
) -> Prediction:
    """Make a prediction of normals or of another task without metres."""
    make = partial(Prediction, image=photo.image, camera=camera, depth=None)
    values = task.finish(maps)
    if task == NORMALS:
        return make(normals=values, provenance=replace(provenance, normals="model"))
    return make(others={task.name: values}, provenance=provenance)
