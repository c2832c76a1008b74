"""Print the share of each kind of operator in the time of a shipped model, by ONNX Runtime.

python benchmarks/operators.py                   # the default model
python benchmarks/operators.py --weights road --runs 20
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime

from idisc.cli.main import run_script
from idisc.sizes import Size, size_text
from idisc.zoo import cards

THREADS = 2
SMALLEST = 0.02  # of the time; operators below it are added up


def profile(path: Path, size: Size, runs: int, folder: Path) -> Counter[str]:
    """Return the microseconds of each kind of operator, in all runs together."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = {"image": np.zeros((1, *size, 3), np.uint8), "size": np.array(size)}
    for _ in range(runs):
        session.run(None, feeds)
    found: Counter[str] = Counter()
    for event in json.loads(Path(session.end_profiling()).read_text()):
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
            found[event["args"]["op_name"]] += event["dur"]
    return found


def main() -> None:
    """Print a row for each kind of operator that matters."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--weights", choices=sorted(cards.shipped()), help="a shipped model")
    parser.add_argument("--runs", type=int, default=30)
    given = parser.parse_args()
    card = cards.shipped()[given.weights] if given.weights else cards.default_card()
    with tempfile.TemporaryDirectory() as folder:
        found = profile(cards.locate(card), card.training_size, given.runs, Path(folder))
    total = found.total()
    sys.stdout.write(f"{card.name} at {size_text(card.training_size)}: share of the time\n")
    shown = [(name, time) for name, time in found.most_common() if time >= SMALLEST * total]
    for name, time in [*shown, ("all others", total - sum(time for _, time in shown))]:
        sys.stdout.write(f"{name:<24}{time / total:8.1%}\n")


if __name__ == "__main__":
    run_script(main)
