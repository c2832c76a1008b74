"""Heads and fusion, by hand (the golden modules hold them against the published code)."""

from __future__ import annotations

import math

import pytest
import torch

from idisc.model.heads import OutputHead, fuse_depth, fuse_normals, trust


def test_depth_is_averaged_in_metres_not_in_logs() -> None:
    levels = [torch.full((1, 1, 2, 2), float(value)) for value in (0, 1, 2)]
    fused = fuse_depth(levels, (4, 4))
    assert fused.shape == (1, 1, 4, 4)
    assert fused.mean().item() == pytest.approx((1 + math.e + math.e**2) / 3, rel=1e-6)


def test_a_raw_normal_becomes_a_unit_vector_and_a_positive_concentration() -> None:
    raw = torch.tensor([3.0, 0.0, 4.0, -5.0]).view(1, 4, 1, 1).expand(1, 4, 2, 2)
    fused = fuse_normals([raw], (2, 2))
    assert fused[0, :3, 0, 0].tolist() == pytest.approx([0.6, 0.0, 0.8], abs=1e-6)
    assert fused[0, 3, 0, 0].item() == pytest.approx(math.exp(-5) + 0.01, abs=1e-6)


def test_normals_that_disagree_fuse_to_a_shorter_vector() -> None:
    level = torch.zeros(1, 4, 2, 2)
    first, second = level.clone(), level.clone()
    first[:, 0], second[:, 1] = 1.0, 1.0
    fused = fuse_normals([first, second], (2, 2))
    assert fused[:, :3].norm(dim=1).max().item() == pytest.approx(math.sqrt(0.5), abs=1e-5)


@pytest.mark.parametrize("channels", [1, 4])
def test_a_head_reads_each_pixel_alone(channels: int) -> None:
    head = OutputHead(8, channels)
    pixels = torch.randn(2, 10, 8)
    out = head(pixels)
    assert out.shape == (2, 10, channels)
    torch.testing.assert_close(head(pixels[:, 3:4]), out[:, 3:4])


def test_a_companion_far_from_the_network_is_lost() -> None:
    apart = torch.tensor([1.0, 1.9, 2.0, 2**1.5, 4.0, 100.0])  # times as far
    for sign in (1, -1):  # as near
        weights = trust(sign * apart.log()).tolist()
        assert weights == pytest.approx([1, 1, 1, 0.5, 0, 0], abs=1e-6)
