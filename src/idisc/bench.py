"""Speed, memory and size of a network on this machine: the measurements of `idisc bench`.

`measure_parts` gives the paper's complexity table. `compare_engines` compares the formulations of
the network in torch and exported files with the oracle, which is `grid_sample` on whole sequences,
the way the published code runs on a CPU; `peak_memory` does the same for memory. Measurements of
the project itself, which no user needs, are scripts in `benchmarks/` at the top of the repository.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from idisc.configs.schema import ModelConfig
from idisc.model import linear, sampling, tokens
from idisc.model.network import IDisc
from idisc.model.pixel_decoder import DeformablePixelDecoder
from idisc.predict import timing
from idisc.predict.engine import Engine
from idisc.predict.torch_engine import TorchEngine
from idisc.sizes import Size

ORACLE = "oracle"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One row of the complexity table."""

    name: str
    latency_ms: float
    parameters: int
    multiply_adds: int  # of one forward pass, in matrix products and convolutions


def measure_parts(network: IDisc, rgb: Tensor, repeats: int) -> list[Part]:
    """Measure encoder, MSDA, FPN, AFP, ISD (with the heads) and total in forward passes of rgb."""
    linear.prefer_onednn(network)
    decoder = network.decoder
    parts: dict[str, Sequence[nn.Module]] = {
        "encoder": [network.encoder],
        "MSDA": [decoder.msda] if isinstance(decoder, DeformablePixelDecoder) else [],
        "FPN": [decoder],
        "AFP": list(network.afp),
        "ISD": [*network.isd, *network.heads],
        "total": [network],
    }
    with torch.inference_mode():
        multiply_adds = _multiply_adds(network, rgb)
        network(rgb)  # compiles, allocates, fills the caches
        runs = [_time_parts(network, parts, rgb) for _ in range(repeats)]
    rows = {
        name: np.array(
            [
                np.median([run[name] for run in runs]),
                sum(p.numel() for module in modules for p in module.parameters()),
                sum(multiply_adds[module] for module in modules),
            ]
        )
        for name, modules in parts.items()
    }
    rows["FPN"] -= rows["MSDA"]  # which is inside the decoder
    return [
        Part(name=name, latency_ms=1e3 * seconds, parameters=int(size), multiply_adds=int(count))
        for name, (seconds, size, count) in rows.items()
    ]


def compare_engines(
    network: IDisc, others: Mapping[str, Engine], size: Size, repeats: int
) -> list[timing.Timing]:
    """Compare the network in each formulation, and other engines, by one image to metres."""
    predict = timing.predicting(TorchEngine(network, "torch"), size)
    runs = {name: formulation(name)(predict) for name in formulations()}
    runs |= {name: timing.predicting(engine, size) for name, engine in others.items()}
    return timing.compare(runs, repeats, ORACLE, now)


def export_engines(network: IDisc, folder: Path, size: Size) -> dict[str, Engine]:
    """Export a network to a folder without comparison: for any size, and in int8 for one size.

    The engines have as many threads as torch.
    """
    from idisc.export import onnx, parity, quantize
    from idisc.predict.onnx_engine import OnnxEngine

    # One image: the time does not depend on the ranges.
    images = parity.read_evenly(parity.list_pictures(parity.EXAMPLES), 1)
    int8 = quantize.to_int8(onnx.build(network, size), images, size)
    engines: dict[str, Engine] = {}
    for name, model in {"onnx": onnx.build(network), "int8": int8}.items():
        onnx.save(model, folder / f"{name}.onnx")
        engines[name] = OnnxEngine(folder / f"{name}.onnx", threads=torch.get_num_threads())
    return engines


def formulations() -> list[str]:
    """Return the names of the samplers that work here; the oracle is one of them."""
    kernel = sampling.kernel_available()
    return [name for name in sampling.SAMPLERS if name != "accelerated" or kernel]


@contextmanager
def formulation(name: str) -> Iterator[None]:
    """Use one sampler; the oracle also runs whole sequences, multiplied by torch's default."""
    with sampling.using(name), _as_usually_written() if name == ORACLE else nullcontext():
        yield


@contextmanager
def _as_usually_written() -> Iterator[None]:
    with tokens.whole_sequences(), linear.without_onednn():
        yield


def peak_memory(config: ModelConfig, size: Size, name: str) -> int:
    """Return the peak resident bytes of a new process that builds the network and predicts once."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_predict_once, (config, size, name))


def now() -> float:
    """Return the time in seconds, after the GPU has finished its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def _time_parts(
    network: IDisc, parts: Mapping[str, Sequence[nn.Module]], rgb: Tensor
) -> dict[str, float]:
    spent = dict.fromkeys(parts, 0.0)

    def add(name: str, sign: int, *_: object) -> None:
        spent[name] += sign * now()

    hooks = []
    for name, modules in parts.items():
        for module in modules:
            hooks.append(module.register_forward_pre_hook(partial(add, name, -1)))
            hooks.append(module.register_forward_hook(partial(add, name, 1)))
    try:
        network(rgb)
    finally:
        for hook in hooks:
            hook.remove()
    return spent


def _multiply_adds(network: IDisc, rgb: Tensor) -> dict[nn.Module, int]:
    from torch.utils.flop_counter import FlopCounterMode  # heavy: imports triton

    counter = FlopCounterMode(display=False)
    # Bands of a map would count their borders twice, and the counter does not know oneDNN.
    with counter, _as_usually_written():
        network(rgb)
    root, counts = type(network).__name__, counter.get_flop_counts()
    return {
        module: sum(counts.get(f"{root}.{name}" if name else root, {}).values()) // 2
        for name, module in network.named_modules()
    }


def _predict_once(config: ModelConfig, size: Size, name: str) -> int:
    network = IDisc(config).eval()
    linear.prefer_onednn(network)
    with formulation(name), torch.inference_mode():
        network(torch.rand(1, 3, *size))
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would include the parent that this process was forked from
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(fields["VmHWM"].split()[0]) * 1024
    import resource  # not on Windows

    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
