"""Depth as a shape: a point cloud (PLY) and a textured mesh (GLB), in metres."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from idisc import files, geometry
from idisc.errors import InputError
from idisc.outputs.depicted import AXES, Depicted, Options, camera_facts, record


def write_ply(depicted: Depicted, path: Path, options: Options) -> None:
    """Every pixel that has a depth, in the order of the picture; binary, little-endian."""
    axes = options.axes or "opencv"
    there = geometry.is_present(depicted.depth)
    kinds = [(name, "<f4") for name in "xyz"] + [(name, "u1") for name in ("red", "green", "blue")]
    points = np.empty(int(there.sum()), kinds)
    places = geometry.unproject(depicted.depth, depicted.camera)[there]  # (P, 3)
    shades = depicted.image[there]  # (P, 3)
    for column, sign in enumerate(AXES[axes].signs):
        points[kinds[column][0]] = sign * places[:, column]
        points[kinds[3 + column][0]] = shades[:, column]
    facts = {"axes": f"{axes}: {AXES[axes].text}; metres", **camera_facts(depicted)}
    comments = [
        f"comment {line}"  # no longer than readers' buffers
        for key, value in facts.items()
        for line in textwrap.wrap(f"{key}: {value}".encode("ascii", "replace").decode(), 200)
    ]
    properties = [
        f"property {'float' if kind == '<f4' else 'uchar'} {name}" for name, kind in kinds
    ]
    head = ["ply", "format binary_little_endian 1.0", "comment idisc", *comments]
    head += [f"element vertex {len(points)}", *properties, "end_header\n"]
    with files.atomic(path) as draft, draft.open("wb") as file:
        file.write("\n".join(head).encode("ascii"))
        points.tofile(file)


def write_glb(depicted: Depicted, path: Path, options: Options) -> None:
    """The surface with the picture on it; a viewer's lamps add nothing to the picture's light."""
    import trimesh

    axes = options.axes or "opengl"
    camera, picks = geometry.thin(depicted.camera, options.grid)
    depth = depicted.depth[picks, picks]
    sharp = np.where(geometry.is_between(depth), np.nan, depth)
    shape = geometry.mesh(sharp, camera, options.edge)
    if not len(shape.faces):
        raise InputError(
            f"{path}: no surface; every pixel is cut from the next at {options.edge:g}"
        )
    height, width = depicted.depth.shape
    rows, columns = np.divmod(shape.pixels, camera.size[1])
    rows, columns = (picks.start + picks.step * place for place in (rows, columns))
    corners = np.stack([(columns + 0.5) / width, 1 - (rows + 0.5) / height], axis=-1)  # (V, 2)
    photo = Image.fromarray(depicted.image)
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
    about = record(depicted, axes=f"{axes}: {AXES[axes].text}; metres", every_nth_pixel=picks.step)

    def finish(tree: dict[str, Any]) -> None:
        tree["asset"]["extras"] = about
        tree["materials"][0]["extensions"] = {"KHR_materials_unlit": {}}
        tree["extensionsUsed"] = [*tree.get("extensionsUsed", []), "KHR_materials_unlit"]

    with files.atomic(path) as draft:
        draft.write_bytes(trimesh.exchange.gltf.export_glb(surface, tree_postprocessor=finish))
