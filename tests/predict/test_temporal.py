"""Depth over time: smoothed within a scene, begun anew at a cut, and what moves is not smeared."""

import numpy as np
import pytest
from tests.fakes.films import room
from tests.fakes.predicted import predicted

from idisc.predict import temporal


def frames_of(pictures):
    return (temporal.Frame(index, index / 10, picture) for index, picture in enumerate(pictures))


@pytest.mark.parametrize("cut", [True, False])
def test_smoothing_restarts_at_a_cut_and_lags_without_one(cut):
    tracker = temporal.FrameTracker(smooth=5.0)
    depths = []
    for frame in frames_of([room(1)] * 4 + [room(7 if cut else 1)] * 4):
        metres = np.full((48, 64), 2.0 if frame.index < 4 else 8.0)
        depths.append(float(tracker.track(frame, predicted(metres, frame.image)).metres.mean()))
    assert tracker.cuts == [4] * cut
    if cut:
        assert depths == pytest.approx([2.0] * 4 + [8.0] * 4)
        assert tracker.predicted.value == 0.0  # a cut is no flicker
    else:
        assert depths[-1] < 3.0
        assert depths == sorted(depths)


def test_moving_things_keep_their_current_shape_at_the_smoothed_scale():
    """A near thing enters a still room while the network's scale jumps by a tenth."""
    empty, entered = room(), room().copy()
    entered[10:40, 10:30] = 255 - entered[10:40, 10:30] // 2
    tracker = temporal.FrameTracker(smooth=2.0)
    metres = np.full((48, 64), 4.0)
    tracker.track(temporal.Frame(0, 0.0, empty), predicted(metres, empty))
    metres[10:40, 10:30] = 1.0
    later = tracker.track(temporal.Frame(1, 0.1, entered), predicted(metres * 1.1, entered)).metres
    weight = 1 - np.exp(-0.1 / 2)
    assert tracker.cuts == []
    assert later[2, 50] == pytest.approx(4 * 1.1**weight, rel=1e-3)
    assert later[25, 20] == pytest.approx(1 * 1.1**weight, rel=1e-3)  # not a mean of 1 and 4


@pytest.mark.parametrize(
    ("change", "cut"),
    [
        (lambda picture: room(5, (96, 128)), True),
        (lambda picture: np.zeros_like(picture), True),
        (lambda picture: picture, False),
        (lambda picture: np.roll(picture, 6, axis=1), False),
        (lambda picture: np.clip(picture * 1.3, 0, 255).astype(np.uint8), False),
        (lambda picture: picture // 4 * 4, False),
    ],
    ids=["another room", "black", "the same", "a pan", "exposure", "coarse"],
)
def test_cuts_differ_from_motion_and_exposure(change, cut):
    first = room(1, (96, 128))
    tracker = temporal.FrameTracker(None)
    for frame in frames_of([first, change(first)]):
        tracker.track(frame, predicted(np.ones((96, 128)), frame.image))
    assert tracker.cuts == [1] * cut
