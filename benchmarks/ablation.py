"""Measure the contribution of each part of the network on real rooms, as in the paper's ablation.

Every row is trained by `idisc train indoor` with several seeds and the same frozen encoder, whose
features are computed once, and evaluated on the images that the recipe holds out of training.
Finished rows are not trained again; an interrupted one is resumed. A second table gives the cost of
each row: parameters, and the time per image in torch, all rows in turns within one run.

    python benchmarks/ablation.py --data nyu_labelled --out rows \
        --weights dinov2_vits14.pth --steps 1000 --seeds 3

Without adapters, the whole encoder is cached, and a step takes half the time:
`--set model.adapter_rank=0`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from idisc import configs
from idisc.cli.main import run_script
from idisc.configs.paper import ABLATIONS as PAPER
from idisc.configs.recipes import ABLATIONS, RECIPES
from idisc.model.network import IDisc
from idisc.predict import timing
from idisc.predict.torch_engine import TorchEngine

CHOICES: dict[str, tuple[str, ...]] = {
    "8 IDRs": ("model.afp.idrs=8",),
    "64 IDRs": ("model.afp.idrs=64",),
    "width 64": ("model.decoder.width=64", "model.afp.width=64"),
    "width 128": ("model.decoder.width=128", "model.afp.width=128"),
    "1 layer of MSDA": ("model.decoder.layers=1",),
    "1 layer of ISD": ("model.isd.layers=1",),
    "1 resolution": ("model.resolutions=1",),
}
ROWS = {name: tuple(f"model.{one}" for one in row) for name, row in ABLATIONS.items()} | CHOICES
METRICS = ("d1", "rmse", "abs_rel")
RECIPE = RECIPES["indoor"]


def trained(
    name: str, changes: tuple[str, ...], seed: int, given: argparse.Namespace
) -> dict[str, Any]:
    """Train one row with one seed and return its last validation."""
    run = given.out / f"{name.replace(' ', '_')}_{seed}"
    if not (run / "config.json").exists():
        settings = [
            *changes,
            f"train.cache_features={given.out / 'features'}",
            f"train.iterations={given.steps}",
            f"train.validate_every={given.steps}",
            f"train.seed={seed}",
            *given.set,
        ]
        call = ["train", RECIPE.name, "--data", given.data, "--out", run]
        call += ["--weights", given.weights, *(part for one in settings for part in ("--set", one))]
    else:
        call = ["train", "--resume", run]
    whole = [sys.executable, "-m", "idisc", *map(str, call)]
    done = subprocess.run(whole, check=False, stdout=sys.stderr)  # stdout is for the table
    if done.returncode:
        sys.exit(done.returncode)  # the command has printed the reason
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return next(line for line in reversed(lines) if line["kind"] == "validation")


def costs(names: list[str], repeats: int = 9) -> dict[str, tuple[float, float]]:
    """Return the parameters in millions and the median milliseconds per image of each row."""
    torch.set_num_threads(2)
    networks = {
        name: IDisc(configs.override(RECIPE, ROWS[name]).model).eval().requires_grad_(False)
        for name in names
    }
    height, width = RECIPE.data.size
    runs = {
        name: timing.predicting(TorchEngine(network, name), (height, width))
        for name, network in networks.items()
    }
    seconds = timing.median_seconds(runs, repeats)
    return {
        name: (sum(each.numel() for each in networks[name].parameters()) / 1e6, 1e3 * seconds[name])
        for name in names
    }


def summary(values: list[float]) -> str:
    """Format mean and standard deviation."""
    return f"{np.mean(values):.3f} ({np.std(values):.3f})"


def print_row(cells: list[str]) -> None:
    """Print one line of the table at once."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


def main() -> None:
    """Train what is missing, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="made by `idisc prepare nyu_labelled`"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--weights", required=True, help="of the encoder, as for `idisc train`")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="of `idisc train`, in all rows")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help="these only")
    given = parser.parse_args()
    print_row(["row", *METRICS, "the paper's, Swin-L"])
    print_row(["---"] * (len(METRICS) + 2))
    for name in given.rows:
        found = [trained(name, ROWS[name], seed, given) for seed in range(given.seeds)]
        paper = (
            " ".join(f"{PAPER[name][metric]:.3f}" for metric in METRICS) if name in PAPER else ""
        )
        print_row([name, *(summary([each[metric] for each in found]) for metric in METRICS), paper])
    print_row(["row", "millions of parameters", "milliseconds"])
    print_row(["---"] * 3)
    for name, (millions, latency_ms) in costs(given.rows).items():
        print_row([name, f"{millions:.2f}", f"{latency_ms:.0f}"])


if __name__ == "__main__":
    run_script(main)
