"""Writes a submission to KITTI's depth prediction benchmark: a 16-bit PNG for each test picture.

The benchmark's archive holds `test_depth_prediction_anonymous/image/*.png`, 500 pictures of
352x1216; a submission has depth times 256 under the same names, in one zip without folders.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from idisc import files
from idisc.data.catalog import KITTI, KITTI_UNITS
from idisc.data.decode import write_png
from idisc.errors import IdiscError, InputError
from idisc.evaluate.run import check_task
from idisc.images import read_image
from idisc.predict.predictor import Predictor

METRES_PER_UNIT = KITTI_UNITS.metres_per_unit
PICTURES, SIZE = 500, (352, 1216)
ARCHIVE = "submission.zip"


def write_submission(
    predictor: Predictor,
    images: Path,
    out: Path,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Predict every PNG of `images` into the new folder `out`, zip them, return their number."""
    paths = sorted(images.glob("*.png")) if images.is_dir() else []
    if not paths:
        raise InputError(
            images, "contains no PNG", "the folder test_depth_prediction_anonymous/image is needed"
        )
    check_task(predictor.model.name, predictor.engine.task, KITTI)
    if predictor.model.unit == "relative":
        raise InputError(predictor.model.name, "its depth is relative, the benchmark is in metres")
    with files.atomic_folder(out) as draft:
        for index, path in enumerate(paths):
            image = read_image(path)
            if image.shape[:2] != SIZE:
                raise InputError(
                    path,
                    f"{image.shape[0]}x{image.shape[1]} pixels",
                    f"the benchmark's pictures have {SIZE[0]}x{SIZE[1]}",
                )
            try:
                depth = predictor.predict_at(image, SIZE).maps
            except IdiscError as error:
                raise error.within(path) from None
            # 0 means "no depth" to the benchmark.
            units = np.rint(np.clip(depth, METRES_PER_UNIT, 255.0) / METRES_PER_UNIT)
            write_png(draft / path.name, units.astype(np.uint16))
            if progress:
                progress(index + 1, len(paths))
        with zipfile.ZipFile(draft / ARCHIVE, "w") as archive:
            for path in paths:
                archive.write(draft / path.name, path.name)
    return len(paths)
