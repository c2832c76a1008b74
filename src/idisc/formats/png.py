"""PNG files that are written quickly.

Depth is smooth, so the differences between rows compress well at the lowest level of zlib. Pillow
tries five filters for each row and compresses at level 6, which takes eight times as long for a
file that is a quarter smaller; `benchmarks/photos.py` compares the two.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _RGB = 0, 2  # colour types of PNG
_UP = 2  # the filter that subtracts the row above
_ROWS = 256  # compressed together, which bounds the memory of large pictures


def png_bytes(picture: NDArray[Any], about: dict[str, Any], **texts: str) -> bytes:
    """Encode uint8 (H, W, 3) or uint16 (H, W) with texts; `about` is one of them, as JSON."""
    height, width = picture.shape[:2]
    kind = _RGB if picture.ndim == 3 else _GREY
    header = struct.pack(">IIBBBBB", width, height, 8 * picture.itemsize, kind, 0, 0, 0)
    entries = {**texts, "idisc": json.dumps(about)}
    return b"".join(
        [
            _SIGNATURE,
            _chunk(b"IHDR", header),
            *(_chunk(b"tEXt", f"{key}\0{text}".encode("latin-1")) for key, text in entries.items()),
            *(_chunk(b"IDAT", data) for data in _compressed(picture) if data),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(data, zlib.crc32(name))
    return b"".join([struct.pack(">I", len(data)), name, data, struct.pack(">I", checksum)])


def _compressed(picture: NDArray[Any]) -> Iterator[bytes]:
    """Yield the parts of one zlib stream: for each row the number of its filter, then its bytes."""
    stream = zlib.compressobj(level=1)
    above: NDArray[np.uint8] | None = None
    for first in range(0, len(picture), _ROWS):
        band = np.ascontiguousarray(picture[first : first + _ROWS])
        rows = band.astype(band.dtype.newbyteorder(">")).view(np.uint8).reshape(len(band), -1)
        filtered = np.empty((len(rows), rows.shape[1] + 1), np.uint8)
        filtered[:, 0] = _UP
        np.subtract(rows[1:], rows[:-1], out=filtered[1:, 1:])
        filtered[0, 1:] = rows[0] if above is None else rows[0] - above
        above = rows[-1]
        yield stream.compress(filtered.tobytes())
    yield stream.flush()
