"""A good folder of pairs for every test of the doctor."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.examined import Pairs, good_pairs


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    return good_pairs(tmp_path)
