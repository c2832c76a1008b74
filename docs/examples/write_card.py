"""The card of the indoor model that ships: what it is made of, and what it scores.

The commands that make it, after `idisc train` (docs/results.md has that one):

    python docs/examples/pack_checkpoint.py RUN/best src/idisc/zoo/indoor_small/checkpoint \
        --companion fastdepth.onnx --licence Apache-2.0 \
        --data "NYU-Depth v2, labelled set; 460 more indoor pairs; rendered rooms"
    idisc export src/idisc/zoo/indoor_small/checkpoint --precision fp16-weights \
        -o src/idisc/zoo/indoor_small/model.onnx
    idisc evaluate --onnx src/idisc/zoo/indoor_small/model.onnx --data nyu_labelled --out report
    python docs/examples/write_card.py report/report.json

The numbers are those of the report, which knows the hash of the file that it scored; a report of
another file is refused.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from idisc import files, load_network
from idisc.cli.main import run_script
from idisc.zoo import cards

NAME = "indoor_small"
TOLD = ("d1", "abs_rel", "rmse", "d2", "d3", "log10", "silog")
INGREDIENTS = (
    cards.Ingredient(
        name="NYU-Depth v2, labelled set",
        role="pictures and depth",
        licence="published for research, without a licence text",
        source="https://cs.nyu.edu/~fergus/datasets/nyu_depth_v2.html",
    ),
    cards.Ingredient(
        name="NYU-Depth v2, 352 raw frames",
        role="pictures and depth, which has steps of 4 cm",
        licence="published for research, without a licence text",
        source="https://cs.nyu.edu/~fergus/datasets/nyu_depth_v2.html",
    ),
    cards.Ingredient(
        name="108 frames of a course at IST Lisbon",
        role="pictures and depth, whose scale may be off by 5 %",
        licence="none stated",
    ),
    cards.Ingredient(
        name="rendered rooms",
        role="pictures and depth (`idisc prepare synthetic`)",
        licence="Apache-2.0",
    ),
    cards.Ingredient(
        name="EfficientNet-lite2",
        role="weights that an encoder began with (ImageNet)",
        licence="Apache-2.0",
        source="https://github.com/huggingface/pytorch-image-models",
    ),
    cards.Ingredient(
        name="FastDepth",
        role="weights of the companion, and those that an encoder began with"
        " (48,000 pictures of NYU-Depth v2)",
        licence="MIT",
        source="https://github.com/dwofk/fast-depth",
    ),
)
NOTES = (
    "For rooms as a camera of about 60 degrees sees them, from 0.35 m on: nothing nearer was in its"
    " pictures. Not for streets or landscapes. Mirrors, windows and screens mislead it. The ground"
    " truth it was measured against has its holes filled in, so its numbers are not quite those of"
    " the literature."
)


def main() -> None:
    """Write zoo/indoor_small/card.json from a report of `idisc evaluate --out`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("report", type=Path)
    report = json.loads(parser.parse_args().report.read_text())
    folder = cards.HOME / NAME
    if report["about"]["weights_sha256"] != files.sha256(folder / cards.ONNX):
        sys.exit(f"the report is not of {folder / cards.ONNX}; evaluate that file")
    origin = json.loads((folder / cards.CHECKPOINT / "config.json").read_text())["origin"]
    scores = [
        cards.Score(
            dataset=report["dataset"]["name"],
            protocol=report["protocol"]["name"],
            metric=metric,
            value=report["totals"][metric],
            low=report["intervals"][metric][0],
            high=report["intervals"][metric][1],
        )
        for metric in TOLD
    ]
    network = load_network(folder / cards.CHECKPOINT)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    card = cards.ModelCard(
        name=NAME,
        title="metric depth of rooms, for laptops",
        licence="Apache-2.0",
        domain=origin["domain"],
        depth_range=tuple(origin["depth_range"]),
        training_size=tuple(origin["training_size"]),
        training_fov_deg=origin["training_fov_deg"],
        parameters=round(parameters / 1e6, 1),
        ingredients=INGREDIENTS,
        scores=tuple(scores),
        files=cards.describe(folder),
        default=True,
        notes=NOTES,
    )
    files.write_json(folder / cards.CARD, dataclasses.asdict(card))
    sys.stdout.write(f"{folder / cards.CARD}\n")


if __name__ == "__main__":
    run_script(main)
