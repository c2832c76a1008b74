"""Checks of the splits: no test data may be used for training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import files
from idisc.data import folder
from idisc.data.doctor.findings import Finding, Severity
from idisc.data.doctor.inspection import Evidence, sample_indices
from idisc.images import FORMATS

_MAX_BITS = 3  # of 64 that differ. NYU's 795 and 654 images: the nearest two differ in 7
_MAX_DIFFERENCE = 8.0  # mean over thumbnails, in grey levels: flat images have no distinct bits
_THUMBNAILS = 10  # times the samples: a thumbnail costs a tenth of a full inspection
_SHAPE = (8, 9)  # of a thumbnail: eight differences in each of eight rows


def check_leakage(evidence: Evidence) -> Iterator[Finding]:
    """Find images, scenes and (near) copies in both splits, and splits that seem to be swapped."""
    splits = [[r for r in evidence.source.records if r.split == s] for s in ("train", "test")]
    train, test = (list(dict.fromkeys(record.image for record in split)) for split in splits)
    train_pairs, test_pairs = ({(r.image, r.target) for r in split} for split in splits)
    if evidence.source.dataset == "folder" and train_pairs == test_pairs:
        yield Finding("unsplit", tuple(train))
        return
    yield from _check_splits(evidence, train, test)
    yield from _check_scenes(evidence)
    in_train = set(train)
    only_test = [name for name in test if name not in in_train]
    copies = _copies(evidence, train, only_test)
    if copies:
        examples = tuple(f"{copy} = {original}" for copy, original in copies.items())
        yield Finding("copies", tuple(copies), examples=examples)
    alike = _lookalikes(evidence, train, [name for name in only_test if name not in copies])
    if alike:
        examples = tuple(f"{image} ~ {original}" for image, original in alike.items())
        yield Finding("lookalikes", tuple(alike), examples=examples)


def _check_splits(
    evidence: Evidence, train: Sequence[str], test: Sequence[str]
) -> Iterator[Finding]:
    if both := tuple(sorted(set(train) & set(test))):
        yield Finding("splits", both, len(test))
    counts: dict[str, float | str] = {"train": len(train), "test": len(test)}
    if (len(test), len(train)) == evidence.spec.counts and len(test) != len(train):
        yield Finding("swapped_lists", details=counts)
    elif train and len(test) > len(train):
        yield Finding("large_test", details=counts)


def _check_scenes(evidence: Evidence) -> Iterator[Finding]:
    prepared = evidence.source.prepared
    named = [record for record in evidence.source.records if record.scene not in ("", ".")]
    if len({record.scene for record in named}) < 2:
        return  # a single folder is no scene
    train, test = ({r.scene for r in named if r.split == split} for split in ("train", "test"))
    if both := train & test:
        # A folder of images may or may not be a scene; a stated scene is one.
        guessed = prepared.get("from") == folder.FOLDERS or "list" in prepared
        names = tuple(record.image for record in named if record.scene in both)
        severity: Severity | None = "warning" if guessed else None
        yield Finding("scenes", names, examples=tuple(sorted(both)), own_severity=severity)


def _copies(evidence: Evidence, train: Sequence[str], test: Sequence[str]) -> dict[str, str]:
    """Return test images whose bytes are in train under another name, with that name."""
    paths = {name: evidence.source.root / name for name in {*train, *test} - evidence.absent}
    sizes = {name: path.stat().st_size for name, path in paths.items()}
    # Only files of equal length can be equal, so most need not be read.
    common = {sizes.get(name) for name in train} & {sizes.get(name) for name in test}
    digests = {name: files.sha256(paths[name]) for name in paths if sizes[name] in common}
    originals = {digests[name]: name for name in train if name in digests}
    return {name: originals[digests[name]] for name in test if digests.get(name) in originals}


def _lookalikes(evidence: Evidence, train: Sequence[str], test: Sequence[str]) -> dict[str, str]:
    """Return test images that are nearly the same as one of train, with the first such image."""
    originals, images = _thumbnails(evidence, train), _thumbnails(evidence, test)
    if not originals or not images:
        return {}
    known, new = _signs(originals.values()), _signs(images.values())
    near = (new.shape[1] - new @ known.T) / 2 <= _MAX_BITS  # (tests, trains): bits that differ
    train, test, found = list(originals), list(images), dict[str, str]()
    for i, j in zip(*np.nonzero(near), strict=True):
        if np.abs(images[test[i]] - originals[train[j]]).mean() <= _MAX_DIFFERENCE:
            found.setdefault(test[i], train[j])
    return found


def _thumbnails(evidence: Evidence, names: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    """Return grey thumbnails (8, 9) of a sample of the images, without unreadable images."""
    present = [name for name in names if name not in evidence.absent]
    chosen = (present[i] for i in sample_indices(len(present), evidence.samples * _THUMBNAILS))
    read = {name: _thumbnail(evidence.source.root / name) for name in chosen}
    return {name: thumbnail for name, thumbnail in read.items() if thumbnail is not None}


def _thumbnail(path: Path) -> NDArray[np.float32] | None:
    try:
        with Image.open(path, formats=FORMATS) as picture:
            picture.draft("L", (8 * _SHAPE[1], 8 * _SHAPE[0]))  # a JPEG is decoded at an eighth
            if picture.mode.startswith("I"):
                return None  # 16 bits: not an image, and reported as such
            small = picture.convert("L").resize(_SHAPE[::-1], Image.Resampling.BOX)
            return np.asarray(small, dtype=np.float32)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None  # reported as damaged when its pixels are read


def _signs(thumbnails: Iterable[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return difference hashes (N, 64): 1 where a pixel is darker than the next one, else -1."""
    stack = np.stack(list(thumbnails))
    darker = (stack[:, :, 1:] > stack[:, :, :-1]).reshape(len(stack), -1)
    return np.where(darker, np.float32(1), np.float32(-1))
