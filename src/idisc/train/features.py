"""Cached features of a frozen encoder: computed once per view, stored on disk, read back.

A frozen encoder always computes the same from the same image, so a CPU can train the rest of the
network in minutes. Augmentation happens before the encoder; therefore each picture is stored as
several views, each a different draw of the augmentation. A folder of features records what it was
made from and is reused by every run that matches. It is written sequentially: an interrupted run
continues where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from idisc import config, files
from idisc.data.dataset import Dataset
from idisc.errors import InputError
from idisc.model.network import IDisc, rgb_of
from idisc.model.vit import VitPyramid
from idisc.settings import DataConfig, TrainConfig
from idisc.train import draws
from idisc.train.augment import Generator
from idisc.train.distributed import World
from idisc.train.draws import Draw
from idisc.train.loader import Item, Stream

Arrays = tuple[NDArray[Any], ...]
Progress = Callable[[int, int], None]
"""Called with the views done and their total."""
RECORD = "features.json"
BATCH = 4  # views that pass the encoder together


class FeatureStream(Stream):
    """Cached views by sample number: image, target and what the encoder extracts."""

    def __init__(
        self,
        folders: Sequence[Dataset],
        data: DataConfig,
        train: TrainConfig,
        cached: Sequence[Path],
    ) -> None:
        """`cached` is where `cache_features` stored the views of each folder."""
        super().__init__(folders, data, train)
        self.cached = cached
        self._places = [_places(folder) for folder in folders]
        self._open: dict[int, list[_StoredRows]] = {}

    def item(self, folder: int, index: int, generator: Generator) -> Item:
        """One of the cached views of a picture, drawn by the generator."""
        view = int(generator.integers(self.train.views))
        row = self._places[folder][index] * self.train.views + view
        image, target, *extracted = (array[row] for array in self._arrays(folder))
        target = target.astype(np.float32)
        valid = target != 0 if target.ndim == 2 else (target != 0).any(axis=-1)
        name = self.folders[folder].records[index].image
        return Item(image, target, valid, name, folder in self.data.exact, tuple(extracted))

    def _arrays(self, folder: int) -> list[_StoredRows]:
        if folder not in self._open:  # in the process that reads
            paths = sorted(self.cached[folder].glob("*.npy"))
            self._open[folder] = [_StoredRows(path) for path in paths]
        return self._open[folder]


class _StoredRows:
    """Rows of a .npy file, each read in one go.

    A memory map would read it page by page, which is slow where the cache does not stay in memory.
    """

    def __init__(self, path: Path) -> None:
        stored = np.load(path, mmap_mode="r")
        self._path, self._shape, self._dtype = path, stored.shape[1:], stored.dtype
        self._start, self._row = stored.offset, stored[0].nbytes

    def __getitem__(self, row: int) -> NDArray[Any]:
        offset, count = self._start + row * self._row, self._row // self._dtype.itemsize
        return np.fromfile(self._path, self._dtype, count, offset=offset).reshape(self._shape)


def cache_features(
    network: IDisc, stream: Stream, base: Path, world: World, progress: Progress | None = None
) -> list[Path]:
    """The views of each folder of a stream below `base`, computed where they are missing.

    A cache covers the whole training split, also scenes that this run holds out, so that runs with
    other holdouts share it.
    """
    _check_frozen(network)
    digest = _digest(network)
    paths = []
    whole = Stream([_whole(folder) for folder in stream.folders], stream.data, stream.train)
    for number, dataset in enumerate(whole.folders):
        key = {
            "format": config.FORMAT,
            "encoder": digest,
            "pictures": _pictures(dataset),
            "size": list(stream.data.size),
            "canonical_focal": stream.data.canonical_focal,
            "augment": config.to_json(stream.data.augment),
            "views": stream.train.views,
        }
        path = base / hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        paths.append(path)
        if world.leads and not (path / RECORD).is_file():
            try:
                write_features(network, whole, number, path, progress)
                files.write_json(path / RECORD, key)
            except OSError as error:
                raise InputError(
                    f"train.cache_features: {base} cannot be written ({error.strerror}); make room"
                    " or name another folder"
                ) from None
        world.wait()
    return paths


def write_features(
    network: IDisc, stream: Stream, folder: int, path: Path, progress: Progress | None = None
) -> None:
    """Append the views that are missing to the arrays in `path`.

    Files are written sequentially and not through memory maps, in which a full disk would end the
    process without a message.
    """
    network.eval()
    path.mkdir(parents=True, exist_ok=True)
    views = stream.train.views
    total = views * len(stream.folders[folder])
    with ExitStack() as opened:
        written: list[_GrowingRows] = []
        done = 0
        while done < total:
            rows = range(done, min(done + BATCH, total))
            arrays = _batch(network, stream, folder, rows)
            if not written:
                for number, values in enumerate(arrays):
                    file = path / f"{number}.npy"
                    written.append(opened.enter_context(_GrowingRows.open(file, total, values)))
                done = min(each.count for each in written) // BATCH * BATCH
                for each in written:
                    each.truncate(done)
                if done:
                    continue  # with the first batch that is missing
            for each, values in zip(written, arrays, strict=True):
                each.file.write(values.tobytes())
            done = rows.stop
            if progress:
                progress(done, total)


@dataclass
class _GrowingRows:
    """A .npy file of known length that is filled row by row."""

    file: BinaryIO
    header: int  # bytes before the first row
    row: int  # bytes of a row
    count: int  # complete rows

    @classmethod
    def open(cls, path: Path, total: int, values: NDArray[Any]) -> _GrowingRows:
        """Open or create the file for `total` rows like those of `values` (rows, ...)."""
        file = path.open("r+b" if path.is_file() else "w+b")
        description = {
            "descr": values.dtype.str,
            "fortran_order": False,
            "shape": (total, *values.shape[1:]),
        }
        np.lib.format.write_array_header_1_0(file, description)
        header, row = file.tell(), values[0].nbytes
        count = max(0, (file.seek(0, 2) - header) // row)
        file.seek(header + count * row)
        return cls(file, header, row, count)

    def truncate(self, rows: int) -> None:
        self.file.seek(self.header + rows * self.row)
        self.file.truncate()

    def __enter__(self) -> _GrowingRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def _batch(network: IDisc, stream: Stream, folder: int, rows: range) -> Arrays:
    """Images uint8, targets float16 (0: none) and extracted features float16 of some views."""
    images, targets = [], []
    for row in rows:
        index, view = divmod(row, stream.train.views)
        generator = draws.generator(0, Draw.VIEW, index, view)  # runs of any seed share a cache
        item = Stream.item(stream, folder, index, generator)
        images.append(item.image)
        mask = item.valid if item.target.ndim == 2 else item.valid[..., None]
        targets.append(np.where(mask, item.target, 0).astype(np.float16))
    stacked = np.stack(images)
    with torch.inference_mode():
        extracted = network.extract(rgb_of(torch.tensor(stacked, device=network.mean.device)))
    return stacked, np.stack(targets), *(values.half().cpu().numpy() for values in extracted)


def _check_frozen(network: IDisc) -> None:
    """InputError if a step would change what is cached."""
    name, part = _cached_part(network)
    if any(parameter.requires_grad for parameter in part.parameters()):
        raise InputError(f"train.cache_features: features change unless train.freeze={name}")


def _cached_part(network: IDisc) -> tuple[str, nn.Module]:
    """The module that `IDisc.extract` runs, and its name."""
    if isinstance(network.encoder, VitPyramid):
        return "encoder.vit", network.encoder.vit
    return "encoder", network.encoder


def _digest(network: IDisc) -> str:
    _, part = _cached_part(network)
    digest = hashlib.sha256(network.config.encoder.encode())
    for name, value in part.state_dict().items():
        digest.update(name.encode() + value.cpu().numpy().tobytes())
    return digest.hexdigest()


def _whole(folder: Dataset) -> Dataset:
    return Dataset(folder.source, folder.split, folder.spec)


def _places(folder: Dataset) -> list[int]:
    """The position of each picture of a folder among those of the whole split."""
    known = {(r.image, r.target): place for place, r in enumerate(_whole(folder).records)}
    return [known[record.image, record.target] for record in folder.records]


def _pictures(dataset: Dataset) -> str:
    """The pictures by name and content, as far as the manifest knows it."""
    text = "\n".join(f"{record.image} {record.sha256}" for record in dataset.records)
    return hashlib.sha256(f"{dataset.source.sha256}\n{text}".encode()).hexdigest()
