"""Good data have no findings, and the dataset is summarized."""

from __future__ import annotations

import pytest
from tests.fakes.examined import COUNT, SIZE, TESTS, Pairs, prepared

from idisc.data import catalog, doctor
from idisc.data.doctor.inspection import sample_indices


def test_a_good_folder_has_no_findings_and_is_summarized(pairs: Pairs) -> None:
    report = pairs.report()
    assert report.findings == ()
    assert report.counts == {"train": COUNT - TESTS, "test": TESTS}
    assert (report.inspected, report.pairs) == (COUNT, COUNT)
    assert report.sizes == {SIZE: COUNT}
    assert report.valid == 1
    assert report.depth_m is not None
    assert report.depth_m[1] == pytest.approx(3.5, abs=0.5)


def test_a_prepared_folder_is_read_by_its_manifest(pairs: Pairs) -> None:
    prepared(pairs)
    source, spec = doctor.gather(pairs.root)
    assert doctor.examine(source, spec).findings == ()
    assert spec is catalog.FOLDER


def test_samples_are_evenly_spaced_runs_and_progress_is_reported(pairs: Pairs) -> None:
    assert sample_indices(100, 12) == [0, 1, 2, 3, 48, 49, 50, 51, 96, 97, 98, 99]
    assert sample_indices(5, 200) == [0, 1, 2, 3, 4]
    assert sample_indices(100, 1) == [0]
    steps: list[tuple[int, int]] = []
    report = pairs.report(samples=8, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(done, 8) for done in range(1, 9)]
    assert report.inspected == 8
