"""Heads and fusion, by hand (the golden modules hold them against the published code)."""

import torch

from idisc.model.heads import GuidedUpsampling, upsample


def test_guided_upsampling_mixes_the_values_around_a_pixel():
    guide = GuidedUpsampling(8, 6, "gelu")(torch.randn(1, 6, 7, 9), torch.randn(1, 8, 4, 5))
    maps = torch.rand(1, 2, 4, 5)
    fine = upsample(maps, guide)
    assert fine.shape == (1, 2, 4 * 7, 4 * 9)
    assert maps.min() - 1e-6 < fine.min() < fine.max() < maps.max() + 1e-6
    flat = upsample(torch.full((1, 1, 4, 5), 2.5), guide)
    torch.testing.assert_close(flat, torch.full((1, 1, 28, 36), 2.5))


def test_an_untrained_guide_keeps_a_slanted_plane_smooth():
    guide = GuidedUpsampling(8, 6, "gelu")(torch.randn(1, 6, 8, 8), torch.randn(1, 8, 8, 8))
    ramp = torch.arange(8.0).expand(1, 1, 8, 8)
    inner = upsample(ramp, guide)[0, 0, 4:-4, 4:-4]
    torch.testing.assert_close(inner.diff(dim=1), torch.full((24, 23), 0.25), atol=0.05, rtol=0)
    torch.testing.assert_close(inner.diff(dim=0), torch.zeros(23, 24), atol=1e-5, rtol=0)


def test_a_guide_places_an_edge_within_a_coarse_pixel():
    """Of the 4x4 new pixels those in the left half have the value of the neighbour on the left."""
    maps = torch.arange(3.0).expand(1, 1, 2, 3)
    guide = torch.zeros(1, 9, 16, 2, 3)
    for pixel in range(16):
        guide[:, 3 if pixel % 4 < 2 else 4, pixel] = 1  # of 3x3 neighbours, row by row
    row = torch.tensor([0.0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2])
    assert torch.equal(upsample(maps, guide), row.expand(1, 1, 8, 12))
