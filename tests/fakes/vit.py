"""A small vision transformer among the encoders."""

from functools import partial

from idisc.model.backbones import BACKBONES, Backbone
from idisc.model.vit import VitPyramid

build = partial(VitPyramid, "test_vit", taps=(1, 3))


def register(monkeypatch):
    """The name by which a network has it as long as the test runs."""
    monkeypatch.setitem(BACKBONES, "test_vit", Backbone(build=build, weights="test_vit"))
    return "test_vit"
