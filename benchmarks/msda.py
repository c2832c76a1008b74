"""Time the sampling core of MSDA and a training step, in each formulation and in the oracle.

    python benchmarks/msda.py nyu_swint --size 480x640
    python benchmarks/msda.py nyu_swint --size 480x640 --train 2

The first command times the sampling core alone, for inference and with gradients, and a large
`torch.mm`, whose speed limits all parts of the network. The second one times a training step
(forward, backward, clipping, AdamW) with two images.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from idisc import bench
from idisc.cli.main import run_script
from idisc.configs import recipes
from idisc.configs.schema import ModelConfig
from idisc.model import sampling, tokens
from idisc.model.network import IDisc
from idisc.predict import timing
from idisc.sizes import Size


def sampling_core(config: ModelConfig, size: Size, *, backward: bool) -> Callable[[str], None]:
    """The sampling core with the shapes that it has for an image of that size."""
    decoder = config.decoder
    sizes = [(-(-size[0] // stride), -(-size[1] // stride)) for stride in (32, 16, 8, 4)]
    length = sum(height * width for height, width in sizes)
    generator = torch.Generator().manual_seed(0)
    shape = (1, length, decoder.heads, len(sizes), decoder.points)
    value = torch.randn(
        1, length, decoder.heads, decoder.width // decoder.heads, generator=generator
    )
    # A few pixels around the position of each token, like the locations of a trained network.
    extent = torch.tensor([(width, height) for height, width in sizes])[:, None]
    offsets = 3 * torch.randn(*shape, 2, generator=generator) / extent
    centres = torch.cat([tokens.pixel_centres(at, value.device) for at in sizes])
    locations = centres[None, :, None, None, None] + offsets
    weights = torch.randn(shape, generator=generator).flatten(3).softmax(-1).view(shape)
    inputs = [tensor.requires_grad_(backward) for tensor in (value, locations, weights)]

    def run(name: str) -> None:
        with torch.set_grad_enabled(backward):
            out = sampling.SAMPLERS[name](inputs[0], sizes, inputs[1], inputs[2])
            if backward:
                torch.autograd.grad(out.sum(), inputs)

    return run


def training_step(config: ModelConfig, size: Size, batch: int) -> Callable[[str], None]:
    """A training step on random images."""
    network, rgb = IDisc(config).train(), torch.rand(batch, 3, *size)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-6)
    target = 1 + torch.rand(batch, 1, *size)

    def run(name: str) -> None:
        with bench.formulation(name):
            prediction = network(rgb).prediction[:, :1].abs() + 1e-3  # normals have a sign
        (prediction.log() - target.log()).var().sqrt().backward()  # costs as much as SILog
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return run


def show(title: str, run: Callable[[str], None], repeats: int) -> None:
    """Time all formulations in turns and print them."""
    runs = {name: partial(run, name) for name in bench.formulations()}
    sys.stdout.write(f"{title}\n")
    for row in timing.compare(runs, repeats, bench.ORACLE):
        sys.stdout.write(f"{row.name:<14}{row.seconds:8.3f} s{row.times_faster:8.1f} times\n")


def show_matrix_product(repeats: int) -> None:
    """Print the multiply-adds per second of a large matrix product."""
    first, second = torch.randn(4096, 1024), torch.randn(1024, 1024)
    seconds = timing.median_seconds({"mm": lambda: first @ second}, repeats)["mm"]
    sys.stdout.write(f"torch.mm reaches {4096 * 1024**2 / seconds / 1e9:.0f} G multiply-adds/s\n")


def main() -> None:
    """Measure what the options name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("recipe", type=recipes.find)
    parser.add_argument("--size", default="480x640", help="height and width of the image")
    parser.add_argument("--train", type=int, metavar="IMAGES", help="a step with so many images")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    height, width = map(int, given.size.split("x"))
    config, size = given.recipe.model, (height, width)
    if given.train:
        title = f"Training step with {given.train} images"
        show(title, training_step(config, size, given.train), given.repeats)
        return
    show("Inference", sampling_core(config, size, backward=False), given.repeats)
    show("Forward and backward", sampling_core(config, size, backward=True), given.repeats)
    show_matrix_product(given.repeats)


if __name__ == "__main__":
    run_script(main)
