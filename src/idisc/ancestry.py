"""Ancestry: what the weights of a network come from, and under which terms, as typed fields.

The record of a checkpoint and the metadata of an ONNX file hold these fields; `to_json` writes and
`read_ancestry` reads them. `join` is the only place that decides what a network inherits.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from idisc.camera import Camera
from idisc.errors import CheckpointError
from idisc.sizes import Size

UNKNOWN = "unknown"
ANY = "any"
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Parent:
    """Weights from which a training run started."""

    name: str
    sha256: str = ""  # empty: unknown


@dataclass(frozen=True, kw_only=True)
class Ancestry:
    """What a network inherits from its training data and its initial weights."""

    domain: str = UNKNOWN  # indoor, road, any
    depth_range: tuple[float, float] | None = None  # metres; other depth was ignored in training
    training_size: Size | None = None  # of the network's input
    training_fov_deg: float | None = None  # horizontal, of that input
    canonical: bool = False  # trained on many cameras, all converted to the training camera
    data: tuple[str, ...] = ()  # everything it was trained on
    licence: tuple[str, ...] = ()  # the terms of the weights, all of which apply
    non_commercial: bool = False  # one of these terms excludes commercial use
    parents: tuple[Parent, ...] = ()  # the nearest first

    @property
    def training_camera(self) -> Camera | None:
        """The camera of the training data, if it is known."""
        if self.training_fov_deg is None or self.training_size is None:
            return None
        return Camera.from_fov(self.training_fov_deg, self.training_size, "training")

    def to_json(self) -> dict[str, Any]:
        """Return the known fields as JSON values."""
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}

    def as_parent(self, name: str, sha256: str) -> Ancestry:
        """Return what a run that starts from these weights inherits."""
        return replace(
            self,
            licence=self.licence or (f"{name}: {UNKNOWN}",),
            parents=(Parent(name=name, sha256=sha256), *self.parents),
        )


def join(parts: Sequence[Ancestry]) -> Ancestry:
    """Return the ancestry of a network that was trained on several parts, the oldest first.

    All data, terms and parents are kept, and one non-commercial part makes the whole
    non-commercial. The range covers that of every part. Size and camera are those of the last part
    that knows them: a camera keeps its focal length in relation to the size of the picture.
    """
    domains = {part.domain for part in parts} - {UNKNOWN}
    narrow = domains - {ANY}
    ranges = [part.depth_range for part in parts if part.depth_range]
    size = next((part.training_size for part in reversed(parts) if part.training_size), None)
    camera = next((part for part in reversed(parts) if part.training_camera), None)
    return Ancestry(
        domain=narrow.pop() if len(narrow) == 1 else ANY if domains else UNKNOWN,
        depth_range=(min(low for low, _ in ranges), max(high for _, high in ranges))
        if ranges
        else None,
        training_size=size,
        training_fov_deg=_fov_at(camera, size) if camera and size else None,
        canonical=camera.canonical if camera else False,
        data=_unique(text for part in parts for text in part.data),
        licence=_unique(text for part in parts for text in part.licence),
        non_commercial=any(part.non_commercial for part in parts),
        parents=_unique(parent for part in parts for parent in part.parents),
    )


def read_ancestry(origin: Mapping[str, Any], name: str) -> Ancestry:
    """Read JSON values, or the texts of ONNX metadata; CheckpointError names the network `name`.

    Missing fields are unknown. A text instead of a list is its only entry.
    """

    def numbers(field: str, count: int) -> list[float] | None:
        """Read a JSON list, "480x640" or "0.01,10"."""
        text = str(origin.get(field) or UNKNOWN)
        if text in (UNKNOWN, "None"):
            return None
        found = [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", text)]
        if len(found) != count or found[-1] <= 0:
            raise CheckpointError(name, f"{field} is {text!r} in its metadata")
        return found

    licence = _unique(map(str, _as_list(origin.get("licence"))))
    span, size = numbers("depth_range", 2), numbers("training_size", 2)
    fov = numbers("training_fov_deg", 1)
    try:
        parents = tuple(
            Parent(name=str(parent["name"]), sha256=str(parent.get("sha256", "")))
            for parent in _as_list(origin.get("parents"))
        )
    except (AttributeError, KeyError, TypeError):
        raise CheckpointError(name, "parents in its metadata are not a list of names") from None
    return Ancestry(
        domain=str(origin.get("domain") or UNKNOWN),
        depth_range=(span[0], span[1]) if span else None,
        training_size=(int(size[0]), int(size[1])) if size else None,
        training_fov_deg=fov[0] if fov else None,
        canonical=origin.get("canonical") in (True, "true"),
        data=_unique(map(str, _as_list(origin.get("data")))),
        licence=licence,
        non_commercial=_is_non_commercial(origin.get("non_commercial"), licence),
        parents=parents,
    )


def _fov_at(part: Ancestry, size: Size) -> float | None:
    camera = part.training_camera
    if camera is None or part.training_size == size:
        return part.training_fov_deg
    focal_px = camera.fx * math.sqrt(math.prod(size) / math.prod(camera.size))
    return round(Camera.from_focal(focal_px, size).fov_deg, 2)


def _is_non_commercial(stated: object, licence: Iterable[str]) -> bool:
    """Return what a record states; before 0.2 it stated the identifier of the licence only."""
    if stated is None:
        return any(name.replace("-", " ").startswith("CC BY NC") for name in licence)
    return stated in (True, "true")


def _as_list(value: object) -> Sequence[Any]:
    """Return a list, which ONNX stores as JSON; a text is a list of one entry."""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError):  # a text that happens to start with a bracket
            value = json.loads(value)
    if isinstance(value, (list, tuple)):
        return value
    return [] if value in (None, "", UNKNOWN) else [value]


def _unique(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))
