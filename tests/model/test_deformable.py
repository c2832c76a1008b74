"""MSDA as a layer (the golden modules hold its numbers against the published code)."""

import torch

from idisc.configs.schema import DecoderConfig
from idisc.model.deformable import DeformableAttention, DeformableEncoder

SIZES = [(2, 3), (4, 6)]


def test_initial_offsets_point_outwards_in_one_direction_per_head():
    attention = DeformableAttention(16, levels=2, heads=4, points=3)
    query, reference = torch.randn(1, 5, 16), torch.full((1, 5, 2), 0.5)
    locations, weights = attention.sampling_locations(query, reference, SIZES)
    steps = (locations - 0.5) * torch.tensor([(3.0, 2.0), (6.0, 4.0)])[:, None]  # pixels
    expected = torch.tensor([(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)])
    for point in range(3):
        torch.testing.assert_close(
            steps[0, 0, :, 1, point], (point + 1) * expected, atol=1e-5, rtol=0
        )
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / 6))


def test_msda_ignores_autocast():
    config = DecoderConfig(width=16, layers=1)
    encoder = DeformableEncoder(config, levels=2, expansion=2, activation="gelu").eval()
    tokens = torch.randn(1, 30, 16)
    with torch.no_grad():
        expected = encoder(tokens.clone(), SIZES)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = encoder(tokens.clone(), SIZES)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)
