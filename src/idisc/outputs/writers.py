"""WRITERS: every format by name, and writing one or several of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from idisc import config, geometry
from idisc.errors import InputError, require
from idisc.outputs.depicted import USUAL, Depicted, Options
from idisc.outputs.numbers import write_exr, write_npy, write_npz, write_png16
from idisc.outputs.pictures import spread_of, write_normals, write_png, write_spread
from idisc.outputs.shapes import write_glb, write_ply
from idisc.outputs.viewer import write_html

EIGHT_BITS = {"jpg", "jpeg", "png8", "bmp", "gif", "webp", "heic", "avif"}


@dataclass(frozen=True)
class Writer:
    """One format."""

    suffix: str  # what a picture's name is followed by
    write: Callable[[Depicted, Path, Options], None]
    beside: str = ""  # ending of a second file, which lies beside the first
    of_depth: bool = True  # nothing to write without it
    heeds: tuple[str, ...] = ()  # fields of Options that a user may mean to change it with

    def files(self, path: Path, options: Options) -> list[Path]:
        """What is there after writing to `path`."""
        second = self.beside and options.beside
        return [path, path.with_suffix(self.beside)] if second else [path]


def formats_of(asked: str | Sequence[str]) -> tuple[str, ...]:
    """Names of formats as people ask for them, "npy, PLY" or several of that; each once, in order.

    InputError for one that does not exist, or that could not hold metres.
    """
    texts = [asked] if isinstance(asked, str) else asked
    names = [name.strip().lower() for text in texts for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"no format is named; there is {', '.join(WRITERS)}")
    for name in names:
        _check_name(name)
    return tuple(dict.fromkeys(names))


def save(
    depicted: Depicted,
    folder: Path,
    name: str,
    formats: Sequence[str],
    options: Options = USUAL,
) -> list[Path]:
    """Write a picture's result in several formats as FOLDER/NAME_...; returns all files written.

    Names of formats and what they need are checked before the first file is written. InputError
    for formats that cannot hold this result, after all others are there.
    """
    if name in ("", ".", "..") or Path(name).name != name:
        raise InputError(f"name {name!r}: a name without a folder is needed; the folder is apart")
    for kind in formats:
        _check(kind, depicted)
    written: list[Path] = []
    failed: list[str] = []
    for kind in dict.fromkeys(formats):
        try:
            written += write(kind, folder / f"{name}{WRITERS[kind].suffix}", depicted, options)
        except InputError as error:  # what one format cannot hold is no reason to lose the others
            failed.append(str(error))
    if failed:
        others = f"; the others are written: {', '.join(map(str, written))}" if written else ""
        raise InputError("; ".join(failed) + others)
    return written


def write(
    kind: str,
    path: Path,
    depicted: Depicted,
    options: Options = USUAL,
) -> list[Path]:
    """Write one format to a path with its ending; returns the path, and a second file's if any."""
    _check(kind, depicted)
    writer = WRITERS[kind]
    ending = Path(writer.suffix).suffix
    if path.suffix.lower() != ending:
        if path.suffix.lower().removeprefix(".") in EIGHT_BITS:
            raise InputError(f"{path}: {_refusal(path.suffix.lower().removeprefix('.'))}")
        raise InputError(f"{path}: '{kind}' is written to {ending}; change the name or the format")
    writer.write(depicted, path, options)
    return writer.files(path, options)


def _refusal(ending: str) -> str:
    return (
        f"{ending} has 8 bits, 256 steps, and no room for metres; for depth choose png16, npy, npz"
        " or exr, for a picture png"
    )


def _check_name(kind: str) -> None:
    if kind in EIGHT_BITS:
        raise InputError(f"format {kind}: {_refusal(kind)}")
    config.lookup(WRITERS, kind, "format")


def _check(kind: str, depicted: Depicted) -> None:
    """A format that exists, with what it needs, of arrays that fit together."""
    _check_name(kind)
    size = depicted.depth.shape
    if depicted.depth.dtype.kind != "f" or len(size) != 2:
        raise InputError(f"depth {size} of {depicted.depth.dtype}: (H, W) float32 metres needed")
    maps = {"image": depicted.image, "normals": depicted.normals, "spread": depicted.spread}
    shapes = {name: values.shape[:2] for name, values in maps.items() if values is not None}
    for name, shape in {**shapes, "camera": tuple(depicted.camera.size)}.items():
        if shape != size:
            raise InputError(f"{name} for {shape} pixels with depth for {size}: sizes must agree")
    if kind == "exr":
        require("OpenEXR", extra="exr")
    if kind == "spread":
        spread_of(depicted)
    if WRITERS[kind].of_depth and not geometry.is_present(depicted.depth).any():
        raise InputError(f"format {kind}: not one pixel has a depth; nothing to write")


WRITERS = {
    "png": Writer("_depth.png", write_png, heeds=("colours", "limits")),
    "png16": Writer("_depth16.png", write_png16, beside=".json"),
    "npy": Writer("_depth.npy", write_npy, beside=".json"),
    "npz": Writer("_depth.npz", write_npz, of_depth=False),
    "exr": Writer("_depth.exr", write_exr),
    "ply": Writer("_points.ply", write_ply, heeds=("axes",)),
    "glb": Writer("_mesh.glb", write_glb, heeds=("axes",)),
    "normals": Writer("_normals.png", write_normals, of_depth=False, heeds=("axes",)),
    "spread": Writer("_spread.png", write_spread, of_depth=False),
    "html": Writer("_viewer.html", write_html, heeds=("colours", "limits")),
}
ENDINGS = frozenset(Path(writer.suffix).suffix for writer in WRITERS.values())
