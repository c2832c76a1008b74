"""All measurements of docs/performance.md in one table, ratios first.

    python benchmarks/summary.py [--fastdepth fastdepth.onnx] [--before indoor_small.onnx]
    make bench

The table begins with the processor, its instructions, the versions and the commit. Each group is
measured in a process of its own, and its ratios compare functions that took turns in that process.
It takes about ten minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import datetime
import multiprocessing
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import latency
import msda
import onnxruntime
import photos
import torch
import training

from idisc import bench
from idisc.cli.main import run_script
from idisc.configs.recipes import RECIPES
from idisc.model.network import IDisc

Row = tuple[str, str, str]  # what was measured; a ratio; an absolute value
SWIN, SIZE = RECIPES["nyu_swint"].model, (480, 640)
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_tile")
THREADS = 2


def photo_rows() -> list[Row]:
    """Start, folder and stages of `idisc predict`."""
    with tempfile.TemporaryDirectory() as folder:
        return photos.measure(Path(folder), repeats=3)


def latency_rows(given: argparse.Namespace) -> list[Row]:
    """The shipped model beside other networks."""
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        return latency.rows(latency.measure(given, Path(folder)))


def torch_rows() -> list[Row]:
    """Swin-T in torch beside the oracle."""
    network = IDisc(SWIN).eval().requires_grad_(False)
    return engine_rows(bench.compare_engines(network, {}, SIZE, repeats=5))


def all_engine_rows() -> list[Row]:
    """The same beside exported files."""
    network = IDisc(SWIN).eval().requires_grad_(False)
    with tempfile.TemporaryDirectory() as folder:
        others = bench.export_engines(network, Path(folder), SIZE)
        return engine_rows(bench.compare_engines(network, others, SIZE, repeats=3))


def memory_rows() -> list[Row]:
    """Peak memory of Swin-T, each formulation in a process of its own."""
    peaks = {name: bench.peak_memory(SWIN, SIZE, name) for name in bench.formulations()}
    oracle = peaks[bench.ORACLE]
    return [(name, f"{peak / oracle:.2f}", f"{peak / 1e9:.2f} GB") for name, peak in peaks.items()]


def engine_rows(timings: list[bench.timing.Timing]) -> list[Row]:
    """Convert timings to rows."""
    return [(row.name, f"{row.times_faster:.1f}", f"{row.seconds:.2f} s") for row in timings]


def machine() -> str:
    """Return what the numbers depend on, in two lines."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    model = re.search(r"model name\s*: (.*)", text)
    flags = [name for name in INSTRUCTIONS if re.search(rf"\b{name}\b", text)]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return (
        f"{datetime.date.today()}, commit {commit.stdout.strip() or 'unknown'},"
        f" {model[1] if model else platform.processor()}, {THREADS} threads\n"
        f"{' '.join(flags)}; torch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}"
    )


def in_new_process(measure: Callable[[], list[Row]]) -> list[Row]:
    """Call a function in a process of its own, with the threads of all measurements."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, torch.set_num_threads, (THREADS,)) as pool:
        return pool.submit(measure).result()


def main() -> None:
    """Measure the groups one after the other and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    latency.add_models(parser)
    given = parser.parse_args()
    groups: dict[str, Callable[[], list[Row]]] = {
        "Photo to files": photo_rows,
        f"One image, times faster than {latency.REFERENCE}": partial(latency_rows, given),
        "nyu_swint at 480x640, times faster than the oracle": torch_rows,
        "The same with exported files": all_engine_rows,
        "Peak memory of nyu_swint, relative to the oracle's": memory_rows,
        "MSDA, times faster than the oracle": partial(msda.core_rows, SWIN, SIZE, 5),
        "Matrix products, times faster than torch's default": partial(msda.product_rows, 20),
        "Training, times faster than the oracle": training.swin_rows,
        "Training, times faster than the slowest": training.indoor_rows,
    }
    sys.stdout.write(f"{machine()}\n")
    for title, measure in groups.items():
        sys.stdout.write(f"\n{title}\n")
        for name, ratio, value in in_new_process(measure):
            sys.stdout.write(f"  {name:<72}{ratio:>7}{value:>12}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    run_script(main)
