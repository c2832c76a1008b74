"""`idisc predict`: metres out of photos and videos: files, folders, patterns or stdin."""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from idisc import config
from idisc.camera import Camera
from idisc.cli import options, progress, tables
from idisc.cli.batch import Failures
from idisc.errors import IdiscError, IdiscWarning, InputError

if TYPE_CHECKING:
    from idisc.outputs import Options
    from idisc.predict.inputs import Input
    from idisc.predict.prediction import Prediction
    from idisc.predict.predictor import Predictor
    from idisc.predict.video import Outcome

Done = tuple[str, list[Path], Mapping[str, str]]
"""What to say of a result, its files, its facts."""
CameraFor = Callable[[tuple[int, int]], Camera]
STREAMED = ("png16", "npy")  # formats that one can read from stdout


@click.command(name="predict")
@click.argument("pictures", nargs=-1, required=True, metavar="PICTURE...")
@click.option("-o", "--out", type=options.PATH, help="Folder of the results [beside each picture]")
@options.model
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
@click.option("--side-by-side", is_flag=True, help="Videos: picture, depth and legend.")
@click.option("--smooth", type=float, metavar="SECONDS", help="Videos: even out flicker; try 0.3.")
@click.option("--every", type=int, metavar="N", help="Videos: take each N-th frame [1]")
@click.option("--fps", metavar="keep|NUMBER", help="Videos: frames per second of the film [keep]")
@click.option("--recursive", is_flag=True, help="Also the folders below a folder.")
@options.device
@options.precision
def command(
    pictures: tuple[str, ...],
    out: Path | None,
    model: str | None,
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
    precision: Any,
    **film: Any,
) -> None:
    """Predict the depth of each PICTURE or video in metres.

    A PICTURE is a file, a folder (its pictures and videos), a pattern such as "photos/*.jpg", or -
    for stdin, whose result goes to stdout unless -o is given (--save png16 or npy). Formats: png
    (coloured, to look at), png16, npy, npz, exr, ply, glb, normals, spread, html. Of a video (mp4,
    mov, mkv, avi, webm) png is a film of depth in colours; png16, npy, npz and exr are folders with
    a file for each frame.
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
    film = _film_options(film, found.inputs)
    loaded = predictor.load(model, device, precision)
    run = Run(loaded, saving, how, film, Failures(found.problems))
    run.add_all(found.inputs)
    run.report()


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

    def __init__(
        self,
        predictor: Predictor,
        saving: Saving,
        how: dict[str, Any],
        film: dict[str, Any],
        failures: Failures,
    ) -> None:
        self.predictor, self.saving, self.how, self.film = predictor, saving, how, film
        self.lines: list[tuple[str, bool]] = []  # text, and whether it is for stderr
        self.failures = failures
        self.warnings: dict[str, list[str]] = {}  # text -> pictures

    def add_all(self, items: Sequence[Input]) -> None:
        """Predict and save each of them."""
        with progress.bar("predicting") as advance, warnings.catch_warnings():
            warnings.simplefilter("ignore", IdiscWarning)  # told by the report, from the facts
            for done, item in enumerate(items, start=1):
                self.add(item, advance)
                advance(done, len(items))

    def add(self, item: Input, advance: Callable[[int, int], None]) -> None:
        """Predict and save one picture or video."""
        from idisc.predict import video

        try:
            if video.is_video(item.path):
                about, written, facts = self._video(item, advance)
            else:
                about, written, facts = self._picture(item)
        except IdiscError as error:
            self.failures.add(item.label, error)
            return
        where = ", ".join(str(path) for path in written) or "stdout"
        self.lines.append((f"{item.label}: {about} -> {where}", not written))
        if "warning" in facts:
            self.warnings.setdefault(facts["warning"], []).append(item.label)

    def _picture(self, item: Input) -> Done:
        from idisc.images import read_photo

        photo = read_photo(item.source(), "stdin" if item.path is None else item.path.name)
        prediction = self.predictor.predict(photo, **self.how)
        return _in_words(prediction), self.saving.write(item, prediction), prediction.facts

    def _video(self, item: Input, advance: Callable[[int, int], None]) -> Done:
        from idisc.predict.video import FILM, Plan, predict_video

        path = item.path or Path()  # stdin is never a video
        formats = self.saving.formats or (FILM,)
        plan = Plan(formats=formats, options=self.saving.options, **self.film)
        folder = self.saving.folder or path.parent
        outcome = predict_video(
            self.predictor, path, folder, plan, name=item.name, advance=advance, **self.how
        )
        return _film_in_words(outcome), list(outcome.files), outcome.facts

    def report(self) -> None:
        """Say what was done; what was not is an error with exit code 2."""
        for line, aside in self.lines:
            click.echo(line, err=aside)
        for text, labels in self.warnings.items():
            more = f" (and {len(labels) - 1} more)" if len(labels) > 1 else ""
            tables.note(f"{labels[0]}{more}: {text}")
        self.failures.finish(len(self.lines) + len(self.failures.found))


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


def _film_in_words(outcome: Outcome) -> str:
    """One line about the result of a video."""
    parts = [f"{outcome.frames} frames of {outcome.seconds:.1f} s"]
    if outcome.limits:
        parts.append("colours {:.2f} to {:.2f} m".format(*outcome.limits))
    if outcome.flicker is not None:
        after = "" if outcome.smoothed is None else f", smoothed {100 * outcome.smoothed:.2f} %"
        parts.append(f"flicker {100 * outcome.flicker:.2f} %{after}")
    parts += [f"scene cuts at frames {', '.join(map(str, outcome.cuts))}"] if outcome.cuts else []
    facts = outcome.facts
    about = f"camera {facts['camera']}, model {facts['model']}, domain {facts['domain']}"
    rescaled = [facts["rescaled"]] if "rescaled" in facts else []
    return "; ".join([*parts, about, *rescaled, *outcome.notes])


def _film_options(given: dict[str, Any], items: Sequence[Input]) -> dict[str, Any]:
    """The options of videos as fields of their plan; an error if there is no video."""
    from idisc.predict.video import Plan, is_video

    if not any(is_video(item.path) for item in items):
        options.refuse("videos, and none is named", **given)
    asked = [name for name, value in given.items() if value is not None and value is not False]
    fps = given["fps"]
    if fps not in (None, "keep") and not re.fullmatch(r"\d+(\.\d+)?", fps):
        raise InputError(f"--fps {fps}: write keep, or a number as 25")
    found = {name: given[name] for name in asked if name != "fps"}
    found["fps"] = None if fps in (None, "keep") else float(fps)
    Plan(**found)  # numbers that make no sense are an error now, not after the first picture
    return found


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
