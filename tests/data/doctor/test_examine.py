"""Good data pass without a word, and what is there is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.examined import COUNT, TESTS, Pairs, good_pairs, prepared

from idisc import paper
from idisc.data import catalog, doctor
from idisc.data.doctor import evidence


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    return good_pairs(tmp_path)


def test_a_good_folder_has_no_findings_and_its_facts_are_told(pairs: Pairs) -> None:
    report = pairs.report()
    assert report.findings == ()
    facts = dict(report.facts)
    assert facts["train"] == f"{COUNT - TESTS} pictures"
    assert facts["test"] == f"{TESTS} pictures"
    assert facts["looked at"] == f"{COUNT} of {COUNT} pairs"
    assert facts["pictures"] == "120x160 (100%)"
    assert facts["depth"].startswith("median 3.")
    assert facts["valid"] == "100.0% of the pixels"


def test_a_prepared_folder_is_read_by_its_manifest(pairs: Pairs) -> None:
    prepared(pairs)
    source, spec = doctor.gather(pairs.root)
    assert doctor.examine(source, spec).findings == ()
    assert spec is catalog.FOLDER


def test_samples_are_spread_in_runs_and_progress_is_told(pairs: Pairs) -> None:
    assert evidence.spread(100, 12) == [0, 1, 2, 3, 48, 49, 50, 51, 96, 97, 98, 99]
    assert evidence.spread(5, 200) == [0, 1, 2, 3, 4]
    assert evidence.spread(100, 1) == [0]
    steps: list[tuple[int, int]] = []
    report = pairs.report(samples=8, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(done, 8) for done in range(1, 9)]
    assert dict(report.facts)["looked at"] == f"8 of {COUNT} pairs"


def test_counts_stand_beside_the_papers(pairs: Pairs) -> None:
    pairs.report()
    source, spec = doctor.gather(pairs.root)
    stated = replace(spec, counts=paper.Counts(1000, 6))
    facts = dict(doctor.examine(source, stated).facts)
    assert facts["train"] == "14 pictures (the paper: 1,000)"
