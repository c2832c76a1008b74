"""KINDS: what is fuzzed. Each kind builds valid inputs once and then reads damaged copies of them.

A case that is accepted returns, and one that is refused raises IdiscError. Everything else is a
finding: another exception, a server error, a side effect, a crash or a hang.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.torch import save
from starlette.testclient import TestClient
from tests.fakes import onnx_files, pairs, served
from tests.fakes.mutations import mutated, mutated_json, nothing_happens

from idisc import configs
from idisc.configs.schema import Recipe
from idisc.data.dataset import open_dataset
from idisc.errors import InputError
from idisc.formats import table
from idisc.model.checkpoint import CONFIG, WEIGHTS, save_checkpoint
from idisc.model.network import IDisc
from idisc.model.states import read_state
from idisc.predict.model_info import read_model_info
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.open import open_engine
from idisc.predict.predictor import Predictor

Case = Callable[[np.random.Generator], None]
PICTURES = (  # format of Pillow, mode
    ("JPEG", "RGB"),
    ("JPEG", "CMYK"),
    ("PNG", "RGB"),
    ("PNG", "I;16"),
    ("PNG", "P"),
    ("WEBP", "RGBA"),
    ("TIFF", "RGB"),
    ("GIF", "P"),
    ("BMP", "RGB"),
)


def pictures(folder: Path) -> Case:
    """Photos of every common format, predicted and encoded."""
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation
    exif.get_ifd(0x8769)[0xA405] = 26  # focal length, 35 mm equivalent
    whole = []
    for kind, mode in PICTURES:
        picture, buffer = Image.fromarray(served.ramp()), io.BytesIO()
        picture = picture.convert("L").convert(mode) if mode == "I;16" else picture.convert(mode)
        picture.save(buffer, kind, **({"exif": exif} if kind == "JPEG" else {}))
        whole.append(buffer.getvalue())
    predictor, path = Predictor(served.RedEngine()), folder / "damaged"

    def case(generator: np.random.Generator) -> None:
        path.write_bytes(mutated(whole[generator.integers(len(whole))], generator, head=0.3))
        table.encode(predictor.predict(path), table.FORMATS["png16"])

    return case


def onnx(folder: Path) -> Case:
    """Graphs, opened and run."""
    whole = onnx_files.depth_of_brightness(folder / "whole.onnx").read_bytes()
    path, image = folder / "damaged.onnx", np.zeros((1, 33, 40, 3), np.uint8)

    def case(generator: np.random.Generator) -> None:
        path.write_bytes(mutated(whole, generator))
        with nothing_happens():
            OnnxEngine(path)(image)

    return case


def _checkpoint(folder: Path) -> dict[str, bytes]:
    save_checkpoint(folder / "whole", pairs.TINY, IDisc(pairs.TINY).state_dict(), {})
    return {path.name: path.read_bytes() for path in (folder / "whole").iterdir()}


def _open_checkpoint(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    with nothing_happens():
        read_model_info(open_engine(folder))


def safetensors(folder: Path) -> Case:
    """Checkpoints with damaged weights: with checksums, and without, as others write them."""
    files = _checkpoint(folder)
    wholes = files[WEIGHTS], save(read_state(folder / "whole" / WEIGHTS))

    def case(generator: np.random.Generator) -> None:
        whole = wholes[generator.integers(2)]
        head = (8 + int.from_bytes(whole[:8], "little")) / len(whole)  # the header; tensors follow
        _open_checkpoint(folder, {**files, WEIGHTS: mutated(whole, generator, head)})

    return case


def json_files(folder: Path) -> Case:
    """Records of checkpoints and recipes with damaged text or strange values."""
    files = _checkpoint(folder)
    recipe = json.dumps(configs.to_json(pairs.recipe())).encode()

    def case(generator: np.random.Generator) -> None:
        damage = mutated_json if generator.random() < 0.7 else mutated
        if generator.random() < 0.5:
            _open_checkpoint(folder, {**files, CONFIG: damage(files[CONFIG], generator)})
        else:
            try:
                record = json.loads(damage(recipe, generator))
            except ValueError:
                return
            configs.from_json(Recipe, record, "recipe")

    return case


def manifests(folder: Path) -> Case:
    """Lists of pairs as JSONL, CSV and text; every sample that they name is read."""
    root = pairs.make(folder / "data", train=2, test=2)
    names = [f"test/images/{path.name}" for path in sorted((root / "test/images").iterdir())]
    depths = [f"test/depth/{path.name}" for path in sorted((root / "test/depth").iterdir())]
    rows = [
        {"image": name, "depth": depth, "split": "test", "fx": 50.0, "fy": 50.0, "cx": 32, "cy": 24}
        for name, depth in zip(names, depths, strict=True)
    ]
    tables = {
        "pairs.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows),
        "pairs.csv": "\n".join(
            [",".join(rows[0]), *(",".join(map(str, r.values())) for r in rows)]
        ),
        "list.txt": "".join(f"{row['image']} {row['depth']} 50.0\n" for row in rows),
    }

    def case(generator: np.random.Generator) -> None:
        name = list(tables)[generator.integers(len(tables))]
        for each in tables:
            (root / each).unlink(missing_ok=True)
        (root / name).write_bytes(mutated(tables[name].encode(), generator))
        dataset = open_dataset(root, "folder", "test")
        for index in range(min(4, len(dataset))):
            dataset[index]

    return case


def http(folder: Path) -> Case:
    """Requests with damaged bodies, fields and headers."""
    client = TestClient(
        served.serve().app, base_url="http://127.0.0.1", raise_server_exceptions=False
    )
    upload = {"file": ("a.png", served.png())}
    token = client.post("/predict?format=json", files=upload).json()["result"]
    kind = b"multipart/form-data; boundary=b0undary"
    part = '--b0undary\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n'
    file, fov = part.format("file", '; filename="a.png"'), part.format("fov", "")
    form = file.encode() + served.png() + f"\r\n{fov}60\r\n--b0undary--\r\n".encode()
    muted = json.dumps({"muted": {"0": [1]}}).encode()

    def case(generator: np.random.Generator) -> None:
        choice = generator.random()
        path = "/predict" if choice < 0.4 else "/explain"
        body, header = mutated(form, generator, head=0.5), kind
        if choice < 0.1:
            header = mutated(kind, generator).translate(None, b"\r\n\0")
        if choice > 0.7:
            damage = mutated if choice < 0.8 else mutated_json
            path, body = f"/results/{token}/mute", damage(muted, generator)
            header = b"application/json"
        response = client.post(path, content=body, headers={b"content-type": header})
        if response.status_code >= 500:
            raise AssertionError(f"{path}: {response.status_code} {response.text[:200]}")
        if response.status_code >= 400:
            raise InputError(path, f"status {response.status_code}")

    return case


KINDS: dict[str, Callable[[Path], Case]] = {
    "pictures": pictures,
    "onnx": onnx,
    "safetensors": safetensors,
    "json": json_files,
    "manifests": manifests,
    "http": http,
}
