"""The options --fov, --focal and --camera-matrix: the camera of a picture."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from idisc.camera import Camera, matrix_camera
from idisc.errors import InputError
from idisc.sizes import Size, describe_size, size_text

CameraFor = Callable[[Size], Camera]


def camera_rule(fov: float | None, focal: str | None, matrix: str | None) -> CameraFor | None:
    """Return a function from the size of a picture to its camera; None if no option is given.

    Values that are not a valid camera are an error before the first picture is predicted.
    """
    if sum(option is not None for option in (fov, focal, matrix)) > 1:
        raise click.UsageError("--fov, --focal and --camera-matrix exclude each other; pass one")
    if fov is not None:
        Camera.from_fov(fov, (480, 640))  # checks the value
        return partial(Camera.from_fov, fov)
    if focal is not None:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(mm|px)\s*", focal)
        if not match:
            raise InputError(
                f"--focal {focal}", "no unit", "write 26mm (35 mm equivalent) or 1400px"
            )
        if not float(match[1]):
            raise InputError(f"--focal {focal}", "a length above 0 is needed")
        make = Camera.from_focal_35mm if match[2] == "mm" else Camera.from_focal
        return partial(make, float(match[1]))
    return MatrixRule(_parse_matrix(matrix)) if matrix is not None else None


class MatrixRule:
    """A camera matrix, which is valid for pictures of one size only."""

    def __init__(self, matrix: list[list[float]]) -> None:
        Camera.from_matrix(matrix, (480, 640))  # checks the values
        self.matrix = matrix
        self.size: Size | None = None  # of the first picture it was used for

    def __repr__(self) -> str:
        return f"MatrixRule({self.matrix})"  # the same in every process: jobs are compared by it

    def __call__(self, size: Size) -> Camera:
        """Return the camera; InputError for a picture of another size than the first."""
        if self.size is not None and self.size != size:
            raise InputError(
                "--camera-matrix",
                f"it is in pixels of {describe_size(self.size)}, the size of the first picture, but"
                f" this picture has {size_text(size)}",
                "predict it in another call",
            )
        camera = matrix_camera(self.matrix, size)
        self.size = size
        return camera


def _parse_matrix(text: str) -> list[list[float]]:
    """Parse fx,fy,cx,cy, nine numbers, or a text file that contains them."""
    path = Path(text)
    is_file = len(text) < 200 and path.is_file()
    content = path.read_text(encoding="utf-8", errors="replace")[:10_000] if is_file else text
    numbers = [float(number) for number in re.findall(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?", content)]
    if len(numbers) == 4 and not re.search(r"[A-Za-z]{3}", content):
        fx, fy, cx, cy = numbers
        return [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]
    if len(numbers) == 9:
        return [numbers[:3], numbers[3:6], numbers[6:]]
    raise InputError(
        f"--camera-matrix {text}",
        "not a camera matrix",
        "write fx,fy,cx,cy or the nine numbers of a 3x3 matrix, or name a text file with them",
    )
