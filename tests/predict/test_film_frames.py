"""Frames of a film follow the rules of pictures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from idisc import visualize
from idisc.camera import Camera
from idisc.outputs import Options
from idisc.outputs.pictures import enlargement
from idisc.predict.prediction import Prediction
from idisc.predict.video import draw

SIZE = (24, 32)
SHOWN = Prediction(
    image=np.full((*SIZE, 3), 90, np.uint8),
    depth=np.full(SIZE, 2.0, np.float32),
    camera=Camera.assumed(SIZE),
    facts={"picture": "Kuche.mp4"},
)


def test_the_name_of_a_clip_loses_its_accents_and_no_letters() -> None:
    plain = draw(SHOWN, Options(), side_by_side=True)
    accented = draw(
        replace(SHOWN, facts={"picture": "K\u00fcche.mp4"}), Options(), side_by_side=True
    )
    assert np.array_equal(plain, accented)


def test_panels_are_enlarged_as_pictures_are() -> None:
    frame = draw(SHOWN, Options(), side_by_side=True)
    factor = enlargement(SIZE)
    assert factor == 10
    legend = visualize.legend(0, 1, width=frame.shape[1])
    assert frame.shape[0] > SIZE[0] * factor + len(legend)
    assert frame.shape[1] >= 2 * SIZE[1] * factor
