"""The cost of the checksums that are compared whenever weights are opened.

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

from idisc import checksums
from idisc.cli.main import run_script
from idisc.predict import timing


def main() -> None:
    """Time the check of a file in the cache of the system; other programs do not count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    content = np.random.default_rng(0).bytes(given.megabytes * 10**6)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.onnx"
        path.write_bytes(checksums.sealed(content))
        check = partial(checksums.check_sealed, path)
        seconds = timing.median_seconds({"check": check}, given.repeats, time.process_time)["check"]
    sys.stdout.write(f"{given.megabytes} MB: {1000 * seconds:.0f} ms of one core\n")


if __name__ == "__main__":
    run_script(main)
