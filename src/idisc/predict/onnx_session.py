"""Opens an ONNX file with onnxruntime; errors are one line, and nothing is printed."""

from __future__ import annotations

import copyreg
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from idisc import checksums
from idisc.errors import CheckpointError, InputError, first_line
from idisc.predict.convention_choice import Graph

AGAIN = "get it again, or export it again"
Optimization = Literal["none", "basic", "all"]
"""How a graph is optimized when it is opened.

"all" searches for operators to fuse. "basic" is for graphs whose operators are fused already, and
takes half the time. With "none", even fp16 weights are converted in every run: opening a shipped
model takes a quarter of the time, and each run takes 5 % longer.
"""


class OpenFile(NamedTuple):
    """An ONNX file that is ready to run."""

    session: Any  # onnxruntime.InferenceSession
    sealed: bool  # whether the file has a checksum; a wrong one is an error


def open_session(
    path: Path,
    device: str = "cpu",
    threads: int = 0,
    optimization: Optimization = "all",
    *,
    spinning: bool = True,
) -> OpenFile:
    """Open a file; `threads`: 0 is OMP_NUM_THREADS, as for torch, or one for each core.

    `spinning` threads do not sleep while they wait for each other, which is faster unless other
    work needs their cores.
    """
    import onnxruntime  # heavy: only when a file is opened

    if not path.is_file():
        raise CheckpointError(path, "no such file")
    if not path.stat().st_size:
        raise CheckpointError(path, "empty", AGAIN)
    sealed = checksums.check_sealed(path)
    providers = _providers(device, onnxruntime.get_available_providers())
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are exceptions, not lines on stderr
        options.intra_op_num_threads = threads or _stated_threads()
        if not spinning:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = {
            "none": levels.ORT_DISABLE_ALL,
            "basic": levels.ORT_ENABLE_BASIC,
            "all": levels.ORT_ENABLE_ALL,
        }[optimization]
        # Planning the reuse of buffers took most of the start-up time and saves nothing for
        # dynamic sizes; the arena reuses freed memory anyway.
        options.enable_mem_reuse = False
        # Opened by name: bytes would be copied, which takes half a second for 150 MB.
        session = onnxruntime.InferenceSession(
            str(path), options, providers=providers, enable_fallback=0
        )  # no fallback to the CPU, which would print, and hide that there is no GPU
        graph_of(session)  # names and metadata may be no text
    except Exception as error:  # onnxruntime has a dozen exceptions for a damaged file
        raise CheckpointError(path, f"not readable as ONNX ({_reason(error)})", AGAIN) from None
    session.opened_with = (path.resolve(), device, threads, optimization, spinning)
    copyreg.pickle(onnxruntime.InferenceSession, _reduce)
    return OpenFile(session, sealed)


def _reduce(session: Any) -> tuple[Any, ...]:
    """Pickle a session, which onnxruntime cannot: another process opens the file again."""
    return _open_again, session.opened_with


def _open_again(
    path: Path, device: str, threads: int, optimization: Optimization, spinning: bool
) -> Any:
    return open_session(path, device, threads, optimization, spinning=spinning).session


def _stated_threads() -> int:
    """Return OMP_NUM_THREADS, which schedulers set for a share of a machine; 0 without it."""
    stated = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(stated) if stated.isdecimal() else 0


def graph_of(session: Any) -> Graph:
    """Return the names and shapes of the graph of a session."""
    return Graph(
        inputs={item.name: _lengths(item.shape) for item in session.get_inputs()},
        outputs={item.name: _lengths(item.shape) for item in session.get_outputs()},
        metadata=dict(session.get_modelmeta().custom_metadata_map),
    )


def _lengths(shape: Sequence[object]) -> tuple[int | None, ...]:
    return tuple(length if isinstance(length, int) else None for length in shape)


def _reason(error: Exception) -> str:
    """Return the error of onnxruntime without its prefix and path."""
    text = re.sub(r"\[ONNXRuntimeError\] : \d+ : ", "", str(error))
    if "External data" in text or "file size" in text:  # it names a tensor, or half of a path
        return "a file that it takes weights from is not beside it"
    return first_line(ValueError(re.sub(r"^\w+ : Load model from .* failed:", "", text)))


def _providers(device: str, available: Sequence[str]) -> list[Any]:
    """Return the execution providers of a device; InputError if it is not available."""
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", device)
    if not match:
        raise InputError(f"--device {device}", "an .onnx file runs on cpu, cuda, cuda:1 ...")
    if device == "cpu":
        return ["CPUExecutionProvider"]
    if "CUDAExecutionProvider" not in available:
        raise InputError(
            f"--device {device}",
            "this onnxruntime has no CUDA",
            "pip install onnxruntime-gpu instead of onnxruntime, or leave out --device",
        )
    return [("CUDAExecutionProvider", {"device_id": int(match[1] or 0)}), "CPUExecutionProvider"]
