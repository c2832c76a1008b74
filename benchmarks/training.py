"""Images per second in training: a recipe of the paper as a whole, and `indoor` on cached features.

    python benchmarks/training.py

Each step is forward, backward, clipping and AdamW on random images. Formulations of the same
recipe take turns within one run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from idisc import bench
from idisc.cli.main import run_script
from idisc.configs.recipes import RECIPES
from idisc.configs.schema import ModelConfig
from idisc.model.linear import prefer_onednn
from idisc.model.network import IDisc
from idisc.predict import timing
from idisc.sizes import Size
from idisc.train.optimizer import freeze

SWIN_IMAGES, INDOOR_IMAGES = 2, 8


def whole_step(config: ModelConfig, size: Size, images: int) -> Callable[[str], None]:
    """Return a step of all of a network, as a function of the formulation's name."""
    network = IDisc(config).train()
    prefer_onednn(network)
    step = _step(network, images, size)

    def run(name: str) -> None:
        with bench.formulation(name):
            step()

    return run


def cached_step(config: ModelConfig, size: Size, images: int, precision: str) -> Callable[[], None]:
    """Return a step of a network with a frozen encoder, whose features are cached."""
    network = IDisc(config).train()
    prefer_onednn(network)
    freeze(network, ("encoder.vit",))
    with torch.no_grad():
        extracted = network.extract(torch.rand(images, 3, *size))
    step = _step(network, images, size, extracted)

    def run() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            step()

    return run


def _step(
    network: IDisc, images: int, size: Size, extracted: tuple[torch.Tensor, ...] | list = ()
) -> Callable[[], None]:
    parameters = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-6)
    rgb, target = torch.rand(images, 3, *size), 1 + torch.rand(images, 1, *size)

    def run() -> None:
        output = network(rgb, extracted=extracted)
        prediction = output.prediction[:, :1].float().abs() + 1e-3  # normals have a sign
        (prediction.log() - target.log()).var().sqrt().backward()  # costs as much as SILog
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return run


def swin_rows(repeats: int = 3) -> list[tuple[str, str, str]]:
    """Return a row for each formulation of `nyu_swint`: name, times the oracle, images/s."""
    recipe = RECIPES["nyu_swint"]
    run = whole_step(recipe.model, recipe.data.size, SWIN_IMAGES)
    runs = {name: partial(run, name) for name in bench.formulations()}
    return [
        (f"nyu_swint, {row.name}", f"{row.times_faster:.1f}", f"{SWIN_IMAGES / row.seconds:.2f}/s")
        for row in timing.compare(runs, repeats, bench.ORACLE)
    ]


def indoor_rows(repeats: int = 3) -> list[tuple[str, str, str]]:
    """Return a row for each kind of step of `indoor` on cached features."""
    recipe = RECIPES["indoor"]
    plain = replace(recipe.model, adapter_rank=0)
    models = {"without adapters": plain, "with adapters": recipe.model}
    runs = {
        f"indoor, cached features, {text}, {precision}": cached_step(
            model, recipe.data.size, INDOOR_IMAGES, precision
        )
        for text, model in models.items()
        for precision in ("fp32", "bf16")
    }
    slowest = "indoor, cached features, with adapters, fp32"
    return [
        (row.name, f"{row.times_faster:.1f}", f"{INDOOR_IMAGES / row.seconds:.1f}/s")
        for row in timing.compare(runs, repeats, slowest)
    ]


def main() -> None:
    """Print both tables: name, ratio, images per second."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    ).parse_args()
    torch.set_num_threads(2)
    for name, ratio, rate in (*swin_rows(), *indoor_rows()):
        sys.stdout.write(f"{name:<60}{ratio:>8}{rate:>12}\n")


if __name__ == "__main__":
    run_script(main)
