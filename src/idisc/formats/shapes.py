"""Formats for 3D programs: a point cloud (PLY) and a textured mesh (GLB), in metres."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from PIL import Image

from idisc import geometry
from idisc.errors import InputError
from idisc.formats.options import AXES, FormatOptions
from idisc.prediction import Prediction
from idisc.provenance_text import describe_with_intrinsics, record


def encode_ply(prediction: Prediction, options: FormatOptions) -> dict[str, bytes]:
    """Encode every pixel that has a depth, row by row; binary, little-endian."""
    axes, depth = options.axes or "opencv", prediction.metres
    there = geometry.is_present(depth)
    kinds = [(name, "<f4") for name in "xyz"] + [(name, "u1") for name in ("red", "green", "blue")]
    points = np.empty(int(there.sum()), kinds)
    places = geometry.unproject(depth, prediction.camera)[there]  # (P, 3)
    shades = prediction.image[there]  # (P, 3)
    for column, sign in enumerate(AXES[axes].signs):
        points[kinds[column][0]] = sign * places[:, column]
        points[kinds[3 + column][0]] = shades[:, column]
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
    head = ["ply", "format binary_little_endian 1.0", "comment idisc", *comments]
    head += [f"element vertex {len(points)}", *properties, "end_header\n"]
    return {"_points.ply": "\n".join(head).encode("ascii") + points.tobytes()}


def encode_glb(prediction: Prediction, options: FormatOptions) -> dict[str, bytes]:
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
