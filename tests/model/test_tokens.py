"""Maps as sequences of tokens."""

import pytest
import torch
from torch import nn

from idisc.model import tokens

CPU = torch.device("cpu")


def test_tokens_run_row_by_row_and_back():
    maps = torch.arange(24.0).view(1, 2, 3, 4)
    sequence = tokens.to_tokens(maps)
    assert sequence[0, 5].tolist() == [5.0, 17.0]  # row 1, column 1 of both channels
    assert torch.equal(tokens.to_map(sequence, (3, 4)), maps)


def test_pixel_centres_are_x_then_y_across_the_map():
    centres = tokens.pixel_centres((2, 4), CPU)
    assert centres[0].tolist() == [0.125, 0.25]
    assert centres[-1].tolist() == [0.875, 0.75]


@pytest.mark.parametrize("length", [1, 8, 9])
def test_chunks_give_what_the_whole_gives(length, monkeypatch):
    monkeypatch.setattr(tokens, "CHUNK", 8)
    calls = []

    def double(sequence, shift):
        calls.append(sequence.shape[1])
        return 2 * sequence + shift

    sequence, shift = torch.randn(2, length, 3), torch.randn(1, length, 3)
    with torch.no_grad():
        found = tokens.in_chunks(double, sequence, shift)
    assert torch.equal(found, 2 * sequence + shift)
    assert max(calls) <= 4  # eight tokens over a batch of two
    assert sum(calls) == length


def test_results_replace_the_input_only_if_asked_and_without_gradients():
    sequence = torch.randn(1, 5000, 2)
    before = sequence.clone()
    with torch.no_grad():
        kept = tokens.in_chunks(lambda t: t + 1, sequence)
        assert torch.equal(sequence, before)
        replaced = tokens.in_chunks(lambda t: t + 1, sequence, overwrite=True)
    assert replaced.data_ptr() == sequence.data_ptr()
    assert torch.equal(replaced, kept)
    calls = []
    out = tokens.in_chunks(lambda t: calls.append(t.shape[1]) or t * 3, sequence, overwrite=True)
    assert calls == [5000]
    assert out.data_ptr() != sequence.data_ptr()


@pytest.mark.parametrize("height", [1, 9, 65])
@pytest.mark.parametrize("kernel", [1, 3])
def test_bands_give_what_the_whole_map_gives(kernel, height, monkeypatch):
    monkeypatch.setattr(tokens, "CHUNK", 20)  # two rows of five pixels in two maps; 32 with a halo
    conv = nn.Conv2d(3, 4, kernel, padding=kernel // 2).eval()
    maps = torch.randn(2, 3, height, 5)
    with torch.no_grad():
        found = tokens.in_bands(conv, maps, halo=kernel // 2)
        assert found.is_contiguous(memory_format=torch.channels_last)
        assert torch.allclose(found, conv(maps), atol=1e-6)


def test_batch_norm_in_training_sees_the_whole_map_without_gradients_too():
    maps, norm = torch.randn(1, 2, 90, 50), nn.BatchNorm2d(2, momentum=1.0)
    with torch.no_grad():
        tokens.in_bands(norm, maps)
    assert torch.allclose(norm.running_mean, maps.mean((0, 2, 3)))


def test_tokens_that_belong_together_stay_in_one_chunk(monkeypatch):
    monkeypatch.setattr(tokens, "CHUNK", 8)
    calls = []
    with torch.no_grad():
        tokens.in_chunks(
            lambda t: calls.append(t.shape[1]) or t, torch.ones(1, 15, 1), group_size=3
        )
        tokens.in_chunks(lambda t: calls.append(t.shape[1]) or t, torch.ones(9, 6, 1), group_size=3)
    assert calls == [6, 6, 3, 3, 3]


def test_placed_tokens_are_tokens_plus_their_position():
    maps = torch.randn(2, 8, 3, 5)
    expected = tokens.to_tokens(maps) + tokens.sine_encoding((3, 5), 8, CPU)
    assert torch.equal(tokens.to_positioned_tokens(maps), expected)
