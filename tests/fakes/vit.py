"""A small vision transformer among the encoders."""

from __future__ import annotations

from functools import partial

import pytest

from idisc.model.backbones import BACKBONES, Backbone
from idisc.model.vit import VitPyramid

build = partial(VitPyramid, "test_vit", taps=(1, 3))


def register(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name by which a network has it as long as the test runs."""
    monkeypatch.setitem(BACKBONES, "test_vit", Backbone(build=build, weights="test_vit"))
    return "test_vit"
