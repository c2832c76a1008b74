"""NYU-Depth v2, the synchronised frames: `<scene>/rgb_NNNNN.jpg` and `sync_depth_NNNNN.png`.

The archives of the field hold the scene folders at different depths (`sync/`, `train/`,
`official_splits/test/`), and their lists begin at different ones; both are looked through. Depth
is 16-bit millimetres already and is copied byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from idisc.data.catalog import NYU
from idisc.data.manifest import ListLine
from idisc.data.prepare.frames import (
    Fault,
    Frame,
    PrepareConfig,
    Readings,
    Scene,
    by_scene,
    decode_picture,
    frame_by_frame,
    stated_camera,
    stem_of,
)
from idisc.errors import InputError
from idisc.images import picture_size

NEEDS = "the extracted archive, <scene>/rgb_NNNNN.jpg with sync_depth_NNNNN.png,"
# Where archives put the scene folders that a list names without more.
_ABOVE = ("", "sync", "train", "test", "official_splits/train", "official_splits/test")


def scenes(raw: Path, choices: PrepareConfig, lines: Sequence[ListLine] | None) -> list[Scene]:
    """One scene for each folder of pictures."""
    del choices  # nothing to choose: the files are taken as they are
    return by_scene(_found(raw) if lines is None else lines, raw, partial(_scene_of, raw))


def frames(scene: Scene, choices: PrepareConfig) -> Iterator[Frame | Fault]:
    """The pictures of a scene whose depth is there."""
    del choices
    readings = partial(_readings, scene.source)
    return frame_by_frame(partial(_frame, scene.source), scene.wanted or (), readings)


def _found(raw: Path) -> Iterator[ListLine]:
    """Both files of each frame of which one is there: the other one's absence is a fault."""
    frames = {
        (path.relative_to(raw).parent, path.stem.removeprefix(prefix))
        for prefix, suffix in (("rgb_", "jpg"), ("sync_depth_", "png"))
        for path in raw.rglob(f"{prefix}*.{suffix}")
    }
    for folder, number in sorted(frames):
        split = "test" if "test" in (raw.resolve().name, *folder.parts) else "train"
        image, depth = folder / f"rgb_{number}.jpg", folder / f"sync_depth_{number}.png"
        yield ListLine(image.as_posix(), depth.as_posix(), split)


def _scene_of(raw: Path, line: ListLine) -> str:
    return PurePosixPath(line.image).parent.name or raw.resolve().name


def _frame(raw: Path, line: ListLine) -> Frame:
    image, depth = _placed(raw, line.image), _placed(raw, line.target)
    return Frame(
        name=stem_of(line),
        image=image,
        target=depth,
        camera=stated_camera(NYU, line.image, picture_size(image)),
    )


def _readings(raw: Path, line: ListLine) -> Readings:
    return (
        lambda: decode_picture(_placed(raw, line.image)),
        lambda: NYU.target.read(_placed(raw, line.target)),
    )


def _placed(raw: Path, name: str) -> Path:
    for above in _ABOVE:
        if (path := raw / above / name).is_file():
            return path
    raise InputError(f"{raw / name}: no such file")
