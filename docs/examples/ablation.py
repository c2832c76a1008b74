"""What each part of the network buys on real rooms: the rows of the paper's table, and our choices.

Every row is trained by `idisc train indoor` behind the same frozen encoder, whose features are
computed once, with several seeds, and judged by the pictures that the recipe holds out of training.
Rows that are there already are not trained again, an interrupted one goes on. A second table says
what each row costs: parameters, and the time of an image in torch, all rows in turns within one
run.

    python docs/examples/ablation.py --data nyu_labelled --out rows \
        --weights dinov2_vits14.pth --steps 1000 --seeds 3
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

from idisc import config
from idisc.cli.main import run_script
from idisc.model.network import IDisc
from idisc.paper import ABLATIONS as PAPER
from idisc.predict import pace
from idisc.predict.torch_engine import TorchEngine
from idisc.recipes import ABLATIONS, RECIPES

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
TOLD = ("d1", "rmse", "abs_rel")
RECIPE = RECIPES["indoor"]


def trained(
    name: str, changes: tuple[str, ...], seed: int, given: argparse.Namespace
) -> dict[str, Any]:
    """The last validation of one row with one seed, after its training."""
    run = given.out / f"{name.replace(' ', '_')}_{seed}"
    if not (run / "config.json").exists():
        settings = [
            *changes,
            f"train.cache_features={given.out / 'features'}",
            f"train.iterations={given.steps}",
            f"train.validate_every={given.steps}",
            f"train.seed={seed}",
        ]
        call = ["train", RECIPE.name, "--data", given.data, "--out", run]
        call += ["--weights", given.weights, *(part for one in settings for part in ("--set", one))]
    else:
        call = ["train", "--resume", run]
    whole = [sys.executable, "-m", "idisc", *map(str, call)]
    done = subprocess.run(whole, check=False, stdout=sys.stderr)  # ours is for the table
    if done.returncode:
        sys.exit(done.returncode)  # it has said why
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return next(line for line in reversed(lines) if line["kind"] == "validation")


def costs(names: list[str], repeats: int = 9) -> dict[str, tuple[float, float]]:
    """Of each row: millions of parameters, and median milliseconds of a picture on this machine."""
    torch.set_num_threads(2)
    networks = {
        name: IDisc(config.override(RECIPE, ROWS[name]).model).eval().requires_grad_(False)
        for name in names
    }
    height, width = RECIPE.data.size
    runs = {
        name: pace.asking(TorchEngine(network, name), (height, width))
        for name, network in networks.items()
    }
    seconds = pace.medians(runs, repeats)
    return {
        name: (sum(each.numel() for each in networks[name].parameters()) / 1e6, 1e3 * seconds[name])
        for name in names
    }


def summary(values: list[float]) -> str:
    """Mean and standard deviation."""
    return f"{np.mean(values):.3f} ({np.std(values):.3f})"


def tell(cells: list[str]) -> None:
    """One line of the table, as soon as it is known."""
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
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help="these only")
    given = parser.parse_args()
    tell(["row", *TOLD, "the paper's, Swin-L"])
    tell(["---"] * (len(TOLD) + 2))
    for name in given.rows:
        found = [trained(name, ROWS[name], seed, given) for seed in range(given.seeds)]
        paper = " ".join(f"{PAPER[name][metric]:.3f}" for metric in TOLD) if name in PAPER else ""
        tell([name, *(summary([each[metric] for each in found]) for metric in TOLD), paper])
    tell(["row", "millions of parameters", "milliseconds"])
    tell(["---"] * 3)
    for name, (millions, latency_ms) in costs(given.rows).items():
        tell([name, f"{millions:.2f}", f"{latency_ms:.0f}"])


if __name__ == "__main__":
    run_script(main)
