"""The files of a result: report.json, images.csv (one line per picture) and report.html.

The same result gives the same bytes; only the stated versions depend on the machine.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

from idisc import __version__, configs, files
from idisc.evaluate import html_report
from idisc.evaluate.bootstrap import RESAMPLES, SEED
from idisc.evaluate.calibration import MEANING
from idisc.evaluate.run import Result
from idisc.evaluate.tables import compare_with_paper, describe_hint

JSON, CSV, HTML = "report.json", "images.csv", "report.html"


def write(result: Result, folder: Path) -> None:
    """Write the three files into a new folder, which appears with all of them."""
    record = to_json(result)
    with files.atomic_folder(folder) as draft:
        files.write_json(draft / JSON, record)
        _write_text(draft / CSV, to_csv(result))
        _write_text(draft / HTML, html_report.page(result, record))


def to_json(result: Result) -> dict[str, Any]:
    """Return the whole result except pictures as JSON values; NaN and infinity become null."""
    columns, rows = compare_with_paper(result)
    curve, hint = result.calibration, result.unit_hint
    record = {
        "format": configs.FORMAT,
        "dataset": {
            "name": result.spec.name,
            "title": result.spec.title,
            "split": result.split,
            "scored": len(result.rows) - result.skipped,
            "skipped": result.skipped,
            "holes": result.holes,
            "manifest_sha256": result.manifest_sha256,
            "prepared": dict(result.prepared),
            "licence": result.spec.licence,
            "non_commercial": result.spec.non_commercial,
        },
        "model": result.model and dataclasses.asdict(result.model),
        "protocol": _protocol(result),
        "totals": result.totals,
        "intervals": result.intervals,
        "bootstrap": {"level": 0.95, "resamples": RESAMPLES, "seed": SEED},
        "by_distance": [dataclasses.asdict(bin_) for bin_ in result.by_distance],
        "level_std": curve and {"meaning": MEANING, **dataclasses.asdict(curve)},
        "median_ratio": result.median_ratio,
        "unit_hint": hint and {**dataclasses.asdict(hint), "message": describe_hint(hint)},
        "paper": {
            row.name: {column: row.numbers.get(column) for column in columns} for row in rows[1:]
        },
        "about": dict(result.about),
        "versions": versions(),
    }
    return {name: _without_nan(value) for name, value in record.items()}


def to_csv(result: Result) -> str:
    """Return a line for each picture: name, scored pixels, and every metric in full precision."""
    names = next((tuple(row.numbers) for row in result.rows if row.numbers), ())
    buffer = io.StringIO(newline="")
    lines = csv.writer(buffer, lineterminator="\n")
    lines.writerow(["name", "pixels", *names])
    for row in result.rows:
        values = [row.numbers.get(name, math.nan) for name in names]
        texts = ["" if math.isnan(value) else repr(float(value)) for value in values]
        lines.writerow([row.name, row.pixels, *texts])
    return buffer.getvalue()


def versions() -> dict[str, str]:
    """Return the versions of the packages in use; torch and onnxruntime only if imported."""
    engines = [name for name in ("torch", "onnxruntime") if sys.modules.get(name)]
    return {
        "idisc": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        **{name: str(sys.modules[name].__version__) for name in engines},
    }


def _protocol(result: Result) -> dict[str, Any]:
    """Return the fields of the protocol and, under `applied`, their values for this dataset."""
    protocol, spec = result.protocol, result.spec
    return {
        **dataclasses.asdict(protocol),
        "applied": {
            "window": protocol.window_of(spec),
            "min_depth": protocol.min_depth_of(spec),
            "max_depth": protocol.cap_of(spec),
            "batch_size": protocol.batch_size_of(spec) if protocol.averaging == "batch" else None,
        },
    }


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(inner) for inner in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def _write_text(path: Path, text: str) -> None:
    with files.atomic(path) as draft:
        draft.write_bytes(text.encode("utf-8", "replace"))  # names of files may not be text
