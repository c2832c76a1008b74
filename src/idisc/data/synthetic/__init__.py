"""Rendered rooms and streets with exact depth and normals, in any number; numpy only.

`make_shot(generator, "room", (240, 320))` renders a new room. Only the geometry is exact; light and
textures are plausible, and vary as much as those of photos.
"""

from idisc.data.synthetic.render import Shot
from idisc.data.synthetic.worlds import Kind, make_shot

__all__ = ["Kind", "Shot", "make_shot"]
