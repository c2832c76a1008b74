"""Reads pictures ahead of the network and groups those of one size.

The network sees successive pictures of one size together, which is faster than one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from idisc.images import Photo, PhotoSource, read_photo
from idisc.predict.options import PredictOptions

BATCH = 4  # pictures in one pass of the network, at most
BATCH_PIXELS = 4_000_000  # of their results, unless one picture has more


def read_ahead(sources: Iterable[PhotoSource | Photo]) -> Iterator[Photo]:
    """Read pictures in a thread, up to one batch ahead."""
    waiting: deque[Future[Photo]] = deque()
    with ThreadPoolExecutor(1, thread_name_prefix="idisc-read") as reader:
        try:
            for number, source in enumerate(sources, start=1):
                waiting.append(reader.submit(_read, source, number))
                if len(waiting) > BATCH:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            reader.shutdown(wait=True, cancel_futures=True)


def _read(source: PhotoSource | Photo, number: int) -> Photo:
    photo = read_photo(source)
    return photo if photo.named else replace(photo, name=f"{photo.name}_{number}")


def group_by_size(photos: Iterable[Photo], options: PredictOptions) -> Iterator[list[Photo]]:
    """Group successive pictures of one size that fit into one pass."""
    seen = options.size[0] * options.size[1] if options.size else 0
    batch: list[Photo] = []
    for photo in photos:
        pixels = max(photo.size[0] * photo.size[1], seen)
        most = 1 if options.tile else max(1, min(BATCH, BATCH_PIXELS // pixels))
        if batch and (photo.size != batch[0].size or len(batch) >= most):
            yield batch
            batch = []
        batch.append(photo)
    if batch:
        yield batch
