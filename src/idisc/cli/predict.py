"""`idisc predict`: metres out of photos and videos: files, folders, patterns or stdin."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from idisc.cli import options, progress, tables
from idisc.cli.batch import Failures
from idisc.cli.cameras import camera_rule
from idisc.cli.saving import Saving, Sources
from idisc.errors import IdiscError, IdiscWarning, InputError, counted

if TYPE_CHECKING:
    from idisc.outputs import Options
    from idisc.predict.inputs import Input
    from idisc.predict.prediction import Prediction
    from idisc.predict.predictor import Predictor
    from idisc.predict.video import Outcome

Done = tuple[str, list[Path], Mapping[str, str]]
"""What to say of a result, its files, its facts."""
# Facts that are said once for all pictures they are of
TOLD = ("warning", "notes", "left out", "steps")
LARGE = 200e6  # bytes of a file, from which on its size is said


@click.command(name="predict")
@click.argument("pictures", nargs=-1, required=True, metavar="PICTURE...")
@click.option("-o", "--out", type=options.PATH, help="Folder of the results [beside each picture]")
@options.model
@click.option(
    "--save", "formats", multiple=True, metavar="FORMAT,...", help="What to write [png,png16]"
)
@click.option("--size", type=options.NetworkSize(), help="Of the picture in the network.")
@click.option("--tile", is_flag=True, help="Refine large pictures in tiles.")
@click.option("--tile-size", type=options.PictureSize(), help="Of a tile; implies --tile.")
@click.option("--tta", is_flag=True, help="Also predict the mirrored picture: twice the time.")
@click.option("--fov", type=float, metavar="DEG", help="Horizontal field of view.")
@click.option("--focal", metavar="26mm|1400px", help="35 mm equivalent, or in pixels.")
@click.option("--camera-matrix", "matrix", metavar="NUMBERS|FILE", help="fx,fy,cx,cy or 3x3.")
@click.option("--known", metavar="'X,Y X,Y = 2.40m'", help="Two points and their true distance.")
@click.option(
    "--camera-correction/--no-camera-correction",
    default=True,
    help="Correct metres for a lens that is known and unlike that of training [yes]",
)
@click.option("--normals", is_flag=True, help="Also surface normals.")
@click.option("--axes", metavar="NAME", help="Of points and normals: opencv or opengl.")
@click.option("--range", "limits", metavar="LOW,HIGH", help="Metres at both ends of the colours.")
@click.option("--colours", metavar="NAME", help="Any matplotlib colour map [magma_r]")
@click.option("--side-by-side", is_flag=True, help="Videos: picture, depth and legend.")
@click.option("--smooth", type=float, metavar="SECONDS", help="Videos: even out flicker; try 0.3.")
@click.option("--every", type=int, metavar="N", help="Videos: take each N-th frame [1]")
@click.option("--fps", type=float, metavar="NUMBER", help="Videos: of the film [as the clip]")
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
    camera_correction: bool,
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
    from idisc.outputs import formats_of
    from idisc.predict import inputs, predictor
    from idisc.predict.prediction import Known
    from idisc.predict.video import FILM

    how = {
        "camera": camera_rule(fov, focal, matrix),
        "size": size,
        "tta": tta,
        "tile": tile_size or tile,
        "known": None if known is None else Known.parse(known),
        "camera_correction": camera_correction,
        "normals": normals,
    }
    asked = formats_of(formats) if formats else ()
    saving = Saving(out, asked, _options(axes, limits, colours), normals)
    found = inputs.find(pictures, recursive=recursive, beside=out is None)
    if known is not None and len(found.inputs) > 1:
        raise InputError(
            f"--known {known}: its points are pixels of one picture, and {len(found.inputs)} are"
            " named; predict that one alone"
        )
    saving.check(found.inputs)
    film = _film_options(film, found.inputs)
    loaded = predictor.load(model, device, precision)
    kinds = {kind for item in found.inputs for kind in saving.kinds(item, loaded.engine.task)}
    kinds |= {FILM} if film.get("side_by_side") else set()
    _refuse_idle(kinds, axes=axes, limits=limits, colours=colours)
    Run(loaded, saving, how, film, Failures(found.problems)).work(found.inputs)


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
        self.sources = Sources(saving.folder)
        self.lines: list[str] = []
        self.aside = False  # lines are for stderr, because stdout has bytes
        self.failures = failures
        self.told: dict[str, list[str]] = {}  # text -> pictures

    def work(self, items: Sequence[Input]) -> None:
        """Predict and save each of them, and say what was done; InputError if some failed."""
        try:
            self.add_all(items)
        except KeyboardInterrupt:
            self.tell()  # what is done is done
            self.failures.tell()
            raise
        self.tell()
        self.failures.finish(len(self.lines) + len(self.failures.found))

    def add_all(self, items: Sequence[Input]) -> None:
        """Predict and save each of them."""
        self.aside = self.saving.streams(items)
        with progress.bar("predicting") as advance, warnings.catch_warnings():
            warnings.simplefilter("ignore", IdiscWarning)  # told by the report, from the facts
            try:
                for done, item in enumerate(items, start=1):
                    self.add(item, advance)
                    advance(done, len(items))
            finally:
                self.sources.write()

    def add(self, item: Input, advance: Callable[[int, int], None]) -> None:
        """Predict and save one picture or video."""
        from idisc.predict import video

        try:
            self.sources.check(item)
            if video.is_video(item.path):
                about, written, facts = self._video(item, advance)
            else:
                about, written, facts = self._picture(item)
        except (IdiscError, OSError) as error:  # of the system: no room, no permission
            self.failures.add(item.label, error)
            return
        self.sources.add(item)
        where = ", ".join(map(_with_size, written)) or "stdout"
        self.lines.append(f"{item.label}: {about} -> {where}")
        for text in (facts[key] for key in TOLD if key in facts):
            self.told.setdefault(text, []).append(item.label)

    def _picture(self, item: Input) -> Done:
        from idisc.images import read_photo
        from idisc.outputs.numbers import unusual_steps

        photo = read_photo(item.source(), "stdin" if item.path is None else item.path.name)
        prediction = self.predictor.predict(photo, **self.how)
        written, facts = self.saving.write(item, prediction), dict(prediction.facts)
        steps = unusual_steps(prediction)
        if steps and "png16" in self.saving.kinds(item, prediction.task):
            facts["steps"] = steps
        return _in_words(prediction), written, facts

    def _video(self, item: Input, advance: Callable[[int, int], None]) -> Done:
        from idisc.predict.video import FILM, SEQUENCES, Plan, predict_video

        path = item.path or Path()  # stdin is never a video
        asked = self.saving.formats or (FILM,)
        formats = tuple(kind for kind in asked if kind in (FILM, *SEQUENCES))
        if not formats:
            there = ", ".join((FILM, *SEQUENCES))
            raise InputError(f"{path}: {', '.join(asked)} of a video; there is {there}")
        without = [kind for kind in asked if kind not in formats]
        without += ["normals"] if self.saving.normals and "normals" not in without else []
        plan = Plan(formats=formats, options=self.saving.options, **self.film)
        outcome = predict_video(
            self.predictor,
            path,
            self.saving.place(item),
            plan,
            name=item.name,
            advance=advance,
            **{**self.how, "normals": False},
        )
        facts = dict(outcome.facts)
        if without:
            facts["left out"] = f"a video, without {', '.join(without)}, which pictures have"
        return _film_in_words(outcome), list(outcome.files), facts

    def tell(self) -> None:
        """Say what was done."""
        for line in self.lines:
            click.echo(line, err=self.aside)
        for text, labels in self.told.items():
            more = f" (and {len(labels) - 1} more)" if len(labels) > 1 else ""
            tables.note(f"{labels[0]}{more}: {text}")


def _in_words(prediction: Prediction) -> str:
    """One line about a result."""
    facts = prediction.facts
    about = _made_by(facts)
    if prediction.task == "normals":
        return f"normals; {about}"
    step = 1 + max(prediction.depth.shape) // 2000  # a look, not a measurement
    low, middle, high = np.percentile(prediction.depth[::step, ::step], [2, 50, 98])
    changes = "".join(f"; {facts[name]}" for name in ("correction", "rescaled") if name in facts)
    return f"mostly {low:.2f} to {high:.2f} m, median {middle:.2f} m; {about}{changes}"


def _film_in_words(outcome: Outcome) -> str:
    """One line about the result of a video."""
    parts = [f"{counted(outcome.frames, 'frame')} of {outcome.seconds:.1f} s"]
    if outcome.limits:
        parts.append("colours {:.2f} to {:.2f} m".format(*outcome.limits))
    if outcome.flicker is not None:
        after = "" if outcome.smoothed is None else f", smoothed {100 * outcome.smoothed:.2f} %"
        parts.append(f"flicker {100 * outcome.flicker:.2f} %{after}")
    if outcome.cuts:
        many = "cuts at frames" if len(outcome.cuts) > 1 else "cut at frame"
        parts.append(f"scene {many} {', '.join(map(str, outcome.cuts))}")
    facts = outcome.facts
    changes = [facts[name] for name in ("correction", "rescaled") if name in facts]
    return "; ".join([*parts, _made_by(facts), *changes, *outcome.notes])


def _made_by(facts: Mapping[str, str]) -> str:
    """Camera, and what the model knows."""
    from idisc.predict.engine import UNKNOWN

    known = f"depth range {UNKNOWN}" if facts["range"] == UNKNOWN else facts["range"]
    model = facts["model"].partition(" (sha256")[0]  # its hash is in the files
    return f"camera {facts['camera']}, model {model}, domain {facts['domain']} ({known})"


def _with_size(path: Path) -> str:
    """A file, and how large it is if that may surprise."""
    size = path.stat().st_size if path.is_file() else 0
    return f"{path} ({size / 1e9:.1f} GB)" if size > LARGE else str(path)


def _film_options(given: dict[str, Any], items: Sequence[Input]) -> dict[str, Any]:
    """The options of videos as fields of their plan; an error if there is no video."""
    from idisc.predict.video import Plan, is_video

    if not any(is_video(item.path) for item in items):
        options.refuse("videos, and none is named", **given)
    found = options.given(given)
    Plan(**found)  # numbers that make no sense are an error now, not after the first picture
    return found


def _refuse_idle(kinds: set[str], **given: Any) -> None:
    """UsageError for an option, by its field of Options, that changes nothing that is written."""
    from idisc.outputs import WRITERS

    for field, value in given.items():
        heeding = [kind for kind, writer in WRITERS.items() if field in writer.heeds]
        if not kinds.intersection(heeding):
            name = "range" if field == "limits" else field
            options.refuse(f"--save {', '.join(heeding)}", **{name: value})


def _options(axes: str | None, limits: str | None, colours: str | None) -> Options:
    from idisc import outputs, visualize

    changes: dict[str, Any] = {"axes": axes}
    if colours is not None:
        visualize.check_colours(colours)
        changes["colours"] = colours
    if limits is not None:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*[,-]\s*(\d+(?:\.\d+)?)\s*", limits)
        if not match:
            raise InputError(f"--range {limits}: write it in metres, as 0.5,8")
        changes["limits"] = float(match[1]), float(match[2])
    return outputs.Options(**changes)
