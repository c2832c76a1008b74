"""NYU-Depth v2, the labelled set: 1449 pairs, with the official split of 795 and 654.

Two forms are read. The official one is `nyu_depth_v2_labeled.mat` (MATLAB 7.3, which is HDF5 with
the axes in reverse) with `splits.mat` (MATLAB 5) beside it. The packed one is a folder of reduced
copies: lists `rgb depth focal`, JPEG pictures, and depth as a logarithmic code in lossless WebP;
`scenes.json` or `index.json` in it say what belongs together, the latter also with which camera.

Frames are named by their position in the official file, from 0. Depth is stored to the nearest
millimetre.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc import files
from idisc.camera import Camera
from idisc.data.catalog import NYU_LABELLED, Intrinsics
from idisc.data.manifest import ListLine, once, read_list
from idisc.data.prepare.frames import (
    Fault,
    Frame,
    PrepareConfig,
    Scene,
    by_scene,
    frame_by_frame,
    in_millimetres,
    stated_camera,
    stem_of,
    understood,
)
from idisc.errors import InputError, first_line, require
from idisc.images import picture_size

NEEDS = "nyu_depth_v2_labeled.mat with splits.mat, or train.txt and test.txt of a packed copy"
MATRICES, SPLITS = "nyu_depth_v2_labeled.mat", "splits.mat"
SPLITS_HOME = "http://horatio.cs.nyu.edu/mit/silberman/indoor_seg_sup/splits.mat"
_DEPTHS = {"filled": "depths", "raw": "rawDepths"}
_LISTS = {"train.txt": "train", "test.txt": "test", "list.txt": "train"}  # of packed folders
_STORED = NYU_LABELLED.target  # knows the packed form, too
_CHUNK = 100  # frames that are prepared in one go where nothing says what belongs together


def scenes(raw: Path, choices: PrepareConfig, lines: Sequence[ListLine] | None) -> list[Scene]:
    """One scene for each room of the official file, or for each run of a packed folder."""
    if (path := raw / MATRICES).is_file():
        if lines is not None:
            raise InputError(f"{path}: its split is in {SPLITS}; leave the lists out")
        return _scenes_of_matrices(path, _DEPTHS[choices.nyu_depth])
    if choices.nyu_depth != "filled":
        raise InputError(f"{raw}: no {MATRICES} in it; only that one has raw depth")
    found = _listed(raw) if lines is None else lines
    return by_scene(found, raw, partial(_packed_scene, _packed_scenes(raw)))


def frames(scene: Scene, choices: PrepareConfig) -> Iterator[Frame | Fault]:
    """The frames of a scene of either form."""
    del choices  # they are in the scene's lines already
    if scene.source.name == MATRICES:
        return _frames_of_matrices(scene)
    index = _packed_index(scene.source)
    return frame_by_frame(partial(_packed_frame, scene.source, index), scene.wanted or ())


def _scenes_of_matrices(path: Path, depths: str) -> list[Scene]:
    """A line for each index of the split: its number, and the array its depth is in."""
    lines = [
        ListLine(f"{index:04d}", depths, split)
        for split, indices in _official_split(path.with_name(SPLITS)).items()
        for index in indices
    ]
    with _Matrices(path) as matrices:
        rooms = matrices.rooms()
    return by_scene(lines, path, lambda line: rooms.get(int(line.image)) or _chunk(line))


def _official_split(path: Path) -> dict[str, list[int]]:
    """Indices from 0, by split."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; the official split is needed: {SPLITS_HOME}")
    require("scipy", extra="data")
    from scipy.io import loadmat

    try:
        content = loadmat(path)
        return {
            split: [int(number) - 1 for number in np.ravel(content[f"{split}Ndxs"])]
            for split in ("train", "test")
        }  # MATLAB counts from 1
    except KeyError as error:
        raise InputError(f"{path}: no {error.args[0]} in it; get it from {SPLITS_HOME}") from None
    except Exception as error:  # scipy raises a dozen kinds for a damaged file
        raise InputError(
            f"{path}: not readable as a MATLAB file ({first_line(error)}); get it from"
            f" {SPLITS_HOME}"
        ) from None


def _frames_of_matrices(scene: Scene) -> Iterator[Frame | Fault]:
    with _Matrices(scene.source) as matrices:
        yield from frame_by_frame(matrices.frame, scene.wanted or ())


class _Matrices:
    """The official file, open. MATLAB's (480, 640, 3, 1449) is (1449, 3, 640, 480) in HDF5."""

    def __init__(self, path: Path) -> None:
        require("h5py", extra="data")
        import h5py

        self.path = path
        try:
            self.file = h5py.File(path, mode="r")
        except OSError as error:
            raise InputError(f"{path}: damaged or cut short ({error}); get it again") from None

    def __enter__(self) -> _Matrices:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def rooms(self) -> dict[int, str]:
        """Names of the scenes by index, `kitchen_0004`; empty for a file without them."""
        if "scenes" not in self.file:
            return {}
        with understood(self.path):  # a cell array: references to arrays of UTF-16 units
            references = np.ravel(self.file["scenes"][()])
            texts = (np.ravel(self.file[reference][()]) for reference in references)
            return {index: "".join(map(chr, text)) for index, text in enumerate(texts)}

    def frame(self, line: ListLine) -> Frame:
        """The frame of a line; rows and columns change places, channels come last."""
        index = int(line.image)
        image = self._read("images", index).transpose(2, 1, 0)  # (3, W, H) -> (H, W, 3)
        depth = self._read(line.target, index).T  # (W, H) -> (H, W)
        if image.shape[2:] != (3,) or image.shape[:2] != depth.shape or image.dtype != np.uint8:
            raise InputError(
                f"{self.path}: {image.shape} pixels with {depth.shape} depths at {index}; get it"
                " again"
            )
        return Frame(
            name=line.image,
            image=np.ascontiguousarray(image),
            target=in_millimetres(depth.astype(np.float32)),
            camera=stated_camera(NYU_LABELLED, line.image, depth.shape),
        )

    def _read(self, name: str, index: int) -> NDArray[Any]:
        try:
            array: NDArray[Any] = self.file[name][index]
        except KeyError:
            raise InputError(f"{self.path}: no `{name}` in it; get it again") from None
        except (IndexError, ValueError, OSError) as error:
            raise InputError(
                f"{self.path}: `{name}` {index} not readable ({first_line(error)}); get it again"
            ) from None
        return array


def _listed(raw: Path) -> list[ListLine]:
    """The lines of the lists in a packed folder, each once."""
    lines, _ = once(
        ListLine(line.image, line.target, split)
        for name, split in _LISTS.items()
        if (raw / name).is_file()
        for line in read_list(raw / name)
    )
    return lines


def _packed_index(raw: Path) -> dict[str, tuple[str, Intrinsics]]:
    """Scene and intrinsics by number, from `index.json` of a packed folder; empty without it."""
    path = raw / "index.json"
    if not path.is_file():
        return {}
    table = files.read_json(path)
    with understood(path):
        return {
            number: (
                str(entry["scene"]),
                (float(entry["fx"]), float(entry["fy"]), float(entry["cx"]), float(entry["cy"])),
            )
            for number, entry in table.items()
        }


def _packed_scenes(raw: Path) -> dict[str, str]:
    """Scenes by the number of the picture, from whichever file says it."""
    path = raw / "scenes.json"
    if not path.is_file():
        return {number: scene for number, (scene, _) in _packed_index(raw).items()}
    content = files.read_json(path)
    with understood(path):
        return {f"{index:04d}": f"run_{run:04d}" for index, run in enumerate(content["run"])}


def _packed_scene(known: dict[str, str], line: ListLine) -> str:
    return known.get(Path(line.image).stem) or _chunk(line)


def _chunk(line: ListLine) -> str:
    number = Path(line.image).stem
    return f"{line.split}_{int(number) // _CHUNK:03d}" if number.isdecimal() else line.split


def _packed_frame(raw: Path, index: dict[str, tuple[str, Intrinsics]], line: ListLine) -> Frame:
    image = raw / line.image
    size = picture_size(image)
    camera = stated_camera(NYU_LABELLED, line.image, size)
    if image.stem in index:
        _, (fx, fy, cx, cy) = index[image.stem]
        camera = Camera(fx=fx, fy=fy, cx=cx, cy=cy, size=size, origin="calibration")
    return Frame(
        name=stem_of(line).removeprefix("rgb/"),
        image=image,
        target=in_millimetres(_STORED.read(raw / line.target)),
        camera=camera,
    )
