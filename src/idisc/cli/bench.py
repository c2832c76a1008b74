"""`idisc bench`: the paper's complexity table on this machine, and engines beside the oracle."""

from __future__ import annotations

import importlib.util
import json
import platform
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idisc import config, files, paper
from idisc.cli import options, tables
from idisc.errors import InputError, require
from idisc.settings import ModelConfig
from idisc.sizes import size_text

if TYPE_CHECKING:
    from torch import Tensor

    from idisc.bench import Comparison, Component
    from idisc.model.network import IDisc
    from idisc.predict.pace import Start
    from idisc.settings import Recipe

Size = tuple[int, int]
_NAMES = {
    "onnx": "ONNX Runtime",
    "int8": "ONNX Runtime, int8",
    "openvino": "OpenVINO",
    "accelerated": "accelerated (numba)",
    "plain": "plain torch",
    "oracle": "oracle (grid_sample, whole sequences)",
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be measured, and how: the options of a call."""

    size: Size | None  # of the picture; None is that of training
    repeats: int
    threads: int | None  # None leaves torch and the engines to choose
    device: str
    compare: bool  # the oracle as well
    engines: bool  # exports as well, which is what a file gets anyway
    batch: int | None  # a training step with so many pictures as well
    changes: tuple[str, ...]  # of the recipe's network, as --set has them


@click.command(name="bench")
@click.argument("recipe", type=options.RecipeOrFile())
@click.option("--size", type=options.NetworkSize(), help="Picture, e.g. 480x640 [as in training]")
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True)
@click.option("--threads", type=click.IntRange(1), help="Of torch, the kernel and other engines.")
@options.device
@click.option(
    "--compare", is_flag=True, help="Also speed and memory beside the oracle, on the CPU."
)
@click.option("--engines", is_flag=True, help="Also its exports beside the oracle, on the CPU.")
@click.option(
    "--train", "batch", type=click.IntRange(1), help="Also a training step with so many pictures."
)
@click.option(
    "--json",
    "record",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write all numbers there.",
)
@options.changes
def command(recipe: Recipe | Path, record: Path | None, **given: Any) -> None:
    """Measure the network of RECIPE (random weights) on this machine.

    In the place of RECIPE, an exported file MODEL.onnx: each engine that can run it, and its
    network in torch and as the published code has it (the oracle), side by side.
    """
    asked = Asked(**given)
    if asked.device != "cpu":
        for name in ("compare", "engines"):
            if given[name]:
                raise InputError(f"--{name}: on the CPU; leave out --device")
    if isinstance(recipe, Path):
        results = _bench_file(recipe, asked)
    else:
        results = _bench_recipe(recipe, asked)
    if record:
        files.write_json(record, results)


def _bench_recipe(recipe: Recipe, asked: Asked) -> dict[str, Any]:
    require("torch", "safetensors", extra="train")
    import torch  # heavy: only when this command runs

    from idisc import bench
    from idisc.model import devices
    from idisc.model.network import IDisc

    model = config.override(recipe.model, asked.changes)
    height, width = asked.size or recipe.data.size
    size = height, width
    if asked.threads:
        torch.set_num_threads(asked.threads)
    network = IDisc(model).eval().requires_grad_(False).to(devices.usable(asked.device))
    rgb = torch.rand(1, 3, height, width, device=asked.device)
    about = {"recipe": recipe.name, "size": size_text(size), **_about(asked.device)}
    click.echo(", ".join(f"{name} {value}" for name, value in about.items()))
    components = bench.measure_components(network, rgb, asked.repeats)
    results: dict[str, Any] = {"about": about, "components": [asdict(row) for row in components]}
    _print_components(components)
    if asked.compare:
        results |= _compare(network, rgb, asked.repeats)
    if asked.engines:
        require("timm", "onnx", "onnxscript", extra="train")
        tables.note("exporting; this takes some minutes ...")
        with tempfile.TemporaryDirectory() as folder:
            others = bench.exported(network, Path(folder), size)
            rows = bench.compare_engines(network, others, size, asked.repeats)
            results |= _print_engines(rows, Path(folder) / bench.FILE, size, asked.repeats)
    if asked.batch:
        pictures = rgb.expand(asked.batch, -1, -1, -1).contiguous()
        rows = bench.compare_steps(network, pictures, asked.repeats)
        _print_comparison(f"A training step of {asked.batch} pictures", rows)
        click.echo(f"{asked.batch / rows[0].seconds:.2f} images/s\n")
        results["step"] = [asdict(row) for row in rows]
    return results


def _bench_file(path: Path, asked: Asked) -> dict[str, Any]:
    """An exported file, beside its network in torch where that is installed."""
    from idisc.predict import pace
    from idisc.predict.engine import USUAL_SIZE, ModelFacts
    from idisc.predict.onnx_engine import OnnxEngine

    options.refuse(
        "recipes, not for files",
        device=asked.device != "cpu",
        compare=asked.compare,
        train=asked.batch,
        set=asked.changes,
    )
    engine = OnnxEngine(path, threads=asked.threads or 0)
    if engine.fixed_size and asked.size not in (None, engine.fixed_size):
        raise InputError(
            f"--size {size_text(asked.size)}: {path.name} is for {size_text(engine.fixed_size)}"
            " alone; leave it out"
        )
    size = engine.fixed_size or asked.size or ModelFacts.of(engine).training_size or USUAL_SIZE
    about = {"file": path.name, "size": size_text(size)}
    if "model" not in engine.origin or not importlib.util.find_spec("torch"):
        click.echo(", ".join(f"{name} {value}" for name, value in about.items()))
        seconds = pace.medians({"onnx": pace.asking(engine, size)}, asked.repeats)["onnx"]
        start = pace.time_to_predict(path, size, min(asked.repeats, 3))
        click.echo(f"{_NAMES['onnx']}: {seconds:.3f} s; without torch there is nothing beside it")
        _print_start(start)
        return {"about": about, "onnx": seconds, "start": asdict(start)}
    require("timm", "safetensors", extra="train")
    import torch

    from idisc import bench
    from idisc.model.network import IDisc

    if asked.threads:
        torch.set_num_threads(asked.threads)
    model = config.from_json(ModelConfig, json.loads(engine.origin["model"]), f"{path}: model")
    # Weights are random: the time does not depend on them.
    network = IDisc(model).eval().requires_grad_(False)
    about |= _about("cpu")
    click.echo(", ".join(f"{name} {value}" for name, value in about.items()))
    others = {"onnx": OnnxEngine(path, threads=torch.get_num_threads())}
    rows = bench.compare_engines(network, others, size, asked.repeats)
    return {"about": about, **_print_engines(rows, path, size, asked.repeats)}


def _about(device: str) -> dict[str, Any]:
    import torch

    from idisc.model import sampling

    fast = torch.device(device).type == "cpu" and sampling.kernel_available()
    return {
        "device": device,
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "sampling": _NAMES["accelerated" if fast else "plain"],
    }


def _print_engines(rows: list[Comparison], path: Path, size: Size, repeats: int) -> dict[str, Any]:
    """Print engines side by side and what a call of `idisc predict` takes, and return both."""
    from idisc.predict import pace

    _print_comparison("Engines, a picture from bytes to metres", rows)
    start = pace.time_to_predict(path, size, min(repeats, 3))
    _print_start(start)
    return {"engines": [asdict(row) for row in rows], "start": asdict(start)}


def _print_start(start: Start) -> None:
    click.echo(
        f"idisc predict of one photo by ONNX: {start.seconds:.2f} s, of which"
        f" {start.beyond:.2f} s beyond the network's own {start.network:.2f} s"
    )


def _compare(network: IDisc, rgb: Tensor, repeats: int) -> dict[str, Any]:
    """Print what the oracle costs more, and return it."""
    from idisc import bench

    model, size = network.config, (rgb.shape[2], rgb.shape[3])
    forward = bench.compare_cores(model, size, repeats, backward=False)
    _print_comparison("Sampling core of MSDA, inference", forward)
    backward = bench.compare_cores(model, size, repeats, backward=True)
    _print_comparison("Sampling core of MSDA, forward and backward", backward)
    networks = bench.compare_networks(network, rgb, repeats)
    _print_comparison("The whole network, inference", networks)
    memory = {row.name: bench.peak_memory(model, size, row.name) for row in networks}
    _print_memory(memory)
    return {
        "cores": {
            "inference": [asdict(row) for row in forward],
            "forward_and_backward": [asdict(row) for row in backward],
        },
        "networks": [asdict(row) for row in networks],
        "peak_bytes": memory,
    }


def _print_components(rows: list[Component]) -> None:
    names = ("", "latency ms", "images/s", "M parameters", "G mult-adds", "of torch.mm")
    cells = [
        (
            row.name,
            f"{row.latency_ms:.1f}",
            f"{1e3 / row.latency_ms:.2f}" if row.latency_ms else "-",
            f"{row.parameters / 1e6:.3f}",
            f"{row.multiply_adds / 1e9:.1f}",
            f"{row.share:.0%}",
        )
        for row in rows
    ]
    tables.show("Complexity of the network", names, cells)
    theirs = ", ".join(
        f"{name} {row.latency_ms} ms {row.parameters} M" for name, row in paper.COMPLEXITY.items()
    )
    click.echo(f"The paper (Swin-L, 480x640, RTX 3090): {theirs}\n")


def _print_comparison(title: str, rows: list[Comparison]) -> None:
    cells = [(_NAMES[row.name], f"{row.seconds:.3f}", f"{row.times_faster:.1f}") for row in rows]
    tables.show(title, ("", "seconds", "times faster"), cells)


def _print_memory(peaks: dict[str, int]) -> None:
    cells = [
        (_NAMES[name], f"{value / 1e9:.2f}", f"{value / peaks['oracle']:.2f}")
        for name, value in peaks.items()
    ]
    title = "Peak resident memory of a process that predicts once"
    tables.show(title, ("", "GB", "share"), cells)
