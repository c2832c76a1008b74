"""A folder of pairs without problems; each test of the doctor breaks one thing in it."""

import csv
import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from idisc.data import doctor, manifest
from idisc.data.dataset import open_source

SIZE = (120, 160)
COUNT, TESTS = 20, 6


def scene(seed):
    """Boxes in front of a wall and a floor: colours (H, W, 3) and metres (H, W) that agree."""
    random = np.random.default_rng(seed)
    rows = np.linspace(0, 1, SIZE[0])[:, None]
    depth = np.broadcast_to(np.where(rows < 0.5, 4.5, 4.5 - 5 * (rows - 0.5)), SIZE).copy()
    image = np.broadcast_to(np.where(rows[..., None] < 0.5, 190.0, 90.0), (*SIZE, 3)).copy()
    for _ in range(9):
        top, left = random.integers(0, SIZE[0] - 20), random.integers(0, SIZE[1] - 20)
        box = slice(top, top + random.integers(10, 45)), slice(left, left + random.integers(10, 45))
        depth[box] = random.uniform(1, 4)
        image[box] = random.uniform(20, 235, 3)
    noisy = image + random.normal(0, 6, image.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8), depth.astype(np.float32)


def save_depth(path, depth, units_per_metre=1000):
    """Metres as a 16-bit PNG."""
    Image.fromarray(np.round(depth * units_per_metre).astype(np.uint16)).save(path)


def gathered(root, name=None, lists=()):
    """The records of a folder, also those whose files are missing, and their dataset."""
    return open_source(root, name, lists, complete=False)


@dataclass
class Pairs:
    """A folder of pairs with the table that lists them; a test changes one thing of it."""

    root: Path
    rows: list[dict[str, Any]] = field(default_factory=list)

    def depth(self, index):
        return self.root / str(self.rows[index]["depth"])

    def image(self, index):
        return self.root / str(self.rows[index]["image"])

    def set_all(self, **columns):
        for row in self.rows:
            row.update(columns)

    def change_depth(self, change):
        for index in range(len(self.rows)):
            save_depth(self.depth(index), change(scene(index)[1]))

    def report(self, **options):
        with (self.root / "pairs.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, list(self.rows[0]))
            table.writeheader()
            table.writerows(self.rows)
        return doctor.examine(*gathered(self.root), **options)


def good_pairs(root):
    """Scenes of two pictures each, most of them to train and the last ones to test."""
    for name in ("images", "depth"):
        (root / name).mkdir()
    made = Pairs(root)
    for index in range(COUNT):
        image, depth = scene(index)
        row = {
            "image": f"images/{index:04}.png",
            "depth": f"depth/{index:04}.png",
            "split": "train" if index < COUNT - TESTS else "test",
            "scene": f"room_{index // 2}",
            "fx": 130,
            "fy": 130,
            "cx": 79.5,
            "cy": 59.5,
        }
        made.rows.append(row)
        Image.fromarray(image).save(made.image(index))
        save_depth(made.depth(index), depth)
    return made


def by_code(report):
    return {finding.code: finding for finding in report.findings}


def only(report):
    """Return the only finding of a report."""
    assert len(report.findings) == 1, [finding.describe() for finding in report.findings]
    return report.findings[0]


def as_dataset(pairs, **changes):
    """Examine the folder as a dataset of the catalog with more known facts."""
    pairs.report()
    source, spec = gathered(pairs.root)
    return doctor.examine(source, replace(spec, **changes))


def prepared(pairs):
    """The same pairs as a prepared folder, hashed."""
    pairs.report()
    source = gathered(pairs.root)[0]
    hashed = [
        replace(record, sha256=_digest(pairs.root, record), size=SIZE) for record in source.records
    ]
    (pairs.root / "pairs.csv").unlink()
    manifest.write(replace(source, records=tuple(hashed)))
    return manifest.read(pairs.root)


def _digest(root, record):
    content = (root / record.image).read_bytes() + (root / record.target).read_bytes()
    return hashlib.sha256(content).hexdigest()
