"""Speed and memory on this machine, always as a comparison within one run.

`measure_components` gives the paper's complexity table (latency, throughput and parameters of each
part) and how much of the machine's matrix multiplication each part reaches. `compare_cores`,
`compare_networks` and `compare_steps` hold our formulations against the oracle: `grid_sample` on
whole sequences, the way the published code runs on a CPU; `compare_engines` adds exported files.
Machines are noisy; ratios of medians from one run are less so.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from idisc.model import sampling, tokens
from idisc.model.network import IDisc
from idisc.model.pixel_decoder import DeformablePixelDecoder
from idisc.predict import pace
from idisc.predict.engine import Engine
from idisc.predict.torch_engine import TorchEngine
from idisc.settings import ModelConfig
from idisc.sizes import Size

FILE = "network.onnx"  # of `exported`


@dataclass(frozen=True, kw_only=True)
class Component:
    """One row of the complexity table."""

    name: str
    latency_ms: float
    parameters: int
    multiply_adds: int  # of one forward pass, in matrix products and convolutions
    share: float  # of the multiply-adds per second that a large torch.mm reaches


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One formulation beside the others of the same run."""

    name: str
    seconds: float
    times_faster: float  # than the oracle


def measure_components(network: IDisc, rgb: Tensor, repeats: int) -> list[Component]:
    """Encoder, MSDA, FPN, AFP, ISD and total of a forward pass, medians over `repeats`."""
    parts = _parts(network)
    peak = multiply_adds_per_second(rgb.device)
    with torch.inference_mode():
        counts = _count_multiply_adds(network, rgb)
        network(rgb)  # warm
        runs = [_timed_parts(network, parts, rgb) for _ in range(repeats)]
    rows = []
    for name in (*parts, "total"):
        seconds = statistics.median(run[name] for run in runs)
        modules = parts.get(name, [network])
        work = sum(counts[module] for module in modules)
        size = sum(p.numel() for module in modules for p in module.parameters())
        if name == "FPN":  # the decoder without the MSDA inside it
            work -= sum(counts[module] for module in parts["MSDA"])
            size -= sum(p.numel() for module in parts["MSDA"] for p in module.parameters())
        rows.append(
            Component(
                name=name,
                latency_ms=1e3 * seconds,
                parameters=size,
                multiply_adds=work,
                share=work / seconds / peak if seconds else 0.0,
            )
        )
    return rows


def compare_cores(
    config: ModelConfig, size: Size, repeats: int, *, backward: bool
) -> list[Comparison]:
    """The sampling core of MSDA alone, at the sizes that a picture of `size` gives it."""
    decoder = config.decoder
    sizes = [(-(-size[0] // stride), -(-size[1] // stride)) for stride in (32, 16, 8, 4)]
    length = sum(height * width for height, width in sizes)
    generator = torch.Generator().manual_seed(0)
    shape = (1, length, decoder.heads, len(sizes), decoder.points)
    value = torch.randn(
        1, length, decoder.heads, decoder.width // decoder.heads, generator=generator
    )
    # Around each token's own place, a few pixels away, as a trained network looks.
    extent = torch.tensor([(width, height) for height, width in sizes])[:, None]
    offsets = 3 * torch.randn(*shape, 2, generator=generator) / extent
    centres = torch.cat([tokens.pixel_centres(at, value.device) for at in sizes])
    locations = centres[None, :, None, None, None] + offsets
    weights = torch.randn(shape, generator=generator).flatten(3).softmax(-1).view(shape)
    inputs = [t.requires_grad_(backward) for t in (value, locations, weights)]

    def run(name: str) -> None:
        with torch.set_grad_enabled(backward):
            out = sampling.SAMPLERS[name](inputs[0], sizes, inputs[1], inputs[2])
            if backward:
                torch.autograd.grad(out.sum(), inputs)

    return _compare({name: partial(run, name) for name in _available()}, repeats)


def compare_networks(network: IDisc, rgb: Tensor, repeats: int) -> list[Comparison]:
    """A whole forward pass by each formulation."""

    def run(name: str) -> None:
        with formulation(name), torch.inference_mode():
            network(rgb)

    return _compare({name: partial(run, name) for name in _available()}, repeats)


def compare_engines(
    network: IDisc, others: Mapping[str, Engine], size: Size, repeats: int
) -> list[Comparison]:
    """A picture from bytes to metres: torch in each formulation, and other engines."""
    ours = pace.asking(TorchEngine(network, "torch"), size)

    def run(name: str) -> None:
        with formulation(name):
            ours()

    runs: dict[str, Callable[[], object]] = {name: partial(run, name) for name in _available()}
    runs |= {name: pace.asking(engine, size) for name, engine in others.items()}
    return sorted(_compare(runs, repeats), key=lambda row: row.seconds)


def exported(network: IDisc, folder: Path, size: Size) -> dict[str, Engine]:
    """The network's exports, opened, with as many threads as torch has.

    By ONNX Runtime for any size and in int8 for pictures of `size`, and by OpenVINO if that is
    installed. They are not measured against it.
    """
    from idisc.export import onnx, parity, program, quantize
    from idisc.predict.onnx_engine import OnnxEngine

    threads = torch.get_num_threads()
    path = folder / FILE
    onnx.save(onnx.build(network), path)
    engines: dict[str, Engine] = {"onnx": OnnxEngine(path, threads=threads)}
    images = parity.read_some(
        parity.paths_of(parity.EXAMPLES), 1
    )  # the time does not depend on ranges
    reduced = path.with_stem("int8")
    onnx.save(quantize.to_int8(onnx.build(network, size), images, size), reduced)
    engines["int8"] = OnnxEngine(reduced, threads=threads)
    if importlib.util.find_spec("openvino"):
        model = onnx.build(network, by_block=False)
        onnx.describe(model, onnx.facts(TorchEngine(network, "bench")))
        program.export_openvino(model, path.with_suffix(".xml"))
        engines["openvino"] = program.OpenVinoEngine(path.with_suffix(".xml"), threads=threads)
    return engines


def compare_steps(network: IDisc, rgb: Tensor, repeats: int) -> list[Comparison]:
    """A whole training step by each formulation: forward, backward, clipping, AdamW."""
    network.train().requires_grad_(True)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-6)
    target = 1 + torch.rand(len(rgb), 1, *rgb.shape[2:], device=rgb.device)

    def run(name: str) -> None:
        with formulation(name):
            prediction = network(rgb).prediction[:, :1].abs() + 1e-3  # normals have a sign
        # Like SILog in what it costs; the loss itself lives on this floor, next door.
        (prediction.log() - target.log()).var().sqrt().backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return _compare({name: partial(run, name) for name in _available()}, repeats)


@contextmanager
def formulation(name: str) -> Iterator[None]:
    """The network with one sampler; "oracle" also runs whole sequences, not chunks."""
    with ExitStack() as stack:
        stack.enter_context(sampling.using(name))
        if name == "oracle":
            stack.enter_context(tokens.whole_sequences())
        yield


def peak_memory(config: ModelConfig, size: Size, name: str) -> int:
    """Peak resident bytes of a fresh process that builds the network and predicts once."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_predict_once, (config, size, name))


def multiply_adds_per_second(device: torch.device) -> float:
    """What a large `torch.mm` reaches: the limit that everything else is held against."""
    rows, inner, columns = 4096, 1024, 1024
    first, second = (
        torch.randn(rows, inner, device=device),
        torch.randn(inner, columns, device=device),
    )
    seconds = [_seconds(lambda: first @ second) for _ in range(12)]
    return rows * inner * columns / statistics.median(seconds[2:])


def _available() -> list[str]:
    kernel = sampling.kernel_available()
    return [name for name in sampling.SAMPLERS if name != "accelerated" or kernel]


def _compare(runs: pace.Runs, repeats: int) -> list[Comparison]:
    medians = pace.medians(runs, repeats, _now)
    return [
        Comparison(name=name, seconds=value, times_faster=medians["oracle"] / value)
        for name, value in medians.items()
    ]


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # a launch is not a result
    return time.perf_counter()


def _seconds(run: Callable[[], object]) -> float:
    start = _now()
    run()
    return _now() - start


def _parts(network: IDisc) -> dict[str, Sequence[nn.Module]]:
    """The rows of the paper's table. Heads count with ISD; FPN is the decoder, less MSDA later."""
    decoder = network.decoder
    msda = [decoder.msda] if isinstance(decoder, DeformablePixelDecoder) else []
    return {
        "encoder": [network.encoder],
        "MSDA": msda,
        "FPN": [decoder],
        "AFP": list(network.afp),
        "ISD": [*network.isd, *network.heads],
    }


def _timed_parts(
    network: IDisc, parts: dict[str, Sequence[nn.Module]], rgb: Tensor
) -> dict[str, float]:
    spent = dict.fromkeys(parts, 0.0)
    hooks = []
    for name, modules in parts.items():

        def start(*_: object, name: str = name) -> None:
            spent[name] -= _now()

        def stop(*_: object, name: str = name) -> None:
            spent[name] += _now()

        for module in modules:
            hooks += [module.register_forward_pre_hook(start), module.register_forward_hook(stop)]
    try:
        total = _seconds(lambda: network(rgb))
    finally:
        for hook in hooks:
            hook.remove()
    spent["FPN"] -= spent["MSDA"]
    return {**spent, "total": total}


def _count_multiply_adds(network: IDisc, rgb: Tensor) -> dict[nn.Module, int]:
    from torch.utils.flop_counter import FlopCounterMode  # heavy: brings triton along

    counter = FlopCounterMode(display=False)
    with counter, tokens.whole_sequences():  # bands of a map would count their rims twice
        network(rgb)
    root = type(network).__name__
    counts = counter.get_flop_counts()
    return {
        module: sum(counts.get(f"{root}.{name}" if name else root, {}).values()) // 2
        for name, module in network.named_modules()
    }


def _predict_once(config: ModelConfig, size: Size, name: str) -> int:
    network = IDisc(config).eval()
    rgb = torch.rand(1, 3, *size)
    with formulation(name), torch.inference_mode():
        network(rgb)
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would remember the parent that this process was forked from
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(fields["VmHWM"].split()[0]) * 1024
    import resource  # not on Windows

    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
