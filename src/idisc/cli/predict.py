"""`idisc predict`: metric depth of photos and videos: files, folders, patterns or stdin."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from idisc.cli import options, progress, tables
from idisc.cli.batch import Failures
from idisc.cli.cameras import camera_rule
from idisc.cli.saving import Saving, Sources
from idisc.errors import IdiscWarning, InputError, pluralize

if TYPE_CHECKING:
    from idisc.formats import Format, FormatOptions
    from idisc.formats.gallery import Entry
    from idisc.predict.inputs import Input
    from idisc.predict.options import PredictOptions
    from idisc.predict.predictor import Predictor
    from idisc.predict.video import Outcome
    from idisc.prediction import Prediction


class Done(NamedTuple):
    """The result of one picture or video."""

    about: str  # one line
    written: list[Path]
    notes: list[str]  # printed once for all pictures
    shown: Prediction  # of a video: its last frame
    clip: str = ""  # the length of a video, as text


LARGE = 200e6  # bytes: the size of larger files is printed


class PredictCommand(click.Command):
    """The command with the table of formats at the end of its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table."""
        from idisc.formats import FORMATS

        with formatter.section("Formats (* also for videos, where png is a film)"):
            formatter.write_dl(
                [
                    (f"{row.name}{' *' if row.in_video else ''}", row.description)
                    for row in FORMATS.values()
                ]
            )


@click.command(name="predict", cls=PredictCommand)
@click.argument("pictures", nargs=-1, required=True, metavar="PICTURE...")
@click.option(
    "-o", "--out", type=options.PATH, help="Folder for the results [next to each picture]"
)
@options.model_or_auto
@options.convention
@click.option(
    "--save", "formats", multiple=True, metavar="FORMAT,...", help="Formats to write [png,png16]"
)
@click.option("--size", type=options.NetworkSize(), help="Size of the picture in the network.")
@click.option("--tile", is_flag=True, help="Refine large pictures in tiles.")
@click.option("--tile-size", type=options.PictureSize(), help="Size of a tile; implies --tile.")
@click.option("--flip", is_flag=True, help="Average with the mirrored picture: twice the time.")
@click.option("--fov", type=float, metavar="DEG", help="Horizontal field of view.")
@click.option("--focal", metavar="26mm|1400px", help="35 mm equivalent, or in pixels.")
@click.option("--camera-matrix", "matrix", metavar="NUMBERS|FILE", help="fx,fy,cx,cy or 3x3.")
@click.option(
    "--known-distance",
    multiple=True,
    metavar="'X,Y X,Y = 2.40m'",
    help="Two points and their true distance; twice for a model of relative depth.",
)
@click.option(
    "--scale-from",
    type=options.PATH,
    metavar="FILE.json",
    help="Scale as in a rescaled prediction of the same camera and place: its JSON file.",
)
@click.option(
    "--camera-correction/--no-camera-correction",
    default=True,
    help="Correct depth for a known lens unlike that of training [yes]",
)
@click.option("--normals", is_flag=True, help="Also write surface normals.")
@click.option("--axes", metavar="NAME", help="Axes of points and normals: opencv or opengl.")
@click.option("--range", "limits", metavar="LOW,HIGH", help="Metres at both ends of the colormap.")
@click.option("--colormap", metavar="NAME", help="Any matplotlib colormap [magma_r]")
@click.option("--clean", is_flag=True, help="Pictures without legend and caption.")
@click.option("--side-by-side", is_flag=True, help="Videos: show picture, depth and legend.")
@click.option("--smooth", type=float, metavar="SECONDS", help="Videos: reduce flicker; try 0.3.")
@click.option("--every", type=int, metavar="N", help="Videos: use every N-th frame [1]")
@click.option(
    "--fps", type=float, metavar="NUMBER", help="Videos: frame rate of the film [as the clip]"
)
@click.option(
    "--gallery/--no-gallery",
    default=None,
    help="Write index.html with all results into the folder of -o [if there are several]",
)
@click.option("--recursive", is_flag=True, help="Include subfolders.")
@options.device
@options.precision
def command(
    pictures: tuple[str, ...],
    out: Path | None,
    model: str | None,
    convention: str | None,
    formats: tuple[str, ...],
    size: tuple[int, int] | None,
    tile: bool,
    tile_size: tuple[int, int] | None,
    flip: bool,
    fov: float | None,
    focal: str | None,
    matrix: str | None,
    known_distance: tuple[str, ...],
    scale_from: Path | None,
    camera_correction: bool,
    normals: bool,
    axes: str | None,
    limits: str | None,
    colormap: str | None,
    clean: bool,
    gallery: bool | None,
    recursive: bool,
    device: str,
    precision: Any,
    **film: Any,
) -> None:
    """Predict metric depth for photos and videos.

    A PICTURE is a file, a folder (its pictures and videos), a pattern such as "photos/*.jpg", or -
    for stdin, whose result goes to stdout unless -o is given (one format).
    """
    from idisc import formats as table
    from idisc.predict import inputs, predictor
    from idisc.predict.options import PredictOptions

    how = PredictOptions(
        camera=camera_rule(fov, focal, matrix),
        size=size,
        flip=flip,
        tile=tile_size or tile,
        known_distance=list(known_distance),
        scale_from=scale_from,
        camera_correction=camera_correction,
        normals=normals,
    )
    asked = table.parse(formats) if formats else ()
    saving = Saving(out, asked, _options(axes, limits, colormap, clean), normals)
    found = inputs.find(pictures, recursive=recursive, beside=out is None)
    if known_distance and len(found.inputs) > 1:
        raise InputError(
            f"--known-distance {known_distance[0]}",
            f"its points are pixels of one picture, but there are {len(found.inputs)}",
            "predict that one alone",
        )
    saving.check(found.inputs)
    pages = _gallery(gallery, out, len(found.inputs))
    saving = replace(saving, viewer=pages is not None)
    film = _film_options(film, found.inputs)
    loaded = predictor.load(model, device, precision, convention)
    rows = {row for item in found.inputs for row in saving.rows(item, loaded.engine.task)}
    rows |= {table.FORMATS["png"]} if film.get("side_by_side") else set()
    _refuse_unused(rows, axes=axes, limits=limits, colormap=colormap, clean=clean)
    Run(loaded, saving, how, film, Failures(found.problems), pages).work(found.inputs)


class Run:
    """Predicts pictures one after the other; failures are kept for the summary."""

    def __init__(
        self,
        predictor: Predictor,
        saving: Saving,
        how: PredictOptions,
        film: dict[str, Any],
        failures: Failures,
        gallery: Path | None = None,
    ) -> None:
        """`gallery` is the path of the page about all results, if one is written."""
        self.gallery: Path | None = gallery
        self.entries: list[Entry] = []
        self.models: dict[str, None] = {}  # names in their order
        self.predictor, self.saving, self.how, self.film = predictor, saving, how, film
        self.sources = Sources(saving.folder)
        self.titles: dict[Input, str] = {}  # in the gallery
        self.lines: list[str] = []
        self.aside = False  # lines go to stderr, because stdout has bytes
        self.failures = failures
        self.notes: dict[str, list[str]] = {}  # text -> pictures

    def work(self, items: Sequence[Input]) -> None:
        """Predict, save and report each of them; InputError if some failed."""
        try:
            self.add_all(items)
        except KeyboardInterrupt:
            self.tell()
            self.failures.tell()
            raise
        total = len(self.lines) + len(self.failures.found)
        self._write_gallery()
        self.tell()
        self.failures.finish(total)

    def add_all(self, items: Sequence[Input]) -> None:
        """Predict and save each of them."""
        self.aside = self.saving.streams(items)
        self.titles = _titles(items)
        with progress.bar("predicting") as advance, warnings.catch_warnings():
            warnings.simplefilter("ignore", IdiscWarning)  # the report has them
            try:
                for done, item in enumerate(items, start=1):
                    self.add(item, advance)
                    advance(done, len(items))
            finally:
                self._write_sources()

    def _write_sources(self) -> None:
        try:
            self.sources.write()
        except OSError as error:  # the results themselves are there
            self.failures.add(str(self.saving.folder), error)

    def add(self, item: Input, advance: progress.Move) -> None:
        """Predict and save one picture or video."""
        from idisc.predict import video

        try:
            self.sources.check(item)
            is_clip = video.is_video(item.path)
            done = self._video(item, advance) if is_clip else self._picture(item)
            self._show(item, done)
        except Exception as error:  # whatever it is, the other pictures are predicted
            self.failures.add(item.label, error)
            if self.sources.has_results(item):  # of formats that were written before
                self.sources.add(item)
            return
        self.sources.add(item)
        where = ", ".join(map(_with_size, done.written)) or "stdout"
        self.lines.append(f"{item.label}: {done.about} -> {where}")
        for text in done.notes:
            self.notes.setdefault(text, []).append(item.label)

    def _picture(self, item: Input) -> Done:
        from idisc.formats.numbers import describe_unusual_unit
        from idisc.images import read_photo

        photo = read_photo(item.source(), "stdin" if item.path is None else item.path.name)
        prediction = self.predictor.predict(photo, self.how)
        rows = self.saving.rows(item, prediction.task)
        written, notes = self.saving.write(item, prediction, rows), _notes(prediction)
        if any(row.name == "png16" for row in rows):
            notes += filter(None, [describe_unusual_unit(prediction)])
        return Done(_summary(prediction), written, notes, prediction)

    def _video(self, item: Input, advance: progress.Move) -> Done:
        from idisc.predict.video import FILM, Plan, predict_video, video_formats

        path = item.path or Path()  # stdin is never a video
        asked = self.saving.formats or (FILM,)
        rows = tuple(row for row in asked if row.in_video)
        if not rows:
            names = ", ".join(row.name for row in asked)
            raise InputError(path, f"{names} of a video", f"the formats are {video_formats()}")
        without = [row.name for row in asked if not row.in_video]
        without += ["normals"] if self.saving.normals and "normals" not in without else []
        plan = Plan(formats=rows, options=self.saving.options, **self.film)
        outcome = predict_video(
            self.predictor,
            path,
            self.saving.place(item),
            plan,
            name=item.name,
            advance=lambda done, total: advance(done, total, f"predicting {path.name}"),
            options=replace(self.how, normals=False),
        )
        notes = _notes(outcome.last)
        if without:
            notes.append(f"a video, without {', '.join(without)}, which are for pictures")
        return Done(
            _film_summary(outcome), list(outcome.files), notes, outcome.last, _clip_length(outcome)
        )

    def _show(self, item: Input, done: Done) -> None:
        """Keep the entry of a result for the gallery."""
        if self.gallery is not None:
            from idisc.formats import gallery

            entry = gallery.describe(
                self.titles[item], done.shown, done.written, self.gallery.parent, done.clip
            )
            self.entries.append(entry)
            self.models[done.shown.provenance.model.name] = None

    def _write_gallery(self) -> None:
        if self.gallery is not None and self.entries:
            from idisc import files
            from idisc.formats import gallery

            title = self.gallery.parent.resolve().name
            page = gallery.render(self.entries, title, list(self.models))
            try:
                with files.atomic(self.gallery) as draft:
                    draft.write_bytes(page)
            except OSError as error:
                self.failures.add(str(self.gallery), error)
                return
            self.lines.append(f"{pluralize(len(self.entries), 'result')} -> {self.gallery}")

    def tell(self) -> None:
        """Print what was done."""
        for line in self.lines:
            click.echo(line, err=self.aside)
        for text, labels in self.notes.items():
            more = f" (and {len(labels) - 1} more)" if len(labels) > 1 else ""
            tables.note(f"{labels[0]}{more}: {text}")


def _titles(items: Sequence[Input]) -> dict[Input, str]:
    """Return the file name of each input, with its folder if another one has the same name."""
    names = {item: item.label if item.path is None else item.path.name for item in items}
    count = Counter(names.values())
    return {
        item: f"{item.path.parent.name}/{name}" if item.path and count[name] > 1 else name
        for item, name in names.items()
    }


def _clip_length(outcome: Outcome) -> str:
    return f"{pluralize(outcome.frames, 'frame')} of {outcome.seconds:.1f} s"


def _notes(prediction: Prediction) -> list[str]:
    """Return one line each: warnings, notes about the picture, terms of the model."""
    from idisc.provenance_text import describe_licence, describe_warning

    made, model = prediction.provenance, prediction.provenance.model
    terms = f"model {model.name}, licence {describe_licence(model)}" if model.non_commercial else ""
    notes = ["; ".join(map(describe_warning, made.warnings)), "; ".join(made.notes), terms]
    return [text for text in notes if text]


def _summary(prediction: Prediction) -> str:
    """Return one line about a result."""
    from idisc.provenance_text import describe_depth

    if prediction.depth is None:
        return "; ".join([prediction.task.name, *_made_by(prediction)])
    step = 1 + max(prediction.size) // 2000  # a sample is enough for these numbers
    low, middle, high = np.percentile(prediction.depth[::step, ::step], [2, 50, 98])
    span, unit = describe_depth(low, high, prediction.unit), prediction.unit
    median = f"median {middle:.2f} m" if unit == "metre" else f"median {middle:.3g}, no metres"
    return "; ".join([f"mostly {span}, {median}", *_made_by(prediction)])


def _film_summary(outcome: Outcome) -> str:
    """Return one line about the result of a video."""
    from idisc.provenance_text import describe_depth

    parts = [_clip_length(outcome)]
    if outcome.limits:
        parts.append(f"colours {describe_depth(*outcome.limits, outcome.last.unit)}")
    if outcome.flicker is not None:
        after = "" if outcome.smoothed is None else f", smoothed {100 * outcome.smoothed:.2f} %"
        parts.append(f"flicker {100 * outcome.flicker:.2f} %{after}")
    if outcome.cuts:
        many = "cuts at frames" if len(outcome.cuts) > 1 else "cut at frame"
        parts.append(f"scene {many} {', '.join(map(str, outcome.cuts))}")
    return "; ".join([*parts, *_made_by(outcome.last), *outcome.notes])


def _made_by(prediction: Prediction) -> list[str]:
    """Return camera and model, and by how much depth was multiplied."""
    from idisc.provenance_text import describe_camera, describe_change, describe_range

    made, model = prediction.provenance, prediction.provenance.model
    known = describe_range(model) if model.depth_range else "depth range unknown"
    about = (
        f"camera {describe_camera(prediction.camera)}, model {model.name}, domain {model.domain}"
    )
    changes = [made.camera_correction, made.alignment, *made.rescalings]
    return [f"{about} ({known})", *(describe_change(change) for change in changes if change)]


def _with_size(path: Path) -> str:
    """Return a path, with its size if the file is large."""
    size = path.stat().st_size if path.is_file() else 0
    return f"{path} ({size / 1e9:.1f} GB)" if size > LARGE else str(path)


def _film_options(given: dict[str, Any], items: Sequence[Input]) -> dict[str, Any]:
    """Return the options of videos as fields of `Plan`; UsageError if there is no video."""
    from idisc.predict.video import Plan, is_video

    if not any(is_video(item.path) for item in items):
        options.refuse("videos, and there is none", **given)
    found = options.given(given)
    Plan(**found)  # checks the values before the first picture is predicted
    return found


def _gallery(wanted: bool | None, out: Path | None, count: int) -> Path | None:
    """Return the path of the gallery, or None if there is none."""
    from idisc.formats import gallery

    if out is None:
        if wanted:
            raise InputError("--gallery", "a page needs a folder", "pass -o DIR")
        return None
    if wanted is False or (wanted is None and count < 2):
        return None
    gallery.check_free(out / gallery.NAME)
    return out / gallery.NAME


def _refuse_unused(rows: Iterable[Format], **given: Any) -> None:
    """Raise a UsageError for an option, by its field of FormatOptions, that no format uses."""
    from idisc.formats import FORMATS

    used = {field for row in rows for field in row.options}
    for field, value in given.items():
        if field not in used:
            names = ", ".join(row.name for row in FORMATS.values() if field in row.options)
            name = "range" if field == "limits" else field
            options.refuse(f"--save {names}", **{name: value})


def _options(
    axes: str | None, limits: str | None, colormap: str | None, clean: bool
) -> FormatOptions:
    from idisc import visualize
    from idisc.formats import FormatOptions

    changes: dict[str, Any] = {"axes": axes, "clean": clean}
    if colormap is not None:
        visualize.check_colours(colormap)
        changes["colormap"] = colormap
    if limits is not None:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*[,-]\s*(\d+(?:\.\d+)?)\s*", limits)
        if not match:
            raise InputError(f"--range {limits}", "not a range", "write it in metres, as 0.5,8")
        changes["limits"] = float(match[1]), float(match[2])
    return FormatOptions(**changes)
