"""Rendered rooms and streets with exact depth and normals, in any number; numpy only.

`make_shot(generator, "room", (240, 320))` renders a new room; `make_room`, `make_street`,
`place_camera` and `render` are its parts.
"""

from idisc.data.synthetic.render import Rendered, render
from idisc.data.synthetic.rooms import make_room
from idisc.data.synthetic.scenes import Kind, Light, Material, Pose, Scene, Shape, ball, box, tube
from idisc.data.synthetic.streets import make_street
from idisc.data.synthetic.viewpoints import Shot, make_camera, make_shot, place_camera

__all__ = [
    "Kind",
    "Light",
    "Material",
    "Pose",
    "Rendered",
    "Scene",
    "Shape",
    "Shot",
    "ball",
    "box",
    "make_camera",
    "make_room",
    "make_shot",
    "make_street",
    "place_camera",
    "render",
    "tube",
]
