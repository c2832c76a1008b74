"""For programs: depth in metres, exactly or in 16-bit steps of a stated size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from idisc import files, geometry
from idisc.errors import InputError
from idisc.outputs.depicted import AXES, MOST_STEPS, Depicted, Options, record, save_png

MILLIMETRE, ROAD_UNIT = 0.001, 1 / 256  # metres for each step: of most indoor sets, and of KITTI
FINE_UNIT, FEW_STEPS = 1e-5, 100  # of a scene that would have fewer steps of a millimetre


def png16_unit(domain: str, deepest: float) -> float:
    """Metres for each step of a 16-bit PNG that reaches so many metres."""
    if domain == "road" or deepest > MOST_STEPS * MILLIMETRE:
        return ROAD_UNIT
    return FINE_UNIT if 0 < deepest < FEW_STEPS * MILLIMETRE else MILLIMETRE


def unusual_steps(depicted: Depicted) -> str | None:
    """What is said of a 16-bit PNG whose depth is too large or too small for millimetres."""
    domain, deepest = depicted.facts.get("domain", ""), _deepest(depicted)
    unit = png16_unit(domain, deepest)
    if domain == "road" or unit == MILLIMETRE:
        return None
    if unit == FINE_UNIT:
        return f"png16 in steps of {1000 * unit:g} mm, as depth ends at {1000 * deepest:.2g} mm"
    most = MOST_STEPS * MILLIMETRE
    return f"png16 in steps of 1/256 m, as depth of {deepest:.1f} m is beyond {most:.1f} m"


def _deepest(depicted: Depicted) -> float:
    """The largest depth in metres; 0 if there is none."""
    there = geometry.is_present(depicted.depth)
    return float(depicted.depth[there].max()) if there.any() else 0.0


def write_png16(depicted: Depicted, path: Path, options: Options) -> None:
    """Rounded to the nearest step; a depth is one step at least, because 0 means none."""
    there, deepest = geometry.is_present(depicted.depth), _deepest(depicted)
    unit = options.metres_per_unit or png16_unit(depicted.facts.get("domain", ""), deepest)
    if deepest > MOST_STEPS * unit:
        raise InputError(
            f"{path}: depth of {deepest:.1f} m, but 16 bits in steps of {unit:g} m end at "
            f"{MOST_STEPS * unit:.1f} m; save npy instead"
        )
    units = np.rint(np.where(there, depicted.depth, 0) / np.float64(unit))
    values = np.where(there, np.clip(units, 1, MOST_STEPS), 0).astype(np.uint16)
    about = record(depicted, file=path.name, metres_per_unit=unit, empty=0)
    said = f"depth along the optical axis; metres = value * {unit!r}, 0 = none"
    with _beside(path, about, options):
        save_png(path, values, about, metres_per_unit=repr(unit), Description=said)


def write_npy(depicted: Depicted, path: Path, options: Options) -> None:
    """Depth (H, W) alone, float32; what an array cannot say of itself stands beside it."""
    about = record(depicted, file=path.name)
    with _beside(path, about, options), files.atomic(path) as draft, draft.open("wb") as file:
        np.save(file, depicted.depth.astype(np.float32), allow_pickle=False)


@contextmanager
def _beside(path: Path, about: dict[str, Any], options: Options) -> Iterator[None]:
    """A file's record as JSON beside it, if that is wanted; the two appear together."""
    if not options.beside:
        yield
        return
    with files.atomic(path.with_suffix(".json")) as draft:
        draft.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        yield


def write_npz(depicted: Depicted, path: Path, options: Options) -> None:
    """Arrays depth, camera (3, 3), normals and spread if there are any; facts as JSON text."""
    axes = options.axes or "opencv"
    normals = depicted.normals
    if normals is not None:
        normals = normals * np.array(AXES[axes].signs, np.float32)
    arrays = {"depth": depicted.depth, "normals": normals, "spread": depicted.spread}
    there: dict[str, Any] = {
        name: array.astype(np.float32) for name, array in arrays.items() if array is not None
    }
    about = np.array(json.dumps(record(depicted, axes=f"{axes}: {AXES[axes].text}")))
    with files.atomic(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, **there, camera=depicted.camera.matrix, facts=about)


def write_exr(depicted: Depicted, path: Path, _: Options) -> None:
    """Channel Z, float32, without loss."""
    import OpenEXR

    header = {
        "compression": OpenEXR.ZIP_COMPRESSION,
        "type": OpenEXR.scanlineimage,
        "comments": "channel Z: depth along the optical axis in metres; 0 and NaN are none",
        "idisc": json.dumps(record(depicted)),
    }
    depth = np.ascontiguousarray(depicted.depth, np.float32)
    with files.atomic(path) as draft, OpenEXR.File(header, {"Z": depth}) as file:
        try:
            file.write(str(draft))
        except RuntimeError as error:  # also of a full disk
            reason = str(error).replace(str(draft), path.name)
            raise InputError(f"{path}: cannot be written ({reason})") from None
