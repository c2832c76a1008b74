"""`idisc predict`: metric depth of photos and videos: files, folders, patterns or stdin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idisc.cli import clusters, options
from idisc.cli.batch import Failures, terminable
from idisc.cli.cameras import camera_rule
from idisc.cli.predict_inputs import Run
from idisc.cli.saving import Saving
from idisc.errors import InputError

if TYPE_CHECKING:
    from idisc.formats import Format, FormatOptions
    from idisc.predict.inputs import Input
    from idisc.predict.predictor import Predictor

MANY = 1000  # pictures that the network may see, of videos and tiles
FILM_OPTIONS = ("side_by_side", "smooth", "every", "fps")  # fields of `video.Plan`


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
@click.option("-o", "--out", help="Folder for the results [next to each picture]")
@options.model_or_auto
@options.convention
@click.option(
    "--save", "formats", multiple=True, metavar="FORMAT,...", help="Formats to write [png,png16]"
)
@click.option("--size", type=options.NetworkSize(), help="Size of the picture in the network.")
@click.option("--tile", is_flag=True, help="Refine large pictures in tiles.")
@click.option("--tile-size", type=options.PictureSize(), help="Size of a tile; implies --tile.")
@click.option("--flip", is_flag=True, help="Average with the mirrored picture; twice as slow.")
@click.option("--fov", type=float, metavar="DEG", help="Horizontal field of view.")
@click.option("--focal", metavar="26mm|1400px", help="Focal length: 35 mm equivalent or pixels.")
@click.option("--camera-matrix", "matrix", metavar="NUMBERS|FILE", help="fx,fy,cx,cy or 3x3.")
@click.option(
    "--known-distance",
    multiple=True,
    metavar="'X,Y X,Y = 2.40m'",
    help="Two points and their true distance; repeat it to average. Relative depth needs two.",
)
@click.option(
    "--scale-from",
    type=options.PATH,
    metavar="FILE.json",
    help="Apply the scale in the JSON file of a photo of the same camera and place.",
)
@click.option(
    "--camera-correction/--no-camera-correction",
    default=True,
    help="Correct depth if a known lens differs from that of training [yes]",
)
@click.option("--normals", is_flag=True, help="Also write surface normals.")
@click.option("--axes", metavar="NAME", help="Axes of points and normals: opencv or opengl.")
@click.option("--range", "limits", metavar="LOW,HIGH", help="Metres at the ends of the colormap.")
@click.option("--colormap", metavar="NAME", help="Any matplotlib colormap [magma_r]")
@click.option("--clean", is_flag=True, help="Leave out legend and caption of pictures.")
@click.option("--full-size", is_flag=True, help="Write coloured pictures as large as the photo.")
@click.option("--side-by-side", is_flag=True, help="Videos: show picture, depth and legend.")
@click.option("--smooth", type=float, metavar="SECONDS", help="Videos: reduce flicker; try 0.3.")
@click.option("--every", type=int, metavar="N", help="Videos: use every N-th frame [1]")
@click.option(
    "--fps", type=float, metavar="NUMBER", help="Videos: frame rate of the result [as the clip]"
)
@click.option(
    "--gallery/--no-gallery",
    default=None,
    help="Write index.html, a page of all results, to the -o folder [if there are several]",
)
@click.option("--recursive", is_flag=True, help="Include subfolders.")
@clusters.prediction
@options.device
@options.precision
def command(
    pictures: tuple[str, ...],
    out: str | None,
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
    gallery: bool | None,
    recursive: bool,
    device: str,
    precision: Any,
    **given: Any,
) -> None:
    """Predict metric depth for photos and videos.

    A PICTURE is a file, a folder (its pictures and videos), a pattern such as "photos/*.jpg", or -
    for stdin, whose result goes to stdout unless -o is given (one format). With --cluster it may
    also be a WebDataset shard (.tar) or a Parquet table, and an address such as s3://bucket/folder.
    """
    from idisc.predict import inputs

    film = {name: given.pop(name) for name in FILM_OPTIONS}
    chosen, folder = clusters.take(given, out), Path(out) if out else None
    if not chosen:
        found = inputs.find(pictures, recursive=recursive, beside=folder is None)
        known = not (tile or tile_size or any(item.is_video for item in found.inputs))
        count = len(found.inputs) if known else MANY
        opening = _open_in_thread(model, device, precision, convention, count)

    from idisc import formats as table  # heavy; meanwhile the network is opened
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
    if chosen:
        alone = {"gallery": gallery, "known_distance": known_distance, **film}
        options.refuse("calls without --cluster", **alone)
        network = {"model": model, "device": device, "precision": precision}
        network |= {"convention": convention, "options": how}
        writing = _format_options(given)
        clusters.predict(chosen, pictures, recursive, (formats, writing), network)
        return
    asked = table.parse(formats) if formats else ()
    saving = Saving(folder, asked, _format_options(given), normals)
    _check_known_distance(known_distance, len(found.inputs))
    saving.check(found.inputs)
    pages = _gallery(gallery, folder, len(found.inputs))
    saving = replace(saving, viewer=pages is not None)
    film = _film_options(film, found.inputs)
    loaded = opening.result()
    rows = {row for item in found.inputs for row in saving.rows(item, loaded.engine.task)}
    rows |= {table.FORMATS["png"]} if film.get("side_by_side") else set()
    _refuse_unused(rows, given)
    with terminable():
        Run(loaded, saving, how, film, Failures(found.problems), pages).work(found.inputs)


def _check_known_distance(known: Sequence[str], count: int) -> None:
    if known and count > 1:
        raise InputError(
            f"--known-distance {known[0]}",
            f"its points are pixels of one picture, but there are {count}",
            "predict that one alone",
        )


def _open_in_thread(
    model: str | None, device: str, precision: Any, convention: str | None, pictures: int
) -> Future[Predictor]:
    """Open a network in a thread that needs no interpreter lock, during imports and checks."""

    def load() -> Predictor:
        from idisc.predict import predictor

        return predictor.load(model, device, precision, convention, pictures=pictures)

    return ThreadPoolExecutor(1, thread_name_prefix="idisc-open").submit(load)


def _film_options(given: dict[str, Any], items: Sequence[Input]) -> dict[str, Any]:
    """Return the options of videos as fields of `Plan`; UsageError if there is no video."""
    if not any(item.is_video for item in items):
        options.refuse("videos, and there is none", **given)
        return {}
    from idisc.predict.video import Plan

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


def _refuse_unused(rows: Iterable[Format], given: Mapping[str, Any]) -> None:
    """Raise a UsageError for an option, by its field of FormatOptions, that no format uses."""
    from idisc.formats import FORMATS

    used = {field for row in rows for field in row.options}
    for field, value in given.items():
        if field not in used:
            names = ", ".join(row.name for row in FORMATS.values() if field in row.options)
            name = "range" if field == "limits" else field
            options.refuse(f"--save {names}", **{name: value})


def _format_options(given: Mapping[str, Any]) -> FormatOptions:
    from idisc import visualize
    from idisc.formats import FormatOptions

    changes = options.given(given)
    if "colormap" in changes:
        visualize.check_colours(changes["colormap"])
    if limits := changes.get("limits"):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*[,-]\s*(\d+(?:\.\d+)?)\s*", limits)
        if not match:
            raise InputError(f"--range {limits}", "not a range", "write it in metres, as 0.5,8")
        changes["limits"] = float(match[1]), float(match[2])
    return FormatOptions(**changes)
