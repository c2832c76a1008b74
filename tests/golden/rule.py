"""Weights, pictures and targets made by a rule, for comparing implementations number by number.

Everything is a pure function of names and shapes: an integer hash (splitmix64) seeded by the CRC of
the name, turned into floats by correctly rounded operations only. It is the same bit for bit on any
platform, so a golden file needs to hold the outputs alone. `noise` is the sum of four uniforms:
mean 0, variance 1, within 3.47.
"""

import math
import re
import zlib
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
_GOLDEN, _MIX = 0x9E3779B97F4A7C15, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def noise(name, shape, salt=""):
    """Approximately normal numbers of one name, float64."""
    words = _words(name, shape, salt)
    fields = [
        (words >> np.uint64(shift) & np.uint64(0xFFFF)).astype(np.int64)
        for shift in (0, 16, 32, 48)
    ]
    return (sum(fields) - 131070).astype(np.float64) * (math.sqrt(3.0) / 65536.0)


def uniform(name, shape, salt=""):
    """Uniform numbers in [0, 1), float64."""
    return (_words(name, shape, salt) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def state_for(shapes, salt=""):
    """Weights for the names and shapes of a released checkpoint."""
    return {name: tensor_for(name, tuple(shapes[name]), salt) for name in sorted(shapes)}


def tensor_for(name, shape, salt=""):
    """The value of one tensor; the first rule that fits its name gives scale and offset."""
    if name.endswith("num_batches_tracked"):
        return np.zeros(shape, np.int64)
    if name.endswith("relative_position_index"):
        return _position_index(shape[0])
    values = noise(name, shape, salt)
    if name.endswith("running_var"):
        return (1.0 + 0.1 * np.abs(values)).astype(np.float32)
    if name.endswith("to_kv.weight"):
        values[: shape[0] // 2] *= 2.0  # the keys
    offset, factor = _scale(name, shape)
    if len(shape) > 1 and name.endswith(".weight"):
        values = factor * values / math.sqrt(float(np.prod(shape[1:], dtype=np.int64)))
    else:
        values = factor * values
    return (offset + values if offset else values).astype(np.float32)


def _scale(name, shape):
    """(offset, factor) of the noise; a matrix is divided by the root of its inputs, too."""
    outputs = shape[0] if shape else 1
    table = (
        (r"running_mean", 0.0, 0.1),
        (r"relative_position_bias_table", 0.0, 0.5),
        (r"mu_\d+", 0.0, 1.0),
        (r"level_embed", 0.0, 0.5),
        (r"sampling_offsets\.bias", 0.0, 3.0),
        (r"proj_output\.3\.bias", *((0.7, 0.1) if outputs == 1 else (0.0, 0.3))),
        (r"^pixel_encoder\.layer.*bn3\.weight", 0.25, 0.025),
        (r"^pixel_encoder\.blocks\.\d+\.[1-9]\d*\.bn3\.weight", 0.4, 0.04),
        *(((r"\.weight", 1.0, 0.1),) if len(shape) == 1 else ()),
        (r"\.bias", 0.0, 0.05),
        (r"(sampling_offsets|attention_weights)\.weight", 0.0, 1.5),
        (r"to_q\.weight", 0.0, 2.0),
        (r"to_kv\.weight", 0.0, 1.0),
        (r"proj_output\.3\.weight", 0.0, 0.5 if outputs == 1 else 1.0),
        (r"^pixel_encoder\..*se\.conv_(reduce|expand)\.weight", 0.0, 2.0),
        *(
            (
                (r"^pixel_encoder\.(blocks|conv_stem|conv_head)\..*weight", 0.0, 1.52),
                (r"^pixel_encoder\..*weight", 0.0, 1.4),
            )
            if len(shape) == 4
            else ()
        ),
        (r"\.weight", 0.0, 1.0),
    )
    for pattern, offset, factor in table:
        if re.search(f"(?:{pattern})$", name):
            return offset, factor
    raise KeyError(name)


def digest(arrays):
    """CRC-32 of the little-endian bytes, in the order of the names."""
    if isinstance(arrays, np.ndarray):
        return zlib.crc32(np.ascontiguousarray(arrays).tobytes())
    code = 0
    for name in sorted(arrays):
        code = zlib.crc32(np.ascontiguousarray(arrays[name]).tobytes(), code)
    return code


def image_for(name, size, salt=""):
    """A picture, RGB uint8 (H, W, 3)."""
    image = np.empty((*size, 3), np.uint8)
    for channel in range(3):
        field = _field(f"image/{name}/{channel}", size, salt)
        field += 0.1 * uniform(f"image/{name}/noise{channel}", size, salt)
        field = (field - 0.2) * (1.0 / 0.65)
        image[..., channel] = np.floor(np.clip(field, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
    return image


def rgb_for(names, size, salt=""):
    """Pictures as the network takes them, (B, 3, H, W) float32 in [0, 1]."""
    images = np.stack([image_for(name, size, salt) for name in names])
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255.0))


def normalised(rgb):
    """The same after ImageNet's mean and deviation, as the golden files count it."""
    return (rgb - MEAN[:, None, None]) / STD[:, None, None]


def depth_for(name, size, salt="", near=0.5, far=9.5):
    """Smooth depth between `near` and `far` metres, float32 (H, W)."""
    field = _field("depth/" + name, size, salt) * (1.0 / 0.95)
    return (near + (far - near) * field * field).astype(np.float32)


def perturbed_depth_for(name, depth, amount=0.2, salt=""):
    """A "prediction": depth with noise of that relative size, never below a fifth, float32."""
    factor = np.maximum(1.0 + amount * noise("perturb/" + name, depth.shape, salt), 0.2)
    return (depth.astype(np.float64) * factor).astype(np.float32)


def normals_for(name, size, salt=""):
    """Unit normals, float32 (3, H, W)."""
    vectors = np.stack([_field(f"normal/{name}/{c}", size, salt) - 0.475 for c in range(3)])
    vectors[2] += 0.3
    length = np.sqrt(vectors[0] * vectors[0] + vectors[1] * vectors[1] + vectors[2] * vectors[2])
    return (vectors / length).astype(np.float32)


def mask_for(name, size, keep, salt=""):
    """A mask that keeps each pixel with that probability, bool (H, W)."""
    return uniform("mask/" + name, size, salt) < keep


def select(array, spec):
    """The stored part of an array: for each axis "all", ["first", k] or ["spread", k]."""
    for axis, choice in enumerate(spec):
        if choice == "all":
            continue
        kind, count = choice
        length = array.shape[axis]
        picked = np.arange(min(count, length))
        if kind == "spread" and length > count:
            picked = (np.arange(count) * (length - 1)) // (count - 1)
        array = np.take(array, picked, axis=axis)
    return np.ascontiguousarray(array)


def probe(stage, array):
    """A projection of the whole array on fixed noise: shows an error outside the stored part."""
    values = np.asarray(array, np.float64)
    return float((values * noise("probe/" + stage, values.shape)).sum() / values.size**0.5)


def _words(name, shape, salt):
    seed = zlib.crc32(f"{salt}|{name}".encode())
    start = _mixed(np.array([seed], np.uint64))
    out = np.empty(math.prod(shape), np.uint64)
    for first in range(0, len(out), 1 << 20):  # in pieces that stay in the cache
        last = min(first + (1 << 20), len(out))
        counter = np.arange(first + 1, last + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
        out[first:last] = _mixed(counter + start)
    return out.reshape(tuple(shape))


def _mixed(words):
    words = (words ^ (words >> np.uint64(30))) * np.uint64(_MIX[0])
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_MIX[1])
    return words ^ (words >> np.uint64(31))


def _position_index(count):
    side = math.isqrt(count)
    y, x = np.divmod(np.arange(count, dtype=np.int64), side)
    rows, columns = (axis[:, None] - axis[None] + side - 1 for axis in (y, x))
    return rows * (2 * side - 1) + columns


def _field(name, size, salt):
    """Three octaves of bilinear value noise."""
    out = np.zeros(size, np.float64)
    for cell, gain in ((64, 0.5), (24, 0.3), (8, 0.15)):
        out += gain * _octave(f"{name}/octave{cell}", size, cell, salt)
    return out


def _octave(name, size, cell, salt):
    grid = uniform(name, (size[0] // cell + 2, size[1] // cell + 2), salt)
    y, x = (np.arange(length, dtype=np.float64) / cell for length in size)
    row, column = y.astype(np.int64), x.astype(np.int64)
    down, right = (y - row)[:, None], (x - column)[None]
    corner = lambda i, j: grid[row + i][:, column + j]  # noqa: E731
    top = corner(0, 0) + (corner(0, 1) - corner(0, 0)) * right
    low = corner(1, 0) + (corner(1, 1) - corner(1, 0)) * right
    return top + (low - top) * down
