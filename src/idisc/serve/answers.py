"""What the server answers with: bytes of a picture in, depth, files and explanations out.

Everything here runs in the one thread of `jobs` and knows nothing of HTTP. Files are those of
`outputs.WRITERS`, byte for byte what `idisc predict` writes.
"""

from __future__ import annotations

import io
import tempfile
import warnings
import zlib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idisc import config, geometry, outputs, visualize
from idisc.camera import Camera
from idisc.errors import IdiscWarning, InputError
from idisc.images import Photo, read_photo
from idisc.predict.prediction import Prediction
from idisc.serve.explorer import Opened
from idisc.serve.limits import Limits
from idisc.serve.results import Kept, Results

if TYPE_CHECKING:
    from idisc.explain.idrs import Explanation, Level

MEDIA = {
    ".png": "image/png",
    ".npy": "application/octet-stream",
    ".npz": "application/octet-stream",
    ".ply": "application/octet-stream",
    ".glb": "model/gltf-binary",
}
_RESERVED, _NAME_BYTES = frozenset('<>:"|?*'), 120  # of file names on some systems


class Upload(NamedTuple):
    """A picture as it was sent."""

    content: bytes
    name: str
    fov_deg: float | None = None  # horizontal field of view, if the sender knows it
    known: str | None = None  # "x1,y1 x2,y2 = 2.40m"


class File(NamedTuple):
    """An answer to be saved."""

    content: bytes
    media: str
    name: str


@dataclass(frozen=True)
class Answers:
    """The model and what was kept of its answers."""

    opened: Opened
    limits: Limits
    results: Results

    def photo(self, upload: Upload) -> Photo:
        """An uploaded picture, upright."""
        return read_photo(upload.content, _plain(upload.name), self.limits.pixels)

    def predict(self, upload: Upload, photo: Photo | None = None) -> Prediction:
        """Depth of an uploaded picture, which is read unless it was already."""
        photo, camera = photo or self.photo(upload), None
        if upload.fov_deg is not None:
            origin = f"given {upload.fov_deg:g} deg"
            camera = Camera.from_fov(upload.fov_deg, photo.size, origin)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IdiscWarning)  # in the facts, too
            return self.opened.predictor.predict(photo, camera=camera, known=upload.known)

    def keep(self, prediction: Prediction) -> dict[str, Any]:
        """A prediction in short, which is kept from now on; see `schemas.Result`."""
        token = self.results.keep(prediction)
        low, median, high = np.percentile(prediction.depth, [2, 50, 98]).tolist()
        return {
            "format": config.FORMAT,
            "result": token,
            "kept_s": self.limits.keep_s,
            "depth_m": {"low": low, "median": median, "high": high},
            "camera": asdict(prediction.camera),
            "facts": dict(prediction.facts),
        }

    def file(self, prediction: Prediction, kind: str) -> File:
        """A prediction as one of `outputs.WRITERS`; the name of a rescaled one says so."""
        writer = outputs.WRITERS[kind]
        stem = Path(prediction.facts["picture"]).stem
        scaled = "_rescaled" if "rescaled" in prediction.facts else ""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{stem}{scaled}{writer.suffix}"
            try:
                outputs.write(kind, path, prediction)
            except InputError as error:  # names the file, which is no business of the client's
                raise InputError(str(error).replace(str(path), path.name)) from None
            content = path.read_bytes()
        return File(content, MEDIA[path.suffix], path.name)

    def view(self, kept: Kept, known: str | None) -> dict[str, Any]:
        """What the page shows; see `schemas.View`."""
        prediction = rescaled(kept.prediction, known)
        scene = outputs.scene(prediction)
        return {
            **scene,
            "name": prediction.facts["picture"],
            "scale": scale(kept.prediction, known),
            "photo": outputs.photo_uri(prediction),
            "facts": outputs.scene_facts(prediction, scene),
        }

    def explanation_of(self, token: str) -> Explanation:
        """The explanation of a result, made now unless it is kept."""
        kept = self.results.find(token)
        if kept.explanation is not None:
            return kept.explanation
        found = self.explain(kept.prediction.image)
        self.results.keep_explanation(token, found)
        return found

    def explain(self, image: NDArray[np.uint8]) -> Explanation:
        """What the IDRs say of a picture, with depth at its size; nothing is kept."""
        if self.opened.explorer is None:
            raise InputError(self.opened.missing)
        return self.opened.explorer.explain(image, (image.shape[0], image.shape[1]))

    def summary(self, token: str) -> dict[str, Any]:
        """An explanation in short; see `schemas.Explained`."""
        from idisc.explain import idrs  # who can explain has the torch that it needs

        found = self.explanation_of(token)
        return {
            "result": token,
            "kept_s": self.limits.keep_s,
            "maps": found.levels[0].attention.shape[1:],
            "quantiles": idrs.QUANTILES,
            "least_range": idrs.LEAST_RANGE,
            "levels": [_level(level) for level in found.levels],
            "depth": outputs.packed_depth(self._thinned(token, found.depth)),
            "change_colours": outputs.colour_table(visualize.CHANGE_COLOURS),
        }

    def muted(
        self, token: str, idrs: Mapping[int, Collection[int]], known: str | None
    ) -> dict[str, Any]:
        """Depth without some IDRs; see `schemas.Muted`."""
        from idisc.explain import ablate  # who can explain has the torch that it needs

        effect = ablate.mute(
            self.explanation_of(token), {level: set(idrs[level]) for level in idrs}
        )
        factor = scale(self.results.find(token).prediction, known)
        depth = self._thinned(token, effect.prediction) * np.float32(factor)
        change = self._thinned(token, effect.change) * np.float32(factor)
        return {
            "depth": outputs.packed_depth(depth),
            # By itself: the difference of two packed depths would show their steps.
            "change": outputs.packed_depth(change - change.min()),
            "change_from_m": float(change.min()),
            "mean_m": effect.mean * factor,
            "largest_m": effect.largest * factor,
        }

    def _thinned(self, token: str, depth: NDArray[np.float32]) -> NDArray[np.float32]:
        """Depth at a result's size on the grid of its view: the same pixels, so the same metres."""
        _, picks = geometry.thin(self.results.find(token).prediction.camera, outputs.Options().grid)
        return depth[picks, picks]


def rescaled(prediction: Prediction, known: str | None) -> Prediction:
    """The scene scaled by a known distance, if there is one."""
    return prediction.rescaled(known) if known else prediction


def scale(prediction: Prediction, known: str | None) -> float:
    """By how much a known distance enlarges a scene; 1 without one."""
    return prediction.factor(known) if known else 1.0


def maps_bytes(explanation: Explanation) -> bytes:
    """All maps as bytes, deflated: for each level (N, h, w) of attention, then of partition."""
    maps = [
        _as_bytes(each)
        for level in explanation.levels
        for each in (level.attention, level.partition)
        if each is not None
    ]
    return zlib.compress(b"".join(maps), 1)


def explanation_npz(explanation: Explanation) -> bytes:
    """Arrays depth, attention_L and partition_L of each level L, 0 the coarsest."""
    arrays: dict[str, Any] = {"depth": explanation.depth}
    for number, level in enumerate(explanation.levels):
        arrays[f"attention_{number}"] = level.attention
        if level.partition is not None:
            arrays[f"partition_{number}"] = level.partition
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _level(level: Level) -> dict[str, Any]:
    wins = np.bincount(level.dominant.ravel(), minlength=level.idrs)
    return {
        "stride": level.stride,
        "size": level.size,
        "idrs": level.idrs,
        "attention_peak": float(level.attention.max()),
        "partition_peak": 0.0 if level.partition is None else float(level.partition.max()),
        "dominant": (wins / wins.sum()).tolist(),
    }


def _as_bytes(maps: NDArray[np.float32]) -> bytes:
    peak = max(float(maps.max()), 1e-9)
    shares: NDArray[np.uint8] = np.rint(np.clip(maps, 0, None) * (255 / peak)).astype(np.uint8)
    return shares.tobytes()


def _plain(name: str) -> str:
    """A file's name without folders and without letters that do not print."""
    last = name.replace("\\", "/").rpartition("/")[2].replace("%22", '"')  # as browsers send it
    kept = "".join(
        "_" if letter in _RESERVED else letter for letter in last if letter.isprintable()
    )
    short = kept.encode()[-_NAME_BYTES:].decode(errors="ignore").strip()  # its ending tells more
    return short if Path(short).stem.strip(". ") else "picture"
