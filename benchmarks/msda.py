"""Time the sampling core of MSDA in each formulation and in the oracle, and matrix products.

    python benchmarks/msda.py nyu_swint --size 480x640

The core is timed for inference and with gradients. The speed of a large matrix product, by torch's
default library and by oneDNN, limits all parts of the network.
"""

from __future__ import annotations

import argparse
import copy
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
from idisc.model.linear import prefer_onednn
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


def core_rows(config: ModelConfig, size: Size, repeats: int) -> list[tuple[str, str, str]]:
    """Return a row for each formulation: name, times faster than the oracle, seconds."""
    found = []
    for title, backward in (("inference", False), ("forward and backward", True)):
        run = sampling_core(config, size, backward=backward)
        runs = {name: partial(run, name) for name in bench.formulations()}
        found += [
            (
                f"sampling core, {title}, {row.name}",
                f"{row.times_faster:.1f}",
                f"{row.seconds:.3f} s",
            )
            for row in timing.compare(runs, repeats, bench.ORACLE)
        ]
    return found


def product_rows(repeats: int) -> list[tuple[str, str, str]]:
    """Return the speed of a large product in `nn.Linear` and in our linear layers."""
    x, layer = torch.randn(4096, 1024), nn.Linear(1024, 1024)
    ours = copy.deepcopy(layer)
    prefer_onednn(ours)
    with torch.inference_mode():
        runs = {"torch.nn.Linear": partial(layer, x), "linear layer of a network": partial(ours, x)}
        times = timing.compare(runs, repeats, "torch.nn.Linear")
    work = 4096 * 1024**2 / 1e9
    return [
        (
            f"product of 4096x1024x1024, {row.name}",
            f"{row.times_faster:.1f}",
            f"{work / row.seconds:.0f} G/s",
        )
        for row in times
    ]


def main() -> None:
    """Measure what the options name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("recipe", type=recipes.find)
    parser.add_argument("--size", default="480x640", help="height and width of the image")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    height, width = map(int, given.size.split("x"))
    config, size = given.recipe.model, (height, width)
    rows = core_rows(config, size, given.repeats) + product_rows(given.repeats)
    for name, ratio, value in rows:
        sys.stdout.write(f"{name:<60}{ratio:>8}{value:>12}\n")


if __name__ == "__main__":
    run_script(main)
