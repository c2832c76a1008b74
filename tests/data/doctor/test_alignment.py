"""Edges of picture and depth correlate, as Pearson has it, where both are known."""

from __future__ import annotations

import numpy as np
from tests.fakes.examined import scene

from idisc.data.doctor import alignment


def test_edges_agree_with_their_own_picture_only() -> None:
    pairs = [alignment.edges_of(*scene(seed)) for seed in range(8)]
    scores = alignment.crosswise([pair for pair in pairs if pair is not None])
    own = np.diag(scores)
    assert own.min() > 0.4
    assert np.abs(scores - np.diag(own)).max() < 0.35


def test_the_correlation_is_pearsons_over_known_cells() -> None:
    image, depth = scene(0)
    depth[:40] = 0
    pair = alignment.edges_of(image, depth)
    assert pair is not None
    by_hand = [
        np.corrcoef(pair.depth[axis][pair.known[axis]], pair.image[axis][pair.known[axis]])[0, 1]
        for axis in range(2)
    ]
    np.testing.assert_allclose(alignment.crosswise([pair])[0, 0], np.mean(by_hand), rtol=1e-4)
    np.testing.assert_allclose(alignment.flipped(pair, ()), np.mean(by_hand), rtol=1e-4)
