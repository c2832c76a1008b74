"""Find the problems of a dataset on disk, and state how to fix them.

`gather` opens a prepared folder, a folder of a user's own pairs, or a tree that published lists
name; `examine` runs every check. The files of all records are looked for; pixels are read for
evenly spaced samples, always the same ones. Nothing is written, and a damaged file never raises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from idisc.data import folder, manifest
from idisc.data.catalog import DatasetSpec
from idisc.data.dataset import open_source
from idisc.data.doctor import leakage, pairing, scale, soundness
from idisc.data.doctor.findings import Finding, Severity
from idisc.data.doctor.inspection import Evidence, inspect, sample_indices
from idisc.data.manifest import Manifest, Record
from idisc.sizes import Size

Progress = Callable[[int, int], None]
"""Called with (done, total) records."""
CHECKS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    soundness.check_missing,
    soundness.check_faults,
    soundness.check_depth_maps,
    scale.check_scale,
    soundness.check_inverted,
    pairing.check_pairs,
    pairing.check_alignment,
    leakage.check_leakage,
    soundness.check_cameras,
)
_ALIGNED = 200  # pairs whose edges are kept, 0.5 MB each


@dataclass(frozen=True, kw_only=True)
class Report:
    """The findings, errors first, and a summary of the dataset."""

    findings: tuple[Finding, ...]
    spec: DatasetSpec
    listing: str  # the file that lists the pairs; "" for folders
    counts: Mapping[str, int]  # images by split
    pairs: int
    inspected: int  # pairs whose pixels were read
    sizes: Mapping[Size, int]  # number of inspected images by size, the commonest first
    depth_m: tuple[float, float, float] | None  # percentiles 1, 50, 99 of the inspected depth
    valid: float  # mean share of pixels with a value

    def count(self, severity: Severity) -> int:
        """Return the number of findings of one severity."""
        return sum(finding.severity == severity for finding in self.findings)


def gather(
    data: Path, name: str | None = None, lists: Sequence[Path] = ()
) -> tuple[Manifest, DatasetSpec]:
    """Open the records below `data`, including those of lists whose files are missing.

    Without a name, the dataset is that of the manifest, else a user's folder.
    """
    inside = [data / f"{split}.txt" for split in ("train", "test")]
    if not lists and not (data / manifest.NAME).is_file():
        lists = [path for path in inside if path.is_file()]
    return open_source(data, name, lists, complete=False)


def examine(
    source: Manifest, spec: DatasetSpec, samples: int = 200, progress: Progress | None = None
) -> Report:
    """Run all checks; pixels are read for at most `samples` records."""
    named = {name for record in source.records for name in (record.image, record.target) if name}
    paths = ((name, source.root / name) for name in named)
    absent = frozenset(n for n, path in paths if not path.is_file() or not path.stat().st_size)
    chosen = list(_choose(source, samples, absent))
    aligned = set(sample_indices(len(chosen), _ALIGNED))
    inspections = []
    for place, (index, record) in enumerate(chosen):
        inspections.append(inspect(source, spec, index, record, keep_edges=place in aligned))
        if progress is not None:
            progress(place + 1, len(chosen))
    evidence = Evidence(
        source=source, spec=spec, samples=samples, absent=absent, inspections=inspections
    )
    findings = [finding for check in CHECKS for finding in check(evidence)]
    findings.sort(key=lambda finding: finding.severity != "error")  # stable: order of CHECKS
    listing = source.prepared.get("from", folder.FOLDERS)
    depths = [each.depth for each in inspections if each.depth is not None]
    values = np.concatenate([depth.values for depth in depths]) if depths else np.zeros(0)
    low, middle, high = np.percentile(values, [1, 50, 99]) if values.size else (0.0, 0.0, 0.0)
    sizes = Counter(each.image_size for each in inspections if each.image_size)
    return Report(
        findings=tuple(findings),
        spec=spec,
        listing="" if listing == folder.FOLDERS else listing,
        counts=Counter(record.split for record in source.records),
        pairs=len({(record.image, record.target) for record in source.records}),
        inspected=len(inspections),
        sizes=dict(sizes.most_common()),
        depth_m=(float(low), float(middle), float(high)) if values.size else None,
        valid=float(np.mean([depth.valid for depth in depths])) if depths else 0.0,
    )


def _choose(source: Manifest, samples: int, absent: frozenset[str]) -> Iterator[tuple[int, Record]]:
    """Yield each split's share of the samples; a pair that is in both splits is read once."""
    splits: dict[str, list[Record]] = {}
    seen: set[tuple[str, str]] = set()
    for record in source.records:
        pair = record.image, record.target
        if pair not in seen and absent.isdisjoint(pair):
            splits.setdefault(record.split, []).append(record)
            seen.add(pair)
    left, shares = samples, {}
    for rank, split in enumerate(sorted(splits, key=lambda name: len(splits[name]))):
        fair = max(left // (len(splits) - rank), 1)  # the rest of a small split goes to the next
        shares[split] = sample_indices(len(splits[split]), fair)
        left -= len(shares[split])
    for split, records in splits.items():
        yield from ((index, records[index]) for index in shares[split])
