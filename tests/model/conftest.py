"""What several tests of the network share."""

import pytest
import torch


@pytest.fixture
def one_thread():
    """Compute in one thread, so that the order of sums does not depend on the machine.

    On one processor with AVX-512, two threads differ by 2.3e-5 of the maximum in two of the stored
    arrays, more than the tolerance of 2e-5; one thread stays below it there.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
