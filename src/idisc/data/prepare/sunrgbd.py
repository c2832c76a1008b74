"""SUN RGB-D: `SUNRGBD/<sensor>/<source>/.../{image/*.jpg, depth/*.png, intrinsics.txt}`.

Each 16-bit value of its depth is rotated by three bits; prepared maps are plain millimetres.
`depth` is the sensor's map, as in the paper's list; the filled `depth_bfx` is not used. Without a
list everything is for testing: the paper does not train on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from idisc.camera import Camera
from idisc.data.catalog import MILLIMETRES, SUNRGBD
from idisc.data.manifest import ListLine
from idisc.data.prepare import frames
from idisc.sizes import Size

_ROOT = "SUNRGBD"
_SUFFIXES = (".jpg", ".jpeg", ".png")


def _scenes(
    raw: Path, _: frames.PictureOptions, lines: Sequence[ListLine] | None
) -> list[frames.Scene]:
    """Return a scene for each source of each sensor: `kv1/b3dodata`."""
    root = raw / _ROOT if (raw / _ROOT).is_dir() else raw
    found = _find(root) if lines is None else map(_below_root, lines)
    return frames.by_scene(found, root, lambda line: "/".join(line.image.split("/")[:2]))


def _find(root: Path) -> Iterator[ListLine]:
    kinds = ("image", "depth")
    for folder in sorted({p.parent.parent for k in kinds for p in root.glob(f"*/*/**/{k}/*")}):
        images = [p for p in sorted(folder.glob("image/*")) if p.suffix.lower() in _SUFFIXES]
        pairs = [(image, _depth_of(image)) for image in images]
        # A map without an image is a pair whose image is missing: a fault.
        for unpaired in sorted({*folder.glob("depth/*.png")} - {depth for _, depth in pairs}):
            name = f"{unpaired.stem.removesuffix('_abs')}.jpg"
            pairs.append((folder / "image" / name, unpaired))
        for pair in pairs:
            image, depth = (path.relative_to(root).as_posix() for path in pair)
            yield ListLine(image, depth, "test")


def _depth_of(image: Path) -> Path:
    """Return the map of the same name, or the only one: some have `x.jpg` and `x_abs.png`."""
    folder = image.parent.with_name("depth")
    maps = sorted(folder.glob("*.png"))
    return maps[0] if len(maps) == 1 else folder / f"{image.stem}.png"


def _below_root(line: ListLine) -> ListLine:
    image, target = (name.removeprefix(f"{_ROOT}/") for name in (line.image, line.target))
    return ListLine(image, target, line.split)


def _frame(root: Path, line: ListLine) -> frames.Frame:
    image = root / line.image
    return frames.Frame(
        name=line.stem,
        image=image,
        camera=partial(_camera, image.parent.with_name("intrinsics.txt")),
        target=partial(SUNRGBD.target.read, root / line.target),
        convert=frames.in_millimetres,
    )


def _camera(path: Path, size: Size) -> Camera | None:
    """Read the nine numbers of K, row by row; None without the file."""
    if not path.is_file():
        return None
    with frames.parsing(path):
        matrix = np.array(path.read_text().split(), dtype=np.float64).reshape(3, 3)
        return Camera.from_matrix(matrix, size, "calibration")


PREPARATION = frames.Preparation(
    scenes=_scenes,
    frames=frames.line_by_line(_frame),
    stored=MILLIMETRES,
    needs="SUNRGBD/<sensor>/<source>/.../image/*.jpg with depth/*.png",
)
