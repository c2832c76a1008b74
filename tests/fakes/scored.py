"""Samples and datasets with ground truth, and predictions of them that are a tenth too far."""

from pathlib import Path

import numpy as np
from PIL import Image
from tests.fakes import indoor

from idisc.data import catalog
from idisc.data.dataset import Dataset, Sample, open_dataset
from idisc.data.decode import DepthMap, NormalMap, write_normals
from idisc.data.framing import Place
from idisc.data.manifest import Manifest, Record


def sample_of(target, place=None, image="a.jpg", sensor=""):
    """A sample with this ground truth; all of its pixels are valid."""
    size = target.shape[0], target.shape[1]
    return Sample(
        image=np.zeros((2, 2, 3), np.uint8),
        target=target,
        valid=np.ones(size, bool),
        camera=None,
        place=place or Place(0, 0, size),
        record=Record(image=image, target="t.png", split="test", sensor=sensor),
    )


def dataset_of(root, targets, camera=None):
    """Depth in metres as arrays on disk, each with a black image called NAME.png."""
    records = []
    for number, (name, depth) in enumerate(targets.items()):
        np.save(root / f"{number}.npy", depth.astype(np.float32))
        Image.new("RGB", depth.shape[::-1]).save(root / f"{name}.png")
        files = {"image": f"{name}.png", "target": f"{number}.npy"}
        records.append(Record(**files, split="test", size=depth.shape, intrinsics=camera))
    return _opened(root, catalog.FOLDER, DepthMap(metres_per_unit=1.0), records)


def normals_dataset(root, normals):
    """Normals (H, W, 3) of one black image, a.png."""
    write_normals(root / "n.png", normals, NormalMap())
    Image.new("RGB", normals.shape[1::-1]).save(root / "a.png")
    records = [Record(image="a.png", target="n.png", split="test")]
    return _opened(root, catalog.SYNTHETIC_NORMALS, NormalMap(), records)


def _opened(root, spec, target, records):
    source = Manifest(
        dataset=spec.name, target=target, records=tuple(records), root=root, sha256="5ha"
    )
    return Dataset(source, "test", spec)


def a_tenth_too_far(data, name, out, factor=1.1):
    """Predictions of a test split; normals are exact. Full frames of KITTI as PNG."""
    dataset = open_dataset(data, name, "test")
    for index, record in enumerate(dataset.records):
        path = out / Path(record.image).relative_to("rgb")
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "nyu_normals":
            indoor.save(path.with_suffix(".png"), indoor.load(data / record.target))
        elif name == "kitti":
            stored = indoor.load(data / record.target)
            wrong = np.where(stored > 0, stored * factor, 1000).round()
            indoor.save(path.with_suffix(".png"), wrong.astype(np.uint16))
        else:
            target = dataset[index].target
            np.save(path.with_suffix(".npy"), np.where(target > 0, target * factor, 5))
    return out


def own_pairs(place):
    """Make the folder `own` with two pairs in millimetres, and predictions in `guess`."""
    root = place / "own"
    for number in range(2):
        depth = indoor.millimetres(number)
        indoor.save(root / f"images/{number}.png", indoor.picture(number))
        indoor.save(root / f"depth/{number}.png", depth)
        indoor.save(place / f"guess/{number}.png", np.maximum(depth * 1.1, 9).astype(np.uint16))
    return root


def scored_by(own):
    """The options of a call that scores those predictions."""
    return ("--predictions", own.parent / "guess", "--scale", 0.001)
