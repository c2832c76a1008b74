"""CONVENTIONS: how other people's depth networks expect pictures, and what their numbers mean.

A convention is data: layout, size, normalisation and colours of the input, the meaning of the
output, and whether a camera is needed. `convention_engine` applies it. The convention of a file is
found by `choose_convention`: given by name, in a card beside the file, in the file's metadata, by
the configuration of Hugging Face beside it, or by the names and shapes of its inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from idisc import configs, files
from idisc.ancestry import UNKNOWN, Ancestry
from idisc.errors import CheckpointError, InputError, first_line, lookup
from idisc.prediction import Unit
from idisc.sizes import Border, Resize, Size, Sizing

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF = (0.5, 0.5, 0.5)
METADATA = "convention"  # the key of the name of a convention in the metadata of an ONNX file


@dataclass(frozen=True, kw_only=True)
class Signature:
    """How graphs of a convention are recognised; an empty field fits everything."""

    inputs: tuple[str, ...] = ()  # names that the picture may have
    outputs: tuple[str, ...] = ()  # names that must be there
    sizes: tuple[tuple[int, ...], ...] = ()  # of the picture, one of which must be fixed


@dataclass(frozen=True, kw_only=True)
class Convention:
    """The convention of a depth network; the fields of a card are the same."""

    name: str = "card"
    title: str = ""  # of the network
    # Input: (bytes / divisor - mean) / std
    layout: Literal["nchw", "nhwc"] = "nchw"
    colours: Literal["rgb", "bgr"] = "rgb"
    divisor: float = 255.0
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    sizing: Sizing  # a graph with a fixed size has that one
    resize: Resize = "smooth"  # of pictures to that size
    # reflect: 3 sqrt(side / 2) mirrored pixels on each side. letterbox: bars in a mean colour give
    # the picture the aspect ratio of the network.
    padding: Literal["none", "reflect", "letterbox"] = "none"
    # Output: `disparity` is 1 / depth up to an unknown scale and shift, the others are metric
    output: Literal["metres", "inverse_depth", "disparity", "log_depth"]
    output_name: str = ""  # of the tensor; "": the first one
    channel: int = 0  # of a tensor (B, C, H, W)
    factor: float = 1.0  # of the numbers of the tensor, before they are read as `output`
    interpolation: Literal["corners", "linear", "cubic"] = "linear"  # of the output
    # Camera: depth times the focal length in the network, over this one, in pixels or widths
    canonical_focal: float | None = None
    focal_unit: Literal["pixel", "width"] = "pixel"
    fov_output: str = ""  # tensor with the field of view in degrees, used if no camera is known
    camera_input: str = ""  # name of the tensor that takes the camera
    camera: Literal["matrix", "rays"] = "matrix"  # (B, 3, 3), or unit vectors (B, 3, H, W)
    # Facts
    domain: str = UNKNOWN  # indoor, road, any
    depth_range: tuple[float, ...] = ()  # metres
    data: str = ""  # training data
    licence: str = ""  # of the weights
    non_commercial: bool = False
    signature: Signature = field(default_factory=Signature)

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            if len(getattr(self, name)) != 3:
                raise InputError(name, "three numbers are needed, one for each colour")
        if min(self.std) <= 0 or self.divisor <= 0 or self.factor == 0:
            raise InputError("divisor, std, factor", "numbers above 0 are needed")
        if self.depth_range and not 0 <= self.depth_range[0] < self.depth_range[-1]:
            raise InputError("depth_range", f"{self.depth_range} is not two rising distances")

    @property
    def unit(self) -> Unit:
        """Whether the answers are metres, or relative."""
        return "relative" if self.output == "disparity" else "metre"

    @property
    def uses_camera(self) -> bool:
        """Whether the answer depends on the camera."""
        return bool(self.camera_input) or self.canonical_focal is not None

    @property
    def origin(self) -> dict[str, Any]:
        """What is known about the network; `model_info` reads it."""
        low_high = (self.depth_range[0], self.depth_range[-1]) if self.depth_range else None
        return Ancestry(
            domain=self.domain,
            depth_range=low_high,
            data=(self.data,) if self.data else (),
            licence=(self.licence,) if self.licence else (),
            non_commercial=self.non_commercial,
        ).to_json()

    def border(self, picture: Size, network: Size) -> Border:
        """Return what is added around a picture before it is resized to the network's size."""
        if self.padding == "reflect":
            down, across = (min(int((side / 2) ** 0.5 * 3), side - 1) for side in picture)
            return Border(down, down, across, across)
        if self.padding == "letterbox":
            rows = max(0, round(picture[1] * network[0] / network[1]) - picture[0])
            columns = max(0, round(picture[0] * network[1] / network[0]) - picture[1])
            return Border(rows // 2, rows - rows // 2, columns // 2, columns - columns // 2)
        return Border()


_HUB = Signature(inputs=("pixel_values",), outputs=("predicted_depth",))
_DEPTH_ANYTHING = Convention(
    name="depth-anything-v2",
    title="Depth Anything V2, relative",
    mean=IMAGENET_MEAN,
    std=IMAGENET_STD,
    sizing=Sizing(kind="least", size=(518, 518), multiple=14),
    resize="bicubic",
    output="disparity",
    interpolation="cubic",
    domain="any",
    signature=Signature(inputs=("pixel_values", "image", "input", "l_x_")),
)
_ROWS = (
    _DEPTH_ANYTHING,
    replace(
        _DEPTH_ANYTHING,
        name="depth-anything-v2-indoor",
        title="Depth Anything V2, metric, indoor",
        output="metres",
        domain="indoor",
        depth_range=(0.001, 20.0),
        data="Hypersim",
    ),
    replace(
        _DEPTH_ANYTHING,
        name="depth-anything-v2-outdoor",
        title="Depth Anything V2, metric, outdoor",
        output="metres",
        domain="road",
        depth_range=(0.001, 80.0),
        data="Virtual KITTI 2",
    ),
    Convention(
        name="dpt",
        title="DPT (MiDaS 3)",
        mean=HALF,
        std=HALF,
        sizing=Sizing(kind="least", size=(384, 384), multiple=32),
        resize="bicubic",
        output="disparity",
        interpolation="cubic",
        domain="any",
        licence="MIT",
        signature=_HUB,
    ),
    Convention(
        name="midas",
        title="MiDaS 2.1, whose ONNX files normalise by themselves",
        sizing=Sizing(kind="least", size=(256, 256), multiple=32),
        resize="bicubic",
        output="disparity",
        interpolation="cubic",
        domain="any",
        licence="MIT",
        signature=Signature(inputs=("0", "input.1"), sizes=((256, 256), (384, 384))),
    ),
    Convention(
        name="zoedepth",
        title="ZoeDepth",
        mean=HALF,
        std=HALF,
        sizing=Sizing(kind="least", size=(384, 512), multiple=32),
        resize="corners",
        padding="reflect",
        output="metres",
        interpolation="cubic",
        domain="any",
        data="NYU-Depth v2, KITTI",
        licence="MIT",
        signature=_HUB,
    ),
    Convention(
        name="depth-pro",
        title="Depth Pro",
        mean=HALF,
        std=HALF,
        sizing=Sizing(kind="stretch", size=(1536, 1536)),
        resize="bilinear",
        output="inverse_depth",
        canonical_focal=1.0,
        focal_unit="width",
        fov_output="field_of_view",
        domain="any",
        signature=replace(_HUB, outputs=("predicted_depth", "field_of_view")),
    ),
    Convention(
        name="metric3d",
        title="Metric3D v2, whose ONNX files normalise by themselves",
        divisor=1.0,
        sizing=Sizing(kind="stretch", size=(616, 1064)),
        resize="bilinear",
        padding="letterbox",
        output="metres",
        output_name="predicted_depth",
        canonical_focal=1000.0,
        domain="any",
        licence="BSD-2-Clause",
        signature=replace(_HUB, outputs=("predicted_depth", "predicted_normal")),
    ),
    Convention(
        name="unidepth",
        title="UniDepth V2",
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        sizing=Sizing(kind="area", size=(476, 630), multiple=14),
        padding="letterbox",
        output="metres",
        output_name="pts_3d",
        channel=2,  # x, y, z
        camera_input="rays",
        camera="rays",
        domain="any",
        licence="CC BY-NC 4.0",
        non_commercial=True,
        signature=Signature(inputs=("rgbs", "image"), outputs=("pts_3d",)),
    ),
    Convention(
        name="fastdepth",
        title="FastDepth",
        sizing=Sizing(kind="stretch", size=(224, 224)),
        output="metres",
        domain="indoor",
        depth_range=(0.001, 10.0),
        data="NYU-Depth v2",
        licence="MIT",
        signature=Signature(sizes=((224, 224),)),
    ),
    Convention(
        name="glpn",
        title="GLPN",
        sizing=Sizing(kind="own", multiple=32),
        output="metres",
        interpolation="cubic",
        signature=_HUB,
    ),
)
CONVENTIONS: dict[str, Convention] = {row.name: row for row in _ROWS}


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The names and shapes of a network in a file; lengths that may change are None."""

    inputs: Mapping[str, tuple[int | None, ...]]
    outputs: Mapping[str, tuple[int | None, ...]]
    metadata: Mapping[str, str] = field(default_factory=dict)

    def picture(self, layout: Literal["nchw", "nhwc"]) -> str | None:
        """Return the name of the first input with three colours in their place; None without."""
        place = 1 if layout == "nchw" else 3
        fitting = (
            name
            for name, shape in self.inputs.items()
            if len(shape) == 4 and shape[place] in (3, None)
        )
        return next(fitting, None)

    def size(self, layout: Literal["nchw", "nhwc"]) -> Size | None:
        """Return the only size of pictures that it takes; None: any."""
        name = self.picture(layout)
        first = 2 if layout == "nchw" else 1
        height, width = self.inputs[name][first : first + 2] if name else (None, None)
        return None if height is None or width is None else (height, width)


def choose_convention(path: Path, graph: Graph, name: str | None = None) -> Convention:
    """Return the convention of the file `path` with this graph; `name` is that of the user.

    CheckpointError if several conventions fit, or none.
    """
    found = _stated(path, graph, name)
    if found is None:
        fitting = matches(graph)
        if len(fitting) != 1:
            names = fitting or CONVENTIONS
            reason = (
                "its inputs and outputs fit several conventions"
                if fitting
                else "no export of `idisc export`, and its inputs and outputs fit no convention"
            )
            card = f"describe it in {path.with_suffix('.json').name}"
            remedy = f"pass --convention, one of {', '.join(names)}, or {card}"
            raise CheckpointError(path, reason, remedy)
        found = CONVENTIONS[fitting[0]]
    if graph.picture(found.layout) is None:
        raise CheckpointError(path, f"no input for pictures, {found.layout} for {found.name}")
    return found


def _stated(path: Path, graph: Graph, name: str | None) -> Convention | None:
    """Return the convention that the user, a card, the file or its folder names."""
    if name is not None:
        return lookup(CONVENTIONS, name, "convention")
    if card := read_card(path.with_suffix(".json")):
        return card
    if METADATA in graph.metadata:
        return lookup(CONVENTIONS, graph.metadata[METADATA], f"{path}: convention")
    for folder in (path.parent, path.parent.parent):  # `model.onnx` or `onnx/model.onnx`
        if (found := read_hub_folder(folder)) is not None:
            return found
    return None


def matches(graph: Graph) -> list[str]:
    """Return the names of the conventions that fit a graph, the most special ones only."""
    scores = {row.name: _score(row, graph) for row in CONVENTIONS.values()}
    best = max(scores.values(), default=0)
    return [name for name, score in scores.items() if score == best > 0]


def _score(row: Convention, graph: Graph) -> int:
    """Return how special a signature is that a graph has; 0 if it has it not."""
    wanted, name, size = row.signature, graph.picture(row.layout), graph.size(row.layout)
    others = set(graph.inputs) - {name, row.camera_input}
    if name is None or others or (wanted.inputs and name not in wanted.inputs):
        return 0
    if not set(wanted.outputs) <= set(graph.outputs):
        return 0
    if wanted.sizes and size not in wanted.sizes:
        return 0
    if size and any(side % row.sizing.multiple for side in size):
        return 0
    usual = size is not None and size in (*wanted.sizes, row.sizing.size)
    return 1 + max(0, len(wanted.outputs) - 1) + bool(wanted.sizes) + 2 * usual


def read_card(path: Path) -> Convention | None:
    """Read the card of a file; None if there is none, or if it is for something else.

    A card has the fields of `Convention`; with "like", the others are those of a known one.
    """
    if not path.is_file():
        return None
    data = files.read_json(path)
    if not isinstance(data, dict) or not {"like", "output"} & set(data):
        return None
    given = {"name": path.stem, **data}
    if (like := given.pop("like", None)) is not None:
        known = configs.to_json(lookup(CONVENTIONS, str(like), f"{path}: convention"))
        given = {**known, **given}
    return configs.from_json(Convention, given, str(path))


_HUB_TYPES = {"dpt": "dpt", "glpn": "glpn", "zoedepth": "zoedepth", "depth_pro": "depth-pro"}
_RESAMPLING: dict[object, Resize] = {2: "smooth", 3: "bicubic"}  # Pillow's numbers


def hub_type(folder: Path) -> str | None:
    """Return the type of model that the config.json of Hugging Face names; None without one."""
    path = folder / configs.FILE
    try:
        data = files.read_json(path) if path.is_file() else None
    except InputError:
        return None  # whoever opens it as a checkpoint of ours says what is wrong
    found = data.get("model_type") if isinstance(data, dict) and "format" not in data else None
    return found if isinstance(found, str) else None


def read_hub_folder(folder: Path) -> Convention | None:
    """Return the convention of a folder of `transformers`; None if it is no depth model."""
    kind = hub_type(folder)
    config: dict[str, Any] = files.read_json(folder / configs.FILE) if kind else {}
    if kind == "depth_anything":
        metric, furthest = config.get("depth_estimation_type") == "metric", config.get("max_depth")
        where = "indoor" if isinstance(furthest, (int, float)) and furthest <= 20 else "outdoor"
        name = f"depth-anything-v2-{where}" if metric else "depth-anything-v2"
    elif kind in _HUB_TYPES:
        name = _HUB_TYPES[kind]
    else:
        return None
    row, path = CONVENTIONS[name], folder / "preprocessor_config.json"
    if not path.is_file():
        return row
    try:
        return _preprocessed(row, files.read_json(path))
    except (ArithmeticError, TypeError, ValueError) as error:  # any value may be of any type
        raise CheckpointError(path, f"not an image processor ({first_line(error)})") from None


def _preprocessed(row: Convention, stated: object) -> Convention:
    """Return a convention with what the image processor of a folder states."""
    if not isinstance(stated, dict):
        return row
    changes: dict[str, Any] = {}
    if stated.get("rescale_factor"):
        changes["divisor"] = 1 / float(stated["rescale_factor"])
    if stated.get("do_normalize") is False:
        changes |= {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
    elif stated.get("image_mean") and stated.get("image_std"):
        changes |= {"mean": _floats(stated["image_mean"]), "std": _floats(stated["image_std"])}
    if row.resize in _RESAMPLING.values() and stated.get("resample") in _RESAMPLING:
        changes["resize"] = _RESAMPLING[stated["resample"]]
    if stated.get("do_pad") is False:
        changes["padding"] = "none"
    size, divisor = stated.get("size"), stated.get("size_divisor")
    if row.sizing.kind == "own":
        changes["sizing"] = replace(row.sizing, multiple=int(divisor or row.sizing.multiple))
    elif isinstance(size, dict) and {"height", "width"} <= set(size):
        kept = stated.get("keep_aspect_ratio", row.sizing.kind == "least")
        changes["sizing"] = Sizing(
            kind="least" if kept else "stretch",
            size=(int(size["height"]), int(size["width"])),
            multiple=max(1, int(stated.get("ensure_multiple_of") or 1)),
        )
    return replace(row, **changes)


def _floats(values: Iterable[Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
