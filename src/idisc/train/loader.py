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
from idisc.train import seeding, views
from idisc.train.augment import Generator, augment
from idisc.train.seeding import Draw


class Batch(NamedTuple):
    """What one forward pass sees."""

    image: Tensor  # (B, 3, H, W) uint8
    target: Tensor  # (B, 1 or 3, Hg, Wg) float32
    valid: Tensor  # (B, 1, Hg, Wg) boolean
    names: tuple[str, ...]  # of the pictures
    exact: Tensor  # (B,) boolean: of a folder of `data.exact`
    extracted: tuple[Tensor, ...] = ()  # what `IDisc.extract` gave for the images, if it is cached


@dataclass(frozen=True)
class Unreadable:
    """A sample that could not be read; told by the process that trains, not by its worker."""

    message: str


class Item(NamedTuple):
    """A sample as training sees it."""

    image: NDArray[np.uint8]  # (H, W, 3)
    target: NDArray[np.float32]  # (Hg, Wg) or (Hg, Wg, 3)
    valid: NDArray[np.bool_]  # (Hg, Wg)
    name: str  # of the picture
    exact: bool = False  # of a folder of `data.exact`
    extracted: tuple[NDArray[np.float16], ...] = ()  # of this image, as in `Batch`


class Order:
    """Which picture has which number, for any number: each folder in a new order every epoch."""

    def __init__(self, lengths: Sequence[int], mix: Sequence[float], total: int, seed: int) -> None:
        if mix and len(mix) != len(lengths):
            raise InputError("data.mix", f"{len(mix)} shares for {len(lengths)} training folders")
        if mix and (min(mix) < 0 or sum(mix) <= 0):
            raise InputError("data.mix", tuple(mix), "shares of 0 or more are needed")
        shares = np.array(mix or lengths, dtype=float)
        self.lengths, self.seed = lengths, seed
        generator = seeding.generator(seed, Draw.FOLDER)
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
    return seeding.generator(seed, Draw.ORDER, folder, epoch).permutation(length)


class Stream(TorchDataset[Item | Unreadable]):
    """Augmented samples by number."""

    def __init__(self, folders: Sequence[Dataset], data: DataConfig, train: TrainConfig) -> None:
        self.folders, self.data, self.train = folders, data, train
        total = train.iterations * train.accumulate * train.batch_size
        self.order = Order([len(folder) for folder in folders], data.mix, total, train.seed)
        # Targets keep their size where all have the same.
        self.as_stored = len(folders) == 1 and not _of_several_sizes(folders[0])

    def __getitem__(self, number: int) -> Item | Unreadable:
        try:
            return self.item(*self.order[number], self._generator(number))
        except (IdiscError, OSError) as error:
            return Unreadable(str(error))

    def item(self, folder: int, index: int, generator: Generator) -> Item:
        """A picture of a folder, augmented."""
        sample = self.augmented(self.folders[folder][index], generator)
        if not self.as_stored:
            sample = with_target_at_picture_size(sample)
        exact = folder in self.data.exact
        return Item(sample.image, sample.target, sample.valid, sample.record.image, exact)

    def augmented(self, sample: Sample, generator: Generator) -> Sample:
        """A sample from disk as the network sees it this time."""
        data = self.data
        if not data.canonical_focal:
            return augment(sample, data.augment, generator)
        window = views.draw_window(sample, data, generator)
        size = data.size[0], data.size[1]
        sample = views.view(sample, size, data.canonical_focal, window)
        colours = replace(data.augment, geometry_weight=0.0, translation_weight=0.0)
        return augment(sample, colours, generator)

    def _generator(self, number: int) -> Generator:
        return seeding.generator(self.train.seed, Draw.AUGMENT, number)


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
    sizes = {item.target.shape for item in readable}
    if len(sizes) > 1:
        shown = ", ".join(f"{shape[0]}x{shape[1]}" for shape in sorted(sizes))
        return Unreadable(
            f"{readable[0].name}: ground truth of several sizes in one batch ({shown});"
            " bring all of it to one size, or train with batch_size=1"
        )
    target = np.stack([i.target if i.target.ndim == 3 else i.target[..., None] for i in readable])
    return Batch(
        image=torch.from_numpy(np.stack([item.image for item in readable])).permute(0, 3, 1, 2),
        target=torch.from_numpy(target).permute(0, 3, 1, 2),
        valid=torch.from_numpy(np.stack([item.valid for item in readable]))[:, None],
        names=tuple(item.name for item in readable),
        exact=torch.tensor([item.exact for item in readable]),
        extracted=tuple(
            torch.from_numpy(np.stack(values))
            for values in zip(*(item.extracted for item in readable), strict=True)
        ),
    )


def pictures_per_process(batch_size: int, processes: int) -> int:
    """Each has the same number of a batch's pictures."""
    if batch_size % processes:
        raise InputError(
            "train.batch_size", f"{batch_size} pictures cannot be shared by {processes} processes"
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
