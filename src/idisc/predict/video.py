"""Videos, one frame at a time: decode, predict, even out, encode. PyAV reads and writes them.

However long a clip is, only a few of its frames are in memory. All share one range of colours and
one factor of 16-bit PNGs, by a few frames spread over the clip, unless given. Frames are taken as
players show them: turned, mirrored, with square pixels. Sound is left out.

What follows from one frame to the next, flicker and smoothing and cuts, is in `temporal`.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from idisc import files, outputs, visualize
from idisc.errors import IdiscWarning, InputError, MissingExtra, require
from idisc.images import Photo
from idisc.outputs.depicted import MOST_STEPS, fact_line, record
from idisc.outputs.numbers import MILLIMETRE, png16_unit
from idisc.outputs.pictures import enlargement
from idisc.predict.inputs import VIDEOS
from idisc.predict.prediction import Known, Prediction, Scale
from idisc.predict.predictor import Predictor
from idisc.predict.temporal import FLICKER, Course, Frame, look
from idisc.sizes import resize_smooth
from idisc.visualize import Picture

FILM = "png"  # the format that is a picture of a photo and a film of a clip
SEQUENCES = ("png16", "npy", "npz", "exr")  # formats with one file for each frame
SAMPLES = 5  # frames that the range of colours is taken from
MOST_PIXELS = 100_000_000  # of a frame
RECORD = "clip.json"  # in a folder of frames: what they are of
_FRAME = re.compile(r"\d{6,}\.[a-z]+$")
_CONTAINERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"  # no playlists: they open other files
_CODING = {"crf": "16", "preset": "veryfast"}  # of H.264; looks ahead by 10 frames, not by 40
_TICKS = 90_000  # of a film's clock, in a second
_BT709 = 1  # the colours of HD television, as FFmpeg numbers them

Ask = Callable[[Picture], Prediction]
Write = Callable[["Frame", Prediction], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to make of a clip."""

    formats: tuple[str, ...] = (FILM,)  # png, the film of depth in colours, and any of SEQUENCES
    side_by_side: bool = False  # the film has picture, depth and a legend
    smooth: float | None = None  # seconds that depth is evened out over; None: not at all
    every: int = 1  # take each n-th frame
    fps: float | None = None  # of the film; None: frames keep their times, so it lasts as long
    options: outputs.Options = field(default_factory=outputs.Options)

    def __post_init__(self) -> None:
        for kind in sorted({*self.formats} - {FILM, *SEQUENCES}):
            raise InputError(f"{kind} of a video: there is {FILM}, {', '.join(SEQUENCES)}")
        if self.every < 1:
            raise InputError(f"every {self.every} frames: 1 or more is needed")
        for name, value in (("smooth", self.smooth), ("fps", self.fps)):
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"{name} {value:g}: a number above 0 is needed")

    def places(self, folder: Path, name: str, clip: str) -> tuple[Path | None, dict[str, Path]]:
        """Where the film goes, if there is one, and the folder of each other format.

        A folder is new, or holds what came of a `clip` of that name before.
        """
        homes = {kind: folder / f"{name}_{kind}" for kind in self.formats if kind != FILM}
        for home in homes.values():
            if not _is_of(home, clip):
                files.check_new_folder(home)
        ending = "_beside.mp4" if self.side_by_side else "_depth.mp4"
        made = self.side_by_side or FILM in self.formats
        return (folder / f"{name}{ending}" if made else None), homes


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a clip."""

    files: tuple[Path, ...]  # the film, its record, folders of sequences
    frames: int  # predicted
    seconds: float  # from the first frame to the end of the last
    limits: tuple[float, float] | None  # metres at both ends of the colours; None: no film
    flicker: float | None  # as predicted; None: nothing was still for two frames
    smoothed: float | None  # the same after smoothing; None also without it
    cuts: tuple[int, ...]  # frames that begin another scene
    notes: tuple[str, ...]  # what was left out or missing, for people
    facts: Mapping[str, str]  # of a frame's prediction; they are the same for all


def is_video(path: Path | None) -> bool:
    """By its ending; animated pictures are pictures."""
    return path is not None and path.suffix.lower() in VIDEOS


class Clip:
    """A video file. Each walk over its frames opens it anew, and updates what was found."""

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
        """Each n-th frame, one at a time; InputError if there is not a single one."""
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
            raise InputError(f"{self.path}: not one frame can be decoded; get it again")
        self.length = max(0.0, last - first) + float(1 / self.rate)

    def notes(self) -> list[str]:
        """What somebody who knows the file would miss, after a walk over all of it."""
        notes = ["sound left out"] if self.sound else []
        stated = max(self.seconds, self.length)
        if self.damaged or stated - self.length > max(0.25, 1.5 / self.rate, 0.02 * stated):
            notes.append(f"cut short or damaged: {self.length:.1f} of {stated:.1f} s are there")
        return notes

    def _decoded(self, container: Any, stream: Any) -> Iterator[Any]:
        """Frames of PyAV; what is damaged is counted and passed over."""
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
    """A container and its video stream; whatever PyAV has to say becomes one line."""
    try:
        require("av", extra="video")
    except MissingExtra as error:
        raise MissingExtra(f"{path}: {error}") from None
    import av

    if not path.is_file():
        found = "a folder; a video is needed" if path.is_dir() else "no such file"
        raise InputError(f"{path}: {found}")
    if not path.stat().st_size:
        raise InputError(f"{path}: empty; get it again")
    limits = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "file"}
    try:
        with av.open(str(path.resolve()), options=limits, metadata_errors="replace") as container:
            stream = container.streams.best("video")
            coding = stream and stream.codec_context
            if coding is None:
                raise InputError(f"{path}: no video in it, or in a code that nobody knows here")
            if coding.width * coding.height > MOST_PIXELS:
                raise InputError(
                    f"{path}: {coding.width} x {coding.height} pixels, at most"
                    f" {MOST_PIXELS / 1e6:.0f} million are read; reduce it"
                )
            yield container, stream
    except av.FFmpegError as error:
        raise InputError(
            f"{path}: not a video, damaged or cut short ({error.strerror}); get it again"
        ) from None


def _shown(frame: Any, stream: Any) -> Picture:
    """RGB (H, W, 3) as a player shows a frame of PyAV."""
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
    **how: Any,
) -> Outcome:
    """Predict a clip frame by frame and write FOLDER/NAME_...: each file whole, or not at all.

    `how` is what `Predictor.predict` takes, but normals; a known distance is one of the first
    frame, and scales all of them alike. `advance` is told frames done and frames expected.
    """
    if predictor.engine.task == "normals" or how.get("normals"):
        raise InputError(f"{path}: of a video, depth is written, not normals")
    plan, clip = plan or Plan(), Clip(path)
    film, homes = plan.places(folder, name or path.stem, path.name)
    expected = math.ceil(clip.seconds * clip.rate / plan.every)
    ask = _asking(predictor, clip, how)
    plan = _settled(plan, clip, ask, predictor.facts.domain)
    course, about, done = Course(plan.smooth), dict[str, Any](), 0
    with ExitStack() as stack:
        sinks: list[Write] = []
        if film:
            sinks.append(stack.enter_context(_film(film, plan, clip.rate)))
        drafts = {
            kind: stack.enter_context(files.atomic_folder(home, replace=_is_of(home, path.name)))
            for kind, home in homes.items()
        }
        sinks += [partial(_write_frame, kind, drafts[kind], plan.options) for kind in drafts]
        for done, frame in enumerate(clip.frames(plan.every), start=1):
            shown = course.follow(frame, ask(frame.image))
            about = record(shown)
            for write in sinks:
                write(frame, shown)
            if advance:
                advance(done, max(done, expected))
        outcome = Outcome(
            files=(*([film, film.with_suffix(".json")] if film else []), *homes.values()),
            frames=done,
            seconds=clip.length,
            limits=plan.options.limits if film else None,
            flicker=course.predicted.value,
            smoothed=course.shown.value,
            cuts=tuple(course.cuts),
            notes=tuple(clip.notes()),
            facts={key: text for key, text in about["facts"].items() if key != "frame"},
        )
        about |= {"clip": path.name, "every": plan.every, "flicker_is": FLICKER}
        about |= {"metres_per_unit": plan.options.metres_per_unit, **asdict(outcome)}
        del about["files"]
        for draft in drafts.values():
            files.write_json(draft / RECORD, about)
    if film:
        files.write_json(film.with_suffix(".json"), about)
    return outcome


def _is_of(folder: Path, clip: str) -> bool:
    """Whether a folder holds the frames of a clip of that name, and nothing of the user's own."""
    if not (folder / RECORD).is_file():
        return False
    if any(path.name != RECORD and not _FRAME.match(path.name) for path in folder.iterdir()):
        return False
    record = files.read_json(folder / RECORD)
    return isinstance(record, dict) and record.get("clip") == clip


def _asking(predictor: Predictor, clip: Clip, how: Mapping[str, Any]) -> Ask:
    """How to predict one frame; a known distance is turned into a factor by the first one."""
    known, plain = how.get("known"), {key: how[key] for key in how if key != "known"}

    def ask(image: Picture, scale: Scale | None = None) -> Prediction:
        return predictor.predict(Photo(image, clip.path.name), known=scale, **plain)

    if known is None:
        return ask
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdiscWarning)  # of a camera that the distance corrects
        first = ask(next(clip.frames()).image)
    try:
        factor = first.factor(known)
    except InputError as error:
        raise InputError(f"{clip.path}: {error}") from None
    return partial(ask, scale=Scale(factor, f"known {Known.parse(known)} in the first frame"))


def _settled(plan: Plan, clip: Clip, ask: Ask, domain: str) -> Plan:
    """The plan with one range of colours and one factor for all frames of the clip."""
    options = plan.options
    colours = options.limits is None and (plan.side_by_side or FILM in plan.formats)
    factor = "png16" in plan.formats and options.metres_per_unit is None
    if not (colours or factor):
        return plan
    apart = max(1, int(clip.seconds * clip.rate / SAMPLES))
    depths = [look(ask(frame.image).depth) for frame in islice(clip.frames(apart), SAMPLES)]
    deepest = 1.5 * max(float(depth.max()) for depth in depths)  # of frames that were not seen
    limits = visualize.depth_limits(*depths) if colours else options.limits
    unit = png16_unit(domain, deepest) if factor else options.metres_per_unit
    return replace(plan, options=replace(options, limits=limits, metres_per_unit=unit))


def _write_frame(
    kind: str, folder: Path, options: outputs.Options, frame: Frame, shown: Prediction
) -> None:
    """One file of a sequence, named by the number of its frame."""
    most = MOST_STEPS * (options.metres_per_unit or MILLIMETRE)
    if kind == "png16" and shown.depth.max() > most:
        facts = {**shown.facts, "left out": f"depth beyond {most:.1f} m, stored as none"}
        shown = replace(shown, depth=np.where(shown.depth > most, 0, shown.depth), facts=facts)
    ending = Path(outputs.WRITERS[kind].suffix).suffix
    alone = replace(options, beside=False)  # one JSON is enough for the clip
    outputs.write(kind, folder / f"{frame.index:06}{ending}", shown, alone)


@contextmanager
def _film(path: Path, plan: Plan, rate: Fraction) -> Iterator[Write]:
    """An MP4 file of H.264, begun with the first frame."""
    import av

    stream: Any = None
    last, count = -1, 0

    def begin(picture: Picture, shown: Prediction) -> Any:
        container.metadata["comment"] = f"idisc: {fact_line(shown, but='frame')}"
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
        coded = coloured.reformat(format="yuv420p", dst_colorspace=_BT709)
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
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def draw(shown: Prediction, options: outputs.Options, *, side_by_side: bool = False) -> Picture:
    """A frame of the film, its sides even, as H.264 needs them: depth in colours, or all of it.

    Side by side are the picture, its depth, and a legend in metres below both.
    """
    low, high = options.limits or visualize.depth_limits(shown.depth)
    picture = visualize.depth_picture(shown.depth, low, high, options.colours)
    if side_by_side:
        factor = enlargement((picture.shape[0], picture.shape[1]))
        panels = [each.repeat(factor, 0).repeat(factor, 1) for each in (shown.image, picture)]
        said = f"depth, camera {shown.camera.origin}"
        name = visualize.plain(shown.facts.get("picture", "picture"))
        picture = visualize.beside(panels, [name, said])
        legend = visualize.legend(low, high, "m", options.colours, picture.shape[1])
        picture = np.concatenate([picture, legend])
    height, width = picture.shape[:2]
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
