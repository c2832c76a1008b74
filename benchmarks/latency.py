"""Measure the CPU latency of the shipped model, FastDepth and Depth Anything V2 Small.

    pip install '.[train,figures,transformers]'
    python benchmarks/latency.py                               # without FastDepth
    python benchmarks/latency.py --fastdepth fastdepth.onnx --d1 0.760 --out latency.svg
    python benchmarks/latency.py --before indoor_small.onnx    # also an export that shipped before

All networks are timed in turns within one run, with the same number of threads, in fp32; --int8
adds our export with int8 products. Our network also runs in torch, one picture at a time and in
batches of four, which shows what batches save on a CPU. Depth Anything V2 Small has random weights,
runs in torch and in ONNX Runtime, and sees a picture of 3:4 at its own size and with about as many
pixels as our model. Its d1 in the plot is the published value of the variant fine-tuned on
NYU-Depth v2 (Yang et al., 2024) and is not measured here. FastDepth's d1 comes from
docs/examples/score_fastdepth.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from idisc.cli.main import run_script
from idisc.errors import InputError, require
from idisc.export.run import ExportOptions, export_network, open_source
from idisc.predict import timing
from idisc.predict.open import open_model
from idisc.predict.predictor import load
from idisc.sizes import Size, size_text
from idisc.zoo import cards

DEPTH_ANYTHING = "Depth Anything V2 Small"
DEPTH_ANYTHING_D1 = 0.961  # its paper, table of metric depth, ViT-S, NYU-D
SIZES: tuple[Size, ...] = ((392, 518), (252, 336))  # multiples of 14: its own, and near ours
REFERENCE = f"{DEPTH_ANYTHING}, {size_text(SIZES[0])}"
THREADS = 2
BATCH = 4


def session(path: Path) -> onnxruntime.InferenceSession:
    """Open a file in ONNX Runtime, with the same number of threads for all models."""
    if not path.is_file():
        raise InputError(path, "no such file")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3  # FastDepth's file has initialisers that nothing uses
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def ours(path: Path, size: Size) -> Callable[[], object]:
    """Return a prediction of an export of ours, from bytes to metres."""
    feeds = {"image": np.zeros((1, *size, 3), np.uint8), "size": np.array(size)}
    return partial(session(path).run, ["depth"], feeds)


def fastdepth(path: Path) -> Callable[[], object]:
    """Return a prediction of FastDepth at its own size."""
    run, image = session(path), np.zeros((1, 3, 224, 224), np.float32)
    return partial(run.run, None, {run.get_inputs()[0].name: image})


def depth_anything_network() -> Any:
    """Return V2 Small, as its authors configured it, with random weights."""
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

    encoder = Dinov2Config(
        hidden_size=384,
        num_attention_heads=6,
        image_size=518,
        patch_size=14,
        out_indices=[3, 6, 9, 12],
        reshape_hidden_states=False,
        apply_layernorm=True,
    )
    config = DepthAnythingConfig(
        backbone_config=encoder,
        reassemble_hidden_size=384,
        neck_hidden_sizes=[48, 96, 192, 384],
        fusion_hidden_size=64,
    )
    return DepthAnythingForDepthEstimation(config).eval()


def depth_anything(network: Any, size: Size, folder: Path) -> dict[str, Callable[[], object]]:
    """Return predictions at one size in both engines."""
    image, file = torch.zeros(1, 3, *size), folder / f"{size_text(size)}.onnx"
    torch.onnx.export(network, (image,), str(file), dynamo=True, verbose=False)
    run, name = session(file), f"{DEPTH_ANYTHING}, {size_text(size)}"
    feeds = {run.get_inputs()[0].name: image.numpy()}
    return {
        f"{name}, torch": partial(network, image),
        f"{name}, ONNX Runtime": partial(run.run, None, feeds),
    }


def plot(points: list[tuple[str, float, float]], out: Path) -> None:
    """Draw a dot for each name, milliseconds and d1."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
    for name, milliseconds, d1 in points:
        axes.scatter(milliseconds, d1, s=50)
        axes.annotate(name, (milliseconds, d1), xytext=(7, -4), textcoords="offset points")
    axes.set(xscale="log", xlim=(5, 4_000), ylim=(0.7, 1))
    axes.set(xlabel=f"milliseconds per image, {THREADS} CPU threads", ylabel="d1, NYU-Depth v2")
    axes.grid(alpha=0.3)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None})


def measure(given: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Return the median milliseconds per image of all networks."""
    require("transformers", extra="transformers")
    card = cards.default_card()
    height, width = card.training_size
    runs = {card.name: ours(cards.locate(card), (height, width))}
    engine = open_model(card.name, part="checkpoint")
    images = np.zeros((BATCH, height, width, 3), np.uint8)
    batched = f"{card.name}, torch, batches of {BATCH}"
    runs[f"{card.name}, torch"] = partial(engine.run, images[:1])
    runs[batched] = partial(engine.run, images)
    if given.int8:
        file = folder / "int8.onnx"
        export_network(open_source(card.name), ExportOptions(out=file, precision="int8"))
        runs[f"{card.name}, int8"] = ours(file, (height, width))
    if given.before:
        size = load(given.before).network_size((480, 640))
        runs[given.before.stem] = ours(given.before, size)
    if given.fastdepth:
        runs["FastDepth"] = fastdepth(given.fastdepth)
    network = depth_anything_network()
    for size in SIZES:
        runs |= depth_anything(network, size, folder)
    seconds = timing.median_seconds(runs, given.repeats)
    seconds[batched] /= BATCH
    return {name: 1000 * value for name, value in seconds.items()}


def rows(times: dict[str, float]) -> list[tuple[str, str, str]]:
    """Return a row for each network: name, times faster than the reference, milliseconds."""
    slow = reference(times)
    return [
        (name, f"{slow / milliseconds:.2f}", f"{milliseconds:.0f} ms")
        for name, milliseconds in sorted(times.items(), key=lambda item: item[1])
    ]


def reference(times: dict[str, float]) -> float:
    """Return the milliseconds of Depth Anything V2 Small at its own size in the faster engine."""
    return min(value for name, value in times.items() if name.startswith(REFERENCE))


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add the options that name further networks."""
    parser.add_argument("--before", type=Path, help="an earlier export of ours")
    parser.add_argument("--fastdepth", type=Path, help="its ONNX file")
    parser.add_argument("--int8", action="store_true", help="also our export in int8")
    parser.add_argument("--repeats", type=int, default=15)


def main() -> None:
    """Time all networks, print a table, and draw the plot if a file is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add_models(parser)
    parser.add_argument("--d1", type=float, help="of FastDepth, for the plot")
    parser.add_argument("--out", type=Path, help="picture of the plot")
    given = parser.parse_args()
    if given.out and not (given.fastdepth and given.d1):
        raise InputError("--out", "the plot shows FastDepth", "pass --fastdepth and --d1")
    torch.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        times = measure(given, Path(folder))
    sys.stdout.write(f"times faster than {REFERENCE}; milliseconds\n")
    for name, ratio, value in rows(times):
        sys.stdout.write(f"{name:<50}{ratio:>8}{value:>10}\n")
    if given.out:
        card = cards.default_card()
        d1 = next(score.value for score in card.scores if score.metric == "d1")
        points = [(f"{card.name} (trained here)", times[card.name], d1)]
        points += [("FastDepth", times["FastDepth"], given.d1)]
        points += [(f"{DEPTH_ANYTHING}\n(published d1)", reference(times), DEPTH_ANYTHING_D1)]
        plot(points, given.out)


if __name__ == "__main__":
    run_script(main)
