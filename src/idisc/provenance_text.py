"""Renders the provenance of a prediction: as sentences for people, and as JSON for programs.

This is the only place where the fields of `Provenance` become text. Captions, PLY comments, HTML
and the command line use `describe`; sidecars, image metadata and HTTP answers use `record`.
Remedies name the options of the command line; the arguments in Python have the same names.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from idisc import configs
from idisc.ancestry import UNKNOWN, Parent
from idisc.camera import Camera
from idisc.prediction import Prediction
from idisc.provenance import (
    Alignment,
    BorrowedScale,
    CameraCorrection,
    Compared,
    ModelInfo,
    Rescaling,
    SizeReason,
    Unit,
    Warning,
    WarningCode,
)
from idisc.sizes import describe_size, size_text

_COMPARED: dict[Compared, str] = {
    "levels": "at its resolutions",
    "flip": "for the picture and its mirror image",
}
_NORMALS = {"model": "from the model", "depth": "from depth and camera"}
_SIZES: dict[SizeReason, str] = {
    "training": "{size}, as in training",
    "aspect": "{size}, with the aspect ratio of the picture",
    "user": "{size}, chosen by the user",
    "file": "{size}, the only size of this file",
    "convention": "{size}, by the convention of the model",
}
UNIT_SYMBOLS: dict[Unit, str] = {"metre": "m", "relative": ""}
_RELATIVE = "relative: no metres; 1 / depth is right up to an unknown scale and shift"
_WARNINGS: dict[WarningCode, str] = {
    "camera_matrix": "camera matrix: cx {cx:g}, cy {cy:g} are far from the middle of a picture of"
    " {size} (height x width); check that it is in pixels of this picture",
    "field_of_view": "field of view {fov_deg:.0f} deg across, {equivalent_fov_deg:.0f} deg in"
    " training at this aspect ratio: true depth may be {factor:.2f} times this; leave out"
    " --no-camera-correction, or give a distance with --known-distance",
    "aspect": "the network sees {picture} squeezed into {network} (height x width), and depth"
    " changes with the aspect ratio; {remedy}",
    "network_size": "network size {network}, {training} in training (height x width): the scale of"
    " depth changes with it; leave out --size",
    "resolution": "the picture has {picture} pixels, {training} in training (height x width):"
    " depth of a blurred picture is less accurate; use a larger picture",
    "known_distance": "the known distance is {factor:.3g} times the predicted one; check its points"
    " and its unit",
    "camera_assumed": "the metres of this model are proportional to the focal length, and the"
    " camera is assumed; give it with --fov, --focal or --camera-matrix",
    "scale_camera": "the scale was found in {picture}, and neither picture states its lens; it is"
    " right only if both are of the same camera, without zoom",
    "scale_size": "the scale was found in {picture} at network size {theirs}, and {network} is used"
    " here: the scale of depth changes with it; predict both with the same --size",
    "domain": "the picture looks like {domain} (probability {probability:.2f}), and the model is"
    " for {model_domain}: its result means little here{remedy}",
}
_SHORT_WARNINGS: dict[WarningCode, str] = {
    "camera_matrix": "unlikely camera matrix",
    "field_of_view": "lens unlike training",
    "aspect": "squeezed picture",
    "network_size": "network size unlike training",
    "resolution": "few pixels",
    "known_distance": "known distance contradicts the network",
    "domain": "picture unlike the model's domain",
    "scale_camera": "scale from a photo, perhaps of another camera",
    "scale_size": "scale found at another network size",
    "camera_assumed": "camera assumed",
}


def describe(prediction: Prediction) -> dict[str, str]:
    """Return the provenance as name -> sentence, in the order in which people read it."""
    provenance, model = prediction.provenance, prediction.provenance.model
    tiles, frame, correction = provenance.tiles, provenance.frame, provenance.camera_correction
    texts: dict[str, str | None] = {
        "picture": provenance.picture,
        "depth": _RELATIVE if prediction.unit == "relative" else None,
        "model": f"{model.name} (sha256 {model.sha256[:12] or UNKNOWN})",
        "convention": model.convention,
        "domain": model.domain,
        "range": describe_range(model),
        "camera": describe_camera(prediction.camera),
        "correction": describe_change(correction) if correction else None,
        "aligned": describe_change(provenance.alignment) if provenance.alignment else None,
        "rescaled": "; ".join(map(describe_change, provenance.rescalings)),
        "network size": _SIZES[provenance.network_size_reason].format(
            size=describe_size(provenance.network_size)
        ),
        "tiles": f"{tiles.count} of {size_text(tiles.size)}, aligned to the whole picture"
        if tiles
        else None,
        "flip": "mean over the picture and its mirror image" if provenance.flip else None,
        "uncertainty": None if prediction.level_std is None else describe_level_std(prediction),
        "normals": _NORMALS[provenance.normals] if provenance.normals else None,
        "frame": f"{frame.index}, at {frame.seconds:.3f} s" if frame else None,
        "smoothing": f"over {provenance.smoothing_s:g} s in log depth, restarted at scene cuts"
        if provenance.smoothing_s
        else None,
        "trained on": describe_data(model),
        "licence of weights": describe_licence(model),
        "trained from": ", ".join(map(describe_parent, model.parents)),
        "checksum": None if model.verified else "none in the file, so it is unverified",
        "precision": None if model.precision in (UNKNOWN, "fp32") else model.precision,
        "notes": "; ".join(provenance.notes),
        "warning": "; ".join(map(describe_warning, provenance.warnings)),
    }
    return {name: text for name, text in texts.items() if text}


def caption(prediction: Prediction) -> str:
    """Return one line to stand below a picture: model, camera and, in a few words, warnings."""
    provenance = prediction.provenance
    parts = [f"model {provenance.model.name}", f"camera {describe_camera(prediction.camera)}"]
    if prediction.unit == "relative":
        parts.append("relative depth, not metres")
    if provenance.warnings:
        parts.append(
            f"warning: {', '.join(_SHORT_WARNINGS[each.code] for each in provenance.warnings)}"
        )
    return " · ".join(" ".join(part.split()) for part in parts)


def sentences(prediction: Prediction, without: str = "") -> list[str]:
    """Return the provenance as "name: sentence", each in one line."""
    return [
        f"{name}: {' '.join(text.split())}"
        for name, text in describe(prediction).items()
        if name != without
    ]


def describe_with_intrinsics(prediction: Prediction) -> dict[str, str]:
    """Return the provenance, and the camera in pixels."""
    camera = prediction.camera
    numbers = f"fx {camera.fx:.2f} fy {camera.fy:.2f} cx {camera.cx:.2f} cy {camera.cy:.2f}"
    size = describe_size(camera.size)
    intrinsics = f"{numbers} for {size} pixels, {camera.fov_deg:.1f} deg across"
    return {**describe(prediction), "intrinsics": intrinsics}


def describe_range(model: ModelInfo) -> str:
    """Return the range of depth in training as text."""
    return f"depth to {model.depth_range[1]:g} m in training" if model.depth_range else UNKNOWN


def describe_data(model: ModelInfo) -> str:
    """Return everything that a model and its parents were trained on as text."""
    return "; ".join(model.data) or UNKNOWN


def describe_licence(model: ModelInfo) -> str:
    """Return the terms of the weights, and whether they exclude commercial use."""
    return f"{model.licence}; not for commercial use" if model.non_commercial else model.licence


def model_notes(model: ModelInfo) -> list[str]:
    """Return what a user should know once: terms that exclude commercial use, no checksum."""
    notes = []
    if model.non_commercial:
        notes.append(f"model {model.name}, licence {describe_licence(model)}")
    if not model.verified:
        notes.append(f"model {model.name}, unverified: there is no checksum in its file")
    return notes


def describe_parent(parent: Parent) -> str:
    """Return the name and the hash of weights that training started from."""
    return f"{parent.name} (sha256 {parent.sha256[:12] or UNKNOWN})"


def describe_camera(camera: Camera) -> str:
    """Return where the camera comes from, and its horizontal field of view."""
    across = f"{camera.fov_deg:.0f} deg"
    return camera.origin if across in camera.origin else f"{camera.origin} ({across} across)"


def describe_depth(low: float, high: float, unit: Unit) -> str:
    """Return a range of depth with its unit."""
    if unit == "relative":
        return f"{low:.3g} to {high:.3g}, relative"
    return f"{low:.2f} to {high:.2f} m"


def describe_change(change: CameraCorrection | Rescaling | BorrowedScale | Alignment) -> str:
    """Return how depth was changed, and why."""
    if isinstance(change, Alignment):
        known = " and ".join(map(str, change.known))
        where = " in the first frame" if change.first_frame else ""
        fit = f"{change.fit.scale:.4g} / relative depth {change.fit.shift:+.4g} 1/m"
        return f"1 / depth = {fit}, known {known}{where}"
    factor = f"depth x {change.factor:.4g}"
    if isinstance(change, CameraCorrection):
        return f"{factor}, focal length over that of training ({change.training_fov_deg:.0f} deg)"
    if isinstance(change, BorrowedScale):
        known = ", ".join(map(str, change.known))
        return f"{factor}, as in {change.picture}" + (f" (known {known})" if known else "")
    known, where = ", ".join(map(str, change.known)), " in the first frame" * change.first_frame
    if len(change.known) > 1:
        apart = f"{100 * (change.disagreement - 1):.1f} %"
        return f"{factor}, the mean of known {known}{where}, whose factors differ by {apart}"
    if change.first_frame:
        return f"{factor}, known {known}{where}"
    return f"{factor}, known {known}, predicted {change.known[0].metres / change.factor:.4g} m"


def describe_level_std(prediction: Prediction) -> str:
    """Return the meaning of the uncertainty and its limits."""
    compared = ", ".join(_COMPARED[each] for each in prediction.provenance.level_std)
    answers = f"the network's answers {compared}".strip()
    unit = "in metres" if prediction.unit == "metre" else "in relative units"
    return f"standard deviation of {answers}, {unit}; no error bound"


def describe_warning(warning: Warning) -> str:
    """Return a warning as one sentence with its remedy."""
    texts = {
        name: size_text(value) if isinstance(value, tuple) else value
        for name, value in warning.details.items()
    }
    if warning.code == "domain":
        model = warning.details["model"]
        texts["remedy"] = f"; use --weights {model}, or --weights auto" if model else ""
    if warning.code == "aspect":
        texts["remedy"] = "use a larger size, or leave out --size"
        if warning.details["better"]:
            texts["remedy"] = f"use {texts['better']}, or leave out --size"
        elif warning.details["fixed"]:
            texts["remedy"] = "use an exported file for any size"
    return _WARNINGS[warning.code].format(**texts)


def provenance_json(prediction: Prediction) -> dict[str, Any]:
    """Return the provenance as JSON values; each warning also has its sentence."""
    content = asdict(prediction.provenance)
    compared = content.pop("level_std")
    meaning = describe_level_std(prediction)
    content["uncertainty"] = {"compares": compared, "meaning": meaning} if compared else None
    for warning, entry in zip(prediction.provenance.warnings, content["warnings"], strict=True):
        entry["message"] = describe_warning(warning)
    return content


def record(prediction: Prediction, **more: Any) -> dict[str, Any]:
    """Return what is stored with a result: camera, provenance and what a format adds."""
    camera = asdict(prediction.camera)
    return {
        "format": configs.FORMAT,
        "unit": prediction.unit if prediction.depth is not None else None,
        **more,
        "camera": camera,
        "provenance": provenance_json(prediction),
    }
