"""Samples for training as tensors, in an order that depends only on seed and number.

Every sample of a run has a number. The number determines the folder, the picture and the seed of
the augmentation. So batches are the same for any number of workers, processes and interruptions,
and a resumed run only has to continue counting.
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

from idisc.configs.schema import DataConfig, TrainConfig
from idisc.data.dataset import Dataset, Sample
from idisc.data.framing import resize_nearest
from idisc.errors import DataError, IdiscError, InputError, first_line
from idisc.images import picture_size
from idisc.train import seeding, views
from idisc.train.augment import Generator, augment
from idisc.train.seeding import Draw


class Batch(NamedTuple):
    """The input of one forward pass."""

    image: Tensor  # (B, 3, H, W) uint8
    target: Tensor  # (B, C, Hg, Wg) float32
    valid: Tensor  # (B, 1, Hg, Wg) boolean
    names: tuple[str, ...]  # of the pictures
    exact: Tensor  # (B,) boolean: from a folder of `data.exact`
    extracted: tuple[Tensor, ...] = ()  # cached results of `IDisc.extract` for the images


@dataclass(frozen=True)
class Unreadable:
    """A sample that cannot be read. A worker returns it, and the training process raises it."""

    error: IdiscError


class Item(NamedTuple):
    """An augmented sample."""

    image: NDArray[np.uint8]  # (H, W, 3)
    target: NDArray[np.float32]  # (Hg, Wg) or (Hg, Wg, C)
    valid: NDArray[np.bool_]  # (Hg, Wg)
    name: str  # of the picture
    exact: bool = False  # from a folder of `data.exact`
    extracted: tuple[NDArray[np.float16], ...] = ()  # of this image, as in `Batch`


class Order:
    """The picture of each number; each folder has a new order in every epoch."""

    def __init__(self, lengths: Sequence[int], mix: Sequence[float], total: int, seed: int) -> None:
        if mix and len(mix) != len(lengths):
            raise InputError("data.mix", f"{len(mix)} shares for {len(lengths)} training folders")
        if mix and (min(mix) < 0 or sum(mix) <= 0):
            raise InputError("data.mix", f"{tuple(mix)} are not shares", "use 0 or more")
        shares = np.array(mix or lengths, dtype=float)
        self.lengths, self.seed = lengths, seed
        generator = seeding.generator(seed, Draw.FOLDER)
        self.folder = generator.choice(len(lengths), size=total, p=shares / shares.sum())
        self.before = np.zeros(total, dtype=np.int64)  # earlier numbers of the same folder
        for folder in range(len(lengths)):
            mine = self.folder == folder
            self.before[mine] = np.arange(mine.sum())

    def __getitem__(self, number: int) -> tuple[int, int]:
        """Return folder and index of a sample."""
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
        # Targets keep their size if all have the same.
        self.as_stored = len(folders) == 1 and not _of_several_sizes(folders[0])

    def __getitem__(self, number: int) -> Item | Unreadable:
        try:
            generator = seeding.generator(self.train.seed, Draw.AUGMENT, number)
            return self.item(*self.order[number], generator)
        except (IdiscError, OSError) as error:
            return Unreadable(as_data_error(error))

    def item(self, folder: int, index: int, generator: Generator) -> Item:
        """Return an augmented picture of a folder."""
        sample = self.augmented(self.folders[folder][index], generator)
        if not self.as_stored:
            sample = with_target_at_picture_size(sample)
        exact = folder in self.data.exact
        return Item(sample.image, sample.target, sample.valid, sample.record.image, exact)

    def augmented(self, sample: Sample, generator: Generator) -> Sample:
        """Return a stored sample in the form in which the network sees it."""
        data = self.data
        if not data.canonical_focal:
            return augment(sample, data.augment, generator)
        window = views.draw_window(sample, data, generator)
        size = data.size[0], data.size[1]
        sample = views.view(sample, size, data.canonical_focal, window)
        colours = replace(data.augment, geometry_weight=0.0, translation_weight=0.0)
        return augment(sample, colours, generator)


def _of_several_sizes(dataset: Dataset) -> bool:
    """Return whether the pictures of a user's folder differ in size.

    Those of the catalog are framed to one size.
    """
    if dataset.source.dataset != "folder":
        return False
    return len({picture_size(dataset.source.root / r.image) for r in dataset.records}) > 1


def as_data_error(error: IdiscError | OSError) -> IdiscError:
    """Return an error that can be sent to another process."""
    if isinstance(error, IdiscError):
        return error
    return DataError(error.filename or "", error.strerror or first_line(error))


def with_target_at_picture_size(sample: Sample) -> Sample:
    """Resize the target to the size of the picture, for folders whose targets differ in size."""
    size = (sample.image.shape[0], sample.image.shape[1])
    if sample.target.shape[:2] == size:
        return sample
    return replace(
        sample,
        target=resize_nearest(sample.target, size),
        valid=resize_nearest(sample.valid.astype(np.float32), size) > 0,
    )


def collate(items: Sequence[Item | Unreadable]) -> Batch | Unreadable:
    """Make a batch of samples of one size."""
    readable: list[Item] = []
    for item in items:
        if isinstance(item, Unreadable):
            return item
        readable.append(item)
    sizes = {item.target.shape for item in readable}
    if len(sizes) > 1:
        shown = ", ".join(f"{shape[0]}x{shape[1]}" for shape in sorted(sizes))
        return Unreadable(
            DataError(
                readable[0].name,
                f"ground truth of several sizes in one batch ({shown})",
                "resize all of it to one size, or train with batch_size=1",
            )
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
    """Return the share of each process in a batch; InputError if the shares differ."""
    if batch_size % processes:
        raise InputError(
            "train.batch_size", f"{batch_size} pictures cannot be shared by {processes} processes"
        )
    return batch_size // processes


def batches(stream: Stream, start: int, *, rank: int, share: int, workers: int) -> Iterator[Batch]:
    """Yield the batches of one process from optimizer step `start` on, `accumulate` per step.

    `share` is the number of pictures of a batch in each process.
    """
    train = stream.train
    passes = range(start * train.accumulate, train.iterations * train.accumulate)
    firsts = [index * train.batch_size + rank * share for index in passes]
    loader: DataLoader[Item | Unreadable] = DataLoader(
        stream,
        batch_sampler=[list(range(first, first + share)) for first in firsts],
        num_workers=workers,
        collate_fn=collate,
        multiprocessing_context="spawn" if workers else None,  # threads of torch are lost in a fork
        generator=torch.Generator(),  # not the global one, which drops paths
        prefetch_factor=4 if workers else None,
    )
    for batch in loader:
        if isinstance(batch, Unreadable):
            raise batch.error
        yield batch
