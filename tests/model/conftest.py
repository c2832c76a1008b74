"""What several tests of the network share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Compute in one thread, so that the order of sums does not depend on the machine.

    On a processor with AVX-512, two threads round some gradients differently by 2.3e-5 of their
    maximum, more than the published numbers allow; one thread stays below 2e-5 everywhere.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
