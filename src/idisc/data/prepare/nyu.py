"""NYU-Depth v2: the synchronised frames, and the surface normals that GeoNet published.

    <scene>/rgb_NNNNN.jpg        <scene>/sync_depth_NNNNN.png        (frames)
    train/img/<class>/<id>.png   train/norm/<class>/<id>.png         (normals)
    test/img/NNNNNN.png          test/norm/NNNNNN.png

Archives have the scene folders at different levels (`sync/`, `train/`, `official_splits/test/`),
and lists start at different ones; all are searched. Lists of normals have three fields, `img depth
norm`; the depth is not read. Depth (16-bit millimetres) and normals are copied byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path, PurePosixPath

from idisc.data.catalog import MILLIMETRES
from idisc.data.decode import NormalMap
from idisc.data.manifest import ListLine
from idisc.data.prepare import frames

_CHUNK = 100  # images of a folder of normals that are prepared at once
# The folders in which archives have the scene folders that a list names.
_PARENTS = ("", "sync", "train", "test", "official_splits/train", "official_splits/test")


def _scenes(
    raw: Path, _: frames.PictureOptions, lines: Sequence[ListLine] | None
) -> list[frames.Scene]:
    """Return a scene for each folder of images."""
    name = raw.resolve().name  # of the images in the folder itself
    found = _find(raw) if lines is None else lines
    return frames.by_scene(found, raw, lambda line: PurePosixPath(line.image).parent.name or name)


def _find(raw: Path) -> Iterator[ListLine]:
    """Yield frames of which at least one file exists, so that a missing one is reported."""
    frames = {
        (path.relative_to(raw).parent, path.stem.removeprefix(prefix))
        for prefix, suffix in (("rgb_", "jpg"), ("sync_depth_", "png"))
        for path in raw.rglob(f"{prefix}*.{suffix}")
    }
    for folder, number in sorted(frames):
        split = "test" if "test" in (raw.resolve().name, *folder.parts) else "train"
        image, depth = folder / f"rgb_{number}.jpg", folder / f"sync_depth_{number}.png"
        yield ListLine(image.as_posix(), depth.as_posix(), split)


def _frame(raw: Path, line: ListLine) -> frames.Frame:
    image, target = _locate(raw, line.image), _locate(raw, line.target)
    return frames.Frame(name=line.stem, image=image, target=target)


def _locate(raw: Path, name: str) -> Path:
    """Return the file of this name, or where it should be."""
    paths = [raw / parent / name for parent in _PARENTS]
    return next((path for path in paths if path.is_file()), paths[0])


DEPTH = frames.Preparation(
    scenes=_scenes,
    frames=frames.line_by_line(_frame),
    stored=MILLIMETRES,
    needs="the extracted archive, <scene>/rgb_NNNNN.jpg with sync_depth_NNNNN.png",
)


def _normal_scenes(
    raw: Path, _: frames.PictureOptions, lines: Sequence[ListLine] | None
) -> list[frames.Scene]:
    """Return scenes of a hundred images of one folder."""
    counters: dict[str, count[int]] = {}

    def scene_of(line: ListLine) -> str:
        folder = PurePosixPath(line.image).parent.as_posix()
        number = next(counters.setdefault(folder, count()))
        return f"{folder}/{number // _CHUNK:04d}"

    return frames.by_scene(_find_normals(raw) if lines is None else lines, raw, scene_of)


def _find_normals(raw: Path) -> Iterator[ListLine]:
    for split in ("train", "test"):
        folders = raw / split / "img", raw / split / "norm"
        # Names in either folder: a missing file in the other one is a fault.
        names = {p.relative_to(f).as_posix() for f in folders for p in f.rglob("*.png")}
        for name in sorted(names):
            yield ListLine(f"{split}/img/{name}", f"{split}/norm/{name}", split)


NORMALS = frames.Preparation(
    scenes=_normal_scenes,
    frames=frames.line_by_line(_frame),
    stored=NormalMap(),
    needs="GeoNet's archive, train/img/<class>/<id>.png with train/norm/... (and test/)",
)
