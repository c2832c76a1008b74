"""`idisc bench`: the paper's complexity table on this machine, and our speed beside the oracle."""

from __future__ import annotations

import platform
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idisc import config, files, paper
from idisc.cli import options
from idisc.errors import InputError, require

if TYPE_CHECKING:
    from rich.table import Table
    from torch import Tensor

    from idisc.bench import Comparison, Component
    from idisc.model.network import IDisc
    from idisc.settings import Recipe

_NAMES = {
    "accelerated": "accelerated (numba)",
    "plain": "plain torch",
    "oracle": "oracle (grid_sample, whole sequences)",
}


@click.command(name="bench")
@click.argument("recipe", type=options.RecipeName())
@click.option("--size", type=options.PictureSize(), help="Picture, e.g. 480x640 [the recipe's]")
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True)
@click.option("--threads", type=click.IntRange(1), help="Threads of torch and of the kernel.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1 ...")
@click.option(
    "--compare", is_flag=True, help="Also speed and memory beside the oracle, on the CPU."
)
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
def command(
    recipe: Recipe,
    size: tuple[int, int] | None,
    repeats: int,
    threads: int | None,
    device: str,
    compare: bool,
    batch: int | None,
    record: Path | None,
    changes: tuple[str, ...],
) -> None:
    """Measure the network of RECIPE (random weights) on this machine."""
    require("torch", "safetensors", extra="train")
    import torch  # heavy: only when this command runs

    from idisc import bench
    from idisc.model import sampling
    from idisc.model.network import IDisc

    model = config.override(recipe.model, changes)
    height, width = size or recipe.data.size
    if threads:
        _use_threads(threads)
    try:
        torch.zeros(1).to(device).item()  # "meta" is a device, too, and computes nothing
    except (RuntimeError, AssertionError, ImportError) as error:  # torch has no such device
        raise InputError(f"--device {device}: {str(error).splitlines()[0]}") from None
    on_cpu = torch.device(device).type == "cpu"
    if compare and not on_cpu:
        raise InputError("--compare: formulations are compared on the CPU; leave out --device")
    network = IDisc(model).eval().requires_grad_(False).to(device)
    rgb = torch.rand(1, 3, height, width, device=device)

    about = {
        "recipe": recipe.name,
        "size": f"{height}x{width}",
        "device": device,
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "sampling": _NAMES["accelerated" if on_cpu and sampling.kernel_available() else "plain"],
    }
    click.echo(", ".join(f"{name} {value}" for name, value in about.items()))
    components = bench.measure_components(network, rgb, repeats)
    results: dict[str, Any] = {"about": about, "components": [asdict(row) for row in components]}
    _print_components(components)
    if compare:
        results |= _compare(network, rgb, repeats)
    if batch:
        rows = bench.compare_steps(network, rgb.expand(batch, -1, -1, -1).contiguous(), repeats)
        title = f"A training step of {batch} pictures"
        _print_comparison(title, rows)
        click.echo(f"{batch / rows[0].seconds:.2f} images/s\n")
        results[title] = [asdict(row) for row in rows]
    if record:
        files.write_json(record, results)


def _compare(network: IDisc, rgb: Tensor, repeats: int) -> dict[str, Any]:
    """Print what the oracle costs more, and return it."""
    from idisc import bench

    model, size = network.config, (rgb.shape[2], rgb.shape[3])
    comparisons = {
        "Sampling core of MSDA, inference": bench.compare_cores(
            model, size, repeats, backward=False
        ),
        "Sampling core of MSDA, forward and backward": bench.compare_cores(
            model, size, repeats, backward=True
        ),
        "The whole network, inference": bench.compare_networks(network, rgb, repeats),
    }
    for title, rows in comparisons.items():
        _print_comparison(title, rows)
    names = [row.name for row in comparisons["The whole network, inference"]]
    memory = {name: bench.peak_memory(model, size, name) for name in names}
    _print_memory(memory)
    tables = {title: [asdict(row) for row in rows] for title, rows in comparisons.items()}
    return {**tables, "peak_bytes": memory}


def _use_threads(threads: int) -> None:
    import torch

    from idisc.model import sampling

    torch.set_num_threads(threads)
    if sampling.kernel_available():
        import numba

        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))


def _print_components(rows: list[Component]) -> None:
    names = ("", "latency ms", "images/s", "M parameters", "G mult-adds", "of torch.mm")
    table = _table("Complexity of the network", names)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.latency_ms:.1f}",
            f"{1e3 / row.latency_ms:.2f}" if row.latency_ms else "-",
            f"{row.parameters / 1e6:.3f}",
            f"{row.multiply_adds / 1e9:.1f}",
            f"{row.share:.0%}",
        )
    _print(table)
    theirs = ", ".join(
        f"{name} {row.latency_ms} ms {row.parameters} M" for name, row in paper.COMPLEXITY.items()
    )
    click.echo(f"The paper (Swin-L, 480x640, RTX 3090): {theirs}\n")


def _print_comparison(title: str, rows: list[Comparison]) -> None:
    table = _table(title, ("", "seconds", "times faster"))
    for row in rows:
        table.add_row(_NAMES[row.name], f"{row.seconds:.3f}", f"{row.times_faster:.1f}")
    _print(table)


def _print_memory(peaks: dict[str, int]) -> None:
    table = _table("Peak resident memory of a process that predicts once", ("", "GB", "share"))
    for name, value in peaks.items():
        table.add_row(_NAMES[name], f"{value / 1e9:.2f}", f"{value / peaks['oracle']:.2f}")
    _print(table)


def _table(title: str, columns: tuple[str, ...]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    return table


def _print(table: Table) -> None:
    from rich.console import Console

    Console().print(table)
