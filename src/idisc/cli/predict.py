"""`idisc predict`: metres out of photos, from files, folders, patterns or stdin."""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from idisc import config
from idisc.camera import Camera
from idisc.cli import options, progress, tables
from idisc.errors import IdiscError, IdiscWarning, InputError

if TYPE_CHECKING:
    from idisc.outputs import Options
    from idisc.predict.inputs import Input
    from idisc.predict.prediction import Prediction
    from idisc.predict.predictor import Predictor

CameraFor = Callable[[tuple[int, int]], Camera]
STREAMED = ("png16", "npy")  # formats that one can read from stdout


@click.command(name="predict")
@click.argument("pictures", nargs=-1, required=True, metavar="PICTURE...")
@click.option("-o", "--out", type=options.PATH, help="Folder of the results [beside each picture]")
@click.option(
    "--weights", "--model", "model", type=options.PATH, help="Checkpoint folder or .onnx file."
)
@click.option(
    "--save", "formats", multiple=True, metavar="FORMAT,...", help="What to write [png,png16]"
)
@click.option("--size", type=options.PictureSize(), help="Of the picture in the network.")
@click.option("--tile", is_flag=True, help="Refine large pictures in tiles.")
@click.option("--tile-size", type=options.PictureSize(), help="Of a tile; implies --tile.")
@click.option("--tta", is_flag=True, help="Also predict the mirrored picture: twice the time.")
@click.option("--fov", type=float, metavar="DEG", help="Horizontal field of view.")
@click.option("--focal", metavar="26mm|1400px", help="35 mm equivalent, or in pixels.")
@click.option("--camera-matrix", "matrix", metavar="NUMBERS|FILE", help="fx,fy,cx,cy or 3x3.")
@click.option("--known", metavar="'X,Y X,Y = 2.40m'", help="Two points and their true distance.")
@click.option("--rescale-to-training-camera", "rescale", is_flag=True, help="Correct for the lens.")
@click.option("--normals", is_flag=True, help="Also surface normals.")
@click.option("--axes", metavar="NAME", help="Of points and normals: opencv or opengl.")
@click.option("--range", "limits", metavar="LOW,HIGH", help="Metres at both ends of the colours.")
@click.option("--colours", metavar="NAME", help="Any matplotlib colour map [magma_r]")
@click.option("--recursive", is_flag=True, help="Also the folders below a folder.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1 ...")
def command(
    pictures: tuple[str, ...],
    out: Path | None,
    model: Path | None,
    formats: tuple[str, ...],
    size: tuple[int, int] | None,
    tile: bool,
    tile_size: tuple[int, int] | None,
    tta: bool,
    fov: float | None,
    focal: str | None,
    matrix: str | None,
    known: str | None,
    rescale: bool,
    normals: bool,
    axes: str | None,
    limits: str | None,
    colours: str | None,
    recursive: bool,
    device: str,
) -> None:
    """Predict the depth of each PICTURE in metres.

    A PICTURE is a file, a folder, a pattern such as "photos/*.jpg", or - for stdin, whose result
    goes to stdout unless -o is given (--save png16 or npy). Formats: png (coloured, to look at),
    png16, npy, npz, exr, ply, glb, normals, spread, html.
    """
    from idisc.predict import inputs, predictor
    from idisc.predict.prediction import Known

    how = {
        "camera": camera_rule(fov, focal, matrix),
        "size": size,
        "tta": tta,
        "tile": tile_size or tile,
        "known": None if known is None else Known.parse(known),
        "rescale_to_training_camera": rescale,
        "normals": normals,
    }
    saving = Saving(out, _formats(formats), _options(axes, limits, colours), normals)
    found = inputs.find(pictures, recursive=recursive, beside=out is None)
    saving.check(found.inputs)
    loaded = predictor.load(model, device)
    run = Run(loaded, saving, how)
    with progress.bar("predicting") as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", IdiscWarning)  # told below, from the facts
        for done, item in enumerate(found.inputs, start=1):
            run.add(item)
            advance(done, len(found.inputs))
    run.report(found.problems)


@dataclass(frozen=True)
class Saving:
    """Where results go, and as what."""

    folder: Path | None  # None: beside each picture, and of stdin to stdout
    formats: tuple[str, ...]  # none: the usual ones
    options: Options
    normals: bool

    def check(self, items: Sequence[Input]) -> None:
        """Before any work is done: what cannot end well."""
        if self.folder is not None or all(item.path for item in items):
            return
        if len(self.formats) > 1 or any(kind not in STREAMED for kind in self.formats):
            raise InputError(f"stdin to stdout is one of {' or '.join(STREAMED)}; or pass -o DIR")
        if sys.stdout.isatty():
            raise InputError(
                "stdout is a terminal; send it to a file or another program, or -o DIR"
            )

    def write(self, item: Input, prediction: Prediction) -> list[Path]:
        """The files written; none for stdout."""
        if item.path is None and self.folder is None:
            self._stream(prediction)
            return []
        formats = self.formats or self._usual(prediction)
        if self.normals:
            formats = tuple(dict.fromkeys([*formats, "normals"]))
        folder = self.folder or (item.path.parent if item.path else Path())
        return prediction.save(folder, formats, name=item.name, options=self.options)

    def _usual(self, prediction: Prediction) -> tuple[str, ...]:
        from idisc.predict.prediction import FORMATS

        if np.isnan(prediction.depth).all():  # a network for normals
            return ("normals",)
        return FORMATS

    def _stream(self, prediction: Prediction) -> None:
        from idisc import outputs

        kind = self.formats[0] if self.formats else STREAMED[0]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"stdin{outputs.WRITERS[kind].suffix}"
            outputs.write(kind, path, prediction, self.options)
            sys.stdout.buffer.write(path.read_bytes())
            sys.stdout.buffer.flush()


class Run:
    """Pictures one after the other; what fails is kept for the summary."""

    def __init__(self, predictor: Predictor, saving: Saving, how: dict[str, Any]) -> None:
        self.predictor, self.saving, self.how = predictor, saving, how
        self.lines: list[tuple[str, bool]] = []  # text, and whether it is for stderr
        self.failures: list[tuple[str, str]] = []  # what, and why
        self.warnings: dict[str, list[str]] = {}  # text -> pictures
        self.count = 0

    def add(self, item: Input) -> None:
        """Predict and save one picture."""
        from idisc.images import read_photo

        self.count += 1
        try:
            photo = read_photo(item.source(), "stdin" if item.path is None else item.path.name)
            prediction = self.predictor.predict(photo, **self.how)
            written = self.saving.write(item, prediction)
        except IdiscError as error:
            self.failures.append((item.label, str(error)))
            return
        where = ", ".join(str(path) for path in written) or "stdout"
        self.lines.append((f"{item.label}: {_in_words(prediction)} -> {where}", not written))
        if "warning" in prediction.facts:
            self.warnings.setdefault(prediction.facts["warning"], []).append(item.label)

    def report(self, problems: Sequence[str]) -> None:
        """Say what was done; what was not is an error with exit code 2."""
        for line, aside in self.lines:
            click.echo(line, err=aside)
        for text, labels in self.warnings.items():
            more = f" (and {len(labels) - 1} more)" if len(labels) > 1 else ""
            tables.note(f"{labels[0]}{more}: {text}")
        reasons = [*problems, *(reason for _, reason in self.failures)]
        if len(reasons) == 1 and not self.lines:
            raise InputError(reasons[0])
        for reason in reasons:
            tables.note(f"failed: {reason}")
        if reasons:
            names = [text.partition(": ")[0] for text in problems]
            names += [label for label, _ in self.failures]
            total = self.count + len(problems)
            raise InputError(f"{len(reasons)} of {total} failed: {', '.join(names)}")


def _in_words(prediction: Prediction) -> str:
    """One line about a result."""
    facts = prediction.facts
    about = f"camera {facts['camera']}, model {facts['model']}, domain {facts['domain']}"
    if np.isnan(prediction.depth).all():
        return f"normals; {about}"
    step = 1 + max(prediction.depth.shape) // 2000  # a look, not a measurement
    low, middle, high = np.percentile(prediction.depth[::step, ::step], [2, 50, 98])
    rescaled = f"; {facts['rescaled']}" if "rescaled" in facts else ""
    return f"{low:.2f} to {high:.2f} m, median {middle:.2f} m; {about}{rescaled}"


def camera_rule(fov: float | None, focal: str | None, matrix: str | None) -> CameraFor | None:
    """How the options make a camera for a picture of some size; None: they do not."""
    if sum(option is not None for option in (fov, focal, matrix)) > 1:
        raise click.UsageError("one of --fov, --focal and --camera-matrix is enough")
    if fov is not None:
        rule = partial(Camera.from_fov, fov, origin=f"given {fov:g} deg")
    elif focal is not None:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(mm|px)\s*", focal)
        if not match:
            raise InputError(f"--focal {focal}: write it as 26mm (35 mm equivalent) or 1400px")
        make = Camera.from_focal_35mm if match[2] == "mm" else Camera.from_focal
        rule = partial(make, float(match[1]), origin=f"given {match[1]} {match[2]}")
    elif matrix is not None:
        rule = partial(Camera.from_matrix, _matrix(matrix), origin="given matrix")
    else:
        return None
    rule((480, 640))  # numbers that make no camera are an error now, not after the first picture
    return rule


def _matrix(text: str) -> list[list[float]]:
    """K of fx,fy,cx,cy, of nine numbers, or of a file that has them in any form of text."""
    path = Path(text)
    named = len(text) < 200 and path.is_file()
    content = path.read_text(encoding="utf-8", errors="replace")[:10_000] if named else text
    numbers = [float(number) for number in re.findall(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?", content)]
    if len(numbers) == 4 and not re.search(r"[A-Za-z]{3}", content):
        fx, fy, cx, cy = numbers
        return [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]
    if len(numbers) == 9:
        return [numbers[:3], numbers[3:6], numbers[6:]]
    raise InputError(
        f"--camera-matrix {text}: fx,fy,cx,cy or the nine numbers of a 3x3 matrix are needed, or"
        " a text file that has them"
    )


def _formats(given: Sequence[str]) -> tuple[str, ...]:
    """Names of formats, in the order given; a wrong one gets the nearest."""
    from idisc.outputs import WRITERS

    names = [name.strip() for text in given for name in text.split(",") if name.strip()]
    for name in names:
        if name in ("jpg", "jpeg", "png8"):
            raise InputError(f"--save {name}: 8 bits cannot hold metres; png16, npy, npz, exr can")
        config.lookup(WRITERS, name, "format")
    return tuple(dict.fromkeys(names))


def _options(axes: str | None, limits: str | None, colours: str | None) -> Options:
    from idisc import outputs

    changes: dict[str, Any] = {"axes": axes}
    if colours is not None:
        changes["colours"] = colours
    if limits is not None:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*[,-]\s*(\d+(?:\.\d+)?)\s*", limits)
        if not match:
            raise InputError(f"--range {limits}: write it in metres, as 0.5,8")
        changes["limits"] = float(match[1]), float(match[2])
    return outputs.Options(**changes)
