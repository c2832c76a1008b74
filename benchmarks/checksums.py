"""Measure the cost of the checksums that are verified whenever weights are opened.

python benchmarks/checksums.py --megabytes 60
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from idisc import checksums
from idisc.cli.main import run_script
from idisc.model.states import read_state, write_state
from idisc.predict import timing
from idisc.zoo import cards

TENSORS = 240  # of a network with an encoder


def main() -> None:
    """Time what opening adds, with the files in the cache of the system; the time of one core."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    count, card = given.megabytes * 10**6, cards.default_card()
    with tempfile.TemporaryDirectory() as folder:
        onnx, sealed, bare = (
            Path(folder) / name for name in ("a.onnx", "a.safetensors", "b.safetensors")
        )
        onnx.write_bytes(checksums.sealed(np.random.default_rng(0).bytes(count)))
        state = {str(n): torch.randn(count // 4 // TENSORS) for n in range(TENSORS)}
        write_state(sealed, state)
        save_file(state, bare)
        read = {
            "onnx": partial(checksums.check_sealed, onnx),
            "sealed": partial(read_state, sealed),
            "bare": partial(read_state, bare),
            "card": partial(cards.check_files, card, "onnx", cards.HOME),
        }
        taken = timing.median_seconds(read, given.repeats, time.process_time)
    shipped = sum(file.bytes for file in card.part("onnx")) / 1e6
    for what, megabytes, seconds in (
        ("exported file", given.megabytes, taken["onnx"]),
        ("checkpoint", given.megabytes, taken["sealed"] - taken["bare"]),
        (f"shipped model {card.name}", shipped, taken["card"]),
    ):
        sys.stdout.write(f"{what}, {megabytes:.0f} MB: {1000 * seconds:.0f} ms of one core\n")


if __name__ == "__main__":
    run_script(main)
