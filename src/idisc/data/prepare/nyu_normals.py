"""Surface normals of NYU-Depth v2 as GeoNet published them: PNG pictures beside PNG normals.

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
from idisc.data.manifest import ListLine
from idisc.data.prepare.frames import (
    Fault,
    Frame,
    PrepareConfig,
    Scene,
    by_scene,
    frame_by_frame,
    stated_camera,
    stem_of,
)
from idisc.images import picture_size

NEEDS = "GeoNet's archive, train/img/<class>/<id>.png with train/norm/... (and test/),"
_CHUNK = 100  # pictures of a folder that are prepared in one go


def scenes(raw: Path, choices: PrepareConfig, lines: Sequence[ListLine] | None) -> list[Scene]:
    """Parts of a hundred pictures of each folder."""
    del choices  # nothing to choose: the files are taken as they are
    found = _found(raw) if lines is None else lines
    counters: dict[str, count[int]] = {}

    def scene_of(line: ListLine) -> str:
        folder = PurePosixPath(line.image).parent.as_posix()
        number = next(counters.setdefault(folder, count()))
        return f"{folder}/{number // _CHUNK:04d}"

    return by_scene(found, raw, scene_of)


def frames(scene: Scene, choices: PrepareConfig) -> Iterator[Frame | Fault]:
    """The pictures of a scene whose normals are there."""
    del choices
    return frame_by_frame(partial(_frame, scene.source), scene.wanted or ())


def _found(raw: Path) -> Iterator[ListLine]:
    for split in ("train", "test"):
        images, normals = raw / split / "img", raw / split / "norm"
        names = {
            path.relative_to(folder).as_posix()
            for folder in (images, normals)
            for path in folder.rglob("*.png")
        }  # of either: the absence of the other is a fault
        for name in sorted(names):
            yield ListLine(f"{split}/img/{name}", f"{split}/norm/{name}", split)


def _frame(raw: Path, line: ListLine) -> Frame:
    image = raw / line.image
    return Frame(
        name=stem_of(line),
        image=image,
        target=raw / line.target,
        camera=stated_camera(NYU_NORMALS, line.image, picture_size(image)),
    )
