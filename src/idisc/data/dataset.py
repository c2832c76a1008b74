"""One dataset class for all of them: a manifest's line -> a `Sample` in numpy.

Images and targets are read and framed as the catalog says. `valid` is the mask of training; where
an evaluation looks is its protocol's decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idisc import geometry
from idisc.camera import Camera
from idisc.data import catalog, folder, framing, manifest, masks
from idisc.data.catalog import DatasetSpec
from idisc.data.decode import DepthMap, FloatArray
from idisc.data.manifest import Manifest, Record
from idisc.errors import DataError, InputError
from idisc.images import read_image
from idisc.sizes import Size
from idisc.tasks import DEPTH, Task


@dataclass(frozen=True)
class Sample:
    """A picture as the network sees it and its ground truth as it is scored."""

    image: NDArray[np.uint8]  # (H, W, 3) RGB
    target: FloatArray  # depth (Hg, Wg) in metres, or normals (Hg, Wg, 3); 0 where there is none
    valid: NDArray[np.bool_]  # (Hg, Wg), where training looks
    camera: Camera | None  # of the picture
    place: framing.Place  # of the target in its full frame
    record: Record
    task: Task = DEPTH  # of the target


def spread_evenly(length: int, count: int) -> list[int]:
    """`count` of the indices below `length`, evenly spread; all of them for 0."""
    if not count or count >= length:
        return list(range(length))
    return [int(index) for index in np.linspace(0, length - 1, count).round()]


class Dataset:
    """The samples of one split, in the order of the manifest."""

    def __init__(self, source: Manifest, split: str, spec: DatasetSpec) -> None:
        self.spec, self.source, self.split = spec, source, split
        self.records: Sequence[Record] = source.of(split)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Sample:
        record = self.records[index]
        image = read_image(self.source.root / record.image)
        try:
            framed = self.spec.framing(image, self.read_target(record), self._camera(record, image))
        except InputError as error:
            message = str(error)
            named = message.startswith(str(self.source.root))
            raise InputError(
                message if named else f"{self.source.root / record.image}: {message}"
            ) from None
        target = self._fitted_normals(framed, record) if self.spec.normals else framed.target
        return Sample(
            image=framed.image,
            target=target,
            valid=valid_in_training(target, self.spec, record.sensor),
            camera=framed.camera,
            place=framed.place,
            record=record,
            task=self.spec.task,
        )

    def read_target(self, record: Record) -> FloatArray:
        """The stored ground truth of a record, decoded and not yet framed."""
        target = self.source.target
        if record.scale is not None and isinstance(target, DepthMap):
            target = replace(target, metres_per_unit=record.scale)
        return target.read(self.source.root / record.target)

    def without_scenes(self, share: float, seed: int) -> tuple[Dataset, Dataset]:
        """The rest, and `share` or more of the pictures as whole scenes, drawn by the seed.

        A picture that is of no scene is one by itself.
        """
        of = [record.scene or record.image for record in self.records]
        scenes = sorted(set(of))
        drawn = np.random.default_rng(seed).permutation(len(scenes))
        held: set[str] = set()
        while sum(scene in held for scene in of) < share * len(self):
            held.add(scenes[drawn[len(held)]])
        rest, part = copy(self), copy(self)
        pairs = list(zip(self.records, of, strict=True))
        rest.records = [record for record, scene in pairs if scene not in held]
        part.records = [record for record, scene in pairs if scene in held]
        if not rest.records:
            raise InputError(
                self.source.root,
                f"a share of {share:g} holds out every scene, of {len(scenes)}",
                "lower it, or make a test split",
            )
        return rest, part

    def check_camera(self) -> None:
        """Raise DataError if the camera of the first picture is not known."""
        record = self.records[0]
        if self._camera(record, read_image(self.source.root / record.image)) is None:
            raise DataError(
                self.source.root / record.image,
                "no camera is known, which normals from depth need",
                "add fx, fy, cx, cy to the table of pairs",
            )

    def _fitted_normals(self, framed: framing.Framed, record: Record) -> FloatArray:
        """Normals (Hg, Wg, 3) of the depth, 0 where no plane fits."""
        if framed.camera is None:
            raise DataError(self.source.root / record.image, "no camera is known")
        size = framed.target.shape[0], framed.target.shape[1]
        normals = geometry.plane_normals(framed.target, framed.camera.resized(size))
        return np.nan_to_num(normals, nan=0.0)

    def _camera(self, record: Record, image: NDArray[np.uint8]) -> Camera | None:
        size = (image.shape[0], image.shape[1])
        record = record if record.size else replace(record, size=size)
        found = manifest.intrinsics_of(record, self.spec)
        if found is None:
            return None
        (fx, fy, cx, cy), stated = found
        origin = "calibration" if record.intrinsics else self.spec.title
        camera = Camera(fx=fx, fy=fy, cx=cx, cy=cy, size=stated, origin=origin)
        return camera if stated == size else camera.resized(size)


def open_dataset(
    data: Path,
    name: str,
    split: str,
    listing: Path | None = None,
    size: Size | framing.SizeRule | None = None,
) -> Dataset:
    """The split of the dataset `name` below `data`: prepared, by a published list, or one's own.

    A folder with lists called train.txt and test.txt needs no `listing`; list.txt lists pairs of
    one's own. `size` is the picture's in the network, where it is not the catalog's, or a rule
    that says it for a picture of some size.
    """
    spec = catalog.find(name)
    if not data.is_dir():
        raise InputError(data, "no such folder")
    if listing is not None:
        source = manifest.from_list(listing, data, spec)
        split = source.records[0].split
    elif (data / f"{split}.txt").is_file() and not (data / manifest.NAME).is_file():
        source = manifest.from_list(data / f"{split}.txt", data, spec)
    elif (data / manifest.NAME).is_file():
        source = manifest.read(data)
        if source.dataset != spec.name.partition(":")[0]:
            raise InputError(data, f"holds {source.dataset}, not {spec.name}")
    elif spec.name.partition(":")[0] == "folder":
        source = folder.read(data)
    else:
        source = manifest.read(data)  # says what is missing
    if size is not None and size != spec.size:
        rule = partial(framing.at_size, first=spec.framing, size=size)
        spec = replace(spec, framing=rule, size=None if callable(size) else size)
    dataset = Dataset(source, split, catalog.as_prepared(spec, source.prepared))
    if spec.normals:
        dataset.check_camera()
    return dataset


def has_value(target: FloatArray, min_depth: float) -> NDArray[np.bool_]:
    """(H, W): depth above the smallest, or a normal that is there."""
    if target.ndim == 3:
        return np.asarray((target != 0).any(axis=-1))
    return np.asarray((target > min_depth) & np.isfinite(target))


def seen(size: Size, spec: DatasetSpec, sensor: str) -> NDArray[np.bool_]:
    """(H, W): not the own car at the foot of the picture."""
    mask = np.ones(size, dtype=bool)
    if rows := spec.hidden_rows.get(sensor, 0):
        mask[-rows:] = False
    return mask


def valid_in_training(target: FloatArray, spec: DatasetSpec, sensor: str) -> NDArray[np.bool_]:
    """The training mask (H, W)."""
    size = target.shape[0], target.shape[1]
    valid = has_value(target, spec.min_depth) & seen(size, spec, sensor)
    if spec.capped_training and spec.max_depth is not None:
        valid &= target < spec.max_depth
    if spec.windowed_training and spec.window is not None:
        valid &= masks.inside(size, spec.window(size))
    return valid
