"""Features of a frozen encoder: computed once for each picture, kept on disk, read back.

What a frozen encoder makes of a picture never changes, so a CPU can train the rest in minutes. The
price: no augmentation but the flip, whose features are kept as well. They are memory maps in half
precision; a folder of them says what it was made from and is used again by any run that fits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idisc import config, files
from idisc.data.dataset import Dataset, Sample
from idisc.model.network import IDisc
from idisc.settings import DataConfig, TrainConfig
from idisc.train.augment import flip
from idisc.train.distributed import World
from idisc.train.loader import Stream, Unreadable, with_target_of

Maps = tuple[NDArray[np.float16], ...]
RECORD = "features.json"


class FeatureStream(Stream):
    """Samples by number, with the encoder's maps beside them."""

    def __init__(
        self,
        folders: Sequence[Dataset],
        data: DataConfig,
        train: TrainConfig,
        stores: Sequence[Path],
    ) -> None:
        super().__init__(folders, data, train)
        self.stores = stores
        self._open: dict[int, Maps] = {}

    def __getitem__(self, number: int) -> tuple[Sample, Maps] | Unreadable:  # type: ignore[override]
        folder, index = self.order[number]
        sample = self.read(folder, index)
        if isinstance(sample, Unreadable):
            return sample
        generator = np.random.default_rng((self.train.seed, 3, number))
        mirrored = generator.random() < self.data.augment.flip
        if mirrored:
            sample = flip(sample, self.data.augment)
        if not self.alone:
            sample = with_target_of(sample, (sample.image.shape[0], sample.image.shape[1]))
        return sample, tuple(level[2 * index + mirrored] for level in self._store(folder))

    def _store(self, folder: int) -> Maps:
        if folder not in self._open:  # in the process that reads
            self._open[folder] = tuple(
                np.load(path, mmap_mode="r") for path in sorted(self.stores[folder].glob("*.npy"))
            )
        return self._open[folder]


def stores(network: IDisc, folders: Sequence[Dataset], base: Path, world: World) -> list[Path]:
    """The features of each folder below `base`, computed where they are not there yet."""
    digest = _digest(network)
    paths = []
    for dataset in folders:
        key = {
            "format": config.FORMAT,
            "encoder": digest,
            "pictures": _pictures(dataset),
            "size": list(dataset[0].image.shape[:2]),
        }
        path = base / hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        paths.append(path)
        if world.leads and not (path / RECORD).is_file():
            _compute(network, dataset, path, key)
        world.any(False)  # the others wait here until it is done
    return paths


def _compute(network: IDisc, dataset: Dataset, path: Path, key: dict[str, Any]) -> None:
    """Write the maps of every picture and its mirror image; the record comes last."""
    path.mkdir(parents=True, exist_ok=True)
    network.eval()
    levels: list[Any] = []
    for index in range(len(dataset)):
        image = dataset[index].image
        both = torch.tensor(np.stack([image, image[:, ::-1]])).permute(0, 3, 1, 2)
        with torch.inference_mode():
            maps = network.encode(both.to(network.mean.device).float() / 255)
        if not levels:
            levels = [_empty(path / f"level_{i}.npy", len(dataset), m) for i, m in enumerate(maps)]
        for level, values in zip(levels, maps, strict=True):
            level[2 * index : 2 * index + 2] = values.cpu().numpy()
    for level in levels:
        level.flush()
    files.write_json(path / RECORD, key)


def _empty(path: Path, pictures: int, maps: Tensor) -> Any:
    shape = (2 * pictures, *maps.shape[1:])
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)


def _digest(network: IDisc) -> str:
    digest = hashlib.sha256(network.config.encoder.encode())
    for name, value in network.encoder.state_dict().items():
        digest.update(name.encode() + value.cpu().numpy().tobytes())
    return digest.hexdigest()


def _pictures(dataset: Dataset) -> str:
    """The pictures by name and content, as far as the manifest knows it."""
    text = "\n".join(f"{record.image} {record.sha256}" for record in dataset.records)
    return hashlib.sha256(f"{dataset.source.sha256}\n{text}".encode()).hexdigest()
