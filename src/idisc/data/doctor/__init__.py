"""Find the problems of a dataset on disk, and state how to fix them.

`examine` runs every check on a manifest: of a prepared folder, a folder of a user's own pairs, or
published lists. The files of all records are looked for; pixels are read for evenly spaced samples,
which are the same in every run. Nothing is written, and a damaged file never raises an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from idisc.data import folder
from idisc.data.catalog import DatasetSpec
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
_MAX_EDGES = 200  # pairs whose edges are kept in memory, 0.5 MB each


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


def examine(
    source: Manifest, spec: DatasetSpec, samples: int = 200, progress: Progress | None = None
) -> Report:
    """Run all checks; pixels are read for at most `samples` records."""
    names = {name for record in source.records for name in (record.image, record.target) if name}
    paths = ((name, source.root / name) for name in names)
    absent = frozenset(n for n, path in paths if not path.is_file() or not path.stat().st_size)
    chosen = list(_choose(source, samples, absent))
    with_edges = set(sample_indices(len(chosen), _MAX_EDGES))
    inspections = []
    for number, (index, record) in enumerate(chosen):
        inspections.append(inspect(source, spec, index, record, keep_edges=number in with_edges))
        if progress is not None:
            progress(number + 1, len(chosen))
    evidence = Evidence(
        source=source, spec=spec, samples=samples, absent=absent, inspections=inspections
    )
    findings = [finding for check in CHECKS for finding in check(evidence)]
    findings.sort(key=lambda finding: finding.severity != "error")  # stable: order of CHECKS
    listing = source.prepared.get("from", folder.FOLDERS)
    depths = [one.depth for one in inspections if one.depth is not None]
    values = np.concatenate([depth.values for depth in depths]) if depths else np.zeros(0)
    low, middle, high = np.percentile(values, [1, 50, 99]) if values.size else (0.0, 0.0, 0.0)
    sizes = Counter(one.image_size for one in inspections if one.image_size)
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
    remaining, indices = samples, dict[str, list[int]]()
    for rank, split in enumerate(sorted(splits, key=lambda name: len(splits[name]))):
        share = max(remaining // (len(splits) - rank), 1)  # a small split leaves more to the next
        indices[split] = sample_indices(len(splits[split]), share)
        remaining -= len(indices[split])
    for split, records in splits.items():
        yield from ((index, records[index]) for index in indices[split])
