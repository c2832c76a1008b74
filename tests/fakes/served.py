"""A server whose engine computes depth from red, and whose explorer has known answers."""

import io
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import uvicorn
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from PIL import Image

from idisc.errors import InputError
from idisc.explain.idrs import Level
from idisc.predict.engine import Output
from idisc.predict.predictor import Predictor
from idisc.serve.admission import LOOPBACK, AdmissionMiddleware, Limits
from idisc.serve.app import ServerState, create_app
from idisc.serve.explorer import Opened, with_explorer
from idisc.sizes import resize_map
from idisc.tasks import DEPTH, Task

Maps = NDArray[np.float32]
SIZE = (48, 64)


class RedEngine:
    """Metres = 1 + red / 100; a prediction waits until `go` is set."""

    name, sha256, verified = "red", "0123456789abcdef", True
    task: Task = DEPTH
    fixed_size = convention = None
    origin: Mapping[str, Any] = {
        "domain": "indoor",
        "training_size": [48, 64],
        "training_fov_deg": 60.0,
        "data": "rooms",
    }

    def __init__(self):
        self.go, self.calls = threading.Event(), 0
        self.go.set()

    def __call__(self, images, size=None):
        self.calls += 1
        assert self.go.wait(120)
        red = 1 + images[..., 0].astype(np.float32) / 100
        return np.stack([resize_map(each, size or red.shape[1:]) for each in red])

    def run(self, images, size=None):
        return Output(self(images, size))


class Thirds:
    """An explanation with three IDRs: the left, middle and right third of the picture.

    Muting an IDR adds half a metre to its third.
    """

    task = DEPTH

    def __init__(self, depth):
        self.depth = self.prediction = depth
        self.nbytes = depth.nbytes
        owners = np.repeat(np.eye(3, dtype=np.float32)[:, None], 12, axis=1)  # (3, 12, 3)
        owners = np.repeat(owners, (5, 6, 5), axis=2)  # (3, 12, 16)
        attention = owners * 0.7 + 0.1
        self.levels = [
            Level(index=0, stride=16, size=(3, 4), attention=attention, partition=owners),
            Level(index=1, stride=4, size=(12, 16), attention=attention, partition=None),
        ]

    def muted(self, idrs):
        thirds = np.linspace(0, 3, self.depth.shape[1], endpoint=False).astype(int)
        depth = self.depth.copy()
        for level, numbers in idrs.items():
            if len(numbers) == 3:
                raise InputError(f"level {level}", "all 3 IDRs muted", "one must be left")
            for number in numbers:
                depth[:, thirds == number] += 0.5
        return depth


class ThirdsExplorer:
    """Explains with `Thirds`."""

    def __init__(self):
        self.calls = 0

    def __call__(self, image, size):
        self.calls += 1
        return Thirds(resize_map(1 + image[..., 0].astype(np.float32) / 100, size))


@dataclass
class Served:
    """A server and its fake parts."""

    app: AdmissionMiddleware
    engine: RedEngine
    explorer: ThirdsExplorer | None

    @property
    def state(self) -> ServerState:
        """What the handlers share."""
        return self.app.app.state.server


def serve(explorer=True, **limits):
    """A server that answers to localhost only; `limits` are fields of `Limits`."""
    engine, thirds = RedEngine(), ThirdsExplorer() if explorer else None
    predictor = Predictor(engine)
    opened = with_explorer(predictor) if thirds is None else Opened(predictor, thirds)
    app = create_app(opened, Limits(**limits), hosts=LOOPBACK)
    return Served(app, engine, thirds)


@contextmanager
def running(**options):
    """Run a server in a thread; yield it and its address."""
    server = serve(**options)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # h11 and no websockets: other packages of the environment make no difference
        runner = uvicorn.Server(
            uvicorn.Config(server.app, log_level="error", http="h11", ws="none")
        )
        thread = threading.Thread(target=runner.run, args=([listening],))
        thread.start()
        while not runner.started and thread.is_alive():
            time.sleep(0.01)
        try:
            yield server, f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            runner.should_exit = True
            thread.join(90)


def client_of(app, **options):
    """A client of a server on this machine."""
    return TestClient(app, base_url="http://localhost", **options)


def ramp(height=SIZE[0], width=SIZE[1]):
    """A picture whose red rises from left to right: 1 m to 3 m."""
    image = np.zeros((height, width, 3), np.uint8)
    image[..., 0] = np.linspace(0, 200, width).astype(np.uint8)
    image[..., 1] = np.linspace(0, 255, height).astype(np.uint8)[:, None]
    return image


def png(image=None):
    """A picture as a file."""
    buffer = io.BytesIO()
    Image.fromarray(ramp() if image is None else image).save(buffer, format="PNG")
    return buffer.getvalue()
