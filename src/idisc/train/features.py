"""Features: the output of a frozen encoder, computed once per view and stored on disk.

A frozen encoder always computes the same from the same image; with cached features a CPU trains the
rest of the network in minutes. Augmentation precedes the encoder, therefore each picture is stored
as several views with different augmentations. A folder of features records what it was made from
and is reused by every run that matches. Targets are stored next to the features under the name of
their task, so tasks on the same pictures share features. Files are written sequentially: an
interrupted run continues where it stopped.

    FOLDER/features.json                    what the views are made from; written last
    FOLDER/features.0.npy, features.1.npy   images, and the features of each image
    FOLDER/depth.npy                        targets of the task `depth`
    FOLDER/features_crc32.npy ...           a checksum of each row, compared whenever it is read
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from idisc import configs, files
from idisc.checksums import crc32_of
from idisc.configs.schema import DataConfig, TrainConfig
from idisc.data.dataset import Dataset
from idisc.errors import DataError, InputError
from idisc.model.linear import prefer_onednn
from idisc.model.network import IDisc, rgb_of
from idisc.model.vit import VitPyramid
from idisc.train import seeding
from idisc.train.augment import Generator
from idisc.train.distributed import World
from idisc.train.loader import Item, Stream
from idisc.train.seeding import Draw

Arrays = tuple[NDArray[Any], ...]
OnProgress = Callable[[int, int], None]
"""Called with the views done and their total."""
FEATURES = "features"
BATCH = 4  # views that pass the encoder together


class FeatureStream(Stream):
    """Cached views by sample number: image, target and features."""

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
        self._positions = [_positions_in_split(folder) for folder in folders]
        self._open: dict[int, list[StoredRows]] = {}

    def item(self, folder: int, index: int, generator: Generator) -> Item:
        """Return one of the cached views of a picture, drawn by the generator."""
        view = int(generator.integers(self.train.views))
        row = self._positions[folder][index] * self.train.views + view
        target, image, *extracted = (array[row] for array in self._arrays(folder))
        target = target.astype(np.float32)
        valid = (target != 0).reshape(*target.shape[:2], -1).any(axis=-1)
        name = self.folders[folder].records[index].image
        return Item(image, target, valid, name, folder in self.data.exact, tuple(extracted))

    def _arrays(self, folder: int) -> list[StoredRows]:
        if folder not in self._open:  # in the process that reads
            path, task = self.cached[folder], self.folders[folder].spec.task.name
            self._open[folder] = [*open_rows(path, task), *open_rows(path, FEATURES)]
        return self._open[folder]


class StoredRows:
    """Rows of a .npy file, each read at once and compared with its checksum.

    A memory map reads page by page, which is slow if the cache does not fit into memory.
    """

    def __init__(self, path: Path, crc32: NDArray[np.uint32] | None) -> None:
        stored = np.load(path, mmap_mode="r")
        self._path, self._shape, self._dtype = path, stored.shape[1:], stored.dtype
        self._start, self._row = stored.offset, stored[0].nbytes
        self._crc32 = crc32

    def __getitem__(self, row: int) -> NDArray[Any]:
        offset, count = self._start + row * self._row, self._row // self._dtype.itemsize
        values = np.fromfile(self._path, self._dtype, count, offset=offset)
        if self._crc32 is not None and _crc32(values, self._shape) != self._crc32[row]:
            raise _damaged(self._path)
        return values.reshape(self._shape)


def open_rows(path: Path, name: str) -> list[StoredRows]:
    """Open the arrays that `write_rows` wrote; DataError if one of them is damaged.

    Arrays of earlier versions have no checksums and are not verified.
    """
    arrays = sorted(path.glob(f"{name}.*.npy")) or [path / f"{name}.npy"]
    expected = path / f"{name}_crc32.npy"
    opened = expected
    try:
        crc32 = np.load(expected).T if expected.is_file() else [None] * len(arrays)
        rows = []
        for opened, crc32_of_rows in zip(arrays, crc32, strict=True):
            rows.append(StoredRows(opened, crc32_of_rows))
    except Exception:  # numpy raises many types for a damaged header
        raise _damaged(opened) from None
    return rows


def _damaged(path: Path) -> DataError:
    remedy = f"remove the folder {path.parent} and resume the run, which computes it again"
    return DataError(path, "damaged or missing", remedy)


def _crc32(values: NDArray[Any], shape: tuple[int, ...]) -> int:
    return crc32_of(f"{values.dtype.str} {shape}", np.ascontiguousarray(values).data)


def cache_features(
    network: IDisc, stream: Stream, base: Path, world: World, progress: OnProgress | None = None
) -> list[Path]:
    """Compute the missing views of each folder of a stream below `base`; return their folders.

    A cache covers the whole training split, including held-out scenes, so that runs with other
    holdouts share it.
    """
    prefer_onednn(network)
    _check_frozen(network)
    digest = _encoder_digest(network)
    paths, missing = [], []
    whole = Stream([_whole_split(folder) for folder in stream.folders], stream.data, stream.train)
    for number, dataset in enumerate(whole.folders):
        key = {
            "format": configs.FORMAT,
            "encoder": digest,
            "pictures": _pictures_digest(dataset),
            "size": list(stream.data.size),
            "canonical_focal": stream.data.canonical_focal,
            "augment": configs.to_json(stream.data.augment),
            "views": stream.train.views,
        }
        path = base / hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        paths.append(path)
        views = _Views(whole, number)
        extract = partial(_extract, network, views)
        for name, arrays in ((FEATURES, extract), (dataset.spec.task.name, views.targets)):
            if not (path / f"{name}.json").is_file():
                missing.append(_Missing(path, name, arrays, views.count, key))
    if world.is_main:
        try:
            _write_missing(missing, progress)
        except OSError as error:
            raise InputError(
                "train.cache_features",
                f"{base} cannot be written ({error.strerror})",
                "make room or name another folder",
            ) from None
    world.wait()
    return paths


class _Missing(NamedTuple):
    """Missing or incomplete arrays of a folder."""

    path: Path
    name: str
    arrays: Callable[[range], Arrays]
    rows: int
    key: dict[str, Any]  # what they are made from


def _write_missing(missing: Sequence[_Missing], progress: OnProgress | None) -> None:
    written, total = 0, sum(part.rows for part in missing)
    for part in missing:
        for done in write_rows(part.path, part.name, part.arrays, part.rows):
            if progress:
                progress(written + done, total)
        files.write_json(part.path / f"{part.name}.json", part.key)
        written += part.rows


def write_rows(
    path: Path, name: str, arrays: Callable[[range], Arrays], total: int
) -> Iterator[int]:
    """Append the rows that are missing to `name.0.npy`, `name.1.npy`, ..., one for each array.

    A single array is stored in `name.npy`; the checksums of all arrays are in `name_crc32.npy`.
    Yields the number of complete rows after each batch. Files are written sequentially and not
    through memory maps, in which a full disk would end the process without a message.
    """
    path.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        opened: list[BinaryIO] = []
        done = 0
        while done < total:
            rows = range(done, min(done + BATCH, total))
            values = arrays(rows)
            numbers = [f".{number}" for number in range(len(values))] if len(values) > 1 else [""]
            values = (
                *values,
                np.array([[_crc32(row, row.shape) for row in a] for a in values], np.uint32).T,
            )
            if not opened:
                paths = [path / f"{name}{suffix}.npy" for suffix in (*numbers, "_crc32")]
                done = _open_growing(stack, opened, paths, values, total)
                if done:
                    continue  # with the first batch that is missing
            for file, array in zip(opened, values, strict=True):
                file.write(array.tobytes())
            done = rows.stop
            yield done


def _open_growing(
    stack: ExitStack, opened: list[BinaryIO], paths: Sequence[Path], values: Arrays, total: int
) -> int:
    """Open .npy files for `total` rows like those of `values`, truncated to whole batches.

    Returns the number of rows that all of them have; each file is positioned after them.
    """
    headers, counts = [], []
    for path, array in zip(paths, values, strict=True):
        file = stack.enter_context(path.open("r+b" if path.is_file() else "w+b"))
        shape = (total, *array.shape[1:])
        description = {"descr": array.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, description)
        opened.append(file)
        headers.append(file.tell())
        counts.append((file.seek(0, 2) - headers[-1]) // array[0].nbytes)
    done = min(counts) // BATCH * BATCH
    for growing, header, array in zip(opened, headers, values, strict=True):
        growing.seek(header + done * array[0].nbytes)
        growing.truncate()
    return done


class _Views:
    """The views of one folder by number: those of the first picture, of the second, and so on."""

    def __init__(self, stream: Stream, folder: int) -> None:
        self.stream, self.folder = stream, folder
        self.count = stream.train.views * len(stream.folders[folder])

    def __getitem__(self, row: int) -> Item:
        index, view = divmod(row, self.stream.train.views)
        generator = seeding.generator(0, Draw.VIEW, index, view)  # runs of any seed share a cache
        return self.stream.item(self.folder, index, generator)

    def targets(self, rows: range) -> Arrays:
        """Return targets of some views as float16, 0 where there is none."""
        targets = []
        for item in map(self.__getitem__, rows):
            mask = item.valid.reshape(*item.valid.shape, *(1 for _ in item.target.shape[2:]))
            targets.append(np.where(mask, item.target, 0).astype(np.float16))
        return (np.stack(targets),)


def _extract(network: IDisc, views: _Views, rows: range) -> Arrays:
    """Return images of some views as uint8, and their features as float16."""
    network.eval()
    images = np.stack([views[row].image for row in rows])
    with torch.inference_mode():
        extracted = network.extract(rgb_of(torch.tensor(images, device=network.mean.device)))
    return images, *(values.half().cpu().numpy() for values in extracted)


def _check_frozen(network: IDisc) -> None:
    """Raise InputError if training would change the cached features."""
    name, part = _cached_part(network)
    if any(parameter.requires_grad for parameter in part.parameters()):
        raise InputError("train.cache_features", f"features change unless train.freeze={name}")


def _cached_part(network: IDisc) -> tuple[str, nn.Module]:
    """Return the name of the module that `IDisc.extract` runs, and the module."""
    if isinstance(network.encoder, VitPyramid):
        return "encoder.vit", network.encoder.vit
    return "encoder", network.encoder


def _encoder_digest(network: IDisc) -> str:
    _, part = _cached_part(network)
    adapted = " adapted" if network.config.adapter_rank else ""  # with fewer taps
    digest = hashlib.sha256(f"{network.config.encoder}{adapted}".encode())
    for name, value in part.state_dict().items():
        unsigned = value.cpu() + 0  # a moving average turns -0.0 into 0.0
        digest.update(name.encode() + unsigned.numpy().tobytes())
    return digest.hexdigest()


def _whole_split(folder: Dataset) -> Dataset:
    return Dataset(folder.source, folder.split, folder.spec)


def _positions_in_split(folder: Dataset) -> list[int]:
    """Return the position of each picture of a folder among those of the whole split."""
    known = {(r.image, r.target): place for place, r in enumerate(_whole_split(folder).records)}
    return [known[record.image, record.target] for record in folder.records]


def _pictures_digest(dataset: Dataset) -> str:
    """Return a hash of the names of the pictures and, if the manifest has it, their content."""
    text = "\n".join(f"{record.image} {record.sha256}" for record in dataset.records)
    return hashlib.sha256(
        f"{dataset.source.sha256}\n{text}".encode("utf-8", "surrogatepass")
    ).hexdigest()
