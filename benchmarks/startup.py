"""A whole call of `idisc predict` for one photo, and how much of it is not the network.

python benchmarks/startup.py src/idisc/zoo/models/indoor.onnx
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from idisc.cli.main import run_script
from idisc.export.parity import EXAMPLES
from idisc.predict import timing
from idisc.predict.model_info import DEFAULT_SIZE, read_model_info
from idisc.predict.onnx_engine import OnnxEngine


def main() -> None:
    """Time the command in a process of its own, and the network alone, in turns."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", type=Path, help="an .onnx file")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    engine = OnnxEngine(given.model)
    size = engine.fixed_size or read_model_info(engine).training_size or DEFAULT_SIZE
    sized = [] if engine.fixed_size else ["--size", f"{size[0]}x{size[1]}"]
    with tempfile.TemporaryDirectory() as out:
        call = [sys.executable, "-m", "idisc", "predict", EXAMPLES / "kitchen.jpg", "-o", out]
        call += ["--weights", given.model, *sized]
        command = partial(subprocess.run, list(map(str, call)), check=True, capture_output=True)
        runs = {"command": command, "network": timing.predicting(engine, size)}
        seconds = timing.median_seconds(runs, given.repeats)
    whole, network = seconds["command"], seconds["network"]
    sys.stdout.write(
        f"idisc predict: {whole:.2f} s, of which the network {network:.2f} s"
        f" and everything else {whole - network:.2f} s\n"
    )


if __name__ == "__main__":
    run_script(main)
