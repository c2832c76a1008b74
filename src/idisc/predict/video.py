"""Predicts videos frame by frame: decode, predict, smooth, encode. PyAV reads and writes them.

Only a few frames are in memory, however long a clip is. All frames share one range of colours and
one factor of 16-bit PNGs, which are taken from a few frames of the clip unless they are given.
Frames are used as players show them: rotated, mirrored, with square pixels. Sound is left out.

Flicker, smoothing and scene cuts are in `temporal`.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from idisc import files, formats, visualize
from idisc.errors import IdiscWarning, InputError, MissingExtra, require
from idisc.formats import FORMATS, Format, FormatOptions
from idisc.formats.numbers import inverse_unit, png16_unit
from idisc.formats.pictures import enlargement
from idisc.images import Photo
from idisc.predict.options import PredictOptions
from idisc.predict.predictor import AutoPredictor, Predictor
from idisc.predict.temporal import FLICKER, Course, Frame, look
from idisc.prediction import FloatMap, Prediction, Unit, colour_limits
from idisc.provenance_text import UNIT_SYMBOLS, record, sentences
from idisc.sizes import describe_size, resize_smooth
from idisc.visualize import Picture

FILM = FORMATS["png"]  # a picture of a photo, a film of a clip; other formats: a file per frame
SAMPLES = 5  # frames from which the range of colours is taken
MAX_PIXELS = 100_000_000  # of a frame
RECORD = "clip.json"  # in a folder of frames: from which clip they are, and how they were made
_FRAME = re.compile(r"\d{6,}\.[a-z]+$")
_CONTAINERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"  # no playlists: they open other files
_CODING = {"crf": "16", "preset": "veryfast"}  # of H.264; looks ahead by 10 frames, not by 40
_TICKS = 90_000  # of a film's clock, in a second
_BT709 = 1  # the colours of HD television, as FFmpeg numbers them

Ask = Callable[[Picture], Prediction]
Write = Callable[["Frame", Prediction], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to write for a clip."""

    formats: tuple[Format, ...] = (FILM,)  # those with `in_video`
    side_by_side: bool = False  # the film shows picture, depth and a legend
    smooth: float | None = None  # seconds over which depth is smoothed; None: not at all
    every: int = 1  # predict every n-th frame
    fps: float | None = None  # of the film; None: frames keep their times
    options: FormatOptions = field(default_factory=FormatOptions)

    def __post_init__(self) -> None:
        for row in self.formats:
            if not row.in_video:
                raise InputError(f"{row.name} of a video", f"the formats are {video_formats()}")
        if self.every < 1:
            raise InputError(f"every {self.every} frames", "1 or more is needed")
        for name, value in (("smooth", self.smooth), ("fps", self.fps)):
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"{name} {value:g}", "a number above 0 is needed")

    def places(self, folder: Path, name: str, clip: str) -> tuple[Path | None, dict[str, Path]]:
        """Return the path of the film, if there is one, and the folder of each other format.

        A folder must be new, or hold the frames of a `clip` of the same name.
        """
        homes = {row.name: folder / f"{name}_{row.name}" for row in self.formats if row != FILM}
        for home in homes.values():
            if not _is_of(home, clip):
                files.check_new_folder(home)
        ending = "_beside.mp4" if self.side_by_side else "_depth.mp4"
        made = self.side_by_side or FILM in self.formats
        return (folder / f"{name}{ending}" if made else None), homes


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was written for a clip."""

    files: tuple[Path, ...]  # the film, its record, folders of sequences
    frames: int  # predicted
    seconds: float  # from the first frame to the end of the last
    limits: tuple[float, float] | None  # depth at both ends of the colours; None: no film
    flicker: float | None  # before smoothing; None: nothing was still for two frames
    smoothed: float | None  # after smoothing; None also without smoothing
    cuts: tuple[int, ...]  # frames that begin another scene
    notes: tuple[str, ...]  # what was left out or is missing
    last: Prediction  # of the last frame; model, camera and warnings are the same for all


def video_formats() -> str:
    """Return the names of the formats of videos, for messages."""
    return ", ".join(row.name for row in FORMATS.values() if row.in_video)


class Clip:
    """A video file. Each pass over its frames opens it again, and updates the counters."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _opened(path) as (container, stream):
            rate = Fraction(stream.average_rate or stream.guessed_rate or 25)
            self.rate = max(rate.limit_denominator(1001), Fraction(1, 1001))  # in a second
            ticks = (stream.duration or 0) * (stream.time_base or 0)
            self.seconds = float(ticks) or (container.duration or 0) / 1e6
            if container.format.name == "avi":  # whose duration is that of the bytes there are
                self.seconds = max(self.seconds, float(stream.frames / self.rate))
            self.sound = bool(container.streams.audio)
        self.damaged = 0  # pieces that could not be decoded
        self.length = 0.0  # seconds that were decoded

    def frames(self, every: int = 1) -> Iterator[Frame]:
        """Yield every n-th frame; InputError if none can be decoded."""
        first = last = 0.0
        number, size = -1, None
        self.damaged = 0
        with _opened(self.path) as (container, stream):
            for number, decoded in enumerate(self._decoded(container, stream)):
                seconds = decoded.time
                last = last + float(1 / self.rate) if seconds is None else seconds
                first = last if number == 0 else first
                if number % every == 0:
                    image = _shown(decoded, stream)
                    size = size or image.shape[:2]
                    yield Frame(number, max(0.0, last - first), resize_smooth(image, size))
        if number < 0:
            raise InputError(self.path, "no frame can be decoded", "get the file again")
        self.length = max(0.0, last - first) + float(1 / self.rate)

    def notes(self) -> list[str]:
        """Return what is left out or missing, after a pass over all frames."""
        notes = ["sound left out"] if self.sound else []
        stated = max(self.seconds, self.length)
        if self.damaged or stated - self.length > max(0.25, 1.5 / self.rate, 0.02 * stated):
            notes.append(f"cut short or damaged: {self.length:.1f} of {stated:.1f} s are there")
        return notes

    def _decoded(self, container: Any, stream: Any) -> Iterator[Any]:
        """Yield the frames of PyAV; damaged ones are counted and skipped."""
        import av

        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    return
                decoded = packet.decode()
            except av.FFmpegError:
                self.damaged += 1
                continue
            whole = [frame for frame in decoded if not frame.is_corrupt]
            self.damaged += len(decoded) - len(whole)
            yield from whole


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """Open a container and its video stream; errors of PyAV become an InputError."""
    try:
        require("av", extra="video")
    except MissingExtra as error:
        raise error.within(path) from None
    import av

    if not path.is_file():
        raise InputError(path, "a folder, not a video" if path.is_dir() else "no such file")
    if not path.stat().st_size:
        raise InputError(path, "empty", "get it again")
    limits = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "file"}
    try:
        with av.open(str(path.resolve()), options=limits, metadata_errors="replace") as container:
            stream = container.streams.best("video")
            coding = stream and stream.codec_context
            if coding is None:
                raise InputError(path, "no video stream, or an unknown codec")
            if coding.width * coding.height > MAX_PIXELS:
                raise InputError(
                    path,
                    (
                        f"{describe_size((coding.height, coding.width))} pixels, at most"
                        f" {MAX_PIXELS / 1000000.0:.0f} million are read"
                    ),
                    "reduce it",
                )
            yield container, stream
    except av.FFmpegError as error:
        raise InputError(
            path, f"not a video, damaged or cut short ({error.strerror})", "get it again"
        ) from None


def _shown(frame: Any, stream: Any) -> Picture:
    """Return a frame of PyAV as a player shows it, RGB (H, W, 3)."""
    aspect = float(stream.sample_aspect_ratio or 1)  # width of a pixel over its height
    width = round(frame.width * aspect) if 0.25 < aspect < 4 else frame.width
    image: Picture = frame.to_ndarray(format="rgb24", width=width, height=frame.height)
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return image
    # A pixel at (x, y) is shown at (a x + c y, b x + d y).
    a, b, _, c, d = np.frombuffer(bytes(matrix), np.int32)[:5].tolist()
    if abs(a) < abs(b):
        image, a, d = image.transpose(1, 0, 2), c, b
    return np.ascontiguousarray(image[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1])


def predict_video(
    predictor: Predictor,
    path: Path,
    folder: Path,
    plan: Plan | None = None,
    *,
    name: str = "",
    advance: Callable[[int, int], None] | None = None,
    options: PredictOptions | None = None,
) -> Outcome:
    """Predict a clip frame by frame and write FOLDER/NAME_...: complete files, or none.

    A known distance is one in the first frame, and scales all frames alike. `advance` is called
    with the number of frames done and expected.
    """
    options = options or PredictOptions()
    if not predictor.engine.task.metric or options.normals:
        raise InputError(path, "videos are written as depth, not as normals")
    plan, clip = plan or Plan(), Clip(path)
    if isinstance(predictor, AutoPredictor):  # one model for all frames
        predictor = predictor.for_picture(Photo(next(clip.frames()).image, path.name))
    film, homes = plan.places(folder, name or path.stem, path.name)
    expected = math.ceil(clip.seconds * clip.rate / plan.every)
    ask = _asking(predictor, clip, options)
    plan = _settled(plan, clip, ask, predictor.model.domain)
    course, last, done = Course(plan.smooth), None, 0
    with ExitStack() as stack:
        sinks, folders = _open_outputs(stack, clip, plan, film, homes)
        for done, frame in enumerate(clip.frames(plan.every), start=1):
            last = course.follow(frame, ask(frame.image))
            for write in sinks:
                write(frame, last)
            if advance:
                advance(done, max(done, expected))
        if last is None:
            raise InputError(path, "no frame can be decoded", "get the file again")
        paths = [*([film, film.with_suffix(".json")] if film else []), *homes.values()]
        limits = plan.options.limits if film else None
        outcome = _outcome(clip, course, last, done, paths, limits)
        about = _clip_record(path, plan, outcome)
        for each in folders:
            files.write_json(each / RECORD, about)
    if film:
        files.write_json(film.with_suffix(".json"), about)
    return outcome


def _open_outputs(
    stack: ExitStack, clip: Clip, plan: Plan, film: Path | None, homes: Mapping[str, Path]
) -> tuple[list[Write], list[Path]]:
    """Open the film and the folders; return the functions that write a frame, and the folders."""
    sinks: list[Write] = []
    folders: list[Path] = []
    if film:
        sinks.append(stack.enter_context(_film(film, plan, clip.rate)))
    for name, home in homes.items():
        known = _is_of(home, clip.path.name)
        folders.append(stack.enter_context(files.atomic_folder(home, replace=known)))
        sinks.append(partial(_write_frame, FORMATS[name], folders[-1], plan.options))
    return sinks, folders


def _outcome(
    clip: Clip,
    course: Course,
    last: Prediction,
    done: int,
    paths: Sequence[Path],
    limits: tuple[float, float] | None,
) -> Outcome:
    return Outcome(
        files=tuple(paths),
        frames=done,
        seconds=clip.length,
        limits=limits,
        flicker=course.predicted.value,
        smoothed=course.shown.value,
        cuts=tuple(course.cuts),
        notes=tuple(clip.notes()),
        last=replace(last, provenance=replace(last.provenance, frame=None)),
    )


def _clip_record(path: Path, plan: Plan, outcome: Outcome) -> dict[str, Any]:
    fields = ("frames", "seconds", "limits", "flicker", "smoothed", "cuts", "notes")
    return {
        **record(
            outcome.last, clip=files.name_text(path.name), every=plan.every, flicker_is=FLICKER
        ),
        "metres_per_unit": plan.options.metres_per_unit,
        "inverse_per_unit": plan.options.inverse_per_unit,
        **{field: getattr(outcome, field) for field in fields},
    }


def _is_of(folder: Path, clip: str) -> bool:
    """Tell whether a folder holds the frames of a clip of that name, and nothing else."""
    if not (folder / RECORD).is_file():
        return False
    if any(path.name != RECORD and not _FRAME.match(path.name) for path in folder.iterdir()):
        return False
    record = files.read_json(folder / RECORD)
    return isinstance(record, dict) and record.get("clip") == files.name_text(clip)


def _asking(predictor: Predictor, clip: Clip, options: PredictOptions) -> Ask:
    """Return how to predict a frame; the first one turns a known distance into a factor."""
    plain, known = replace(options, known_distance=None), options.known_distance

    def ask(image: Picture) -> Prediction:
        return predictor.predict(Photo(image, clip.path.name), plain)

    if not known:
        return ask

    def ask_quietly(image: Picture) -> Prediction:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IdiscWarning)  # the known distance corrects the scale
            return ask(image)

    try:
        first = ask_quietly(next(clip.frames()).image)
        change = first.change_for(known, first_frame=True)
    except InputError as error:
        raise error.within(clip.path) from None
    return lambda image: ask_quietly(image).apply(change)


def _settled(plan: Plan, clip: Clip, ask: Ask, domain: str) -> Plan:
    """Return the plan with one range of colours and one factor for all frames."""
    options = plan.options
    colours = options.limits is None and (plan.side_by_side or FILM in plan.formats)
    given = options.metres_per_unit or options.inverse_per_unit
    factor = FORMATS["png16"] in plan.formats and given is None
    if not (colours or factor):
        return plan
    apart = max(1, int(clip.seconds * clip.rate / SAMPLES))
    samples = [_sampled(ask, frame) for frame in islice(clip.frames(apart), SAMPLES)]
    unit, depths = samples[0][0], [depth for _, depth in samples]
    if colours:
        options = replace(options, limits=colour_limits(unit, *depths))
    if factor and unit == "metre":
        deepest = 1.5 * max(float(depth.max()) for depth in depths)  # other frames may be deeper
        options = replace(options, metres_per_unit=png16_unit(domain, deepest))
    elif factor:
        nearest = min(float(depth.min()) for depth in depths) / 1.5  # or nearer
        options = replace(options, inverse_per_unit=inverse_unit(nearest))
    return replace(plan, options=options)


def _sampled(ask: Ask, frame: Frame) -> tuple[Unit, FloatMap]:
    """Return the unit and a reduced depth map of a frame, which is not kept."""
    shown = ask(frame.image)
    return shown.unit, look(shown.depth_values)


def _write_frame(
    row: Format, folder: Path, options: FormatOptions, frame: Frame, shown: Prediction
) -> None:
    """Write one file of a sequence, named by the number of its frame; the folder is atomic."""
    alone = replace(options, sidecar=False, drop_beyond=True)  # the clip has one JSON file
    content = formats.encode(shown, row, alone)[row.suffix]
    (folder / f"{frame.index:06}{row.ending}").write_bytes(content)


@contextmanager
def _film(path: Path, plan: Plan, rate: Fraction) -> Iterator[Write]:
    """Write an MP4 file with H.264, which begins with the first frame."""
    import av

    stream: Any = None
    last, count = -1, 0

    def begin(picture: Picture, shown: Prediction) -> Any:
        container.metadata["comment"] = " · ".join(["idisc", *sentences(shown, without="frame")])
        speed = rate / plan.every if plan.fps is None else Fraction(plan.fps)
        made = container.add_stream("libx264", speed.limit_denominator(1001), options=_CODING)
        made.height, made.width, _ = picture.shape
        made.pix_fmt, made.codec_context.time_base = "yuv420p", Fraction(1, _TICKS)
        made.codec_context.colorspace = _BT709
        return made

    def write(frame: Frame, shown: Prediction) -> None:
        nonlocal stream, last, count
        picture = draw(shown, plan.options, side_by_side=plan.side_by_side)
        stream = stream or begin(picture, shown)
        seconds = frame.seconds if plan.fps is None else count / plan.fps
        count, last = count + 1, max(last + 1, round(seconds * _TICKS))
        coloured = av.VideoFrame.from_ndarray(picture, format="rgb24")
        coded = coloured.reformat(format="yuv420p", dst_colorspace="ITU709")
        coded.pts, coded.time_base = last, Fraction(1, _TICKS)
        container.mux(stream.encode(coded))

    try:
        with files.atomic(path) as draft:
            fast = {"movflags": "+faststart"}
            with av.open(str(draft), "w", format="mp4", options=fast) as container:
                yield write
                if stream is not None:
                    container.mux(stream.encode(None))
    except av.FFmpegError as error:
        raise InputError(path, f"cannot be written ({error.strerror})") from None


def draw(shown: Prediction, options: FormatOptions, *, side_by_side: bool = False) -> Picture:
    """Draw a frame of the film: depth in colours, or the picture, its depth and a legend.

    Its sides are even numbers, as H.264 needs them.
    """
    depth, unit = shown.depth_values, shown.unit
    low, high = options.limits or colour_limits(unit, depth)
    picture = visualize.depth_picture(depth, low, high, options.colormap)
    if side_by_side:
        factor = enlargement((picture.shape[0], picture.shape[1]))
        panels = [each.repeat(factor, 0).repeat(factor, 1) for each in (shown.image, picture)]
        if options.clean:
            return _with_even_sides(np.concatenate(panels, axis=1))
        kind = "depth" if unit == "metre" else "relative depth"
        said = f"{kind}, camera {shown.camera.origin}"
        name = visualize.plain(shown.provenance.picture)
        picture = visualize.beside(panels, [name, said])
        symbol = UNIT_SYMBOLS[unit]
        legend = visualize.legend(low, high, symbol, options.colormap, picture.shape[1])
        picture = np.concatenate([picture, legend])
    return _with_even_sides(picture)


def _with_even_sides(picture: Picture) -> Picture:
    height, width = picture.shape[:2]
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
