"""A checkpoint for sharing: weights rounded to half precision, with a companion if one is given.

    python docs/examples/pack_checkpoint.py RUN/best packed --companion fastdepth.onnx

It is loaded like any other, and computes in single precision; only its weights are rounded, by a
two-thousandth at most, and take half the room.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from idisc.cli.main import run_script
from idisc.model.checkpoint import CONFIG, load_network, save_checkpoint
from idisc.model.fastdepth import FastDepth, read_weights


def main() -> None:
    """Write the checkpoint OUT, which is CHECKPOINT with its weights in half precision."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--companion", type=Path, help="FastDepth's ONNX file")
    parser.add_argument("--licence", help="of the weights, which a training cannot know")
    parser.add_argument("--data", help="that they learnt from, if more is to be said")
    given = parser.parse_args()
    network = load_network(given.checkpoint)
    alone = network.companion is None
    if given.companion:
        network.companion = FastDepth()
        network.config = replace(network.config, companion="fastdepth")
        read_weights(network.companion, given.companion)
    origin = json.loads((given.checkpoint / CONFIG).read_text())["origin"]
    if given.companion and alone and "validation" in origin:
        origin["validation_alone"] = origin.pop("validation")
    stated = {"licence": given.licence, "data": given.data}
    origin |= {name: text for name, text in stated.items() if text}
    state = {
        name: value.half() if value.is_floating_point() else value
        for name, value in network.state_dict().items()
    }
    save_checkpoint(given.out, network.config, state, origin)


if __name__ == "__main__":
    run_script(main)
