"""NYU-Depth v2, the synchronised frames: `<scene>/rgb_NNNNN.jpg` and `sync_depth_NNNNN.png`.

Archives have the scene folders at different levels (`sync/`, `train/`, `official_splits/test/`),
and lists start at different ones; all are searched. Depth is 16-bit millimetres already and is
copied byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from idisc.data.catalog import MILLIMETRES, NYU
from idisc.data.manifest import ListLine
from idisc.data.prepare import frames

# Where archives have the scene folders that a list names.
_ABOVE = ("", "sync", "train", "test", "official_splits/train", "official_splits/test")


def _scenes(
    raw: Path, _: frames.PictureOptions, lines: Sequence[ListLine] | None
) -> list[frames.Scene]:
    """One scene for each folder of images."""
    whole = raw.resolve().name
    found = _find(raw) if lines is None else lines
    return frames.by_scene(found, raw, lambda line: PurePosixPath(line.image).parent.name or whole)


def _find(raw: Path) -> Iterator[ListLine]:
    """Both files of each frame of which one exists: a missing one is a fault."""
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
    return frames.Frame(
        name=frames.stem_of(line),
        image=_locate(raw, line.image),
        camera=partial(frames.stated_camera, NYU, line.image),
        target=_locate(raw, line.target),
    )


def _locate(raw: Path, name: str) -> Path:
    """Return the file of this name, or where it should be."""
    places = [raw / above / name for above in _ABOVE]
    return next((path for path in places if path.is_file()), places[0])


PREPARATION = frames.Preparation(
    scenes=_scenes,
    frames=frames.line_by_line(_frame),
    stored=MILLIMETRES,
    needs="the extracted archive, <scene>/rgb_NNNNN.jpg with sync_depth_NNNNN.png,",
)
