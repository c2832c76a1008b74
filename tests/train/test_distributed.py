"""Sums over processes and the batch norm that uses them; real processes are in test_processes."""

import pytest
import torch
from torch import distributed, nn

from idisc.train.distributed import GlobalBatchNorm2d


@pytest.fixture
def group(tmp_path):
    """A group of this process alone."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_the_batch_norm_of_one_process_equals_that_of_torch(dtype, close):
    theirs, ours = nn.BatchNorm2d(3), GlobalBatchNorm2d(3)
    maps = torch.randn(4, 3, 5, 6, generator=torch.Generator().manual_seed(0)).to(dtype)
    expected, found = theirs(maps), ours(maps)
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected, rtol=close, atol=close)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean, rtol=close, atol=close)
    torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=close, atol=close)
