"""Samples for training as tensors, in an order that depends on seed and number alone.

Every sample of a run has a number. The number says which picture of which folder it is, and seeds
its augmentation; so batches are the same for any number of workers, processes and interruptions,
and to resume is to go on counting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from idisc.data.dataset import Dataset, Sample
from idisc.data.framing import resize_nearest
from idisc.errors import DataError, IdiscError, InputError
from idisc.images import picture_size
from idisc.settings import DataConfig, TrainConfig
from idisc.train import draws
from idisc.train.augment import Generator, augment
from idisc.train.draws import Draw


class Batch(NamedTuple):
    """What one forward pass sees."""

    image: Tensor  # (B, 3, H, W) uint8
    target: Tensor  # (B, 1 or 3, Hg, Wg) float32
    valid: Tensor  # (B, 1, Hg, Wg) boolean
    names: tuple[str, ...]  # of the pictures
    maps: tuple[Tensor, ...] = ()  # the encoder's, (B, C_l, H_l, W_l) each, where they are kept


@dataclass(frozen=True)
class Unreadable:
    """A sample that could not be read; told by the process that trains, not by its worker."""

    message: str


class Item(NamedTuple):
    """A sample as training sees it."""

    sample: Sample
    maps: tuple[NDArray[np.float16], ...] = ()  # the encoder's, (C_l, H_l, W_l) each, if kept


class Order:
    """Which picture has which number, for any number: each folder in a new order every epoch."""

    def __init__(self, lengths: Sequence[int], mix: Sequence[float], total: int, seed: int) -> None:
        if mix and len(mix) != len(lengths):
            raise InputError(f"data.mix: {len(mix)} shares for {len(lengths)} training folders")
        if mix and (min(mix) < 0 or sum(mix) <= 0):
            raise InputError(f"data.mix: {tuple(mix)}; shares of 0 or more are needed")
        shares = np.array(mix or lengths, dtype=float)
        self.lengths, self.seed = lengths, seed
        generator = draws.generator(seed, Draw.FOLDER)
        self.folder = generator.choice(len(lengths), size=total, p=shares / shares.sum())
        self.before = np.zeros(total, dtype=np.int64)  # how many came of the same folder
        for folder in range(len(lengths)):
            mine = self.folder == folder
            self.before[mine] = np.arange(mine.sum())

    def __getitem__(self, number: int) -> tuple[int, int]:
        """Folder and index of a sample."""
        folder = int(self.folder[number])
        epoch, turn = divmod(int(self.before[number]), self.lengths[folder])
        return folder, int(_permutation(self.seed, folder, epoch, self.lengths[folder])[turn])


@lru_cache(maxsize=8)
def _permutation(seed: int, folder: int, epoch: int, length: int) -> NDArray[np.int64]:
    return draws.generator(seed, Draw.ORDER, folder, epoch).permutation(length)


class Stream(TorchDataset[Item | Unreadable]):
    """Augmented samples by number."""

    def __init__(self, folders: Sequence[Dataset], data: DataConfig, train: TrainConfig) -> None:
        self.folders, self.data, self.train = folders, data, train
        total = train.iterations * train.accumulate * train.batch_size
        self.order = Order([len(folder) for folder in folders], data.mix, total, train.seed)
        # Targets keep their size where all have the same.
        self.as_stored = len(folders) == 1 and not _of_several_sizes(folders[0])

    def __getitem__(self, number: int) -> Item | Unreadable:
        folder, index = self.order[number]
        try:
            sample = self.folders[folder][index]
        except (IdiscError, OSError) as error:
            return Unreadable(str(error))
        item = self.varied(sample, folder, index, self._generator(number))
        if self.as_stored:
            return item
        return item._replace(sample=with_target_at_picture_size(item.sample))

    def varied(self, sample: Sample, _folder: int, _index: int, generator: Generator) -> Item:
        """A sample from disk as it is this time."""
        return Item(augment(sample, self.data.augment, generator))

    def _generator(self, number: int) -> Generator:
        return draws.generator(self.train.seed, Draw.AUGMENT, number)


def _of_several_sizes(dataset: Dataset) -> bool:
    """Whether one's own pictures differ in size; a dataset of the catalog is framed to one."""
    if dataset.source.dataset != "folder":
        return False
    return len({picture_size(dataset.source.root / r.image) for r in dataset.records}) > 1


def with_target_at_picture_size(sample: Sample) -> Sample:
    """For folders that are mixed, whose targets differ in size."""
    size = (sample.image.shape[0], sample.image.shape[1])
    if sample.target.shape[:2] == size:
        return sample
    return replace(
        sample,
        target=resize_nearest(sample.target, size),
        valid=resize_nearest(sample.valid.astype(np.float32), size) > 0,
    )


def collate(items: Sequence[Item | Unreadable]) -> Batch | Unreadable:
    """Samples of one size, with or without the encoder's maps -> a batch."""
    readable: list[Item] = []
    for item in items:
        if isinstance(item, Unreadable):
            return item
        readable.append(item)
    good = [item.sample for item in readable]
    sizes = {sample.target.shape for sample in good}
    if len(sizes) > 1:
        shown = ", ".join(f"{shape[0]}x{shape[1]}" for shape in sorted(sizes))
        return Unreadable(
            f"{good[0].record.image}: ground truth of several sizes in one batch ({shown});"
            " bring all of it to one size, or train with batch_size=1"
        )
    target = np.stack([s.target if s.target.ndim == 3 else s.target[..., None] for s in good])
    return Batch(
        image=torch.from_numpy(np.stack([s.image for s in good])).permute(0, 3, 1, 2),
        target=torch.from_numpy(target).permute(0, 3, 1, 2),
        valid=torch.from_numpy(np.stack([s.valid for s in good]))[:, None],
        names=tuple(s.record.image for s in good),
        maps=tuple(
            torch.from_numpy(np.stack(level))
            for level in zip(*(item.maps for item in readable), strict=True)
        ),
    )


def pictures_per_process(batch_size: int, processes: int) -> int:
    """Each has the same number of a batch's pictures."""
    if batch_size % processes:
        raise InputError(
            f"train.batch_size: {batch_size} pictures cannot be shared by {processes} processes"
        )
    return batch_size // processes


def batches(stream: Stream, start: int, *, rank: int, share: int, workers: int) -> Iterator[Batch]:
    """The batches of one process from optimizer step `start` on, `accumulate` for each step.

    `share` is how many pictures of a batch each process has.
    """
    train = stream.train
    passes = range(start * train.accumulate, train.iterations * train.accumulate)
    firsts = [index * train.batch_size + rank * share for index in passes]
    loader: DataLoader[Item | Unreadable] = DataLoader(
        stream,
        batch_sampler=[list(range(first, first + share)) for first in firsts],
        num_workers=workers,
        collate_fn=collate,
        multiprocessing_context="spawn" if workers else None,  # threads of torch do not fork
        generator=torch.Generator(),  # or it would draw from the one that drops paths
        prefetch_factor=4 if workers else None,
    )
    for batch in loader:
        if isinstance(batch, Unreadable):
            raise DataError(batch.message)
        yield batch
