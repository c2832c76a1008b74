"""PredictOptions: how a picture is predicted. Python, command line, server and videos use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from idisc.camera import Camera, camera_of, matrix_camera
from idisc.errors import InputError
from idisc.images import MAX_NETWORK_PIXELS, Photo
from idisc.prediction import Prediction
from idisc.provenance import KnownDistance
from idisc.scale import FoundScale, apply_scale, read_scale
from idisc.sizes import Size, size_text

CameraRule = Camera | Callable[[Size], Camera] | ArrayLike | None
"""A camera, its 3x3 matrix, or a function from the size of a picture to its camera."""


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """How to predict a picture."""

    camera: CameraRule = None  # None: from EXIF, or a field of view of 60 degrees is assumed
    size: Size | None = None  # of the picture in the network; None: by training and aspect ratio
    flip: bool = False  # also predict the mirror image, and take the mean
    tile: Size | bool = False  # refine in tiles of this size; True: of a size by the picture
    # Scales the scene: one for metric depth, two for relative depth; stored as a tuple of them.
    known_distance: Any = None
    scale_from: FoundScale | str | Path | None = None  # scales as in another picture; a JSON file
    camera_correction: bool = True  # correct depth for a known lens unlike that of training
    normals: bool = False  # also compute normals from depth and camera

    def __post_init__(self) -> None:
        if self.size is not None:
            height, width = _pair(self.size, "size")
            if height * width > MAX_NETWORK_PIXELS:
                raise InputError(
                    f"size {size_text((height, width))}",
                    f"more than {MAX_NETWORK_PIXELS / 1e6:.1f} million pixels in the network",
                    "choose a smaller one, and tiles for detail",
                )
            object.__setattr__(self, "size", (height, width))
        if not isinstance(self.tile, bool):
            object.__setattr__(self, "tile", _pair(self.tile, "tile"))
        if self.known_distance:
            known = KnownDistance.parse_all(self.known_distance)
            object.__setattr__(self, "known_distance", known)
        if isinstance(self.scale_from, (str, Path)):
            object.__setattr__(self, "scale_from", read_scale(self.scale_from))
        if self.scale_from is not None and self.known_distance:
            raise InputError(
                "scale from another picture",
                "a known distance gives a scale already",
                "leave out one of them",
            )

    def camera_of(self, photo: Photo) -> Camera:
        """Return the camera of a photo: given, or from EXIF, or assumed; errors name the photo."""
        given = self.camera
        try:
            if given is not None and not isinstance(given, Camera):
                given = given(photo.size) if callable(given) else matrix_camera(given, photo.size)
            return camera_of(given, photo.lens, photo.size)
        except InputError as error:
            raise error.within(photo.name) from None

    def scaled(self, prediction: Prediction) -> Prediction:
        """Return a prediction with the scale of another picture, if the options have one."""
        scale = self.scale_from
        return apply_scale(prediction, scale) if isinstance(scale, FoundScale) else prediction


def _pair(size: object, name: str) -> Size:
    pair = tuple(size) if isinstance(size, (list, tuple)) else ()
    if len(pair) != 2 or not all(isinstance(side, int) and side > 0 for side in pair):
        raise InputError(f"{name} {size!r}", "(height, width) in pixels is needed")
    return pair
