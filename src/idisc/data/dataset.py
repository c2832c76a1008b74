"""One class for all datasets: a line of a manifest -> a `Sample` in numpy.

Images and targets are read and framed as the catalog states. `valid` is the mask of training; the
protocol of an evaluation decides what is scored.
"""

from __future__ import annotations

from collections import Counter
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
    valid: NDArray[np.bool_]  # (Hg, Wg), pixels that training uses
    camera: Camera | None  # of the picture
    place: framing.Place  # of the target in its full frame
    record: Record
    task: Task = DEPTH  # of the target


def evenly_spaced(length: int, count: int) -> list[int]:
    """Return `count` evenly spaced indices below `length`; all of them for 0."""
    if not count or count >= length:
        return list(range(length))
    return [int(index) for index in np.linspace(0, length - 1, count).round()]


class Dataset:
    """The samples of one split, in the order of the manifest."""

    def __init__(self, source: Manifest, split: str, spec: DatasetSpec) -> None:
        self.spec, self.source, self.split = spec, source, split
        self.records: Sequence[Record] = source.records_of(split)
        self.has_chosen_size = False  # for the network, by `at_network_size`

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Sample:
        record = self.records[index]
        path = self.source.root / record.image
        image, target = read_image(path), read_target(self.source, record)
        try:
            camera = manifest.camera_of(record, self.spec, (image.shape[0], image.shape[1]))
            framed = self.spec.framing(framing.as_stored(image, target, camera))
        except InputError as error:  # about the size or the camera, without the file
            raise error.within(path) from None
        target = self._fitted_normals(framed, path) if self.spec.normals else framed.target
        return Sample(
            image=framed.image,
            target=target,
            valid=valid_in_training(target, self.spec, record.sensor),
            camera=framed.camera,
            place=framed.place,
            record=record,
            task=self.spec.task,
        )

    def at_network_size(self, size: Size | framing.SizeRule) -> Dataset:
        """Return the same pictures in another network size than the catalog's.

        `size` is a size, or a rule that gives it for a picture of some size.
        """
        dataset = copy(self)
        dataset.has_chosen_size = True
        if size != self.spec.size:
            rule = partial(framing.at_size, first=self.spec.framing, size=size)
            dataset.spec = replace(self.spec, framing=rule, size=None if callable(size) else size)
        return dataset

    def hold_out_scenes(self, share: float, seed: int) -> tuple[Dataset, Dataset]:
        """Hold out whole scenes, drawn by the seed: (rest, `share` or more of the pictures).

        A picture without a scene counts as a scene of its own.
        """
        sizes = Counter(record.scene or record.image for record in self.records)
        scenes, held_out, count = sorted(sizes), set[str](), 0
        for index in np.random.default_rng(seed).permutation(len(scenes)):
            if count >= share * len(self):
                break
            held_out.add(scenes[index])
            count += sizes[scenes[index]]
        rest, part = copy(self), copy(self)
        rest.records = [r for r in self.records if (r.scene or r.image) not in held_out]
        part.records = [r for r in self.records if (r.scene or r.image) in held_out]
        if not rest.records:
            raise InputError(
                self.source.root,
                f"a share of {share:g} holds out all {len(scenes)} scenes",
                "lower it, or make a test split",
            )
        return rest, part

    def _fitted_normals(self, framed: framing.Framed, path: Path) -> FloatArray:
        """Return normals (Hg, Wg, 3) of the depth, 0 where no plane fits."""
        if framed.camera is None:
            raise DataError(
                path,
                "no camera is known, but normals from depth need one",
                "add fx, fy, cx, cy to the table of pairs",
            )
        size = framed.target.shape[0], framed.target.shape[1]
        normals = geometry.plane_normals(framed.target, framed.camera.resized(size))
        return np.nan_to_num(normals, nan=0.0)


def open_dataset(
    data: Path,
    name: str | None,
    split: str,
    listing: Path | None = None,
    size: Size | framing.SizeRule | None = None,
    task: Task | None = None,
) -> Dataset:
    """Open a split of the dataset `name` below `data`: prepared, listed, or a user's own.

    A folder with lists called train.txt and test.txt needs no `listing`; list.txt lists a user's
    own pairs. `name` is by default the one in the manifest, or "folder"; with `task`, its variant
    that has what a network predicts. `size` is the size of the picture in the network if it is not
    the catalog's; see `Dataset.at_network_size`.
    """
    lists = [] if listing is None else [listing]
    source, spec = open_source(data, name, lists, splits=(split,), task=task)
    if listing is not None:
        split = source.records[0].split
    dataset = Dataset(source, split, spec)
    if spec.normals:
        _ = dataset[0]  # raises an error if its camera is not known
    return dataset if size is None else dataset.at_network_size(size)


def open_source(
    data: Path,
    name: str | None,
    lists: Sequence[Path] = (),
    *,
    splits: Sequence[str] = ("train", "test"),
    task: Task | None = None,
    complete: bool = True,
) -> tuple[Manifest, DatasetSpec]:
    """Find the records below `data` and the dataset they belong to; see `open_dataset`.

    Without `lists` and a manifest, the lists of `splits` in the folder are used, if there are any.
    If not `complete`, records whose files are missing are included.
    """
    if not data.is_dir():
        raise InputError(data, "no such folder")
    source = None
    is_prepared = (data / manifest.NAME).is_file()
    if is_prepared and (name is None or not lists):
        source = manifest.read(data)
    if not is_prepared and not lists:
        lists = [path for split in splits if (path := data / f"{split}.txt").is_file()]
    name = name or (source.dataset if source else "folder")
    spec = catalog.find(catalog.name_for_task(name, task) if task else name)
    plain = spec.name.partition(":")[0]
    if lists:
        source = manifest.from_lists(lists, data, spec, complete=complete)
    elif source is None and plain == "folder":
        source = folder.read(data, complete=complete)
    elif source is None:
        source = manifest.read(data)  # raises an error that names the missing file
    elif source.dataset != plain:
        raise InputError(data, f"holds {source.dataset}, not {spec.name}")
    return source, catalog.as_prepared(spec, source.prepared)


def read_target(source: Manifest, record: Record) -> FloatArray:
    """Return the stored ground truth of a record, decoded and not yet framed."""
    target, path = source.target, source.root / record.target
    if record.scale is not None and isinstance(target, DepthMap):
        try:
            target = replace(target, metres_per_unit=record.scale)
        except InputError as error:
            raise error.within(path) from None
    return target.read(path)


def has_value(target: FloatArray, min_depth: float) -> NDArray[np.bool_]:
    """Return a mask (H, W) of the pixels with depth above the smallest, or with a normal."""
    if target.ndim == 3:
        return np.asarray((target != 0).any(axis=-1))
    return np.asarray((target > min_depth) & np.isfinite(target))


def scene_mask(size: Size, spec: DatasetSpec, sensor: str) -> NDArray[np.bool_]:
    """Return a mask (H, W) that is False where the picture shows the car itself."""
    mask = np.ones(size, dtype=bool)
    if rows := spec.hidden_rows.get(sensor, 0):
        mask[-rows:] = False
    return mask


def valid_in_training(target: FloatArray, spec: DatasetSpec, sensor: str) -> NDArray[np.bool_]:
    """Return a mask (H, W) of the pixels that training uses."""
    size = target.shape[0], target.shape[1]
    valid = has_value(target, spec.min_depth) & scene_mask(size, spec, sensor)
    if spec.capped_training and spec.max_depth is not None:
        valid &= target < spec.max_depth
    if spec.windowed_training and spec.window is not None:
        valid &= masks.inside(size, spec.window(size))
    return valid
