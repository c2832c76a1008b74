"""Checks of the doctor on splits: nothing of the test may be learnt from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import files
from idisc.data import folder
from idisc.data.doctor.evidence import Case, Finding, listed, spread, told
from idisc.errors import counted
from idisc.images import FORMATS

_NEAR = 3  # of 64 bits. NYU's 795 and 654 pictures: the nearest two differ in 7
_ALIKE = 8.0  # grey levels of thumbnails, on average: flat pictures have no bits of their own
_THUMBNAILS = 10  # times the samples: a thumbnail costs a tenth of a full look
_SHAPE = (8, 9)  # of a thumbnail: eight differences in each of eight rows


def splits(case: Case) -> Iterator[Finding]:
    """Which pictures are for what: none twice, more for training than for the test."""
    if case.shared:
        yield Finding(
            "warning",
            "splits",
            "no splits: everything is used for both training and testing; make train/ and test/"
            " folders, or a split column in the table",
        )
        return
    train, test = _of(case, "train"), _of(case, "test")
    both = sorted(set(train) & set(test))
    if both and set(train) == set(test):
        text = f"train and test are the same {counted(len(both), 'picture')}; give the list of each"
        yield Finding("error", "splits", text, tuple(both))
    elif both:
        what = told(len(both), "picture", "are in train and in test")
        text = f"{what}: {listed(both)}; remove them from one"
        yield Finding("error", "splits", text, tuple(both))
    stated = case.spec.counts
    if (len(test), len(train)) == stated and len(test) != len(train):
        text = f"train has {len(train)} and test {len(test)} pictures, the paper's the other way"
        yield Finding("error", "splits", f"{text} round: swap the two lists")
    elif train and len(test) > len(train):
        has = f"test has {counted(len(test), 'picture')}, train {len(train)}"
        text = f"{has}; are the two lists swapped?"
        yield Finding("warning", "splits", text)


def scenes(case: Case) -> Iterator[Finding]:
    """Scenes with pictures in both splits."""
    if case.shared:
        return
    named = [record for record in case.source.records if record.scene not in ("", ".")]
    if len({record.scene for record in named}) < 2:
        return  # one folder for all is no scene
    by_split = {
        split: {record.scene for record in named if record.split == split}
        for split in ("train", "test")
    }
    both = sorted(by_split["train"] & by_split["test"])
    if both:
        guessed = (
            case.source.prepared.get("from") == folder.FOLDERS or "list" in case.source.prepared
        )
        what = told(len(both), "scene", "are in train and in test")
        text = f"{what}: {listed(both)}; keep each in one split"
        names = (record.image for record in named if record.scene in both)
        # A folder of pictures may be a scene or may not; a stated scene is one.
        yield Finding("warning" if guessed else "error", "scenes", text, tuple(names))


def copies(case: Case) -> Iterator[Finding]:
    """Pictures of the test whose very bytes are in train under another name."""
    if case.shared:
        return
    lengths = {  # only files of equal length can be equal: most need not be read
        split: {
            name: (case.source.root / name).stat().st_size
            for name in _of(case, split)
            if name not in case.absent
        }
        for split in ("train", "test")
    }
    common = set(lengths["train"].values()) & set(lengths["test"].values())
    digests = {
        split: {
            name: files.sha256(case.source.root / name) for name in names if names[name] in common
        }
        for split, names in lengths.items()
    }
    known = {digest: name for name, digest in digests["train"].items()}
    same = {
        name: known[digest]
        for name, digest in digests["test"].items()
        if digest in known and name not in digests["train"]
    }
    if same:
        pairs = listed([f"{one} = {other}" for one, other in same.items()])
        text = f"{told(len(same), 'picture', 'are in train and in test under two names')}: {pairs}"
        yield Finding("error", "copies", f"{text}; remove them from one split", tuple(same))


def lookalikes(case: Case) -> Iterator[Finding]:
    """Pictures of the test that are nearly the same as one of train."""
    if case.shared:
        return
    train = _thumbnails(case, _of(case, "train"))
    test = _thumbnails(case, _of(case, "test"))
    if not train or not test:
        return
    found: dict[str, str] = {}  # the first of train for each of test
    names, others = list(test), list(train)
    near = _distances(_bits(test.values()), _bits(train.values())) <= _NEAR  # (tests, trains)
    for i, j in zip(*np.nonzero(near), strict=True):
        one, other = names[i], others[j]
        alike = np.abs(test[one] - train[other]).mean() <= _ALIKE
        if alike and one not in found and not _same_file(case.source.root, one, other):
            found[one] = other
    if found:
        pairs = listed([f"{one} ~ {other}" for one, other in found.items()])
        what = told(len(found), "picture", "are nearly the same in train and in test")
        text = f"{what}: {pairs}"
        todo = "keep frames of one recording in one split"
        yield Finding("warning", "lookalikes", f"{text}; {todo}", tuple(found))


def _of(case: Case, split: str) -> list[str]:
    """The pictures of a split, each once, in their order."""
    return list(dict.fromkeys(r.image for r in case.source.records if r.split == split))


def _thumbnails(case: Case, names: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    """Grey thumbnails (8, 9) of a spread of the pictures, as far as they can be read."""
    there = [name for name in names if name not in case.absent]
    chosen = (there[index] for index in spread(len(there), case.samples * _THUMBNAILS))
    read = {name: _thumbnail(case.source.root / name) for name in chosen}
    return {name: thumbnail for name, thumbnail in read.items() if thumbnail is not None}


def _thumbnail(path: Path) -> NDArray[np.float32] | None:
    try:
        with Image.open(path, formats=FORMATS) as picture:
            picture.draft("L", (8 * _SHAPE[1], 8 * _SHAPE[0]))  # a JPEG is decoded at an eighth
            if picture.mode.startswith("I"):
                return None  # 16 bits: not a picture, and reported as such
            small = picture.convert("L").resize(_SHAPE[::-1], Image.Resampling.BOX)
            return np.asarray(small, dtype=np.float32)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None  # reported as damaged by the look at its pixels


def _bits(thumbnails: Iterable[NDArray[np.float32]]) -> NDArray[np.float32]:
    """(N, 64): is each pixel darker than its neighbour to the right? (the "difference hash")."""
    stack = np.stack(list(thumbnails))
    return (stack[:, :, 1:] > stack[:, :, :-1]).reshape(len(stack), -1).astype(np.float32)


def _distances(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """(N, M): bits that differ."""
    return np.asarray(one.sum(1)[:, None] + other.sum(1) - 2 * one @ other.T)


def _same_file(root: Path, one: str, other: str) -> bool:
    return one == other or files.sha256(root / one) == files.sha256(root / other)
