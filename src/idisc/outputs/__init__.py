"""A result as files, one writer for each format: WRITERS. All are written whole or not at all.

Metres are kept as metres: formats that cannot hold them (8 bits) are refused, a factor is stored in
the file it belongs to, and every file says what made it, with which camera and in which axes.
`pictures` and `viewer` are for people, `numbers` for programs, `shapes` for both.
"""

from idisc.outputs.depicted import AXES, Depicted, Options
from idisc.outputs.viewer import (
    colour_table,
    packed_depth,
    photo_uri,
    scene,
    scene_facts,
    viewer_page,
)
from idisc.outputs.writers import ENDINGS, WRITERS, Writer, formats_of, save, write

__all__ = [
    "AXES",
    "ENDINGS",
    "WRITERS",
    "Depicted",
    "Options",
    "Writer",
    "colour_table",
    "formats_of",
    "packed_depth",
    "photo_uri",
    "save",
    "scene",
    "scene_facts",
    "viewer_page",
    "write",
]
