"""Surface normals of NYU-Depth v2 as GeoNet published them: PNG images and PNG normals.

    train/img/<class>/<id>.png   train/norm/<class>/<id>.png
    test/img/NNNNNN.png          test/norm/NNNNNN.png

Lists have three fields, `img depth norm`; the depth is not read. Normals are copied byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path, PurePosixPath

from idisc.data.catalog import NYU_NORMALS
from idisc.data.decode import NormalMap
from idisc.data.manifest import ListLine
from idisc.data.prepare import frames

_CHUNK = 100  # images of a folder that are prepared at once


def _scenes(
    raw: Path, _: frames.PictureOptions, lines: Sequence[ListLine] | None
) -> list[frames.Scene]:
    """Parts of a hundred images of each folder."""
    counters: dict[str, count[int]] = {}

    def scene_of(line: ListLine) -> str:
        folder = PurePosixPath(line.image).parent.as_posix()
        number = next(counters.setdefault(folder, count()))
        return f"{folder}/{number // _CHUNK:04d}"

    return frames.by_scene(_find(raw) if lines is None else lines, raw, scene_of)


def _find(raw: Path) -> Iterator[ListLine]:
    for split in ("train", "test"):
        folders = raw / split / "img", raw / split / "norm"
        # Names in either folder: a missing file in the other one is a fault.
        names = {p.relative_to(f).as_posix() for f in folders for p in f.rglob("*.png")}
        for name in sorted(names):
            yield ListLine(f"{split}/img/{name}", f"{split}/norm/{name}", split)


def _frame(raw: Path, line: ListLine) -> frames.Frame:
    camera = partial(frames.stated_camera, NYU_NORMALS, line.image)
    image, target = raw / line.image, raw / line.target
    return frames.Frame(name=frames.stem_of(line), image=image, camera=camera, target=target)


PREPARATION = frames.Preparation(
    scenes=_scenes,
    frames=frames.line_by_line(_frame),
    stored=NormalMap(),
    needs="GeoNet's archive, train/img/<class>/<id>.png with train/norm/... (and test/),",
)
