"""Three formulations of the sampling core are one function."""

import subprocess
import sys
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.refusals import refused

from idisc.errors import IdiscWarning, InputError
from idisc.model import sampling

needs_numba = pytest.mark.skipif(not sampling.kernel_available(), reason="numba is not installed")
OURS = ["plain", pytest.param("accelerated", marks=needs_numba)]


def inputs(seed, dtype=torch.float64, *, spread=1.6):
    """Random values and places, a good part of them on the border or off the maps."""
    make = torch.Generator().manual_seed(seed)
    sizes = [(int(h), int(w)) for h, w in torch.randint(1, 6, (3, 2), generator=make)]
    batch, queries, heads, points, channels = 2, 5, 2, 3, 4
    length = sum(height * width for height, width in sizes)
    value = torch.randn(batch, length, heads, channels, generator=make, dtype=dtype)
    shape = (batch, queries, heads, len(sizes), points)
    places = torch.rand(*shape, 2, generator=make, dtype=dtype) * spread - (spread - 1) / 2
    weights = torch.rand(shape, generator=make, dtype=dtype)
    return value, sizes, places, weights


@pytest.mark.parametrize("name", OURS)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=15, deadline=None)
def test_values_and_gradients_agree_with_the_oracle(name, seed):
    results = []
    for sampler in (name, "oracle"):
        value, sizes, places, weights = inputs(seed)
        leaves = [t.requires_grad_() for t in (value, places, weights)]
        out = sampling.SAMPLERS[sampler](value, sizes, places, weights)
        results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for ours, golden in zip(*results, strict=True):
        torch.testing.assert_close(ours, golden, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("place", [7.0, -1e30, float("nan"), float("inf")])
def test_locations_outside_of_the_map_contribute_nothing_but_nan_weights_do(name, place):
    value, sizes, places, weights = inputs(5, torch.float32)
    places[..., 0] = place
    out = sampling.SAMPLERS[name](value, sizes, places, weights)
    assert torch.equal(out, torch.zeros_like(out))
    weights[0, 0, 0] = float("nan")
    out = sampling.SAMPLERS[name](value, sizes, places, weights)
    assert out[0, 0, : value.shape[3]].isnan().all()


@pytest.mark.parametrize("name", OURS)
def test_tensors_need_not_be_contiguous(name):
    value, sizes, places, weights = inputs(6)
    expected = sampling.sample_by_grid(value, sizes, places, weights)
    strided = value.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    found = sampling.SAMPLERS[name](strided, sizes, places.flip(1).flip(1), weights)
    torch.testing.assert_close(found, expected)


@needs_numba
def test_many_threads_may_use_the_kernel_at_a_time():
    given_inputs = inputs(7)
    expected = sampling.sample_by_grid(*given_inputs)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(sampling.sample_by_kernel(*given_inputs)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for out in found:
        torch.testing.assert_close(out, expected)


def test_the_kernel_does_not_change_the_threads_of_torch():
    """In a process of its own: numba raises them when its first kernel starts."""
    program = """
import torch
from idisc.model import sampling
torch.set_num_threads(1)
value, places = torch.rand(1, 4, 1, 2), torch.rand(1, 3, 1, 1, 1, 2)
weights = torch.rand(1, 3, 1, 1, 1)
sampling.sample(value, [(2, 2)], places, weights)
print(sampling.kernel_available(), torch.get_num_threads())
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["True", "1"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_uses_the_plain_path(dtype):
    value, sizes, places, weights = inputs(10, torch.float32)
    halves = (value.to(dtype), sizes, places.to(dtype), weights.to(dtype))
    found = sampling.sample(*halves)
    assert found.dtype == dtype
    assert torch.equal(found, sampling.sample_by_rows(*halves))


@needs_numba
def test_a_numba_that_fails_causes_a_warning_and_is_not_used(monkeypatch):
    def fail(name):
        raise RuntimeError("cannot cache function: no locator available\nmore")

    monkeypatch.setattr(sampling.importlib, "import_module", fail)
    sampling._kernel.cache_clear()
    with pytest.warns(IdiscWarning, match="numba cannot be used, MSDA is slower: cannot cache"):
        assert not sampling.kernel_available()
    monkeypatch.undo()
    sampling._kernel.cache_clear()
    assert sampling.kernel_available()


@needs_numba
@pytest.mark.parametrize("reason", ["not installed", "forked"])
def test_without_the_kernel_the_plain_path_is_taken(reason, monkeypatch):
    if reason == "forked":
        monkeypatch.setattr(sampling.os, "getpid", lambda: -1)
    else:
        monkeypatch.setattr(sampling, "_kernel", lambda: None)
    monkeypatch.setattr(sampling, "sample_by_kernel", None)
    found = sampling.sample(*inputs(8))
    torch.testing.assert_close(found, sampling.sample_by_grid(*inputs(8)))


def test_a_forced_formulation_ends_with_its_block():
    with refused(InputError, "sampler 'orcle'", "oracle"):
        sampling.using("orcle").__enter__()
    with sampling.using(lambda *_: "forced"):
        assert sampling.sample(*inputs(9)) == "forced"
    assert isinstance(sampling.sample(*inputs(9)), torch.Tensor)
