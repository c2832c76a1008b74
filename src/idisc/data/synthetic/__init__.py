"""Rendered rooms and streets with exact depth and normals; numpy only, any amount.

`make_shot(generator, "room", (240, 320))` is a picture of a new room; the parts it is made of are
`make_room`, `make_street`, `make_camera`, `place_camera` and `render`.
"""

from idisc.data.synthetic.render import Rendered, render
from idisc.data.synthetic.rooms import make_room
from idisc.data.synthetic.scenes import Box, Cylinder, Kind, Light, Material, Pose, Scene, Sphere
from idisc.data.synthetic.streets import make_street
from idisc.data.synthetic.viewpoints import Shot, make_camera, make_shot, place_camera

__all__ = [
    "Box",
    "Cylinder",
    "Kind",
    "Light",
    "Material",
    "Pose",
    "Rendered",
    "Scene",
    "Shot",
    "Sphere",
    "make_camera",
    "make_room",
    "make_shot",
    "make_street",
    "place_camera",
    "render",
]
