"""Chooses the convention of a file: how a third-party depth network is run.

It is given by name, in a card beside the file, in the file's metadata, by the configuration of
Hugging Face beside it, or by the names and shapes of its inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from idisc import configs, files
from idisc.errors import CheckpointError, InputError, first_line, lookup
from idisc.predict.conventions import CONVENTIONS, Convention, Signature
from idisc.sizes import Resize, Size, Sizing

METADATA = "convention"  # the key of the name of a convention in the metadata of an ONNX file


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The names and shapes of a network in a file; lengths that may change are None."""

    inputs: Mapping[str, tuple[int | None, ...]]
    outputs: Mapping[str, tuple[int | None, ...]]
    metadata: Mapping[str, str] = field(default_factory=dict)

    def picture(self, layout: Literal["nchw", "nhwc"]) -> str | None:
        """Return the name of the first input that can be a picture of three colours, if any."""
        place = 1 if layout == "nchw" else 3
        fitting = (
            name
            for name, shape in self.inputs.items()
            if len(shape) == 4 and shape[place] in (3, None)
        )
        return next(fitting, None)

    def size(self, layout: Literal["nchw", "nhwc"]) -> Size | None:
        """Return the only size of pictures that the network accepts; None: any."""
        name = self.picture(layout)
        first = 2 if layout == "nchw" else 1
        height, width = self.inputs[name][first : first + 2] if name else (None, None)
        return None if height is None or width is None else (height, width)


def choose_convention(path: Path, graph: Graph, name: str | None = None) -> Convention:
    """Return the convention of the file `path` with this graph; `name` is that of the user.

    CheckpointError if several conventions fit, or none.
    """
    convention = _stated_convention(path, graph, name)
    if convention is None:
        fitting = matching_conventions(graph)
        if len(fitting) != 1:
            names = fitting or CONVENTIONS
            reason = (
                "its inputs and outputs fit several conventions"
                if fitting
                else "no export of `idisc export`, and its inputs and outputs fit no convention"
            )
            card = f"describe it in {path.with_suffix('.json').name}"
            option = "--convention (of idisc compare: --convention-a or --convention-b)"
            remedy = f"pass {option}, one of {', '.join(names)}, or {card}"
            raise CheckpointError(path, reason, remedy)
        convention = CONVENTIONS[fitting[0]]
    layout = convention.layout
    if graph.picture(layout) is None:
        raise CheckpointError(path, f"no input for pictures, {layout} for {convention.name}")
    return convention


def _stated_convention(path: Path, graph: Graph, name: str | None) -> Convention | None:
    """Return the convention that the user, a card, the file or its folder names."""
    if name is not None:
        return lookup(CONVENTIONS, name, "convention")
    if card := read_card(path.with_suffix(".json")):
        return card
    if METADATA in graph.metadata:
        return lookup(CONVENTIONS, graph.metadata[METADATA], f"{path}: convention")
    for folder in (path.parent, path.parent.parent):  # `model.onnx` or `onnx/model.onnx`
        if convention := read_hub_folder(folder):
            return convention
    return None


def matching_conventions(graph: Graph) -> list[str]:
    """Return the names of the conventions that fit a graph; only the most specific ones."""
    scores = {
        row.name: max((_score(row, each, graph) for each in row.signatures), default=0)
        for row in CONVENTIONS.values()
    }
    best = max(scores.values())
    return [name for name, score in scores.items() if score == best > 0]


def _score(row: Convention, wanted: Signature, graph: Graph) -> int:
    """Return how specific a signature is; 0 if the graph does not match it."""
    name, size = graph.picture(row.layout), graph.size(row.layout)
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
        return None  # opening it as a checkpoint reports the error
    kind = data.get("model_type") if isinstance(data, dict) and "format" not in data else None
    return kind if isinstance(kind, str) else None


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
