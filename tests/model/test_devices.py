"""Devices that can compute, and the refusal of others."""

import pytest
from tests.fakes.refusals import refused

from idisc.errors import InputError
from idisc.model import devices


@pytest.mark.parametrize("name", ["meta", "gpu", "cuda:99"])
def test_a_device_that_cannot_compute_is_refused(name):
    assert devices.usable("cpu").type == "cpu"
    with refused(InputError, f"--device {name}"):
        devices.usable(name)
