"""Scale and shift of relative depth, from two known distances."""

import numpy as np
import pytest
from tests.fakes.refusals import refused

from idisc.alignment import InverseFit, Span, fit_spans
from idisc.errors import InputError

TRUE = InverseFit(scale=0.4, shift=0.05)
RAYS = np.array([[[-0.3, 0.1, 1], [0.2, 0.1, 1]], [[0.0, -0.2, 1], [0.1, 0.3, 1]]])


def span(rays, depth, factor=1.0):
    """Two points with relative depth, and their distance by the true fit."""
    relative = np.array(depth)
    points = rays * TRUE.metres(relative).astype(np.float64)[:, None]
    return Span(rays, relative, factor * float(np.linalg.norm(points[0] - points[1])))


def test_two_distances_give_scale_and_shift():
    found = fit_spans(span(RAYS[0], [1.0, 1.2]), span(RAYS[1], [4.0, 5.0]))
    assert (found.scale, found.shift) == pytest.approx((TRUE.scale, TRUE.shift), rel=1e-3)


def test_distances_that_no_scale_and_shift_give_are_refused():
    near = span(RAYS[0], [1.0, 1.0])
    with refused(InputError, "known distances", "near"):
        fit_spans(near, near._replace(metres=2 * near.metres))
