"""Small ONNX graphs written byte by byte, so that the suite needs no package for it.

A message of protocol buffers is a row of fields, each a key (number and kind) and a value; a list,
a text and a message inside are a length and their bytes. Numbers of fields are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FLOAT, UINT8, INT64 = 1, 2, 7  # TensorProto.DataType
Shape = Sequence[int | str]  # a text names a length that may change


def depth_of_brightness(path: Path, *, every: int = 1, weights_at: str = "") -> Path:
    """depth = 0.5 m + brightness / 50, of every n-th pixel of the picture.

    With `weights_at`, the graph asks for its first constant from another file.
    """
    nodes = [
        _node("Cast", ["image"], "bytes", to=FLOAT),
        _node("ReduceMean", ["bytes"], "grey", axes=[3], keepdims=0),
        _node("Div", ["grey", "fifty"], "scaled"),
        _node("Add", ["scaled", "half"], "full"),
        _node("Slice", ["full", "first", "last", "axes", "steps"], "depth"),
    ]
    constants = {
        "fifty": np.array(50, np.float32),
        "half": np.array(0.5, np.float32),
        "first": np.array([0, 0]),
        "last": np.array([1 << 30, 1 << 30]),
        "axes": np.array([1, 2]),
        "steps": np.array([every, every]),
    }
    more = b""
    if weights_at:
        constants.pop("fifty")
        place = _field(1, b"location") + _field(2, weights_at.encode())
        more = _field(5, _field(2, FLOAT) + _field(8, b"fifty") + _field(13, place) + _field(14, 1))
    inputs: list[tuple[str, int, Shape]] = [("image", UINT8, "BHW3")]
    return _write(path, nodes, constants, inputs, ("depth", FLOAT, "Bhw"), more)


def depth_and_spread(path: Path) -> Path:
    """depth = brightness / 50 in metres, and a tenth of it as spread."""
    nodes = [
        _node("Cast", ["image"], "bytes", to=FLOAT),
        _node("ReduceMean", ["bytes"], "grey", axes=[3], keepdims=0),
        _node("Div", ["grey", "fifty"], "depth"),
        _node("Div", ["depth", "ten"], "level_std"),
    ]
    constants = {"fifty": np.array(50, np.float32), "ten": np.array(10, np.float32)}
    spread = _field(12, _value("level_std", FLOAT, "BHW"))  # outputs are in the order of the fields
    inputs: list[tuple[str, int, Shape]] = [("image", UINT8, "BHW3")]
    return _write(path, nodes, constants, inputs, ("depth", FLOAT, "BHW"), last=spread)


def mean_depth_at_size(path: Path) -> Path:
    """One depth everywhere, the mean of all bytes in metres, at the size that is asked for."""
    nodes = [
        _node("Cast", ["image"], "bytes", to=FLOAT),
        _node("ReduceMean", ["bytes"], "grey", axes=[3], keepdims=0),
        _node("ReduceMean", ["grey"], "mean", axes=[1, 2], keepdims=1),
        _node("Concat", ["one", "size"], "shape", axis=0),
        _node("Expand", ["mean", "shape"], "depth"),
    ]
    inputs = [("image", UINT8, "BHW3"), ("size", INT64, [2])]
    return _write(path, nodes, {"one": np.array([1])}, inputs, ("depth", FLOAT, "Bhw"))


def normals_of_colour(path: Path) -> Path:
    """normals = colour / 127.5 - 1."""
    nodes = [
        _node("Cast", ["image"], "bytes", to=FLOAT),
        _node("Div", ["bytes", "half"], "scaled"),
        _node("Sub", ["scaled", "one"], "normals"),
    ]
    constants = {"half": np.array(127.5, np.float32), "one": np.array(1, np.float32)}
    return _write(path, nodes, constants, [("image", UINT8, "BHW3")], ("normals", FLOAT, "BHW3"))


def foreign(
    path: Path,
    names: tuple[str, str] = ("0", "350"),
    shape: Shape = (1, 3, 224, 224),
    axis: int = 1,
) -> Path:
    """Somebody else's network, as FastDepth is: floats (1, 3, 224, 224) in, their mean out."""
    nodes = [_node("ReduceMean", [names[0]], names[1], axes=[axis], keepdims=1)]
    inputs: list[tuple[str, int, Shape]] = [(names[0], FLOAT, shape)]
    out = [1 if place == axis else length for place, length in enumerate(shape)]
    return _write(path, nodes, {}, inputs, (names[1], FLOAT, out))


def for_one_size(path: Path) -> Path:
    """As `normals_of_colour`, but for pictures of 8x8 alone."""
    nodes = [_node("Cast", ["image"], "normals", to=FLOAT)]
    shape: Shape = ["B", 8, 8, 3]
    return _write(path, nodes, {}, [("image", UINT8, shape)], ("normals", FLOAT, shape))


def describe(path: Path, **texts: str) -> Path:
    """Add texts to the metadata of a file."""
    entries = [_field(1, key.encode()) + _field(2, text.encode()) for key, text in texts.items()]
    path.write_bytes(path.read_bytes() + b"".join(_field(14, entry) for entry in entries))
    return path


def _write(
    path: Path,
    nodes: Sequence[bytes],
    constants: dict[str, NDArray[np.generic]],
    inputs: Sequence[tuple[str, int, Shape]],
    output: tuple[str, int, Shape],
    more: bytes = b"",
    last: bytes = b"",
) -> Path:
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"graph") + more
    graph += b"".join(_field(5, _tensor(name, value)) for name, value in constants.items())
    graph += b"".join(_field(11, _value(*each)) for each in inputs) + _field(12, _value(*output))
    graph += last
    opset = _field(8, _field(1, b"") + _field(2, 13))
    path.write_bytes(_field(1, 8) + _field(7, graph) + opset)
    return path


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: int | list[int]) -> bytes:
    content = b"".join(_field(1, name.encode()) for name in inputs)
    content += _field(2, output.encode()) + _field(4, kind.encode())
    return content + b"".join(_field(5, _attribute(*each)) for each in attributes.items())


def _attribute(name: str, value: int | list[int]) -> bytes:
    if isinstance(value, int):
        return _field(1, name.encode()) + _field(3, value) + _field(20, 2)
    return _field(1, name.encode()) + b"".join(_field(8, item) for item in value) + _field(20, 7)


def _tensor(name: str, value: NDArray[np.generic]) -> bytes:
    kind = FLOAT if value.dtype == np.float32 else INT64
    dims = b"".join(_field(1, length) for length in value.shape)
    return dims + _field(2, kind) + _field(8, name.encode()) + _field(9, value.tobytes())


def _value(name: str, kind: int, shape: Shape) -> bytes:
    dims = [int(length) if str(length).isdecimal() else str(length) for length in shape]
    lengths = b"".join(
        _field(1, _field(1, each) if isinstance(each, int) else _field(2, each.encode()))
        for each in dims
    )
    tensor = _field(1, kind) + _field(2, lengths)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    """Seven bits in each byte, the lowest first; the eighth says that more follow."""
    head = b""
    while value > 127:
        head += bytes([value & 127 | 128])
        value >>= 7
    return head + bytes([value])
