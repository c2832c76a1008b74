"""Predicts videos frame by frame: decode, predict, smooth, encode.

Only a few frames are in memory, however long a clip is. All frames share one range of colours and
one factor of 16-bit PNGs, which are taken from a few frames of the clip unless they are given.

`clip` decodes videos, and `temporal` measures flicker, smooths depth and finds scene cuts.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from idisc import files, formats, visualize
from idisc.errors import IdiscWarning, InputError
from idisc.formats import FORMATS, Format, FormatOptions
from idisc.formats.numbers import inverse_unit, png16_unit
from idisc.formats.pictures import enlargement
from idisc.images import Photo
from idisc.predict.auto import AutoPredictor
from idisc.predict.clip import Clip
from idisc.predict.options import PredictOptions
from idisc.predict.predictor import Predictor
from idisc.predict.temporal import FLICKER, Frame, FrameTracker, sample_map
from idisc.prediction import FloatMap, Prediction, colour_limits
from idisc.provenance import Unit
from idisc.provenance_text import UNIT_SYMBOLS, record, sentences
from idisc.visualize import Picture

MP4 = FORMATS["png"]  # for a clip one MP4 file; other formats have a folder with a file per frame
SAMPLES = 5  # frames from which the range of colours is taken
RECORD = "clip.json"  # in a folder of frames: their clip, and how they were made
_FRAME_FILE = re.compile(r"\d{6,}\.[a-z]+$")
_H264_OPTIONS = {"crf": "16", "preset": "veryfast"}  # looks ahead by 10 frames, not by 40
_TICKS_PER_SECOND = 90_000  # of the timestamps in an MP4 file
_BT709 = 1  # the colours of HD television, as FFmpeg numbers them

PredictFrame = Callable[[Picture], Prediction]
WriteFrame = Callable[[Frame, Prediction], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to write for a clip."""

    formats: tuple[Format, ...] = (MP4,)  # those with `in_video`
    side_by_side: bool = False  # the MP4 file shows picture, depth and a legend
    smooth: float | None = None  # seconds over which depth is smoothed; None: not at all
    every: int = 1  # predict every n-th frame
    fps: float | None = None  # of the MP4 file; None: frames keep their times
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

    @property
    def has_mp4(self) -> bool:
        """Whether an MP4 file is written."""
        return self.side_by_side or MP4 in self.formats

    def mp4_path(self, folder: Path, name: str) -> Path | None:
        """Return the path of the MP4 file; None if there is none."""
        suffix = "_beside.mp4" if self.side_by_side else "_depth.mp4"
        return folder / f"{name}{suffix}" if self.has_mp4 else None

    def frame_folders(self, folder: Path, name: str) -> dict[Path, Format]:
        """Return the folder of frames of each other format."""
        return {folder / f"{name}_{row.name}": row for row in self.formats if row != MP4}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was written for a clip."""

    files: tuple[Path, ...]  # the MP4 file, its record, folders of frames
    frames: int  # predicted
    seconds: float  # from the first frame to the end of the last
    limits: tuple[float, float] | None  # depth at both ends of the colours; None: no MP4 file
    flicker: float | None  # before smoothing; None: nothing was still for two frames
    smoothed: float | None  # after smoothing; None also without smoothing
    cuts: tuple[int, ...]  # frames that begin another scene
    notes: tuple[str, ...]  # what was left out or is missing
    last: Prediction  # of the last frame; model, camera and warnings are the same for all


def video_formats() -> str:
    """Return the names of the formats of videos, for messages."""
    return ", ".join(row.name for row in FORMATS.values() if row.in_video)


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
    plan, options = plan or Plan(), options or PredictOptions()
    if not predictor.engine.task.metric or options.normals:
        raise InputError(path, "videos are written as depth, not as normals")
    clip, name = Clip(path), name or path.stem
    if isinstance(predictor, AutoPredictor):  # one model for all frames
        predictor = predictor.for_picture(_first_photo(clip))
    mp4, folders = plan.mp4_path(folder, name), plan.frame_folders(folder, name)
    with ExitStack() as stack:
        drafts = {
            stack.enter_context(_frame_folder(target, path)): row for target, row in folders.items()
        }
        predict = _frame_predictor(predictor, clip, options)
        plan = _with_common_scale(plan, clip, predict, predictor.model.domain)
        writers: list[WriteFrame] = [
            partial(_write_frame, row, draft, plan.options) for draft, row in drafts.items()
        ]
        if mp4:
            writers.append(stack.enter_context(_mp4_writer(mp4, plan, clip.rate)))
        tracker = FrameTracker(plan.smooth)
        expected = math.ceil(clip.seconds * clip.rate / plan.every)
        for done, frame in enumerate(clip.frames(plan.every), start=1):
            shown = tracker.track(frame, predict(frame.image))
            for write in writers:
                write(frame, shown)
            if advance:
                advance(done, max(done, expected))
        paths = [*([mp4, mp4.with_suffix(".json")] if mp4 else []), *folders]
        outcome = _outcome(clip, plan, tracker, shown, done, paths)
        about = _clip_record(clip, plan, outcome)
        for draft in drafts:
            files.write_json(draft / RECORD, about)
    if mp4:
        files.write_json(mp4.with_suffix(".json"), about)
    return outcome


def _first_photo(clip: Clip) -> Photo:
    return Photo(next(clip.frames()).image, clip.path.name)


def _frame_folder(path: Path, clip: Path) -> AbstractContextManager[Path]:
    """Open a folder that must be new, or hold the frames of a clip of the same name."""
    return files.atomic_folder(path, replace=_has_frames_of(path, clip))


def _has_frames_of(folder: Path, clip: Path) -> bool:
    """Tell whether a folder holds the frames of a clip of that name, and nothing else."""
    if not (folder / RECORD).is_file():
        return False
    if any(path.name != RECORD and not _FRAME_FILE.match(path.name) for path in folder.iterdir()):
        return False
    about = files.read_json(folder / RECORD)
    return isinstance(about, dict) and about.get("clip") == files.name_text(clip.name)


def _frame_predictor(predictor: Predictor, clip: Clip, options: PredictOptions) -> PredictFrame:
    """Return how to predict a frame; the first one turns a known distance into a factor."""
    plain, known = replace(options, known_distance=None), options.known_distance

    def predict(image: Picture) -> Prediction:
        return predictor.predict(Photo(image, clip.path.name), plain)

    if not known:
        return predict

    def predict_quietly(image: Picture) -> Prediction:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IdiscWarning)  # the known distance corrects the scale
            return predict(image)

    try:
        change = predict_quietly(_first_photo(clip).image).change_for(known, first_frame=True)
    except InputError as error:
        raise error.within(clip.path) from None
    return lambda image: predict_quietly(image).apply(change)


def _with_common_scale(plan: Plan, clip: Clip, predict: PredictFrame, domain: str) -> Plan:
    """Return the plan with one range of colours and one factor of png16 for all frames."""
    options = plan.options
    needs_limits = options.limits is None and plan.has_mp4
    given = options.metres_per_unit or options.inverse_per_unit
    needs_factor = FORMATS["png16"] in plan.formats and given is None
    if not (needs_limits or needs_factor):
        return plan
    step = max(1, int(clip.seconds * clip.rate / SAMPLES))
    samples = [_sample(predict(frame.image)) for frame in islice(clip.frames(step), SAMPLES)]
    unit, depths = samples[0][0], [depth for _, depth in samples]
    if needs_limits:
        options = replace(options, limits=colour_limits(unit, *depths))
    if needs_factor and unit == "metre":
        deepest = 1.5 * max(float(depth.max()) for depth in depths)  # other frames may be deeper
        options = replace(options, metres_per_unit=png16_unit(domain, deepest))
    elif needs_factor:
        nearest = min(float(depth.min()) for depth in depths) / 1.5  # or nearer
        options = replace(options, inverse_per_unit=inverse_unit(nearest))
    return replace(plan, options=options)


def _sample(prediction: Prediction) -> tuple[Unit, FloatMap]:
    """Return the unit and a reduced depth map, so that the prediction itself can be freed."""
    return prediction.unit, sample_map(prediction.depth_values)


def _outcome(
    clip: Clip,
    plan: Plan,
    tracker: FrameTracker,
    last: Prediction,
    frames: int,
    paths: Sequence[Path],
) -> Outcome:
    return Outcome(
        files=tuple(paths),
        frames=frames,
        seconds=clip.decoded_seconds,
        limits=plan.options.limits if plan.has_mp4 else None,
        flicker=tracker.predicted.value,
        smoothed=tracker.shown.value,
        cuts=tuple(tracker.cuts),
        notes=tuple(clip.notes()),
        last=replace(last, provenance=replace(last.provenance, frame=None)),
    )


def _clip_record(clip: Clip, plan: Plan, outcome: Outcome) -> dict[str, Any]:
    name = files.name_text(clip.path.name)
    fields = ("frames", "seconds", "limits", "flicker", "smoothed", "cuts", "notes")
    return {
        **record(outcome.last, clip=name, every=plan.every, flicker_is=FLICKER),
        "metres_per_unit": plan.options.metres_per_unit,
        "inverse_per_unit": plan.options.inverse_per_unit,
        **{field: getattr(outcome, field) for field in fields},
    }


def _write_frame(
    row: Format, folder: Path, options: FormatOptions, frame: Frame, shown: Prediction
) -> None:
    """Write one file of a sequence, named by the number of its frame; the folder is atomic."""
    options = replace(options, sidecar=False, drop_beyond=True)  # the clip has one JSON file
    content = formats.encode(shown, row, options)[row.suffix]
    (folder / f"{frame.index:06}{row.ending}").write_bytes(content)


@contextmanager
def _mp4_writer(path: Path, plan: Plan, rate: Fraction) -> Iterator[WriteFrame]:
    """Open an MP4 file with H.264, whose size is that of the first frame."""
    import av

    stream: Any = None
    last, count = -1, 0

    def open_stream(picture: Picture, shown: Prediction) -> Any:
        container.metadata["comment"] = " · ".join(["idisc", *sentences(shown, without="frame")])
        fps = rate / plan.every if plan.fps is None else Fraction(plan.fps)
        opened = container.add_stream("libx264", fps.limit_denominator(1001), options=_H264_OPTIONS)
        opened.height, opened.width, _ = picture.shape
        opened.pix_fmt, opened.codec_context.time_base = "yuv420p", Fraction(1, _TICKS_PER_SECOND)
        opened.codec_context.colorspace = _BT709
        return opened

    def write(frame: Frame, shown: Prediction) -> None:
        nonlocal stream, last, count
        picture = draw(shown, plan.options, side_by_side=plan.side_by_side)
        stream = stream or open_stream(picture, shown)
        seconds = frame.seconds if plan.fps is None else count / plan.fps
        count, last = count + 1, max(last + 1, round(seconds * _TICKS_PER_SECOND))
        rgb = av.VideoFrame.from_ndarray(picture, format="rgb24")
        encoded = rgb.reformat(format="yuv420p", dst_colorspace="ITU709")
        encoded.pts, encoded.time_base = last, Fraction(1, _TICKS_PER_SECOND)
        container.mux(stream.encode(encoded))

    index_first = {"movflags": "+faststart"}
    try:
        with (
            files.atomic(path) as draft,
            av.open(str(draft), "w", format="mp4", options=index_first) as container,
        ):
            yield write
            if stream is not None:
                container.mux(stream.encode(None))
    except av.FFmpegError as error:
        raise InputError(path, f"cannot be written ({error.strerror})") from None


def draw(shown: Prediction, options: FormatOptions, *, side_by_side: bool = False) -> Picture:
    """Draw a frame of the MP4 file: depth in colours, or the picture, its depth and a legend.

    Its sides are even numbers, as H.264 needs them.
    """
    depth, unit = shown.depth_values, shown.unit
    low, high = options.limits or colour_limits(unit, depth)
    picture = visualize.depth_picture(depth, low, high, options.colormap)
    if side_by_side:
        factor = enlargement((picture.shape[0], picture.shape[1]))
        panels = [panel.repeat(factor, 0).repeat(factor, 1) for panel in (shown.image, picture)]
        if options.clean:
            return _with_even_sides(np.concatenate(panels, axis=1))
        kind = "depth" if unit == "metre" else "relative depth"
        captions = (
            visualize.drawable_text(shown.provenance.picture),
            f"{kind}, camera {shown.camera.origin}",
        )
        picture = visualize.side_by_side(panels, captions)
        symbol = UNIT_SYMBOLS[unit]
        legend = visualize.legend(low, high, symbol, options.colormap, picture.shape[1])
        picture = np.concatenate([picture, legend])
    return _with_even_sides(picture)


def _with_even_sides(picture: Picture) -> Picture:
    height, width = picture.shape[:2]
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
