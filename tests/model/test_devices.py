"""Devices: one that computes, or one line."""

from __future__ import annotations

import pytest
from tests.fakes.refusals import refused

from idisc.errors import InputError
from idisc.model import devices


def test_the_cpu_computes() -> None:
    assert devices.usable("cpu").type == "cpu"


@pytest.mark.parametrize("name", ["meta", "gpu", "cuda:99"])
def test_what_computes_nothing_is_refused_in_one_line(name: str) -> None:
    with refused(InputError, f"--device {name}"):
        devices.usable(name)
