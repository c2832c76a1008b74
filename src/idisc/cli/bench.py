"""`idisc bench`: the complexity table of the paper on this machine, and a comparison of engines."""

from __future__ import annotations

import importlib.util
import json
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idisc import configs, files
from idisc.cli import options, progress, tables
from idisc.configs import paper, recipes
from idisc.configs.schema import ModelConfig, Recipe
from idisc.errors import InputError, require
from idisc.sizes import Size, size_text

if TYPE_CHECKING:
    from idisc.bench import Part
    from idisc.predict.timing import Timing

NAMES = {
    "onnx": "ONNX Runtime",
    "int8": "ONNX Runtime, int8",
    "accelerated": "torch, accelerated (numba)",
    "plain": "torch, plain",
    "oracle": "oracle (grid_sample, whole sequences)",
}


def _recipe_or_file(name: str) -> Recipe | Path:
    return Path(name) if name.endswith(".onnx") else recipes.find(name)


@click.command(name="bench", epilog=options.RECIPES_TEXT)
@click.argument("recipe", type=_recipe_or_file)
@click.option("--size", type=options.NetworkSize(), help="Image size, e.g. 480x640 [training size]")
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Measurements, of which the median is reported.",
)
@click.option("--threads", type=click.IntRange(1), help="Threads of torch and ONNX Runtime.")
@options.device
@click.option("--compare", is_flag=True, help="Compare speed and memory with the oracle (CPU).")
@click.option("--engines", is_flag=True, help="Compare exported ONNX files with the oracle (CPU).")
@click.option(
    "--json",
    "record",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the results to this JSON file.",
)
@options.changes
def command(
    recipe: Recipe | Path,
    size: Size | None,
    repeats: int,
    threads: int | None,
    record: Path | None,
    **given: Any,
) -> None:
    """Measure the network of RECIPE (random weights) on this machine.

    RECIPE can also be an exported file MODEL.onnx: it is compared with its network in torch and in
    the formulation of the published code (the oracle).
    """
    device, compare, engines = given["device"], given["compare"], given["engines"]
    changes, on_gpu = given["changes"], device != "cpu"
    if isinstance(recipe, Path):
        options.refuse("recipes, not for files", device=on_gpu, compare=compare, set=changes)
        results = _bench_file(recipe, size, repeats, threads)
    else:
        if on_gpu:
            options.refuse("the CPU, not for --device", compare=compare, engines=engines)
        require("torch", "safetensors", extra="train")
        model = configs.override(recipe.model, changes)
        height, width = size or recipe.data.size
        about = {"recipe": recipe.name, "size": size_text((height, width))}
        about |= _describe_machine(device, threads)
        measured = _bench_network(about, model, (height, width), repeats, compare, engines)
        results = {"about": about, **measured}
    if record:
        files.write_json(record, results)


def _bench_network(
    about: Mapping[str, Any],
    model: ModelConfig,
    size: Size,
    repeats: int,
    compare: bool,
    engines: bool,
) -> dict[str, Any]:
    import torch  # heavy: only when this command runs

    from idisc import bench
    from idisc.model.network import IDisc

    network = IDisc(model).eval().requires_grad_(False).to(about["device"])
    _print_about(about)
    with progress.elapsed("measuring the parts"):
        rgb = torch.rand(1, 3, *size, device=about["device"])
        parts = bench.measure_parts(network, rgb, repeats)
    _print_parts(parts)
    results: dict[str, Any] = {"parts": [asdict(row) for row in parts]}
    if compare or engines:
        with tempfile.TemporaryDirectory() as folder:
            others = {}
            if engines:
                require("timm", "onnx", "onnxscript", extra="train")
                with progress.elapsed("exporting"):
                    others = bench.export_engines(network, Path(folder), size)
            with progress.elapsed("comparing engines"):
                rows = bench.compare_engines(network, others, size, repeats)
        results |= _print_engines(rows)
    if compare:
        with progress.elapsed("measuring memory"):
            peaks = {name: bench.peak_memory(model, size, name) for name in bench.formulations()}
        title = "Peak resident memory of a process that predicts once"
        cells = [
            (NAMES[name], f"{value / 1e9:.2f}", f"{value / peaks['oracle']:.2f}")
            for name, value in peaks.items()
        ]
        tables.show(title, ("", "GB", "of the oracle's"), cells)
        results["peak_bytes"] = peaks
    return results


def _bench_file(path: Path, size: Size | None, repeats: int, threads: int | None) -> dict[str, Any]:
    from idisc.predict import timing
    from idisc.predict.model_info import DEFAULT_SIZE, read_model_info
    from idisc.predict.onnx_engine import OnnxEngine

    engine = OnnxEngine(path, threads=threads or 0)
    if engine.fixed_size and size not in (None, engine.fixed_size):
        fixed = size_text(engine.fixed_size)
        raise InputError("--size", f"{path.name} takes images of {fixed} only", "leave it out")
    size = engine.fixed_size or size or read_model_info(engine).training_size or DEFAULT_SIZE
    about: dict[str, Any] = {"file": path.name, "size": size_text(size)}
    if "model" in engine.origin and importlib.util.find_spec("torch"):
        require("timm", "safetensors", extra="train")
        from idisc import bench
        from idisc.model.network import IDisc

        about |= _describe_machine("cpu", threads)
        model = configs.from_json(ModelConfig, json.loads(engine.origin["model"]), f"{path}: model")
        network = IDisc(model).eval().requires_grad_(False)  # time does not depend on weights
        engine = OnnxEngine(path, threads=about["threads"])
        _print_about(about)
        with progress.elapsed("comparing engines"):
            rows = bench.compare_engines(network, {"onnx": engine}, size, repeats)
    else:
        _print_about(about)
        with progress.elapsed("measuring"):
            rows = timing.compare({"onnx": timing.predicting(engine, size)}, repeats, "oracle")
    return {"about": about, **_print_engines(rows)}


def _describe_machine(device: str, threads: int | None) -> dict[str, Any]:
    """Set the threads of torch, check the device, and return what the times depend on."""
    import torch

    from idisc.model import devices, sampling

    torch.set_num_threads(threads or torch.get_num_threads())
    return {
        "device": str(devices.usable(device)),
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "numba": sampling.kernel_available(),
    }


def _print_about(about: Mapping[str, Any]) -> None:
    click.echo(", ".join(f"{name} {value}" for name, value in about.items()))


def _print_parts(rows: Sequence[Part]) -> None:
    columns = ("", "latency ms", "M parameters", "G mult-adds", "images/s", "G mult-adds/s")
    cells = []
    for row in rows:
        giga, rates = row.multiply_adds / 1e9, ("-", "-")
        if row.latency_ms:
            rates = (f"{1e3 / row.latency_ms:.2f}", f"{1e3 * giga / row.latency_ms:.1f}")
        size = f"{row.parameters / 1e6:.3f}"
        cells.append((row.name, f"{row.latency_ms:.1f}", size, f"{giga:.1f}", *rates))
    tables.show("Complexity of the network", columns, cells)
    published = ", ".join(
        f"{name} {row.latency_ms} ms {row.parameters} M" for name, row in paper.COMPLEXITY.items()
    )
    click.echo(f"The paper (Swin-L, 480x640, RTX 3090): {published}\n")


def _print_engines(rows: Sequence[Timing]) -> dict[str, Any]:
    cells = [
        (NAMES[row.name], f"{row.seconds:.3f}", tables.number(row.times_faster, 1)) for row in rows
    ]
    columns = ("", "seconds", "times faster than the oracle")
    tables.show("Engines, one image from bytes to metres", columns, cells)
    return {"engines": [asdict(row) for row in rows]}
