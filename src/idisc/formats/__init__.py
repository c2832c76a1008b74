"""Output formats: FORMATS has one row for each; `encode` gives bytes and `save` writes files.

Depth stays in metres: a factor is stored in the file that needs it, and every file says which model
made it, with which camera and in which axes. `pictures` and `viewer` are for people, `numbers` and
`shapes` for programs.
"""

from idisc.formats.options import AXES, FormatOptions
from idisc.formats.table import FORMATS, Format, check, default_formats, encode, parse, save

__all__ = [
    "AXES",
    "FORMATS",
    "Format",
    "FormatOptions",
    "check",
    "default_formats",
    "encode",
    "parse",
    "save",
]
