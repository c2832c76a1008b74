"""NYU-Depth v2, the labelled set: 1449 pairs, with the official split of 795 and 654.

Two forms are read. The official one is `nyu_depth_v2_labeled.mat` (MATLAB 7.3, which is HDF5 with
reversed axes) next to `splits.mat` (MATLAB 5). The plain one is a folder of extracted pairs:
`rgb/NNNN.jpg`, `depth/NNNN.png` (16-bit millimetres), and the lists `train.txt` and `test.txt`
with `rgb depth focal` in each line. Optional files group its frames into scenes: `scenes.json`
({"run": [scene number of each frame]}) or `index.json` ({NNNN: {scene, fx, fy, cx, cy}}, possibly
below the key `pairs`), which also gives the camera.

Frames are named by their position in the official file, from 0. Depth is stored to the nearest
millimetre.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from idisc import files
from idisc.camera import Camera
from idisc.data.catalog import MILLIMETRES, NYU_LABELLED
from idisc.data.manifest import ListLine, drop_repeated, read_list
from idisc.data.prepare import frames
from idisc.errors import InputError, first_line, require
from idisc.sizes import Size

MATRICES, SPLITS = "nyu_depth_v2_labeled.mat", "splits.mat"
SPLITS_HOME = "http://horatio.cs.nyu.edu/mit/silberman/indoor_seg_sup/splits.mat"
_DEPTHS = {"filled": "depths", "raw": "rawDepths"}
_CHUNK = 100  # frames of one scene where no file states the scenes


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of NYU's labelled set."""

    # Holes filled by colorization (as is usually scored), or left as holes.
    nyu_depth: Literal["filled", "raw"] = "filled"
    pictures: frames.Pictures = "copy"


def _scenes(raw: Path, options: Options, lines: Sequence[ListLine] | None) -> list[frames.Scene]:
    """Return a scene for each room of the official file, or each scene of a plain folder."""
    if (path := raw / MATRICES).is_file():
        if lines is not None:
            raise InputError(path, f"its split is in {SPLITS}", "leave the lists out")
        return _scenes_of_matrices(path, _DEPTHS[options.nyu_depth])
    if options.nyu_depth != "filled":
        raise InputError(raw, f"contains no {MATRICES}", "only that file has raw depth")
    if lines is None:
        listings = [path for name in ("train", "test") if (path := raw / f"{name}.txt").is_file()]
        lines, _ = drop_repeated(line for path in listings for line in read_list(path))
    names = _scene_names(raw)
    return frames.by_scene(
        lines, raw, lambda line: names.get(Path(line.image).stem) or _chunk(line)
    )


def _frames(scene: frames.Scene, _: Options) -> frames.Frames:
    """Yield the frames of a scene of either form; the option is in its lines already."""
    source, lines = scene.source, scene.lines or ()
    if source.name == MATRICES:
        with _matrices(source) as file:
            yield from frames.frame_by_frame(partial(_matrix_frame, source, file), lines)
    else:
        index = _read_index(source)
        yield from frames.frame_by_frame(partial(_plain_frame, source, index), lines)


def _scenes_of_matrices(path: Path, depths: str) -> list[frames.Scene]:
    """Return the scenes; a line holds the index of a frame and the name of its depth array."""
    lines = [
        ListLine(f"{index:04d}", depths, split)
        for split, indices in _official_split(path.with_name(SPLITS)).items()
        for index in indices
    ]
    with _matrices(path) as file:
        rooms = _rooms(path, file)
    return frames.by_scene(lines, path, lambda line: rooms.get(int(line.image)) or _chunk(line))


def _official_split(path: Path) -> dict[str, list[int]]:
    """Return the indices of the frames, from 0, by split."""
    if not path.is_file():
        raise InputError(path, "no such file", f"the official split is needed: {SPLITS_HOME}")
    require("scipy", extra="data")
    from scipy.io import loadmat

    try:
        content = loadmat(path)
        return {
            split: [int(number) - 1 for number in np.ravel(content[f"{split}Ndxs"])]
            for split in ("train", "test")
        }  # MATLAB counts from 1
    except Exception as error:  # scipy raises a dozen types for a damaged file
        reason = f"not readable as a MATLAB file with the split ({first_line(error)})"
        raise InputError(path, reason, f"download it from {SPLITS_HOME}") from None


@contextmanager
def _matrices(path: Path) -> Iterator[Any]:
    """Yield the open official file. MATLAB's (480, 640, 3, 1449) is (1449, 3, 640, 480) in HDF5."""
    require("h5py", extra="data")
    import h5py

    try:
        file = h5py.File(path, mode="r")
    except OSError as error:
        raise InputError(path, f"damaged or truncated ({error})", "download it again") from None
    with file:
        yield file


def _rooms(path: Path, file: Any) -> dict[int, str]:
    """Return the scene of each frame, `kitchen_0004`; empty for a file without scenes."""
    if "scenes" not in file:
        return {}
    with frames.parsing(path):  # a cell array: references to arrays of UTF-16 units
        references = np.ravel(file["scenes"][()])
        texts = (np.ravel(file[reference][()]) for reference in references)
        return {index: "".join(map(chr, text)) for index, text in enumerate(texts)}


def _matrix_frame(path: Path, file: Any, line: ListLine) -> frames.Frame:
    """Return the frame of a line; rows and columns are swapped, channels come last."""
    index = int(line.image)
    image = _read(path, file, "images", index).transpose(2, 1, 0)  # (3, W, H) -> (H, W, 3)
    depth = _read(path, file, line.target, index).T  # (W, H) -> (H, W)
    if image.shape[2:] != (3,) or image.shape[:2] != depth.shape or image.dtype != np.uint8:
        reason = f"{image.shape} pixels with {depth.shape} depths at {index}"
        raise InputError(path, reason, "download it again")
    return frames.Frame(
        name=line.image,
        image=np.ascontiguousarray(image),
        target=lambda: depth.astype(np.float32),
        convert=frames.in_millimetres,
    )


def _read(path: Path, file: Any, name: str, index: int) -> NDArray[Any]:
    try:
        array: NDArray[Any] = file[name][index]
    except (KeyError, IndexError, ValueError, OSError) as error:
        reason = f"`{name}` {index} not readable ({first_line(error)})"
        raise InputError(path, reason, "download it again") from None
    return array


def _read_index(raw: Path) -> dict[str, Any]:
    path = raw / "index.json"
    if not path.is_file():
        return {}
    content = files.read_json(path)
    with frames.parsing(path):
        return dict(content.get("pairs", content))


def _scene_names(raw: Path) -> dict[str, str]:
    """Return the scenes by the number of the frame, where a file states them."""
    path = raw / "scenes.json"
    if not path.is_file():
        index = _read_index(raw)
        with frames.parsing(raw / "index.json"):
            return {number: entry.get("scene", "") for number, entry in index.items()}
    content = files.read_json(path)
    with frames.parsing(path):
        return {f"{index:04d}": f"run_{run:04d}" for index, run in enumerate(content["run"])}


def _chunk(line: ListLine) -> str:
    number = Path(line.image).stem
    return f"{line.split}_{int(number) // _CHUNK:03d}" if number.isdecimal() else line.split


def _plain_frame(raw: Path, index: dict[str, Any], line: ListLine) -> frames.Frame:
    image = raw / line.image

    def camera(size: Size) -> Camera | None:
        if image.stem not in index:
            return None
        with frames.parsing(raw / "index.json"):
            fx, fy, cx, cy = (float(index[image.stem][key]) for key in ("fx", "fy", "cx", "cy"))
            return Camera(fx=fx, fy=fy, cx=cx, cy=cy, size=size, origin="calibration")

    return frames.Frame(
        name=line.stem.removeprefix("rgb/"),
        image=image,
        camera=camera,
        target=partial(NYU_LABELLED.target.read, raw / line.target),
        convert=frames.in_millimetres,
    )


PREPARATION = frames.Preparation(
    options=Options,
    scenes=_scenes,
    frames=_frames,
    stored=MILLIMETRES,
    needs=f"{MATRICES} with {SPLITS}, or train.txt and test.txt with extracted pairs",
)
