"""What speaks against the metres of a result: a lens, a shape or a size unlike those of training.

Each doubt is one line for people, or None. The network knows what it was trained on and nothing
else: seen through another lens, squeezed, or larger than usual, the same room has other metres.
Remedies are named as on the command line; in Python the arguments are called alike.
"""

from __future__ import annotations

import math

from idisc.camera import Camera
from idisc.errors import InputError
from idisc.predict.engine import ModelFacts
from idisc.sizes import Size, size_text

FAR_DEG, FAR_RATIO = 15.0, 1.25  # how unlike training a camera may be without a warning
SQUEEZED = 1.1  # how much wider or narrower than the picture a size may be without one
FEW = 3.0  # times smaller than in training: depth of rooms is up to a quarter too small by then
SCALED = 10.0  # by how much, or by how little, a known distance may scale a scene without one
OFF_MIDDLE = 0.15  # of a side: how far lenses and sensors may be out of line, and more


def of_matrix(camera: Camera) -> str | None:
    """What speaks against a matrix being in pixels of its picture, if anything does."""
    height, width = camera.size
    off = max(abs((camera.cx + 0.5) / width - 0.5), abs((camera.cy + 0.5) / height - 0.5))
    if camera.source != "matrix" or off <= OFF_MIDDLE:
        return None
    return (
        f"camera matrix: cx {camera.cx:g}, cy {camera.cy:g} are far from the middle of a picture"
        f" {width} pixels wide and {height} high; is it in pixels of this picture?"
    )


def of_camera(model: ModelFacts, camera: Camera) -> str | None:
    """A warning if the camera is known and far from that of training."""
    training = model.training_camera
    if training is None or not camera.known:
        return None
    ratio = camera.relative_focal / training.relative_focal
    half = math.tan(math.radians(training.fov_deg) / 2) / ratio
    seen_deg = math.degrees(2 * math.atan(half))  # of a picture shaped as in training
    if max(ratio, 1 / ratio) <= FAR_RATIO and abs(seen_deg - training.fov_deg) <= FAR_DEG:
        return None
    height, width = camera.size
    focal_px = training.relative_focal * math.sqrt(height * width)
    usual_deg = Camera.from_focal(focal_px, camera.size).fov_deg  # of this shape, as in training
    trained = f"{training.fov_deg:.0f} deg in training"
    if round(usual_deg) != round(training.fov_deg):
        trained += f" ({usual_deg:.0f} deg in the shape of this picture)"
    return (
        f"field of view {camera.fov_deg:.0f} deg across, {trained}: true depth may be {ratio:.2f}"
        " times this; leave out --no-camera-correction, or give a distance by --known"
    )


def of_shape(seen: Size, picture: Size, better: Size | None) -> str | None:
    """A warning if the network has to see the picture squeezed.

    `better` is the size of as many pixels that comes nearest to its shape; None: of a file for one
    size.
    """
    if not _is_squeezed(seen, picture):
        return None
    advice = (
        f"{size_text(better)}, or no --size at all, keeps it"
        if better
        else "a file for any size keeps it"
    )
    if better and _is_squeezed(better, picture):  # too few pixels to follow a shape
        advice = "a larger one, or no --size at all, keeps it"
    return (
        f"the network sees {size_text(picture)} squeezed into {size_text(seen)}, and depth changes"
        f" with the shape; {advice}"
    )


def _is_squeezed(seen: Size, picture: Size) -> bool:
    ratio = seen[1] * picture[0] / (seen[0] * picture[1])
    return max(ratio, 1 / ratio) > SQUEEZED


def of_size(seen: Size, trained: Size | None) -> str | None:
    """A warning if everything is much larger or smaller in the network than in training."""
    if trained is None:
        return None
    ratio = math.sqrt(seen[0] * seen[1] / (trained[0] * trained[1]))
    if max(ratio, 1 / ratio) <= FAR_RATIO:
        return None
    return (
        f"size {size_text(seen)}, {size_text(trained)} in training, which moves metres; leave"
        " out --size"
    )


def of_pixels(picture: Size, trained: Size | None) -> str | None:
    """A warning if a picture has so few pixels that the network sees a blur."""
    if trained is None or trained[0] * trained[1] <= FEW**2 * picture[0] * picture[1]:
        return None
    return (
        f"a picture of {size_text(picture)} pixels, {size_text(trained)} in training, and a blur"
        " has other metres; use a larger picture"
    )


def of_scale(factor: float) -> str | None:
    """A warning if a known distance contradicts the network altogether."""
    if max(factor, 1 / factor) <= SCALED:
        return None
    return (
        f"the known distance is {factor:.3g} times the predicted one; look at its points and its"
        " unit"
    )


def correction(model: ModelFacts, camera: Camera) -> tuple[float, str]:
    """Factor and reason: of two lenses the longer makes all look nearer, by their ratio.

    For models that say with which camera they were trained.
    """
    training = model.training_camera
    if training is None:
        raise InputError(f"{model.name} does not say with which field of view it was trained")
    factor = camera.relative_focal / training.relative_focal
    return factor, f"focal length over that of training ({training.fov_deg:.0f} deg)"
