"""FORMATS: one row for each output format. `encode` makes bytes, `save` writes them to files.

The command line, the server, the web page, the OpenAPI schema and the documentation are made from
this table. A format with less than 16 bits for depth is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from idisc import files, geometry
from idisc.errors import InputError, combine, lookup, require
from idisc.formats.numbers import encode_exr, encode_npy, encode_npz, encode_png16
from idisc.formats.options import DEFAULT_OPTIONS, Content, FormatOptions
from idisc.formats.pictures import encode_normals, encode_png, encode_uncertainty
from idisc.formats.shapes import encode_glb, encode_ply
from idisc.formats.viewer import encode_html
from idisc.prediction import Prediction
from idisc.tasks import Task

EIGHT_BITS = {"jpg", "jpeg", "png8", "bmp", "gif", "webp", "heic", "avif"}


@dataclass(frozen=True, kw_only=True)
class Format:
    """One output format."""

    name: str
    suffix: str  # follows the name of the picture
    description: str  # one line, for --help, the web page and the documentation
    media_type: str = "application/octet-stream"
    needs: tuple[Literal["depth", "metres", "normals", "level_std"], ...] = ("depth",)
    in_video: bool = False  # offered for clips: png as a film, others with one file for each frame
    on_web: bool = False  # offered by the server
    options: tuple[str, ...] = ()  # fields of FormatOptions that users set for this format
    package: str = ""  # optional dependency, brought by the extra of the same name as the format
    encode: Callable[
        [Prediction, FormatOptions], Mapping[str, Content]
    ]  # {suffix: ...}, main first

    @property
    def ending(self) -> str:
        """The ending of the file, with its dot."""
        return Path(self.suffix).suffix


_ROWS = (
    Format(
        name="png",
        suffix="_depth.png",
        media_type="image/png",
        description="depth in colours with a legend in metres",
        in_video=True,
        on_web=True,
        options=("colormap", "limits", "clean", "full_size"),
        encode=encode_png,
    ),
    Format(
        name="png16",
        suffix="_depth16.png",
        media_type="image/png",
        description="16-bit PNG; its factor to metres is in the file and in a JSON file",
        in_video=True,
        on_web=True,
        encode=encode_png16,
    ),
    Format(
        name="npy",
        suffix="_depth.npy",
        description="depth in metres for NumPy, with a JSON file",
        in_video=True,
        on_web=True,
        encode=encode_npy,
    ),
    Format(
        name="npz",
        suffix="_depth.npz",
        description="arrays for NumPy: depth, camera, uncertainty, normals, and the provenance",
        needs=(),
        in_video=True,
        on_web=True,
        encode=encode_npz,
    ),
    Format(
        name="exr",
        suffix="_depth.exr",
        media_type="image/x-exr",
        description="depth in metres as channel Z of an OpenEXR file",
        in_video=True,
        package="OpenEXR",
        encode=encode_exr,
    ),
    Format(
        name="ply",
        suffix="_points.ply",
        description="coloured point cloud in metres",
        needs=("depth", "metres"),
        on_web=True,
        options=("axes",),
        encode=encode_ply,
    ),
    Format(
        name="glb",
        suffix="_mesh.glb",
        media_type="model/gltf-binary",
        description="textured mesh in metres, cut at depth edges",
        needs=("depth", "metres"),
        on_web=True,
        options=("axes",),
        encode=encode_glb,
    ),
    Format(
        name="normals",
        suffix="_normals.png",
        media_type="image/png",
        description="surface normals as colours",
        needs=("normals",),
        on_web=True,
        options=("axes",),
        encode=encode_normals,
    ),
    Format(
        name="uncertainty",
        suffix="_uncertainty.png",
        media_type="image/png",
        description="standard deviation of the network's answers, in colours with a legend",
        needs=("level_std",),
        options=("clean", "full_size"),
        encode=encode_uncertainty,
    ),
    Format(
        name="html",
        suffix="_viewer.html",
        media_type="text/html",
        description="a page with picture, depth and a 3D view; one file, works without a network",
        options=("colormap", "limits"),
        encode=encode_html,
    ),
)
FORMATS = {row.name: row for row in _ROWS}


def default_formats(task: Task) -> tuple[Format, ...]:
    """Return what is saved if no format is named."""
    return tuple(FORMATS[name] for name in task.formats)


def parse(names: str | Sequence[str]) -> tuple[Format, ...]:
    """Return the formats of "npy, PLY", or of several such texts; each once, in order."""
    texts = [names] if isinstance(names, str) else names
    found = [name.strip().lower() for text in texts for name in text.split(",") if name.strip()]
    if not found:
        raise InputError("formats", "none is named", f"choose from {', '.join(FORMATS)}")
    for name in found:
        if name in EIGHT_BITS:
            raise InputError(
                f"format {name}",
                "8 bits are too few for metres",
                "choose png16, npy, npz or exr for depth, png for a picture",
            )
    return tuple(lookup(FORMATS, name, "format") for name in dict.fromkeys(found))


def check(prediction: Prediction, formats: Sequence[Format]) -> None:
    """Raise an InputError if a format needs something that the prediction does not have."""
    for row in formats:
        if row.package:
            require(row.package, extra=row.name)
        if "level_std" in row.needs and prediction.level_std is None:
            raise InputError(
                f"format {row.name}", "this prediction has no uncertainty", "leave it out"
            )
        if {"metres", "normals"} & set(row.needs) and prediction.normals is None:
            try:
                _ = prediction.metres
            except InputError as error:
                raise error.within(f"format {row.name}") from None
        if "depth" in row.needs and not _has_depth(prediction):
            raise InputError(
                f"format {row.name}", "no pixel has a depth, so there is nothing to save"
            )


def _has_depth(prediction: Prediction) -> bool:
    depth = prediction.depth_values
    return any(geometry.is_present(part).any() for part in (depth[::16, ::16], depth))  # fast first


def encode(
    prediction: Prediction, row: Format, options: FormatOptions = DEFAULT_OPTIONS
) -> Mapping[str, Content]:
    """Return the files of one format as {suffix: content}, the main file first."""
    check(prediction, [row])
    return row.encode(prediction.with_normals() if "normals" in row.needs else prediction, options)


def save(
    prediction: Prediction,
    folder: Path,
    name: str,
    formats: Sequence[Format],
    options: FormatOptions = DEFAULT_OPTIONS,
) -> list[Path]:
    """Write a prediction in several formats as FOLDER/NAME_...; return all files.

    What the formats need is checked before the first file is written. All files appear together
    or, if the disk is full, not at all. A format that cannot hold this prediction raises an
    InputError after the others are written. Normals for one format are also in the others.
    """
    if name in ("", ".", "..") or Path(name).name != name:
        raise InputError(f"name {name!r}", "a name without a folder is needed")
    if folder.suffix.lower() in {row.ending for row in _ROWS} and not folder.is_dir():
        raise InputError(folder, "a folder is needed", "pass name= to name the files in it")
    check(prediction, formats)
    if any("normals" in row.needs for row in formats):
        prediction = prediction.with_normals()
    written: list[Path] = []
    failed: list[InputError] = []
    with ExitStack() as stack:
        for row in formats:
            try:
                content = row.encode(prediction, options)
            except InputError as error:  # the other formats are still written
                failed.append(error)
                continue
            for suffix, data in content.items():
                path = folder / f"{name}{suffix}"
                stack.enter_context(files.atomic(path)).write_bytes(data)
                written.append(path)
            del content, data  # gigabytes for a large picture, while the next format is encoded
    if failed:
        combined = combine(failed)
        done = f"the other formats are written: {', '.join(map(str, written))}" if written else ""
        remedy = "; ".join(filter(None, [combined.remedy, done]))
        raise InputError(combined.subject, combined.reason, remedy)
    return written
