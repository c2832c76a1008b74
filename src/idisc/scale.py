"""The scale of one prediction, applied to others of the same camera and place.

A known distance in one picture gives a factor. `read_scale` takes it from the JSON file of that
prediction, or from the file that its viewer offers, and `apply_scale` multiplies another prediction
by it, unless model or camera differ: the error of a network's scale is common to pictures of one
scene only if both are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from idisc import files
from idisc.errors import InputError
from idisc.prediction import Prediction
from idisc.provenance import BorrowedScale, KnownDistance, Warning
from idisc.sizes import Size

MAX_LENS_CHANGE = 0.02  # of the focal length over the diagonal: EXIF rounds to whole millimetres
MAX_SIZE_CHANGE = 0.2  # of the pixels that the network sees: rounding to 32 gives less


@dataclass(frozen=True, kw_only=True)
class FoundScale:
    """A factor, and the model and camera for which it was found."""

    path: Path
    scale: BorrowedScale
    model_name: str
    model_sha256: str
    focal: float  # of the lens, as `_relative_focal` gives it
    camera_known: bool  # not assumed
    correction: float  # by which depth was multiplied for the camera, before this factor
    network_size: Size


def read_scale(path: str | Path) -> FoundScale:
    """Read the JSON file of a rescaled prediction, or one that its viewer offers."""
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise InputError(path, "not a JSON file", "name the .json file of a rescaled prediction")
    content = files.read_json(path)
    try:
        fields, camera = content["provenance"], content["camera"]
        changes = list(fields["rescalings"])
        correction = fields["camera_correction"]
        scale = BorrowedScale(
            factor=math.prod(float(change["factor"]) for change in changes),
            picture=str(fields["picture"]),
            known=tuple(_known(each) for change in changes for each in change["known"]),
        )
        height, width = fields["network_size"]
        found = FoundScale(
            path=path,
            scale=scale,
            model_name=str(fields["model"]["name"]),
            model_sha256=str(fields["model"]["sha256"]),
            focal=_relative_focal(float(camera["fx"]), tuple(camera["size"])),
            camera_known=camera["source"] != "assumed",
            correction=float(correction["factor"]) if correction else 1.0,
            network_size=(int(height), int(width)),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        raise InputError(
            path, "not the JSON file of a prediction", "name the .json file of a rescaled one"
        ) from None
    if not changes:
        raise InputError(
            path, "this prediction is not rescaled", "predict that picture with --known-distance"
        )
    numbers = (scale.factor, found.focal, found.correction, *found.network_size)
    if not all(0 < number < math.inf for number in numbers):
        raise InputError(path, "its factors, focal length and sizes must be above 0")
    return found


def apply_scale(prediction: Prediction, found: FoundScale) -> Prediction:
    """Return the prediction multiplied by the factor; InputError if model or camera differ."""
    provenance = prediction.provenance
    if found.model_sha256 != provenance.model.sha256:
        raise InputError(
            found.path,
            f"the scale was found with model {found.model_name}, but this prediction is by"
            f" {provenance.model.name} with other weights",
            "use the same --weights for both",
        )
    focal = _relative_focal(prediction.camera.fx, prediction.camera.size)
    if found.camera_known != prediction.camera.known or (
        found.camera_known and abs(focal / found.focal - 1) > MAX_LENS_CHANGE
    ):
        theirs = _describe_lens(found.focal, found.camera_known)
        ours = _describe_lens(focal, prediction.camera.known)
        raise InputError(
            found.path,
            f"the scale was found with a camera with {theirs}, but this picture has {ours}",
            "give a distance in this picture with --known-distance",
        )
    correction = provenance.camera_correction.factor if provenance.camera_correction else 1.0
    factor = found.scale.factor * found.correction / correction
    scaled = prediction.apply(replace(found.scale, factor=factor))
    warnings = (*scaled.provenance.warnings, *_warnings(prediction, found))
    return replace(scaled, provenance=replace(scaled.provenance, warnings=warnings))


def _warnings(prediction: Prediction, found: FoundScale) -> Iterator[Warning]:
    picture, network = found.scale.picture, prediction.provenance.network_size
    if not found.camera_known:
        yield Warning(code="scale_camera", details={"picture": picture})
    if abs(math.prod(network) / math.prod(found.network_size) - 1) > MAX_SIZE_CHANGE:
        sizes = {"theirs": found.network_size, "network": network}
        yield Warning(code="scale_size", details={"picture": picture, **sizes})


def _known(distance: Mapping[str, Any]) -> KnownDistance:
    (x1, y1), (x2, y2) = distance["first"], distance["second"]
    return KnownDistance((x1, y1), (x2, y2), distance["metres"])


def _relative_focal(fx: float, size: Size) -> float:
    """Return the focal length over the diagonal: the same for upright, turned and resized."""
    return fx / math.hypot(*size)


def _describe_lens(focal: float, known: bool) -> str:
    if not known:
        return "an unknown lens"
    return f"{2 * math.degrees(math.atan(0.5 / focal)):.0f} deg along the diagonal"
