"""Checks for an unreliable scale: lens, aspect ratio or resolution unlike the training data.

Each check returns a `Warning` or None; `provenance_text` has the sentences. A network knows only
what it was trained on: with another lens, another aspect ratio or another resolution, the same
room gets another depth.
"""

from __future__ import annotations

import math

from idisc.camera import Camera
from idisc.errors import InputError
from idisc.predict.engine import Engine
from idisc.predict.options import PredictOptions
from idisc.provenance import CameraCorrection, ModelInfo, Warning
from idisc.sizes import Size, fit_aspect

MAX_FOV_GAP_DEG, MAX_RATIO = 15.0, 1.25  # to the training camera and size, without a warning
MAX_SQUEEZE = 1.1  # ratio of the aspect ratios of network size and picture, without a warning
MAX_REDUCTION = 3.0  # by then, depth of rooms is up to a quarter too small
MAX_OFF_CENTER = 0.15  # of a side: lens and sensor are never further out of line


def check_all(
    model: ModelInfo, engine: Engine, camera: Camera, options: PredictOptions
) -> tuple[Warning, ...]:
    """Return the warnings about a picture with a camera that are known before it is predicted."""
    picture, fixed, convention = camera.size, engine.fixed_size, engine.convention
    warnings = [check_matrix(camera), check_resolution(picture, model.training_size)]
    if not options.camera_correction:
        warnings.append(check_camera(model, camera))
    if convention and convention.uses_camera and camera.source == "assumed":
        warnings.append(Warning(code="camera_assumed"))
    if convention and (convention.padding == "letterbox" or convention.sizing.kind == "stretch"):
        fixed = None  # its pictures are squeezed or get bars, also in training
    if network_size := options.size or fixed:
        better = None if fixed else fit_aspect(network_size, picture)
        warnings.append(check_aspect(network_size, picture, better))
    if options.size:
        warnings.append(check_network_size(options.size, model.training_size))
    return tuple(warning for warning in warnings if warning)


def check_matrix(camera: Camera) -> Warning | None:
    """Warn if a camera matrix does not seem to be in pixels of the picture."""
    height, width = camera.size
    off = max(abs((camera.cx + 0.5) / width - 0.5), abs((camera.cy + 0.5) / height - 0.5))
    if camera.source != "matrix" or off <= MAX_OFF_CENTER:
        return None
    return Warning(
        code="camera_matrix", details={"cx": camera.cx, "cy": camera.cy, "size": camera.size}
    )


def check_camera(model: ModelInfo, camera: Camera) -> Warning | None:
    """Warn if the camera is known and unlike that of training."""
    training = model.training_camera
    if training is None or not camera.known:
        return None
    ratio = camera.relative_focal / training.relative_focal
    half = math.tan(math.radians(training.fov_deg) / 2) / ratio
    seen_deg = math.degrees(2 * math.atan(half))  # of a picture with the aspect ratio of training
    gap_deg = abs(seen_deg - training.fov_deg)
    if max(ratio, 1 / ratio) <= MAX_RATIO and gap_deg <= MAX_FOV_GAP_DEG:
        return None
    height, width = camera.size
    focal_px = training.relative_focal * math.sqrt(height * width)
    details = {
        "fov_deg": camera.fov_deg,
        "training_fov_deg": training.fov_deg,
        "equivalent_fov_deg": Camera.from_focal(focal_px, camera.size).fov_deg,
        "factor": ratio,
    }
    return Warning(code="field_of_view", details=details)


def check_aspect(network: Size, picture: Size, better: Size | None) -> Warning | None:
    """Warn if the network sees the picture with another aspect ratio.

    `better` is the size of as many pixels that is nearest to the aspect ratio of the picture; None
    for an exported file that has one size.
    """
    if not _is_squeezed(network, picture):
        return None
    fits = better is not None and not _is_squeezed(better, picture)  # few pixels may fit no ratio
    details = {
        "network": network,
        "picture": picture,
        "better": better if fits else None,
        "fixed": better is None,
    }
    return Warning(code="aspect", details=details)


def _is_squeezed(network: Size, picture: Size) -> bool:
    ratio = network[1] * picture[0] / (network[0] * picture[1])
    return max(ratio, 1 / ratio) > MAX_SQUEEZE


def check_network_size(network: Size, training: Size | None) -> Warning | None:
    """Warn if the network sees everything much larger or smaller than in training."""
    if training is None:
        return None
    ratio = math.sqrt(network[0] * network[1] / (training[0] * training[1]))
    if max(ratio, 1 / ratio) <= MAX_RATIO:
        return None
    return Warning(code="network_size", details={"network": network, "training": training})


def check_resolution(picture: Size, training: Size | None) -> Warning | None:
    """Warn if the picture has so few pixels that the network sees a blur."""
    if training is None:
        return None
    if training[0] * training[1] <= MAX_REDUCTION**2 * picture[0] * picture[1]:
        return None
    return Warning(code="resolution", details={"picture": picture, "training": training})


def camera_correction(model: ModelInfo, camera: Camera) -> CameraCorrection:
    """Return the ratio of the focal lengths: with a longer lens, everything looks nearer.

    InputError for a model that does not say with which camera it was trained.
    """
    training = model.training_camera
    if training is None:
        raise InputError(model.name, "the field of view of its training data is unknown")
    factor = camera.relative_focal / training.relative_focal
    return CameraCorrection(factor=factor, training_fov_deg=training.fov_deg)
