"""Accuracy and latency on a CPU: the shipped model, FastDepth, Depth Anything V2 Small.

    pip install '.[train,figures]' transformers
    python benchmarks/latency.py --fastdepth fastdepth.onnx --d1 0.760 --out latency.svg

All are timed in turns within one run, with the same number of threads. FastDepth's d1 comes from
docs/examples/score_fastdepth.py. Depth Anything V2 Small is timed with random weights, by the
faster of torch and ONNX Runtime; its d1 is the published value of the variant fine-tuned on
NYU-Depth v2 (Yang et al., 2024) and is not measured here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from matplotlib import pyplot

from idisc.cli.main import run_script
from idisc.errors import InputError
from idisc.predict import timing
from idisc.zoo import cards

DEPTH_ANYTHING_D1 = 0.961  # Depth Anything V2, table of metric depth, ViT-S, NYU-D
DEPTH_ANYTHING_SIZE = (392, 518)  # of a picture of 480x640: sides are multiples of 14
THREADS = 2
ROUNDS = 15


def session(path: str) -> onnxruntime.InferenceSession:
    """Open a file in ONNX Runtime, with the same number of threads for all models."""
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3  # FastDepth's file has initialisers that nothing uses
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def ours(card: cards.ModelCard) -> Callable[[], Any]:
    """Return a prediction of the shipped model at its own size, from bytes to metres."""
    size = np.array(card.training_size)
    run, image = session(str(cards.locate(card))), np.zeros((1, *size, 3), np.uint8)
    return lambda: run.run(["depth"], {"image": image, "size": size})


def fastdepth(path: Path) -> Callable[[], Any]:
    """Return a prediction of FastDepth at its own size."""
    run, image = session(str(path)), np.zeros((1, 3, 224, 224), np.float32)
    return lambda: run.run(None, {run.get_inputs()[0].name: image})


def depth_anything(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return predictions of V2 Small, as its authors configured it, in both engines."""
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
    network = DepthAnythingForDepthEstimation(config).eval()
    image, file = torch.zeros(1, 3, *DEPTH_ANYTHING_SIZE), folder / "depth_anything.onnx"
    torch.onnx.export(network, (image,), str(file), dynamo=True, verbose=False)
    run = session(str(file))
    name = run.get_inputs()[0].name
    return {
        "Depth Anything V2 Small, torch": lambda: network(image),
        "Depth Anything V2 Small, ONNX Runtime": lambda: run.run(None, {name: image.numpy()}),
    }


def plot(points: list[tuple[str, float, float]], out: Path) -> None:
    """Draw a dot for each name, milliseconds and d1."""
    figure, axes = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
    for name, milliseconds, d1 in points:
        axes.scatter(milliseconds, d1, s=50)
        axes.annotate(name, (milliseconds, d1), xytext=(7, -4), textcoords="offset points")
    axes.set(xscale="log", xlim=(10, 20_000), ylim=(0.7, 1))
    axes.set(xlabel=f"milliseconds per image, {THREADS} CPU threads", ylabel="d1, NYU-Depth v2")
    axes.grid(alpha=0.3)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    """Time all of them, print a table, draw the plot."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--fastdepth", type=Path, required=True, help="its ONNX file")
    parser.add_argument("--d1", type=float, required=True, help="of FastDepth")
    parser.add_argument("--out", type=Path, required=True, help="picture of the plot")
    given = parser.parse_args()
    torch.set_num_threads(THREADS)
    card = cards.default_card()
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        seconds = timing.median_seconds(
            {
                card.name: ours(card),
                "FastDepth": fastdepth(given.fastdepth),
                **depth_anything(Path(folder)),
            },
            ROUNDS,
        )
    times = {name: 1000 * value for name, value in seconds.items()}
    for name, milliseconds in times.items():
        sys.stdout.write(f"{name:<40}{milliseconds:8.0f} ms\n")
    d1 = next(score.value for score in card.scores if score.metric == "d1")
    anything = min(value for name, value in times.items() if name.startswith("Depth Anything"))
    plot(
        [
            (f"{card.name} (trained here)", times[card.name], d1),
            ("FastDepth", times["FastDepth"], given.d1),
            ("Depth Anything V2 Small\n(published d1)", anything, DEPTH_ANYTHING_D1),
        ],
        given.out,
    )


if __name__ == "__main__":
    run_script(main)
