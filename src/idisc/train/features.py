"""Features of a frozen encoder: computed once for each picture, kept on disk, read back.

What a frozen encoder makes of a picture never changes, so a CPU can train the rest in minutes. The
price: no augmentation but the flip, whose features are kept as well. They are memory maps in half
precision; a folder of them says what it was made from and is used again by any run that fits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from idisc import config, files
from idisc.data.dataset import Dataset, Sample
from idisc.errors import InputError
from idisc.model.network import IDisc, rgb_of
from idisc.settings import DataConfig, TrainConfig
from idisc.train.augment import Generator, flip
from idisc.train.distributed import World
from idisc.train.loader import Item, Stream

Maps = tuple[NDArray[np.float16], ...]
RECORD = "features.json"


class FeatureStream(Stream):
    """Samples by number, with the encoder's maps beside them."""

    def __init__(
        self,
        folders: Sequence[Dataset],
        data: DataConfig,
        train: TrainConfig,
        kept: Sequence[Path],
    ) -> None:
        """`kept` is where `keep_features` has those of each folder."""
        super().__init__(folders, data, train)
        self.kept = kept
        self._open: dict[int, Maps] = {}

    def varied(self, sample: Sample, folder: int, index: int, generator: Generator) -> Item:
        """A sample as it is, or mirrored, with the features of that."""
        mirrored = generator.random() < self.data.augment.flip
        if mirrored:
            sample = flip(sample, self.data.augment)
        return Item(sample, tuple(level[2 * index + mirrored] for level in self._maps(folder)))

    def _maps(self, folder: int) -> Maps:
        if folder not in self._open:  # in the process that reads
            self._open[folder] = tuple(
                np.load(path, mmap_mode="r") for path in sorted(self.kept[folder].glob("*.npy"))
            )
        return self._open[folder]


def keep_features(
    network: IDisc, folders: Sequence[Dataset], base: Path, world: World
) -> list[Path]:
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
            write_features(network, dataset, path, key)
        world.wait()
    return paths


def write_features(network: IDisc, dataset: Dataset, path: Path, key: dict[str, Any]) -> None:
    """Write the maps of every picture and its mirror image, all of them or none.

    They are written one after the other and not through memory maps, in which a full disk would
    end the process without a word.
    """
    network.eval()
    try:
        with files.atomic_folder(path) as draft:
            _write_levels(network, dataset, draft)
            files.write_json(draft / RECORD, key)
    except OSError as error:
        raise InputError(
            f"train.cache_features: {path.parent} cannot be written ({error.strerror}); make room"
            " or name another folder"
        ) from None


def _write_levels(network: IDisc, dataset: Dataset, folder: Path) -> None:
    with ExitStack() as opened:
        levels: list[BinaryIO] = []
        for index in range(len(dataset)):
            maps = _encoded(network, dataset[index].image)
            if not levels:
                paths = [folder / f"level_{level}.npy" for level in range(len(maps))]
                levels = [opened.enter_context(path.open("wb")) for path in paths]
                for file, values in zip(levels, maps, strict=True):
                    _write_header(file, (2 * len(dataset), *values.shape[1:]))
            for file, values in zip(levels, maps, strict=True):
                file.write(values.tobytes())


def _encoded(network: IDisc, image: NDArray[np.uint8]) -> Maps:
    """A picture and its mirror image -> maps (2, C_l, H_l, W_l)."""
    both = torch.tensor(np.stack([image, image[:, ::-1]]))
    with torch.inference_mode():
        maps, _ = network.encode(rgb_of(both.to(network.mean.device)))
    return tuple(values.half().cpu().numpy() for values in maps)


def _write_header(file: BinaryIO, shape: tuple[int, ...]) -> None:
    description = {"descr": np.dtype(np.float16).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, description)


def _digest(network: IDisc) -> str:
    digest = hashlib.sha256(network.config.encoder.encode())
    for name, value in network.encoder.state_dict().items():
        digest.update(name.encode() + value.cpu().numpy().tobytes())
    return digest.hexdigest()


def _pictures(dataset: Dataset) -> str:
    """The pictures by name and content, as far as the manifest knows it."""
    text = "\n".join(f"{record.image} {record.sha256}" for record in dataset.records)
    return hashlib.sha256(f"{dataset.source.sha256}\n{text}".encode()).hexdigest()
