"""Samples for training as tensors, in an order that depends on seed and place alone.

Every sample of a run has a number. The number says which picture of which folder it is, and seeds
its augmentation; so batches are the same for any number of workers, processes and interruptions,
and to resume is to go on counting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from idisc.data.dataset import Dataset, Sample
from idisc.data.framing import resize_nearest
from idisc.errors import DataError, IdiscError, InputError
from idisc.images import Size, picture_size
from idisc.settings import DataConfig, TrainConfig
from idisc.train.augment import augment


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


class Order:
    """Which picture has which number, for any number: each folder in a new order every epoch."""

    def __init__(self, lengths: Sequence[int], mix: Sequence[float], total: int, seed: int) -> None:
        if mix and len(mix) != len(lengths):
            raise InputError(f"data.mix: {len(mix)} shares for {len(lengths)} training folders")
        if mix and (min(mix) < 0 or sum(mix) <= 0):
            raise InputError(f"data.mix: {tuple(mix)}; shares of 0 or more are needed")
        shares = np.array(mix or lengths, dtype=float)
        self.lengths, self.seed = lengths, seed
        generator = np.random.default_rng((seed, 1))
        self.folder = generator.choice(len(lengths), size=total, p=shares / shares.sum())
        self.place = np.zeros(total, dtype=np.int64)  # how many of the same folder came before
        for folder in range(len(lengths)):
            mine = self.folder == folder
            self.place[mine] = np.arange(mine.sum())

    def __getitem__(self, number: int) -> tuple[int, int]:
        """Folder and index of a sample."""
        folder = int(self.folder[number])
        epoch, place = divmod(int(self.place[number]), self.lengths[folder])
        return folder, int(_permutation(self.seed, folder, epoch, self.lengths[folder])[place])


@lru_cache(maxsize=8)
def _permutation(seed: int, folder: int, epoch: int, length: int) -> NDArray[np.int64]:
    return np.random.default_rng((seed, 2, folder, epoch)).permutation(length)


class Stream(TorchDataset[Sample]):
    """Augmented samples by number."""

    def __init__(self, folders: Sequence[Dataset], data: DataConfig, train: TrainConfig) -> None:
        self.folders, self.data, self.train = folders, data, train
        total = train.iterations * train.accumulate * train.batch_size
        self.order = Order([len(folder) for folder in folders], data.mix, total, train.seed)
        # Targets keep their size where all have the same.
        self.as_stored = len(folders) == 1 and not _of_several_sizes(folders[0])

    def __getitem__(self, number: int) -> Sample | Unreadable:  # type: ignore[override]
        folder, index = self.order[number]
        sample = self.read(folder, index)
        if isinstance(sample, Unreadable):
            return sample
        generator = np.random.default_rng((self.train.seed, 3, number))
        sample = augment(sample, self.data.augment, generator)
        return sample if self.as_stored else with_target_of(sample, sample.image.shape[:2])

    def read(self, folder: int, index: int) -> Sample | Unreadable:
        """A sample as it is on disk."""
        try:
            return self.folders[folder][index]
        except (IdiscError, OSError) as error:
            return Unreadable(str(error))


def _of_several_sizes(dataset: Dataset) -> bool:
    """Whether one's own pictures differ in size; a dataset of the catalog is framed to one."""
    if dataset.source.dataset != "folder":
        return False
    return len({picture_size(dataset.source.root / r.image) for r in dataset.records}) > 1


def with_target_of(sample: Sample, size: Size) -> Sample:
    """The sample with its target at another size, for folders that are mixed."""
    if sample.target.shape[:2] == size:
        return sample
    return replace(
        sample,
        target=resize_nearest(sample.target, size),
        valid=resize_nearest(sample.valid.astype(np.float32), size) > 0,
    )


def collate(samples: Sequence[Any]) -> Batch | Unreadable:
    """Samples of one size, with or without the encoder's maps -> a batch."""
    for sample in samples:
        if isinstance(sample, Unreadable):
            return sample
    pairs = [sample if isinstance(sample, tuple) else (sample, ()) for sample in samples]
    good: list[Sample] = [sample for sample, _ in pairs]
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
            torch.from_numpy(np.stack(level)) for level in zip(*(m for _, m in pairs), strict=True)
        ),
    )


def shared(train: TrainConfig, processes: int) -> int:
    """How many pictures of a batch each process has."""
    if train.batch_size % processes:
        raise InputError(
            f"train.batch_size: {train.batch_size} pictures cannot be shared by"
            f" {processes} processes"
        )
    return train.batch_size // processes


def batches(
    stream: Stream, start: int, *, rank: int, processes: int, workers: int
) -> Iterator[Batch]:
    """The batches of one process from optimizer step `start` on, `accumulate` for each step."""
    train, share = stream.train, shared(stream.train, processes)
    passes = range(start * train.accumulate, train.iterations * train.accumulate)
    firsts = [index * train.batch_size + rank * share for index in passes]
    loader: DataLoader[Sample] = DataLoader(
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
