"""What is wrong with a dataset on disk, and what to change.

`gather` opens a prepared folder, a folder of one's own pairs or a tree that published lists name;
`examine` runs every check on it. Files are looked for in all records; pixels are read of a spread
of them, in runs of four, always the same. Nothing is written, and no file that is wrong raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from idisc.data import catalog, folder, manifest
from idisc.data.catalog import DatasetSpec
from idisc.data.dataset import Dataset
from idisc.data.doctor import leakage, pairing, scale, soundness
from idisc.data.doctor.evidence import Case, Finding, Look, look_at, spread
from idisc.data.manifest import Manifest, Record
from idisc.errors import InputError, counted

Progress = Callable[[int, int], None]
"""Called with (done, total) records."""
CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    soundness.missing,
    soundness.faulty,
    *soundness.MAPS,
    scale.scale,
    soundness.inverted,
    pairing.aspects,
    pairing.names,
    pairing.repeated,
    pairing.edges,
    leakage.splits,
    leakage.scenes,
    leakage.copies,
    leakage.lookalikes,
    soundness.without_camera,
)
_ALIGNED = 200  # pairs of which edges are kept, 0.5 MB each


@dataclass(frozen=True)
class Report:
    """What was found, errors first, and what the dataset is like."""

    findings: tuple[Finding, ...]
    facts: tuple[tuple[str, str], ...]  # label, text

    def count(self, severity: str) -> int:
        """Findings of one severity."""
        return sum(finding.severity == severity for finding in self.findings)


def gather(
    data: Path, name: str | None = None, lists: Sequence[Path] = ()
) -> tuple[Manifest, DatasetSpec]:
    """The records below `data`, those of lists also where their files are missing.

    Without a name the dataset is the manifest's, else a folder of one's own.
    """
    if not data.is_dir():
        raise InputError(f"{data}: no such folder")
    prepared = manifest.read(data) if (data / manifest.NAME).is_file() and not lists else None
    spec = catalog.find(name or (prepared.dataset if prepared else "folder"))
    if prepared is not None:
        if prepared.dataset != spec.name.partition(":")[0]:
            raise InputError(f"{data}: holds {prepared.dataset}, not {spec.name}")
        return prepared, catalog.as_prepared(spec, prepared.prepared)
    beside = [data / f"{split}.txt" for split in ("train", "test")]
    lists = lists or [path for path in beside if path.is_file()]
    if lists:
        return _from_lists(data, spec, lists), spec
    if spec.name != "folder":
        return manifest.read(data), spec  # says what is missing
    return folder.read(data, complete=False), spec


def examine(
    source: Manifest, spec: DatasetSpec, samples: int = 200, progress: Progress | None = None
) -> Report:
    """Run all checks; pixels are read of at most `samples` records."""
    absent = _absent(source)
    looks = _looks(source, spec, samples, absent, progress)
    case = Case(source=source, spec=spec, samples=samples, absent=absent, looks=looks)
    findings = [finding for check in CHECKS for finding in check(case)]
    findings.sort(key=lambda finding: finding.severity != "error")  # stable: order of CHECKS
    return Report(tuple(findings), tuple(_facts(case)))


def _from_lists(data: Path, spec: DatasetSpec, lists: Sequence[Path]) -> Manifest:
    sources = [manifest.from_list(path, data, spec) for path in lists]
    there = {(record.split, record.image) for source in sources for record in source.records}
    gone = [
        Record(image=line.image, target=line.target, split=line.split)
        for path in lists
        for line in manifest.read_list(path, spec.list_column)
        if (line.split, line.image) not in there
    ]
    found = [record for source in sources for record in source.records]
    repeated = [name for source in sources for name in source.prepared.get("repeated", ())]
    return replace(
        sources[0],
        records=tuple(manifest.once([*found, *gone])[0]),
        prepared={**sources[0].prepared, "repeated": repeated},
    )


def _absent(source: Manifest) -> frozenset[str]:
    named = {name for record in source.records for name in (record.image, record.target) if name}
    paths = ((name, source.root / name) for name in named)
    return frozenset(name for name, path in paths if not path.is_file() or not path.stat().st_size)


def _looks(
    source: Manifest,
    spec: DatasetSpec,
    samples: int,
    absent: frozenset[str],
    progress: Progress | None,
) -> list[Look]:
    chosen = list(_chosen(source, samples, absent))
    aligning = set(spread(len(chosen), _ALIGNED))
    datasets = {split: Dataset(source, split, spec) for split in {r.split for _, r in chosen}}
    looks = []
    for place, (index, record) in enumerate(chosen):
        looks.append(look_at(datasets[record.split], index, record, place in aligning))
        if progress is not None:
            progress(place + 1, len(chosen))
    return looks


def _chosen(source: Manifest, samples: int, absent: frozenset[str]) -> Iterator[tuple[int, Record]]:
    """Of each split its share of the samples; a pair that is in both splits is read once."""
    splits: dict[str, list[Record]] = {}
    seen: set[tuple[str, str]] = set()
    for record in source.records:
        pair = record.image, record.target
        if pair not in seen and absent.isdisjoint(pair):
            splits.setdefault(record.split, []).append(record)
            seen.add(pair)
    left, shares = samples, {}
    for rank, split in enumerate(sorted(splits, key=lambda name: len(splits[name]))):
        fair = max(left // (len(splits) - rank), 1)  # what a small split leaves goes to the next
        shares[split] = spread(len(splits[split]), fair)
        left -= len(shares[split])
    for split, records in splits.items():
        yield from ((index, records[index]) for index in shares[split])


def _facts(case: Case) -> Iterator[tuple[str, str]]:
    index = case.source.prepared.get("from", folder.FOLDERS)
    listed = f", listed in {index}" if index != folder.FOLDERS else ""
    yield "dataset", f"{case.spec.name}: {case.spec.title}{listed}"
    counts = case.spec.counts
    for split, stated in (("train", counts.train), ("test", counts.test)):
        count = sum(record.split == split for record in case.source.records)
        if count or stated is not None:
            beside = f" (the paper: {stated:,})" if stated is not None else ""
            yield split, f"{counted(count, 'picture')}{beside}"
    pairs = {(record.image, record.target) for record in case.source.records}
    yield "looked at", f"{len(case.looks):,} of {counted(len(pairs), 'pair')}"
    sizes = [look.image_size for look in case.looks if look.image_size]
    if sizes:
        yield "pictures", _sizes(sizes)
    depths = [look.depth for look in case.looks if look.depth is not None]
    values = np.concatenate([depth.values for depth in depths]) if depths else np.zeros(0)
    if values.size:
        low, middle, high = np.percentile(values, [1, 50, 99])
        yield "depth", f"median {middle:.3g} m, 98 % between {low:.3g} and {high:.3g} m"
        yield "valid", f"{np.mean([depth.valid for depth in depths]):.1%} of the pixels"


def _sizes(sizes: Sequence[tuple[int, int]]) -> str:
    """The commonest sizes and their shares."""
    kinds, counts = np.unique(np.array(sizes), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:3]
    shares = [f"{kinds[k][0]}x{kinds[k][1]} ({counts[k] / len(sizes):.0%})" for k in order]
    more = f" and {len(kinds) - 3} more sizes" if len(kinds) > 3 else ""
    return ", ".join(shares) + more
