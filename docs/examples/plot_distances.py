"""Plot the error of models against the distance of the ground truth, a panel for each report.

idisc evaluate --weights indoor --data nyu_labelled --out rooms
idisc evaluate --weights road --data road0009 --set window=garg --set max_depth=80 --out streets
python docs/examples/plot_distances.py rooms/report.json streets/report.json --out errors.svg
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from idisc import files
from idisc.charts import styled
from idisc.cli.main import run_script
from idisc.errors import InputError

STYLE = {"svg.hashsalt": "idisc", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3}


def read(path: Path) -> dict[str, Any]:
    """Return a report of `idisc evaluate --out` that has errors by distance."""
    try:
        report = json.loads(path.read_text())
        if report["by_distance"]:
            return dict(report)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(path, "not a report", "write it by `idisc evaluate --out`") from error
    raise InputError(path, "has no errors by distance", "name a report of depth")


def plot(report: dict[str, Any], errors: Any, shares: Any) -> None:
    """Draw AbsRel and the share of pixels of each bin of distances."""
    bins = report["by_distance"]
    usual = bins[0]["stop"] - bins[0]["start"]  # metres; the last bin may be wider
    edges = [each["start"] for each in bins] + [bins[-1]["start"] + usual]
    total = sum(each["pixels"] for each in bins)
    errors.stairs([each["abs_rel"] for each in bins], edges, fill=True, color="#b13a78")
    shares.stairs([each["pixels"] / total for each in bins], edges, fill=True, color="#b9bdc6")
    errors.set(title=report["about"].get("weights", "predictions"), ylabel="AbsRel")
    shares.set(xlabel="distance of the ground truth, m", ylabel="pixels", xlim=(0, edges[-1]))


def main() -> None:
    """Draw all reports beside each other into one SVG file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("reports", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="the SVG file")
    given = parser.parse_args()
    reports = [read(path) for path in given.reports]
    with styled(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4 * len(reports), 3.2), layout="constrained")
        panels = figure.subplots(2, len(reports), sharex="col", height_ratios=[3, 1], squeeze=False)
        for report, (errors, shares) in zip(reports, panels.T, strict=True):
            plot(report, errors, shares)
        with files.atomic(given.out) as draft:
            figure.savefig(draft, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    run_script(main)
