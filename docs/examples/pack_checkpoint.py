"""A checkpoint at half its size: the weights rounded to half precision, for sharing.

    python docs/examples/pack_checkpoint.py RUN/best packed

It is loaded like any other, and computes in single precision; only its weights are rounded, by a
two-thousandth at most.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from idisc.model.checkpoint import CONFIG, WEIGHTS, read_config, save_checkpoint
from idisc.model.states import read_state


def main() -> None:
    """Write the checkpoint OUT, which is CHECKPOINT with its weights in half precision."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    origin = json.loads((given.checkpoint / CONFIG).read_text())["origin"]
    state = {
        name: value.half() if value.is_floating_point() else value
        for name, value in read_state(given.checkpoint / WEIGHTS).items()
    }
    save_checkpoint(given.out, read_config(given.checkpoint), state, origin)


if __name__ == "__main__":
    main()
