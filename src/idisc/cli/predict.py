"""`idisc predict`: metric depth of photos and videos: files, folders, patterns or stdin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idisc.cli import clusters, options
from idisc.cli.batch import Failures, terminable
from idisc.cli.cameras import camera_rule
from idisc.cli.predict_output import ResultWriter
from idisc.cli.predict_run import PredictionRun
from idisc.errors import InputError

if TYPE_CHECKING:
    from idisc.formats import Format, FormatOptions
    from idisc.predict.inputs import Input
    from idisc.predict.options import PredictOptions
    from idisc.predict.predictor import Predictor
    from idisc.sizes import Size

MANY = 1000  # pictures that the network may see, of videos and tiles
# Options by what they are for; the names are those of fields and arguments there. All others,
# except those that `command` names, are for `PredictOptions`.
NETWORK = ("model", "device", "precision", "convention")  # arguments of `predictor.load`
VIDEO = ("side_by_side", "smooth", "every", "fps")  # fields of `video.Plan`
FORMATTING = ("axes", "limits", "colormap", "clean", "full_size")  # fields of `FormatOptions`


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
    "--save",
    "formats",
    multiple=True,
    metavar="FORMAT,...",
    help="Formats to write [png,png16; to stdout png16]; with --cluster also parquet.",
)
@click.option("--size", type=options.NetworkSize(), help="Size of the picture in the network.")
@click.option("--tile", is_flag=True, help="Refine large pictures in tiles.")
@click.option("--tile-size", type=options.PictureSize(), help="Size of a tile; implies --tile.")
@click.option(
    "--flip", is_flag=True, help="Average with the mirrored picture; takes twice as long."
)
@click.option(
    "--fov", type=float, metavar="DEG", help="Horizontal field of view [from EXIF, else assumed]"
)
@click.option("--focal", metavar="26mm|1400px", help="Focal length: 35 mm equivalent or pixels.")
@click.option(
    "--camera-matrix",
    "matrix",
    metavar="NUMBERS|FILE",
    help="fx,fy,cx,cy or a 3x3 matrix in pixels.",
)
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
@click.option(
    "--axes", metavar="NAME", help="Axes of points, meshes and normals: opencv or opengl."
)
@click.option(
    "--range", "limits", metavar="LOW,HIGH", help="Metres at the ends of the colormap [by depth]"
)
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
@clusters.prediction_options
@options.device
@options.precision
def command(
    pictures: tuple[str, ...],
    out: str | None,
    formats: tuple[str, ...],
    gallery: bool | None,
    recursive: bool,
    **given: Any,
) -> None:
    """Predict metric depth for photos and videos.

    A PICTURE is a file, a folder (its pictures and videos), a pattern such as "photos/*.jpg", or -
    for stdin, whose result goes to stdout unless -o is given (one format). With --cluster it may
    also be a WebDataset shard (.tar), a Parquet table or an address such as s3://bucket/folder.
    """
    from idisc.predict import inputs

    network, video = options.take(given, NETWORK), options.take(given, VIDEO)
    formatting, cluster = options.take(given, FORMATTING), clusters.take_options(given, out)
    if cluster:
        known = given["known_distance"]
        options.refuse("calls without --cluster", gallery=gallery, known_distance=known, **video)
        network["options"] = _predict_options(**given)
        format_options = _format_options(formatting)
        clusters.predict(cluster, pictures, recursive, formats, format_options, network)
        return
    folder = Path(out) if out else None
    found = inputs.find(pictures, recursive=recursive, beside=folder is None)
    opening = _open_in_thread(network, found.inputs, bool(given["tile"] or given["tile_size"]))
    from idisc.formats import parse  # slow to import; meanwhile the network is opened

    predict_options = _predict_options(**given)
    _check_known_distance(given["known_distance"], len(found.inputs))
    page = _gallery_path(gallery, folder, len(found.inputs))
    writer = ResultWriter(
        folder=folder,
        formats=parse(formats) if formats else (),
        options=_format_options(formatting),
        normals=predict_options.normals,
        gallery=page is not None,
    )
    writer.check(found.inputs)
    video = _video_options(video, found.inputs)
    predictor = opening.result()
    task = predictor.engine.task
    rows = {row for item in found.inputs for row in writer.formats_for(item, task)}
    _refuse_unused(formatting, rows, video)
    failures = Failures(found.problems)
    run = PredictionRun(predictor, predict_options, video, writer, failures, page)
    with terminable():
        run.predict_all(found.inputs)


def _open_in_thread(
    network: Mapping[str, Any], items: Sequence[Input], tiled: bool
) -> Future[Predictor]:
    """Open a network in a thread that needs no interpreter lock, during imports and checks."""
    many = tiled or any(item.is_video for item in items)

    def load() -> Predictor:
        from idisc.predict import predictor

        return predictor.load(**network, pictures=MANY if many else len(items))

    return ThreadPoolExecutor(1, thread_name_prefix="idisc-open").submit(load)


def _predict_options(
    *,
    fov: float | None,
    focal: str | None,
    matrix: str | None,
    tile: bool,
    tile_size: Size | None,
    known_distance: Sequence[str],
    **fields: Any,
) -> PredictOptions:
    """Return the options of a prediction; `fields` are options with the name of their field."""
    from idisc.predict.options import PredictOptions

    return PredictOptions(
        camera=camera_rule(fov, focal, matrix),
        tile=tile_size or tile,
        known_distance=list(known_distance),
        **fields,
    )


def _check_known_distance(known: Sequence[str], count: int) -> None:
    if known and count > 1:
        raise InputError(
            f"--known-distance {known[0]}",
            f"its points are pixels of one picture, but there are {count}",
            "predict that one alone",
        )


def _gallery_path(requested: bool | None, folder: Path | None, count: int) -> Path | None:
    """Return the path of the gallery, or None if there is none."""
    from idisc.formats import gallery

    if folder is None:
        if requested:
            raise InputError("--gallery", "a page needs a folder", "pass -o DIR")
        return None
    if requested is False or (requested is None and count < 2):
        return None
    gallery.check_free(folder / gallery.NAME)
    return folder / gallery.NAME


def _format_options(formatting: Mapping[str, Any]) -> FormatOptions:
    from idisc import visualize
    from idisc.formats import FormatOptions

    fields = options.passed(formatting)
    if "colormap" in fields:
        visualize.check_colours(fields["colormap"])
    if limits := fields.get("limits"):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*[,-]\s*(\d+(?:\.\d+)?)\s*", limits)
        if not match:
            raise InputError(f"--range {limits}", "not a range", "write it in metres, as 0.5,8")
        fields["limits"] = float(match[1]), float(match[2])
    return FormatOptions(**fields)


def _video_options(video: Mapping[str, Any], items: Sequence[Input]) -> dict[str, Any]:
    """Return the options of videos as fields of `Plan`; UsageError if there is no video."""
    if not any(item.is_video for item in items):
        options.refuse("videos, and there is none", **video)
        return {}
    from idisc.predict.video import Plan

    fields = options.passed(video)
    Plan(**fields)  # checks the values before the first picture is predicted
    return fields


def _refuse_unused(
    formatting: Mapping[str, Any], rows: Iterable[Format], video: Mapping[str, Any]
) -> None:
    """Raise a UsageError for an option that changes none of the results."""
    from idisc.formats import FORMATS

    film = [FORMATS["png"]] if video.get("side_by_side") else []
    used = {field for row in (*rows, *film) for field in row.options}
    for field, value in formatting.items():
        if field not in used:
            names = ", ".join(row.name for row in FORMATS.values() if field in row.options)
            options.refuse(f"--save {names}", **{"range" if field == "limits" else field: value})
