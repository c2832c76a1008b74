"""Engines: pictures in, metres (or normals) out. Two of them, which differ in nothing but speed.

What is known of a network beyond its weights, `ModelFacts`, stands in the file it was loaded from:
under `origin` in the config.json of a checkpoint, in the metadata of an ONNX file. There the fields
domain, depth_range (metres), training_size, training_fov_deg, data, licence and precision are read,
as JSON or as text ("480x640"); what is not there is unknown, and said to be. The card of a model
that ships has most of them, too, and counts before its files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from idisc import config
from idisc.camera import Camera
from idisc.data import catalog
from idisc.errors import CheckpointError, InputError, require
from idisc.recipes import RECIPES
from idisc.settings import Precision, Task
from idisc.sizes import Size
from idisc.zoo import cards
from idisc.zoo.published import PUBLISHED

UNKNOWN = "unknown"
USUAL_SIZE: Size = (480, 640)  # of networks that do not say what they were trained at


class Engine(Protocol):
    """A network ready to run."""

    name: str  # what it was loaded from, for people
    sha256: str  # of its weights
    task: Task
    origin: Mapping[str, Any]  # what the file says of itself; see ModelFacts
    fixed_size: Size | None  # the one size of pictures it runs on; None: any

    def __call__(self, images: NDArray[np.uint8], size: Size | None = None) -> NDArray[np.float32]:
        """RGB (B, H, W, 3) -> depth (B, H, W) in metres, or normals (B, H, W, 3).

        `size` is that of the result, by default the picture's own.
        """
        ...

    def with_spread(
        self, images: NDArray[np.uint8], size: Size | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """The same, and how far the resolutions disagree: standard deviation (B, H, W) in metres.

        None where the engine cannot tell.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What a user should know of a network before believing it."""

    name: str
    sha256: str  # of its weights or its file
    domain: str = UNKNOWN  # indoor, road, any
    depth_range: tuple[float, float] | None = None  # metres; other depth was ignored in training
    training_size: Size | None = None  # of pictures in the network
    training_fov_deg: float | None = None  # from left to right of these pictures
    data: str = UNKNOWN  # what it learnt from
    licence: str = UNKNOWN  # of the weights
    precision: str = UNKNOWN  # of the arithmetic: fp32, bf16, fp16, int8
    canonical: bool = False  # trained on many cameras, all brought to the training camera

    @classmethod
    def of(cls, engine: Engine) -> ModelFacts:
        """As the engine's file says, or the table of published files."""
        origin = {**_published(engine.origin.get("file")), **engine.origin}

        def numbers(field: str, count: int) -> list[float] | None:
            """Of a JSON list, of 480x640 or of 0.01,10; CheckpointError if there are others."""
            text = str(origin.get(field) or UNKNOWN)
            if text in (UNKNOWN, "None"):
                return None
            found = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]
            if len(found) != count or found[-1] <= 0:
                raise CheckpointError(f"{engine.name}: {field} is {text!r} in its record")
            return found

        span, size = numbers("depth_range", 2), numbers("training_size", 2)
        fov = numbers("training_fov_deg", 1)
        return cls(
            name=engine.name,
            sha256=engine.sha256,
            domain=str(origin.get("domain") or UNKNOWN),
            depth_range=(span[0], span[1]) if span else None,
            training_size=(int(size[0]), int(size[1])) if size else None,
            training_fov_deg=fov[0] if fov else None,
            data=str(origin.get("data") or UNKNOWN),
            licence=str(origin.get("licence") or UNKNOWN),
            precision=str(origin.get("precision") or UNKNOWN),
            canonical=origin.get("canonical") in (True, "true"),
        )

    @property
    def training_camera(self) -> Camera | None:
        """The camera of its training pictures, if that is known."""
        if self.training_fov_deg is None or self.training_size is None:
            return None
        return Camera.from_fov(self.training_fov_deg, self.training_size, "training")


def origin_of_data(name: str, size: Size) -> dict[str, Any]:
    """The fields of `ModelFacts` that follow from the dataset a network learns from, as JSON."""
    spec = catalog.find(name)
    found: dict[str, Any] = {"domain": spec.domain, "data": spec.title, "training_size": [*size]}
    if spec.max_depth is not None:
        found["depth_range"] = [spec.min_depth, spec.max_depth]
    camera = spec.camera_of(next(iter(spec.cameras), ""))
    if camera is not None:  # of the stored frames; the network sees them framed
        blank = np.zeros((*camera.size, 3), np.uint8)
        framed = spec.framing(blank, np.zeros(camera.size, np.float32), camera).camera
        if framed is not None:
            found["training_fov_deg"] = round(framed.fov_deg, 1)
    return found


def _published(file: object) -> dict[str, Any]:
    """What is known of a published file that was converted before its record said so itself."""
    if not isinstance(file, str) or file not in PUBLISHED:
        return {}
    data = RECIPES[PUBLISHED[file].recipes[0]].data
    return origin_of_data(data.train, (data.size[0], data.size[1]))


def open_model(
    model: str | Path | None = None,
    device: str = "cpu",
    precision: Precision | None = None,
    *,
    part: cards.Part = "onnx",
) -> Engine:
    """The engine of a checkpoint folder, an .onnx file or a shipped model by name; None: default.

    `precision` is that of the network's arithmetic, by default fp32; an .onnx file has its own.
    `part` is what is opened of a shipped model: its ONNX file, or its network for torch.
    """
    card = card_of(model)
    if card is None:
        return open_engine(Path(str(model)), device, precision)
    return open_engine(cards.locate(card, part), device, precision, card)


def card_of(model: str | Path | None) -> cards.ModelCard | None:
    """The card of a shipped model by name, the default's for None; None for a path of the user's.

    A path that is there comes before a name.
    """
    if model is None:
        return cards.default_card()
    if Path(model).exists() or Path(model).suffix == ".onnx":
        return None
    known = cards.shipped()
    if str(model) not in known:
        raise CheckpointError(f"{model}: not there{_instead_of(str(model), known)}")
    return known[str(model)]


def _instead_of(model: str, shipped: Mapping[str, object]) -> str:
    """What to do about a model that is not there."""
    published = [each.file for each in PUBLISHED.values() if model in (each.file, *each.recipes)]
    if published:
        file = published[0]
        return (
            f"; its weights do not ship: `idisc models {file}` says where to get them, then"
            f" `idisc convert {file} --out {Path(file).stem}`"
        )
    if model in RECIPES:
        return f"; {model} is a recipe, `idisc train {model}` makes a checkpoint of it"
    offered = f", nor a shipped model; {config.nearest(model, shipped)}" if shipped else ""
    return offered or "; name a checkpoint folder or an .onnx file"


def network_of(engine: Engine) -> Any:
    """The network inside, a torch module with IDRs; InputError if there is none to look into."""
    network, card = getattr(engine, "network", None), getattr(engine, "card", None)
    if network is None and card is not None:
        network = getattr(open_model(card.name, part="checkpoint"), "network", None)
    if network is None:
        raise InputError(
            f"{engine.name}: an exported file gives depth and no more; name the checkpoint folder"
            " it was made from"
        )
    kind = network.config.discretization
    if kind != "isd":
        raise InputError(f"{engine.name}: a network with discretization={kind} has no IDRs")
    return network


def open_engine(
    path: Path,
    device: str = "cpu",
    precision: Precision | None = None,
    card: cards.ModelCard | None = None,
) -> Engine:
    """The engine for a checkpoint folder or an exported .onnx file, and what its card says of it.

    `device` is torch's name of where a checkpoint runs.
    """
    if path.suffix == ".onnx":
        from idisc.predict.onnx_engine import OnnxEngine

        engine = OnnxEngine(path, device, card=card)
        own = engine.origin.get("precision")
        if precision not in (None, own):
            computes = f"in {own}" if own else "as it was made"
            raise InputError(
                f"--precision {precision}: {path.name} computes {computes}, an .onnx file decides"
                " for itself; `idisc export --precision` makes another"
            )
        return engine
    if not path.is_dir() and not card:
        what = "neither a checkpoint folder nor an .onnx file" if path.exists() else "not there"
        if path.is_file() and path.suffix in (".pt2", ".xml"):
            what = "an export for other programs; `idisc export` makes an .onnx file for this one"
        raise CheckpointError(f"{path}: {what}")
    if path.is_dir() and not (path / config.FILE).is_file():
        raise CheckpointError(
            f"{path}: no {config.FILE} in it, so not a checkpoint folder; `idisc convert` makes one"
        )
    require("torch", "timm", "safetensors", extra="train")
    from idisc.predict.torch_engine import TorchEngine

    return TorchEngine.load(path, device, precision or "fp32", card)
