"""Short films of a room, written and read again, and an engine that flickers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from idisc.predict.engine import Output
from idisc.sizes import resize_map
from idisc.tasks import DEPTH, Task

JUMP = 0.05  # by how much the engine below flickers, in log depth


class Flickering:
    """metres = 2 + red / 100, times exp(JUMP) for every other picture that it is shown."""

    name, sha256, fixed_size, verified = "flickering", "0123456789abcdef", None, True
    convention = None
    task: Task = DEPTH
    origin: Mapping[str, Any] = {"domain": "indoor", "training_size": [48, 64]}

    def __init__(self, jump=JUMP):
        self.jump, self.calls = jump, 0

    def run(self, images, size=None):
        self.calls += 1
        factor = np.float32(np.exp(self.jump * (self.calls % 2)))
        depth = (2 + images[..., 0].astype(np.float32) / 100) * factor
        return Output(np.stack([resize_map(each, size or each.shape) for each in depth]))


def room(seed=0, size=(48, 64)):
    """Soft blobs, in colours of their own for each seed."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 100, (4, 5, 3)) + rng.integers(0, 155, 3)
    small = Image.fromarray(coarse.astype(np.uint8))
    return np.asarray(small.resize((size[1], size[0]), Image.Resampling.BICUBIC))


def write_clip(path, pictures, *, codec="libx264", sound=False, **options):
    """Ten frames a second, nearly without loss; `options` are those of the container."""
    import av

    with av.open(str(path), "w", options=options) as container:
        height, width = pictures[0].shape[:2]
        coding = {"crf": "4", "g": "6"} if codec == "libx264" else {}
        stream = container.add_stream(codec, rate=10, options=coding)
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        voice = container.add_stream("aac", rate=8000) if sound else None
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
        if voice:
            mux_silence(container, voice)
    return path


def mux_silence(container, voice):
    """A second of it, at 8 kHz."""
    import av

    silence = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.float32), "fltp", "mono")
    silence.sample_rate = 8000
    container.mux(voice.encode(silence))
    container.mux(voice.encode(None))


def decoded(path):
    """The frames of a file."""
    import av

    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
