"""CRC-32 of files, which shows at every load whether bytes have changed since they were written.

An ONNX file ends with a checksum of everything before it. The checksum is an ordinary metadata
entry, because fields may be appended to a serialized protocol buffer message. Another entry has the
checksums of the files that the graph takes weights from. A safetensors file has a checksum for each
tensor in its header, see `model.states`, and cached features have one for each row, see
`train.features`. The record of a checkpoint has one of its own values, and the card of a shipped
model has one for each of its files. CRC-32 is cheap enough for every load
(`benchmarks/checksums.py`). It detects damage, but unlike a signature it does not detect tampering.
"""

from __future__ import annotations

import json
import mmap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from idisc.errors import CheckpointError

KEY = "crc32"
EXTERNAL = "external_crc32"  # of files with weights, by name, as JSON; empty if there are none
DAMAGED = "its checksum is wrong, so it is damaged or was edited"
_HEAD = b"\x72\x11\x0a\x05" + KEY.encode() + b"\x12\x08"  # metadata_props of 17 bytes: key, value
_SEAL_BYTES = len(_HEAD) + 8
_REMEDY = "get it again, or export it again"


def crc32(path: Path, without: int = 0) -> str:
    """Return the CRC-32 of a file, without its last bytes, as 8 hexadecimal digits."""
    if not path.stat().st_size:  # an empty file cannot be mapped
        return f"{0:08x}"
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,  # saves a copy
        memoryview(content) as view,
        view[: len(content) - without] as part,
    ):
        return f"{zlib.crc32(part):08x}"


def crc32_of(description: str, content: memoryview) -> int:
    """Return the CRC-32 of values in memory and of a description of them, such as their type."""
    return zlib.crc32(content, zlib.crc32(description.encode()))


def sealed(content: bytes) -> bytes:
    """Return the bytes of an ONNX file with their checksum at the end."""
    return content + _HEAD + f"{zlib.crc32(content):08x}".encode()


def check_sealed(path: Path) -> bool:
    """Return whether an ONNX file has a checksum; CheckpointError if it is wrong."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _SEAL_BYTES, 0))
        end = file.read()
    if not end.startswith(_HEAD):
        return False
    if end[len(_HEAD) :] != crc32(path, _SEAL_BYTES).encode():
        raise CheckpointError(path, DAMAGED, _REMEDY)
    return True


def check_external(folder: Path, stated: str | None) -> bool:
    """Return whether a graph states checksums of its other files; CheckpointError if wrong."""
    try:
        expected = json.loads(stated or "null")
    except ValueError:
        return False
    if not isinstance(expected, dict):
        return False
    check_files(folder, expected)
    return True


def check_files(folder: Path, expected: Mapping[str, str]) -> None:
    """Raise a CheckpointError if a file in a folder is missing or has another CRC-32."""
    for name, crc in expected.items():
        path = folder / Path(name).name  # a name must not lead to other folders
        if not path.is_file() or crc32(path) != crc:
            raise CheckpointError(path, DAMAGED, _REMEDY)


def sealed_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of a checkpoint with a checksum of its values."""
    return {**record, KEY: _record_crc32(record)}


def check_record(path: Path, record: Mapping[str, Any]) -> None:
    """Raise a CheckpointError if a JSON object has a checksum and it is wrong."""
    if KEY in record and record[KEY] != _record_crc32(record):
        raise CheckpointError(path, DAMAGED, f"if you have edited it, remove {KEY} from it")


def _record_crc32(record: Mapping[str, Any]) -> str:
    """Return the CRC-32 of the values, which does not depend on the indentation of the file."""
    values = {name: value for name, value in record.items() if name != KEY}
    return f"{zlib.crc32(json.dumps(values, sort_keys=True).encode()):08x}"
