"""Measure how well the focal length of a picture can be predicted from the class token.

    idisc train indoor --data nyu --data desks ... --weights dinov2_vits14.pth --out run \
        --set train.cache_features=features --set model.adapter_rank=0    # with the last block
    python docs/examples/probe_fov.py nyu=features/f785992a desks=features/f98457a3 ...

Each argument is a folder of training data and the features that were cached for it. A ridge
regression of log focal length on class tokens is fitted to all folders but one, and tested on the
unchanged pictures of that folder. The baseline is the error of assuming the canonical camera for
every picture, as prediction does if the camera is unknown. Errors are means of |log ratio|, which
is also the error in metres.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idisc.cli.main import run_script
from idisc.configs.recipes import RECIPES
from idisc.data.dataset import Dataset, open_dataset
from idisc.errors import InputError
from idisc.train import seeding, views
from idisc.train.seeding import Draw

Floats = NDArray[np.float64]
PENALTY = 0.3  # the best of 0.03, 0.3 and 1 on most folders
DATA = RECIPES["indoor"].data
SIZE = DATA.size[0], DATA.size[1]


def read(folder: Path, cache: Path) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Class tokens (rows, C), log focal lengths (rows,), and which rows show whole pictures."""
    path = cache / "features.1.npy"
    if not path.is_file():
        raise InputError(path, "no such file", "name a folder that `idisc train` has cached")
    tokens = np.load(path, mmap_mode="r")[:, -1, 0].astype(np.float64)
    opened = open_dataset(folder, None, "train")
    dataset = Dataset(opened.source, "train", opened.spec)  # as stored
    count = len(tokens) // len(dataset)
    focals, whole = [], []
    for index in range(len(dataset)):
        sample = dataset[index]
        for number in range(count):
            generator = seeding.generator(0, Draw.VIEW, index, number)
            window = views.draw_window(sample, DATA, generator)
            seen = views.view(sample, SIZE, DATA.canonical_focal, window).camera
            assert seen is not None
            focals.append(math.log(seen.relative_focal))
            whole.append(window == views.Window())
    return tokens, np.array(focals), np.array(whole)


def fit(tokens: list[Floats], focals: list[Floats]) -> tuple[Floats, float]:
    """Ridge regression in which larger folders count by the root of their size."""
    x, y = np.concatenate(tokens), np.concatenate(focals)
    share = np.concatenate([np.full(len(each), len(each) ** -0.5) for each in focals])
    mean, std, middle = x.mean(0), x.std(0) + 1e-6, np.average(y, weights=share)
    z = (x - mean) / std
    normal = z.T @ (z * share[:, None]) + PENALTY * share.sum() * np.eye(z.shape[1])
    weights = np.linalg.solve(normal, z.T @ (share * (y - middle))) / std
    return weights, middle - mean @ weights


def main() -> None:
    """Print the error on each folder that was left out."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folders", nargs="+", metavar="DATA=FEATURES")
    pairs = [each.partition("=")[::2] for each in parser.parse_args().folders]
    found = [read(Path(folder), Path(cache)) for folder, cache in pairs]
    for index, (folder, _) in enumerate(pairs):
        rest = [each for number, each in enumerate(found) if number != index]
        weights, bias = fit([each[0] for each in rest], [each[1] for each in rest])
        tokens, focals, whole = found[index]
        error = np.abs(tokens @ weights + bias - focals)[whole].mean()
        assumed = np.abs(math.log(DATA.canonical_focal) - focals)[whole].mean()
        sys.stdout.write(
            f"{folder}: estimated {error:.3f}, canonical {assumed:.3f}, {whole.sum()} pictures\n"
        )


if __name__ == "__main__":
    run_script(main)
