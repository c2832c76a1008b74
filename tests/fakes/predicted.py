"""A small prediction: a box in front of a wall, in a picture of known colours."""

import numpy as np
from PIL import Image

from idisc import formats
from idisc.camera import Camera
from idisc.prediction import Prediction
from idisc.provenance import ModelInfo, Provenance

SIZE = (48, 64)
CAMERA = Camera(
    fx=60.0, fy=50.0, cx=30.0, cy=25.5, size=SIZE, origin="assumed 60 deg", source="assumed"
)


def provenance(picture="room.jpg", **changes):
    """How a prediction was made; `changes` are fields of ModelInfo."""
    return Provenance(
        picture=picture,
        model=ModelInfo(**{"name": "a test", "sha256": "0123456789abcdef", **changes}),
        network_size=SIZE,
        network_size_reason="training",
    )


def predicted(depth, image=None, **changes):
    """A prediction with this depth (H, W); `changes` are fields of Prediction."""
    maps = depth if depth is not None else changes["normals"]
    size = maps.shape[0], maps.shape[1]
    fields = {
        "image": np.full((*size, 3), 90, np.uint8) if image is None else image,
        "camera": Camera.assumed(size),
        "provenance": provenance(domain="indoor"),
        **changes,
    }
    return Prediction(depth=None if depth is None else depth.astype(np.float32), **fields)


def box_before_a_wall():
    """A wall at 4 m, a box at 2 m before it; two pixels have no depth."""
    depth = np.full(SIZE, 4.0, np.float32)
    depth[15:35, 20:45] = 2.0
    depth[0, 0], depth[0, 1] = 0.0, np.nan
    return depth


def coloured():
    """Red grows to the right, green downwards."""
    image = np.zeros((*SIZE, 3), np.uint8)
    image[..., 0], image[..., 1] = np.arange(64) * 4, np.arange(48)[:, None] * 5
    return image


DEPTH = box_before_a_wall()
RESULT = predicted(DEPTH, coloured(), camera=CAMERA)
WALL = predicted(np.full(SIZE, 3.0), coloured(), camera=CAMERA)


def write(name, folder, result=RESULT, **options):
    """One format of a result; the first of its files."""
    rows = formats.parse(name)
    return formats.save(result, folder, "room", rows, formats.FormatOptions(**options))[0]


def texts_of(path):
    """What a PNG says of itself."""
    with Image.open(path) as picture:
        assert isinstance(picture.info, dict)
        return {str(key): str(value) for key, value in picture.info.items()}
