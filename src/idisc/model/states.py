"""Files of tensors: read without executing code, and compared with what a network expects.

A safetensors file of this package has a CRC-32 of each tensor in its header, next to the tensors,
so both are replaced together.
"""

from __future__ import annotations

import json
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from idisc.checksums import DAMAGED, KEY, crc32_of
from idisc.errors import CheckpointError, first_line, first_names

State = dict[str, Tensor]
# keys under which training scripts store the weights
_WRAPPERS = ("state_dict", "model", "model_state_dict")


def read_state(path: Path) -> State:
    """Read tensors by name from a .safetensors file or a torch checkpoint.

    The wrapper of a training script and the prefixes of parallel training are removed. Any other
    file is a CheckpointError; a pickle is never executed.
    """
    if not path.is_file():
        raise CheckpointError(path, "a folder, not a file" if path.is_dir() else "no such file")
    content = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    if isinstance(content, dict):
        inner = [content[name] for name in _WRAPPERS if isinstance(content.get(name), dict)]
        content = inner[0] if inner else content
    if not isinstance(content, dict) or not content:
        raise CheckpointError(path, f"holds {_describe_type(content)}, not tensors by name")
    state: State = {}
    for name, value in content.items():
        if not isinstance(name, str) or not _is_dense(value):
            found = f"entry {name!r} is {_describe_type(value)}"
            raise CheckpointError(path, found, "only plain tensors belong in a checkpoint")
        short = name.removeprefix("module.")
        if short in state:
            raise CheckpointError(path, f"{short} occurs twice, with and without 'module.'")
        state[short] = value
    return state


def write_state(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write tensors to a safetensors file, with their checksums."""
    # safetensors does not accept views and shared memory, so tensors are copied.
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in state.items()}
    save_file(tensors, path, {KEY: json.dumps({name: _crc32(tensors[name]) for name in tensors})})


def has_checksums(path: Path) -> bool:
    """Return whether a safetensors file has checksums, which `read_state` compares."""
    with safe_open(path, "pt") as file:
        return KEY in (file.metadata() or {})


def check_state(
    state: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    where: str,
    names: Mapping[str, str] | None = None,
) -> None:
    """Raise a CheckpointError that lists unexpected names, shapes and types.

    `names` maps tensors to their names in the file, where these differ.
    """
    called = {name: (names or {}).get(name, name) for name in state}
    missing = [name for name in expected if name not in state]
    extra = [called[name] for name in state if name not in expected]
    wrong = [
        f"{called[name]} is {_describe_shape(value)}, {_describe_shape(expected[name])} expected"
        for name, value in state.items()
        if name in expected and _describe_shape(value) != _describe_shape(expected[name])
    ]
    complaints = [f"missing {first_names(missing)}"] if missing else []
    complaints += [f"unexpected {first_names(extra)}"] if extra else []
    complaints += [first_names(wrong)] if wrong else []
    if complaints:
        raise CheckpointError(where, "; ".join(complaints))
    for name, value in state.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise CheckpointError(where, f"{called[name]} has values that are not finite")


def load_into(module: nn.Module, source: Mapping[str, Tensor], where: str) -> None:
    """Load the tensors of a module from a larger state, which must contain all of them."""
    expected = module.state_dict()
    state = {name: value for name, value in source.items() if name in expected}
    check_state(state, expected, where)
    module.load_state_dict(state)


def _read_safetensors(path: Path) -> object:
    try:
        state: State = load_file(path)
        with safe_open(path, "pt") as file:
            stated = (file.metadata() or {}).get(KEY)
        expected = None if stated is None else json.loads(stated)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(path, f"not readable as safetensors ({first_line(error)})") from None
    if expected is not None and expected != {name: _crc32(state[name]) for name in state}:
        raise CheckpointError(path, DAMAGED, "download it again")
    return state


def _crc32(value: Tensor) -> str:
    """CRC-32 of type, shape and values of a tensor on the CPU."""
    content = value.contiguous().flatten().view(torch.uint8).numpy().data
    return f"{crc32_of(f'{value.dtype} {tuple(value.shape)}', content):08x}"


def _read_torch(path: Path) -> object:
    try:
        damaged = zipfile.ZipFile(path).testzip() if zipfile.is_zipfile(path) else None
        if damaged:
            raise ValueError(f"the checksum of {damaged} is wrong")  # torch does not check it
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks about old formats; errors are raised
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # torch reports "Unsupported operand" for bytes that are not one of its pickles
        found = "no torch checkpoint" if "operand" in str(error) else "more than tensors"
        raise CheckpointError(path, f"contains {found}", "nothing in it was executed") from None
    except Exception as error:  # a damaged file can fail anywhere inside the reader
        reason = f"truncated or not a torch checkpoint ({first_line(error)})"
        raise CheckpointError(path, reason, "download it again") from None


def _is_dense(value: object) -> bool:
    """Return whether a value is a dense tensor on the CPU that is not quantized."""
    return (
        isinstance(value, Tensor)
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and not value.is_quantized
    )


def _describe_type(value: object) -> str:
    if isinstance(value, (dict, list, tuple)) and not value:
        return "nothing"
    return f"a {type(value).__name__}"


def _describe_shape(value: Tensor) -> str:
    shape = "x".join(map(str, value.shape)) or "a single number"
    return shape if value.is_floating_point() else f"{shape} of {value.dtype}"
