"""Reads the frames of a video file with PyAV, as a player shows them.

Frames are rotated, mirrored and stretched to square pixels as the file says. Damaged frames are
skipped and counted. Sound is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from idisc.errors import InputError, MissingExtra, require
from idisc.predict.temporal import Frame
from idisc.sizes import describe_size, resize_smooth
from idisc.visualize import Picture

MAX_PIXELS = 100_000_000  # of a frame
_CONTAINERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"  # no playlists: they open other files


class Clip:
    """A video file. Each pass over its frames opens it again and updates the counters."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _opened(path) as (container, stream):
            rate = Fraction(stream.average_rate or stream.guessed_rate or 25)
            self.rate = max(rate.limit_denominator(1001), Fraction(1, 1001))  # frames per second
            ticks = (stream.duration or 0) * (stream.time_base or 0)
            self.seconds = float(ticks) or (container.duration or 0) / 1e6  # as the file states
            if container.format.name == "avi":  # it states the duration of a truncated file
                self.seconds = max(self.seconds, float(stream.frames / self.rate))
            self.has_sound = bool(container.streams.audio)
        self.damaged = 0  # packets and frames that could not be decoded in the last pass
        self.decoded_seconds = 0.0  # length of the last pass

    def frames(self, every: int = 1) -> Iterator[Frame]:
        """Yield every n-th frame; InputError if none can be decoded."""
        first = last = 0.0
        index, size = -1, None
        self.damaged = 0
        with _opened(self.path) as (container, stream):
            for index, decoded in enumerate(self._decoded(container, stream)):
                seconds = decoded.time
                last = last + float(1 / self.rate) if seconds is None else seconds
                first = last if index == 0 else first
                if index % every == 0:
                    image = _displayed(decoded, stream)
                    size = size or image.shape[:2]
                    yield Frame(index, max(0.0, last - first), resize_smooth(image, size))
        if index < 0:
            raise InputError(self.path, "no frame can be decoded", "get the file again")
        self.decoded_seconds = max(0.0, last - first) + float(1 / self.rate)

    def notes(self) -> list[str]:
        """Return what is left out or missing, after a pass over all frames."""
        notes = ["sound left out"] if self.has_sound else []
        decoded, stated = self.decoded_seconds, max(self.seconds, self.decoded_seconds)
        if self.damaged or stated - decoded > max(0.25, 1.5 / self.rate, 0.02 * stated):
            notes.append(f"cut short or damaged: {decoded:.1f} of {stated:.1f} s are there")
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
            intact = [frame for frame in decoded if not frame.is_corrupt]
            self.damaged += len(decoded) - len(intact)
            yield from intact


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
            codec = stream and stream.codec_context
            if codec is None:
                raise InputError(path, "no video stream, or an unknown codec")
            if codec.width * codec.height > MAX_PIXELS:
                size = describe_size((codec.height, codec.width))
                limit = f"at most {MAX_PIXELS / 1e6:.0f} million are read"
                raise InputError(path, f"{size} pixels, {limit}", "reduce it")
            yield container, stream
    except av.FFmpegError as error:
        reason = f"not a video, damaged or cut short ({error.strerror})"
        raise InputError(path, reason, "get it again") from None


def _displayed(frame: Any, stream: Any) -> Picture:
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
