"""InferenceService: from the bytes of a picture to predictions, files and explanations.

Everything here runs in the thread of `queue` and knows nothing about HTTP. Files are encoded by
`formats`, byte for byte as `idisc predict` writes them, without touching the disk.
"""

from __future__ import annotations

import io
import warnings
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import formats, geometry, visualize
from idisc.camera import Camera
from idisc.errors import IdiscWarning, InputError
from idisc.formats import FORMATS, Format, FormatOptions
from idisc.formats.viewer import colour_table, packed_depth, photo_uri, scene, scene_description
from idisc.images import Photo, TooManyPixels, read_photo
from idisc.predict.options import PredictOptions
from idisc.prediction import Prediction
from idisc.provenance_text import record
from idisc.serve.admission import Limits
from idisc.serve.explorer import Opened
from idisc.serve.results import Kept, Results

if TYPE_CHECKING:
    from idisc.explain.idrs import Explanation, Level

WEB_FORMATS = {row.name: row for row in FORMATS.values() if row.on_web}
_RESERVED, _NAME_BYTES = frozenset('<>:"|?*'), 120  # of file names on some systems


class Upload(NamedTuple):
    """A picture as it was uploaded."""

    content: bytes
    name: str


class File(NamedTuple):
    """A file to download."""

    content: bytes
    media_type: str
    name: str


@dataclass(frozen=True)
class InferenceService:
    """The model and its recent results."""

    opened: Opened
    limits: Limits
    results: Results

    def photo(self, upload: Upload) -> Photo:
        """Decode an uploaded picture; the error TooManyPixels has the limit of this server."""
        name, most = _safe_name(upload.name), self.limits.pixels
        try:
            return read_photo(upload.content, name, most)
        except TooManyPixels as error:
            # Pillow refuses pictures of more than twice MAX_IMAGE_PIXELS. If the limit of this
            # server is lower, it is the one to name.
            if most > 2 * (Image.MAX_IMAGE_PIXELS or most):
                raise
            reason = f"more than {self.limits.megapixels:g} megapixels"
            raise TooManyPixels(error.subject, reason, "reduce it first") from None

    def predict(
        self, photo: Photo, fov_deg: float | None = None, known_distance: str | None = None
    ) -> Prediction:
        """Predict a picture; `fov_deg` is its horizontal field of view."""
        camera = None if fov_deg is None else Camera.from_fov(fov_deg, photo.size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IdiscWarning)  # the provenance has them
            options = PredictOptions(camera=camera, known_distance=known_distance)
            return self.opened.predictor.predict(photo, options)

    def keep(self, prediction: Prediction) -> dict[str, Any]:
        """Keep a prediction and return its summary; see `schemas.Result`."""
        kept = self.results.keep(prediction)
        low, median, high = np.percentile(prediction.depth_values, [2, 50, 98]).tolist()
        summary, metric = {"low": low, "median": median, "high": high}, prediction.unit == "metre"
        return {
            **record(prediction),
            "result": kept.token,
            "kept_s": self.limits.keep_s,
            "depth_m": summary if metric else None,
            "depth_relative": None if metric else summary,
        }

    def file(self, prediction: Prediction, row: Format) -> File:
        """Encode a prediction; the name of the file says if it is rescaled."""
        content = bytes(formats.encode(prediction, row)[row.suffix])
        provenance = prediction.provenance
        scaled = "_rescaled" if provenance.rescalings or provenance.alignment else ""
        stem = Path(provenance.picture).stem
        return File(content, row.media_type, f"{stem}{scaled}{row.suffix}")

    def view(self, kept: Kept, known_distance: str | None) -> dict[str, Any]:
        """Return what the page shows; see `schemas.View`."""
        prediction = rescaled(kept.prediction, known_distance)
        view = scene(prediction)
        return {
            **view,
            "name": prediction.provenance.picture,
            "photo": photo_uri(prediction),
            "record": record(prediction),
            "description": scene_description(prediction, view),
        }

    def explanation_of(self, kept: Kept) -> Explanation:
        """Return the explanation of a result, which is computed if it is not kept."""
        explanation = kept.explanation
        if explanation is None:
            explanation = self.explain(kept.prediction.image)
            self.results.keep_explanation(kept, explanation)
        return explanation

    def explain(self, image: NDArray[np.uint8]) -> Explanation:
        """Explain a picture, with depth at its size; nothing is kept."""
        if self.opened.explain is None:
            raise InputError(*self.opened.missing.args)
        return self.opened.explain(image, (image.shape[0], image.shape[1]))

    def summary(self, kept: Kept) -> dict[str, Any]:
        """Return the summary of an explanation; see `schemas.Explained`."""
        from idisc.explain import idrs  # needs torch

        explanation = self.explanation_of(kept)
        return {
            "result": kept.token,
            "kept_s": self.limits.keep_s,
            "maps": explanation.levels[0].attention.shape[1:],
            "quantiles": idrs.QUANTILES,
            "least_range": idrs.MIN_RANGE,
            "levels": [_level_summary(level) for level in explanation.levels],
            "depth": packed_depth(_thinned(kept, explanation.depth)),
            "change_colours": colour_table(visualize.CHANGE_COLOURS),
        }

    def muted(self, kept: Kept, idrs: Mapping[int, Collection[int]]) -> dict[str, Any]:
        """Return depth without some IDRs; see `schemas.Muted`."""
        from idisc.explain import ablate  # needs torch

        muted = {level: set(idrs[level]) for level in idrs}
        effect = ablate.mute(self.explanation_of(kept), muted)
        change = _thinned(kept, effect.change)
        return {
            "depth": packed_depth(_thinned(kept, effect.prediction)),
            # Packed separately: the difference of two packed depths would show their steps.
            "change": packed_depth(change - change.min()),
            "change_from_m": float(change.min()),
            "mean_m": effect.mean,
            "largest_m": effect.largest,
        }


def rescaled(prediction: Prediction, known_distance: str | None) -> Prediction:
    """Scale the scene by known distances, if there are any."""
    return prediction.rescaled(known_distance) if known_distance else prediction


def maps_bytes(explanation: Explanation) -> bytes:
    """Return all maps as deflated bytes: for each level (N, h, w) attention, then partition."""
    kinds = (maps for level in explanation.levels for maps in (level.attention, level.partition))
    return zlib.compress(b"".join(_to_bytes(maps) for maps in kinds if maps is not None), 1)


def explanation_npz(explanation: Explanation) -> bytes:
    """Encode the arrays depth, attention_L and partition_L of each level L, 0 the coarsest."""
    arrays: dict[str, Any] = {"depth": explanation.depth}
    for number, level in enumerate(explanation.levels):
        arrays[f"attention_{number}"] = level.attention
        if level.partition is not None:
            arrays[f"partition_{number}"] = level.partition
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _thinned(kept: Kept, depth: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sample depth (H, W) of the size of a result at the pixels of its view."""
    _, picks = geometry.thin(kept.prediction.camera, FormatOptions().grid)
    return depth[picks, picks]


def _level_summary(level: Level) -> dict[str, Any]:
    wins = np.bincount(level.dominant.ravel(), minlength=level.idrs)
    return {
        "stride": level.stride,
        "size": level.size,
        "idrs": level.idrs,
        "attention_peak": float(level.attention.max()),
        "partition_peak": 0.0 if level.partition is None else float(level.partition.max()),
        "dominant": (wins / wins.sum()).tolist(),
    }


def _to_bytes(maps: NDArray[np.float32]) -> bytes:
    peak = max(float(maps.max()), 1e-9)
    shares: NDArray[np.uint8] = np.rint(np.clip(maps, 0, None) * (255 / peak)).astype(np.uint8)
    return shares.tobytes()


def _safe_name(name: str) -> str:
    """Return a file name without folders and without unprintable characters."""
    last = name.replace("\\", "/").rpartition("/")[2].replace("%22", '"')  # as browsers send it
    kept = "".join(
        "_" if letter in _RESERVED else letter for letter in last if letter.isprintable()
    )
    end = kept.encode()[-_NAME_BYTES:]  # photos of a series differ at the end of their names
    short = end.decode(errors="ignore").strip()
    return short if Path(short).stem.strip(". ") else "picture"
