"""KINDS: the inputs that are fuzzed. Each kind builds valid inputs once and reads damaged copies.

A case returns if the input is accepted, and raises IdiscError if it is refused. Everything else is
a finding: another exception, a server error, a side effect, a crash or a hang.
"""

import io
import json
from urllib.parse import quote

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save
from starlette.testclient import TestClient
from tests.fakes import onnx_files, pairs, served
from tests.fakes.mutations import mutated, mutated_json, nothing_happens

from idisc import checksums, configs
from idisc import files as stored
from idisc.ancestry import Ancestry, Parent
from idisc.configs.schema import Recipe
from idisc.data import manifest
from idisc.data.dataset import open_dataset
from idisc.data.decode import DepthMap
from idisc.errors import InputError
from idisc.formats import table
from idisc.model.checkpoint import CONFIG, WEIGHTS, save_checkpoint
from idisc.model.network import IDisc
from idisc.model.states import read_state
from idisc.predict.convention_choice import read_hub_folder
from idisc.predict.conventions import CONVENTIONS
from idisc.predict.open import open_model
from idisc.predict.predictor import Predictor
from idisc.provenance_text import record
from idisc.scale import read_scale
from idisc.zoo import cards

IMAGE = np.zeros((48, 64, 3), np.uint8)
ORIGIN = Ancestry(
    domain="road",
    depth_range=(0.5, 80.0),
    training_size=(48, 64),
    training_fov_deg=80.0,
    data=("KITTI",),
    licence=("CC BY-NC 4.0",),
    parents=(Parent(name="parent", sha256="ab"),),
).to_json()
PREPROCESSOR = {  # as `transformers` writes it
    "rescale_factor": 1 / 255,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "resample": 3,
    "size": {"height": 384, "width": 384},
    "keep_aspect_ratio": True,
    "ensure_multiple_of": 32,
}
PICTURES = (  # format of Pillow, mode
    ("JPEG", "RGB"),
    ("JPEG", "CMYK"),
    ("PNG", "RGB"),
    ("PNG", "I;16"),
    ("PNG", "P"),
    ("WEBP", "RGBA"),
    ("TIFF", "RGB"),
    ("TIFF", "CMYK"),
    ("TIFF", "I;16"),
    ("GIF", "P"),
    ("BMP", "RGB"),
    ("JPEG2000", "RGB"),
    ("PPM", "RGB"),
)


def pictures(folder):
    """Photos of every common format, predicted and encoded."""
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation
    exif.get_ifd(0x8769)[0xA405] = 26  # focal length, 35 mm equivalent
    whole = []
    for kind, mode in PICTURES:
        picture, buffer = Image.fromarray(served.ramp()), io.BytesIO()
        picture = picture.convert("L").convert(mode) if mode == "I;16" else picture.convert(mode)
        picture.save(buffer, kind, **({"exif": exif} if kind in ("JPEG", "PNG") else {}))
        whole.append(buffer.getvalue())
    predictor, path = Predictor(served.RedEngine()), folder / "damaged"

    def case(generator):
        path.write_bytes(mutated(whole[generator.integers(len(whole))], generator, head=0.3))
        table.encode(predictor.predict(path), table.FORMATS["png16"])

    return case


def onnx(folder):
    """Graphs, opened and run: ours with metadata, sealed or not, and those of others."""
    plain, path = folder / "plain.onnx", folder / "damaged.onnx"
    onnx_files.depth_of_brightness(plain)
    onnx_files.describe(plain, **{name: json.dumps(value) for name, value in ORIGIN.items()})
    others = onnx_files.foreign(folder / "others.onnx").read_bytes()
    wholes = plain.read_bytes(), plain.read_bytes(), others, checksums.sealed(plain.read_bytes())

    def case(generator):
        path.write_bytes(mutated(wholes[generator.integers(len(wholes))], generator))
        with nothing_happens():
            Predictor(open_model(path)).predict(IMAGE)

    return case


def _checkpoint(folder):
    save_checkpoint(folder / "whole", pairs.TINY, IDisc(pairs.TINY).state_dict(), ORIGIN)
    Predictor(open_model(folder / "whole")).predict(IMAGE)  # loads the libraries
    return {path.name: path.read_bytes() for path in (folder / "whole").iterdir()}


def _open_checkpoint(folder, files):
    for name, content in files.items():
        (folder / name).write_bytes(content)
    with nothing_happens():
        Predictor(open_model(folder)).predict(IMAGE)


def safetensors(folder):
    """Checkpoints with damaged weights: with checksums, and without, as others write them."""
    files = _checkpoint(folder)
    wholes = files[WEIGHTS], save(read_state(folder / "whole" / WEIGHTS))

    def case(generator):
        whole = wholes[generator.integers(2)]
        head = (8 + int.from_bytes(whole[:8], "little")) / len(whole)  # the header; tensors follow
        _open_checkpoint(folder, {**files, WEIGHTS: mutated(whole, generator, head)})

    return case


def torch_files(folder):
    """Checkpoints of torch, as they are published."""
    path = folder / "weights.pt"
    torch.save({"model": {f"layer.{n}": torch.randn(3, 4) for n in range(8)}}, path)
    whole = path.read_bytes()
    read_state(path)  # loads the libraries

    def case(generator):
        path.write_bytes(mutated(whole, generator))
        with nothing_happens():
            read_state(path)

    return case


def json_files(folder):
    """Every JSON file that is read, with damaged text or strange values."""
    files = _checkpoint(folder)
    plain = json.loads(files[CONFIG])
    del plain[checksums.KEY]  # which would hide the rest
    model = onnx_files.foreign(folder / "model.onnx")
    card, hub = folder / "card.json", folder / "hub"
    hub.mkdir()
    (hub / CONFIG).write_text('{"model_type": "dpt"}')
    measured = Predictor(served.RedEngine()).predict(IMAGE).rescaled("5,24 60,24 = 2m")
    readers = [
        (
            json.dumps(plain).encode(),
            lambda content: _open_checkpoint(folder, {**files, CONFIG: content}),
        ),
        (
            json.dumps(configs.to_json(pairs.recipe())).encode(),
            lambda content: configs.from_json(Recipe, _loaded(card, content), "recipe"),
        ),
        (
            json.dumps(configs.to_json(CONVENTIONS["fastdepth"])).encode(),
            lambda content: (
                model.with_suffix(".json").write_bytes(content),
                Predictor(open_model(model)).predict(IMAGE),
            ),
        ),
        (
            json.dumps(PREPROCESSOR).encode(),
            lambda content: (
                (hub / "preprocessor_config.json").write_bytes(content),
                read_hub_folder(hub),
            ),
        ),
        (
            json.dumps(record(measured)).encode(),
            lambda content: (card.write_bytes(content), read_scale(card)),
        ),
        (
            (cards.HOME / "indoor.json").read_bytes(),
            lambda content: (
                (folder / "indoor.json").write_bytes(content),
                cards.read_card(folder / "indoor.json"),
            ),
        ),
    ]

    def case(generator):
        damage = mutated_json if generator.random() < 0.7 else mutated
        whole, read = readers[generator.integers(len(readers))]
        read(damage(whole, generator))

    return case


def _loaded(path, content):
    path.write_bytes(content)
    return stored.read_json(path)


def manifests(folder):
    """Manifests, and lists of pairs as JSONL, CSV and text; every sample that they name is read."""
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

    records = tuple(
        manifest.Record(image=name, target=depth, split="test", intrinsics=(50, 50, 32, 24))
        for name, depth in zip(names, depths, strict=True)
    )
    target = DepthMap(metres_per_unit=0.001)
    prepared = manifest.Manifest(dataset="folder", target=target, records=records, root=root)
    manifest.write(prepared)
    tables[manifest.NAME] = (root / manifest.NAME).read_text()

    def case(generator):
        name = list(tables)[generator.integers(len(tables))]
        for each in tables:
            (root / each).unlink(missing_ok=True)
        (root / name).write_bytes(mutated(tables[name].encode(), generator))
        dataset = open_dataset(root, "folder", "test")
        for index in range(min(4, len(dataset))):
            dataset[index]

    return case


def http(folder):
    """Requests with damaged bodies, fields, headers and addresses."""
    client = TestClient(
        served.serve().app, base_url="http://127.0.0.1", raise_server_exceptions=False
    )
    upload = {"file": ("a.png", served.png())}
    token = client.post("/predict?format=json", files=upload).json()["result"]
    kind = b"multipart/form-data; boundary=b0undary"
    part = '--b0undary\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n'
    file, fov = part.format("file", '; filename="a.png"'), part.format("fov", "")
    form = file.encode() + served.png() + b"\r\n"
    forms = {"/predict": form + f"{fov}60\r\n--b0undary--\r\n".encode()}
    forms["/explain"] = form + b"--b0undary--\r\n"
    muted = json.dumps({"muted": {"0": [1], "1": [0, 2]}}).encode()
    addresses = [
        f"/results/{token}/view?known_distance=5,24 60,24 = 2m".encode(),
        f"/results/{token}/file?format=png16&known_distance=5,24 60,24 = 2m".encode(),
        f"/results/{token}/maps".encode(),
        b"/examples/kitchen.jpg",
    ]

    def answer(generator):
        choice = generator.random()
        if choice > 0.9:
            where = mutated(addresses[generator.integers(len(addresses))], generator)
            return client.get(quote(where, safe="/?&=%,"))
        if choice > 0.7:
            damage = mutated if choice < 0.8 else mutated_json
            path, body = f"/results/{token}/mute", damage(muted, generator)
            header = b"application/json"
        else:
            path = "/predict" if choice < 0.4 else "/explain"
            body, header = mutated(forms[path], generator, head=0.5), kind
        if choice < 0.1:
            header = mutated(kind, generator).translate(None, b"\r\n\0")
        return client.post(path, content=body, headers={b"content-type": header})

    def case(generator):
        response = answer(generator)
        path = response.url.path
        if response.status_code >= 500:
            raise AssertionError(f"{path}: {response.status_code} {response.text[:200]}")
        if response.status_code >= 400:
            raise InputError(path, f"status {response.status_code}")

    return case


KINDS = {
    "pictures": pictures,
    "onnx": onnx,
    "safetensors": safetensors,
    "torch": torch_files,
    "json": json_files,
    "manifests": manifests,
    "http": http,
}
