"""A checkpoint to train on from, whose attention is sharper and which stands alone.

    python docs/examples/sharpen_checkpoint.py CHECKPOINT sharper --factor 4

The queries of AFP and ISD are multiplied. Usual initial weights give logits of about a third, so
that every pixel reads all IDRs nearly alike and all of them stay alike; a short training does not
change that. A companion, whose depth would hide in validation what the network learns, is left out;
`idisc train --weights CHECKPOINT --companion FILE` gives it back.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from idisc.cli.main import run_script
from idisc.model.checkpoint import CONFIG, WEIGHTS, read_config, save_checkpoint
from idisc.model.states import read_state

QUERIES = (".attention.query.weight", ".attention.query.bias")


def main() -> None:
    """Write the checkpoint OUT, which is CHECKPOINT with sharper attention and no companion."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--factor", type=float, default=4.0)
    given = parser.parse_args()
    origin = json.loads((given.checkpoint / CONFIG).read_text())["origin"]
    origin.pop("validation", None)  # of other weights
    state = {
        name: value * given.factor if name.endswith(QUERIES) else value
        for name, value in read_state(given.checkpoint / WEIGHTS).items()
        if not name.startswith("companion.")
    }
    model = replace(read_config(given.checkpoint), companion="none")
    save_checkpoint(given.out, model, state, origin)


if __name__ == "__main__":
    run_script(main)
