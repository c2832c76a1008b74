"""Frames of a film follow the rules of pictures."""

from dataclasses import replace

import numpy as np
from tests.fakes.predicted import predicted, provenance

from idisc import visualize
from idisc.formats import FormatOptions
from idisc.formats.pictures import enlargement
from idisc.predict.video import draw

SIZE = (24, 32)
SHOWN = predicted(np.full(SIZE, 2.0), provenance=provenance("Kuche.mp4"))


def test_the_name_of_a_clip_loses_its_accents_and_no_letters():
    plain = draw(SHOWN, FormatOptions(), side_by_side=True)
    named = replace(SHOWN, provenance=provenance("K\u00fcche.mp4"))
    assert np.array_equal(plain, draw(named, FormatOptions(), side_by_side=True))


def test_panels_are_enlarged_as_pictures_are():
    frame = draw(SHOWN, FormatOptions(), side_by_side=True)
    factor = enlargement(SIZE)
    assert factor == 10
    legend = visualize.legend(0, 1, width=frame.shape[1])
    assert frame.shape[0] > SIZE[0] * factor + len(legend)
    assert frame.shape[1] >= 2 * SIZE[1] * factor
