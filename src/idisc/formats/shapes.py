"""Formats for 3D programs: a point cloud (PLY) and a textured mesh (GLB), in metres."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from PIL import Image

from idisc import geometry
from idisc.errors import InputError
from idisc.formats.options import AXES, Content, FormatOptions
from idisc.prediction import Prediction
from idisc.provenance_text import describe_with_intrinsics, record

_ROWS = 256  # of a picture, at a time


def encode_ply(prediction: Prediction, options: FormatOptions) -> dict[str, Content]:
    """Encode every pixel that has a depth, row by row; binary, little-endian."""
    axes, depth, camera = options.axes or "opencv", prediction.metres, prediction.camera
    kinds = [(name, "<f4") for name in "xyz"] + [(name, "u1") for name in ("red", "green", "blue")]
    sentences = {"axes": f"{axes}: {AXES[axes].text}; metres"}
    sentences |= describe_with_intrinsics(prediction)
    comments = [
        f"comment {line}"  # shorter than the buffers of readers
        for key, value in sentences.items()
        for line in textwrap.wrap(f"{key}: {value}".encode("ascii", "replace").decode(), 200)
    ]
    properties = [
        f"property {'float' if kind == '<f4' else 'uchar'} {name}" for name, kind in kinds
    ]
    count = int(np.count_nonzero(geometry.is_present(depth)))
    lines = ["ply", "format binary_little_endian 1.0", "comment idisc", *comments]
    lines += [f"element vertex {count}", *properties, "end_header\n"]
    head = "\n".join(lines).encode("ascii")
    # One array for the whole file, filled in bands: the points of a large picture take gigabytes.
    content = np.empty(len(head) + count * np.dtype(kinds).itemsize, np.uint8)
    content[: len(head)] = np.frombuffer(head, np.uint8)
    points, done = content[len(head) :].view(kinds), 0
    for top in range(0, len(depth), _ROWS):
        band = depth[top : top + _ROWS]
        present = geometry.is_present(band)
        places = geometry.unproject(band, camera.cropped(top, 0, band.shape))[present]  # (P, 3)
        shades = prediction.image[top : top + _ROWS][present]  # (P, 3)
        part = points[done : done + len(places)]
        for column, sign in enumerate(AXES[axes].signs):
            part[kinds[column][0]] = sign * places[:, column]
            part[kinds[3 + column][0]] = shades[:, column]
        done += len(places)
    return {"_points.ply": content.data}


def encode_glb(prediction: Prediction, options: FormatOptions) -> dict[str, Content]:
    """Encode the surface with the picture as its texture; viewers add no light of their own."""
    import trimesh

    axes = options.axes or "opengl"
    camera, picks = geometry.thin(prediction.camera, options.grid)
    depth = prediction.metres[picks, picks]
    sharp = np.where(geometry.is_between(depth), np.nan, depth)
    shape = geometry.mesh(sharp, camera, options.edge)
    if not len(shape.faces):
        raise InputError(
            "format glb", "no surface", f"every pixel is cut from the next at {options.edge:g}"
        )
    height, width = prediction.size
    rows, columns = np.divmod(shape.pixels, camera.size[1])
    rows, columns = (picks.start + picks.step * place for place in (rows, columns))
    corners = np.stack([(columns + 0.5) / width, 1 - (rows + 0.5) / height], axis=-1)  # (V, 2)
    photo = Image.fromarray(prediction.image)
    photo.format = "JPEG"  # how it is stored; a PNG would be several times larger
    material = trimesh.visual.material.PBRMaterial(
        baseColorTexture=photo, metallicFactor=0.0, roughnessFactor=1.0, doubleSided=True
    )
    surface = trimesh.Trimesh(
        vertices=shape.vertices * np.array(AXES[axes].signs),
        faces=shape.faces,
        visual=trimesh.visual.TextureVisuals(uv=corners, material=material),
        process=False,
    )
    about = record(
        prediction, axes=f"{axes}: {AXES[axes].text}; metres", every_nth_pixel=picks.step
    )

    def finish(tree: dict[str, Any]) -> None:
        tree["asset"]["extras"] = about
        tree["materials"][0]["extensions"] = {"KHR_materials_unlit": {}}
        tree["extensionsUsed"] = [*tree.get("extensionsUsed", []), "KHR_materials_unlit"]

    content: bytes = trimesh.exchange.gltf.export_glb(surface, tree_postprocessor=finish)
    return {"_mesh.glb": content}
