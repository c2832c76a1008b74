"""The HTTP API: files as `formats` encodes them, private results, and errors in one line."""

import base64
import io
import math
import re
import tempfile
import zlib

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from tests.fakes import onnx_files, served
from tests.fakes.served import client_of

from idisc import formats
from idisc.errors import InputError
from idisc.explain import idrs
from idisc.formats import FORMATS
from idisc.images import read_photo
from idisc.predict.predictor import Predictor
from idisc.serve import admission, app, explorer, static
from idisc.serve.service import Upload
from idisc.tasks import NORMALS

PNG = served.png()
FILES = {"file": ("room.png", PNG)}
KNOWN_DISTANCE = {"known_distance": "10,20 50,20 = 5m"}


@pytest.fixture
def server():
    return served.serve()


@pytest.fixture
def client(server):
    with client_of(server.app) as client:
        yield client


def send(client, content=PNG, form=None, **query):
    files = {"file": ("room.png", content)}
    return client.post("/predict", files=files, params=query, data=form)


def path_of_result(client, content=PNG):
    return f"/results/{send(client, content, format='json').json()['result']}"


def unpack(packed, shape):
    steps = np.frombuffer(zlib.decompress(base64.b64decode(packed["depth"])), "<u2")
    units = np.cumsum(steps.reshape(shape), axis=1, dtype=np.uint16)
    return units * np.float64(packed["metres_per_unit"])


# Files


@pytest.mark.parametrize("form", [{}, KNOWN_DISTANCE])
@pytest.mark.parametrize("kind", [row.name for row in FORMATS.values() if row.on_web])
def test_files_are_those_of_the_library(client, kind, form):
    prediction = Predictor(served.RedEngine()).predict(read_photo(PNG, "room.png"), **form)
    row = FORMATS[kind]
    answer = send(client, form=form, format=kind)
    assert answer.status_code == 200
    assert answer.content == formats.encode(prediction, row)[row.suffix]
    name = "room_rescaled" if form else "room"
    assert f'filename="{name}{row.suffix}"' in answer.headers["content-disposition"]
    stored = client.get(f"{path_of_result(client)}/file", params={"format": kind, **form})
    assert stored.content == answer.content
    if kind == "png16":  # the default
        assert send(client, form=form).content == answer.content


def test_json_is_a_summary_with_the_token_of_a_result(client):
    body = send(client, format="json", form={"fov": "90"}).json()
    assert body["format"] == "idisc/1"
    corrected = 2.0 * math.tan(math.radians(30))  # 2 m for the 60 deg of training
    assert body["depth_m"]["median"] == pytest.approx(corrected, abs=0.03)
    assert body["camera"]["size"] == [48, 64]
    assert body["camera"]["fx"] == pytest.approx(32)
    assert body["camera"]["origin"] == "given 90 deg"
    assert body["provenance"]["model"]["domain"] == "indoor"
    assert len(body["result"]) >= 32


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("../../etc/passwd.png", "passwd"),
        ("C:\\photos\\room 1.png", "room 1"),
        ("küche.png", "küche"),
        ("", "picture"),
        ("..", "picture"),
        ("a" * 300 + ".png", "a" * 116),
        ("💡" * 100 + ".png", "💡" * 29),
        ('a"b\r\nX: y.png', "a_bX_ y"),
    ],
)
def test_names_of_uploads_are_made_safe(server, name, stem):
    service = server.state.service
    prediction = service.predict(service.photo(Upload(PNG, name)))
    assert service.file(prediction, FORMATS["npy"]).name == f"{stem}_depth.npy"


# What the page requests


def test_the_view_has_scene_photo_and_provenance(client):
    path = path_of_result(client)
    plain = client.get(f"{path}/view").json()
    assert (plain["name"], plain["grid"]) == ("room.png", [48, 64])
    depth = unpack(plain, (48, 64))
    assert depth == pytest.approx(1 + served.ramp()[..., 0] / 100, abs=0.001)
    assert plain["photo"].startswith("data:image/jpeg;base64,")
    assert "assumed 60 deg" in plain["description"]["camera"]
    scaled = client.get(f"{path}/view", params=KNOWN_DISTANCE).json()
    (change,) = scaled["record"]["provenance"]["rescalings"]
    assert unpack(scaled, (48, 64)) == pytest.approx(depth * change["factor"], rel=1e-3)


def test_an_explanation_has_maps_and_muting_changes_depth(client, server):
    path = path_of_result(client)
    explained = client.post(f"{path}/explain").json()
    coarse, fine = explained["levels"]
    quantiles = [*idrs.QUANTILES]
    assert (explained["quantiles"], explained["least_range"]) == (quantiles, idrs.MIN_RANGE)
    assert (coarse["stride"], coarse["size"], coarse["idrs"]) == (16, [3, 4], 3)
    assert coarse["dominant"] == pytest.approx([5 / 16, 6 / 16, 5 / 16])
    assert (coarse["partition_peak"], fine["partition_peak"]) == (1.0, 0.0)
    maps = zlib.decompress(client.get(f"{path}/maps").content)
    stored = np.frombuffer(maps, np.uint8).reshape(3, 3, 12, 16)  # the fine level has no partition
    expected = served.Thirds(np.zeros((48, 64), np.float32)).levels[0].attention
    assert stored[0] / 255 * coarse["attention_peak"] == pytest.approx(expected, abs=0.002)
    muted = client.post(f"{path}/mute", json={"muted": {"0": [0], "1": [2]}}).json()
    change = unpack(muted["depth"], (48, 64)) - unpack(explained["depth"], (48, 64))
    assert change[:, :20] == pytest.approx(0.5, abs=0.001)
    assert change[:, 24:40] == pytest.approx(0.0, abs=0.001)
    packed_change = unpack(muted["change"], (48, 64)) + muted["change_from_m"]
    assert packed_change == pytest.approx(change, abs=0.001)
    assert muted["mean_m"] == pytest.approx(np.abs(change).mean(), abs=0.001)
    assert muted["largest_m"] == pytest.approx(0.5, abs=0.001)
    assert server.explorer.calls == 1  # for all of these requests


def test_a_large_picture_is_thinned_for_the_page_and_whole_in_files(client, server):
    noise = np.random.default_rng(0).integers(0, 256, (60, 1300, 3), np.uint8)
    depth, files = 1 + noise[..., 0] / 100, {"file": ("room.png", served.png(noise))}
    arrays = np.load(io.BytesIO(client.post("/explain?format=npz", files=files).content))
    assert sorted(arrays) == ["attention_0", "attention_1", "depth", "partition_0"]
    assert arrays["depth"] == pytest.approx(depth)
    assert server.engine.calls == 0  # the explanation has depth of its own
    path = f"/results/{client.post('/explain', files=files).json()['result']}"
    stored = client.get(f"{path}/file", params={"format": "npy"}).content
    assert np.load(io.BytesIO(stored)).shape == (60, 1300)
    view, explained = client.get(f"{path}/view").json(), client.post(f"{path}/explain").json()
    assert view["step"] == 3
    shown = depth[view["first"] :: 3, view["first"] :: 3]
    assert unpack(explained["depth"], view["grid"]) == pytest.approx(shown, abs=0.001)
    muted = client.post(f"{path}/mute", json={"muted": {}}).json()
    assert muted["depth"] == explained["depth"]


@pytest.mark.parametrize("kind", ["json", "npz"])
def test_an_upload_that_cannot_be_explained_is_not_kept(client, monkeypatch, kind):
    def fail(*_):
        raise InputError("room.png", "too dark")

    monkeypatch.setattr(served.ThirdsExplorer, "__call__", fail)
    answer = client.post(f"/explain?format={kind}", files=FILES)
    assert (answer.status_code, answer.json()) == (400, {"error": "room.png: too dark"})
    assert "idisc_results_kept 0" in client.get("/metrics").text


def test_an_exported_file_has_no_idrs(tmp_path):
    opened = explorer.open_network(onnx_files.depth_of_brightness(tmp_path / "small.onnx"))
    with client_of(app.create_app(opened)) as client:
        reason = client.get("/health").json()["explorer_missing"]
        assert reason.startswith("small.onnx: an exported file gives depth and no more")
        answer = client.post("/explain", files=FILES)
        assert (answer.status_code, answer.json()) == (400, {"error": reason})
        assert client.post(f"{path_of_result(client)}/explain").json() == {"error": reason}


def test_a_network_for_normals_is_refused_at_the_start():
    engine = served.RedEngine()
    engine.task = NORMALS
    with pytest.raises(InputError):
        app.create_app(explorer.with_explorer(Predictor(engine)))


# Errors


@pytest.mark.parametrize("content", [b"", b"hello", PNG[:100], b"GIF89a" + bytes(50)])
def test_a_damaged_picture_is_an_error_of_one_line(client, content):
    answer = send(client, content)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("room.png: ")
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("query", "form", "status", "message"),
    [
        ({"format": "jpg"}, {}, 422, "format: "),
        ({"fow": "60"}, {}, 422, "fow: unknown; the fields are format"),
        ({"format": ["npy", "npz"]}, {}, 422, "format: given twice"),
        ({}, {"fov": "180"}, 422, "fov: Input should be less than or equal to 179"),
        ({}, {"fov": "nan"}, 422, "fov: Input should be a finite number"),
        ({}, {"fow": "60"}, 422, "fow: unknown"),
        ({}, {"known_distance": "far"}, 400, "known distance 'far': "),
        ({}, {"known_distance": "1,1 900,1 = 1m"}, 400, "room.png: point 900,1"),
        ({}, {"known_distance": "10,20 50,20 = 9000m"}, 400, "format png16: "),
    ],
)
def test_invalid_fields_are_named(client, query, form, status, message):
    answer = send(client, form=form, **query)
    assert answer.status_code == status
    assert answer.json()["error"].startswith(message)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([("known_distance", (None, "1,1 2,2 = 1m"))], "file: Field required"),
        ([("file", ("a.png", PNG)), ("file", ("b.png", PNG))], "file: given twice"),
        ([("file", (None, "/etc/passwd"))], "file: text"),
    ],
)
def test_a_form_needs_one_file(client, files, message):
    answer = client.post("/predict", files=files)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(message)


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "multipart/form-data"])
def test_a_damaged_form_is_refused(client, kind):
    answer = client.post("/predict", content=b"--y", headers={"content-type": kind})
    assert answer.status_code == 400


def test_the_response_to_a_bug_hides_it(server):
    def fail(*_):
        raise RuntimeError("secret")

    server.engine.run = fail
    with client_of(server.app, raise_server_exceptions=False) as client:
        answer = send(client)
    assert answer.status_code == 500
    assert "secret" not in answer.json()["error"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_unknown_addresses_are_refused(client):
    assert client.get("/nothing").json() == {"error": "Not Found"}
    assert client.get("/predict").status_code == 405
    assert client.get("/page/../app.py").status_code == 404
    assert client.get("/examples/..%2F..%2Fapp.py").status_code == 404


# Results are private


def test_results_have_secret_tokens_and_are_not_listed(client):
    first, second = path_of_result(client), path_of_result(client)
    assert first != second
    other = "y" if first.endswith("x") else "x"  # a token has 64 possible characters
    missing = client.get(f"{first[:-1]}{other}/view")
    assert missing.status_code == 404
    assert missing.json()["error"].startswith("result: ")
    assert client.get("/results").status_code == 404
    assert first not in client.get("/metrics").text
    assert client.get(f"{first}/view").headers["cache-control"] == "no-store"


def test_a_result_is_dropped_on_request(client):
    path = path_of_result(client)
    assert client.delete(path).status_code == 204
    for part in ("view", "maps", "file"):
        assert client.get(f"{path}/{part}").status_code == 404
    assert client.post(f"{path}/mute", json={"muted": {}}).status_code == 404
    assert client.delete(path).status_code == 204


def test_uploads_and_files_are_neither_written_to_disk_nor_kept(client, monkeypatch):
    noise = np.random.default_rng(0).integers(0, 256, (600, 800, 3), np.uint8)
    content = served.png(noise)
    assert len(content) > 1_400_000  # Starlette writes files above 1 MB to the disk
    written = []
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", written.append)
    for name in ("mkdtemp", "mkstemp"):
        monkeypatch.setattr(tempfile, name, written.append)
    for kind in ("png", "png16", "npz", "glb"):
        assert send(client, content, format=kind).status_code == 200
    client.post("/explain?format=npz", files=FILES)
    assert written == []
    assert "idisc_results_kept 0.0" in client.get("/metrics").text


# Other addresses


def test_health_and_metrics(client):
    send(client)
    send(client, b"hello")
    body = client.get("/health").json()
    assert (body["status"], body["model"], body["domain"]) == ("ok", "red", "indoor")
    assert (body["waiting"], body["slots"], body["explorer_missing"]) == (0, 8, "")
    text = client.get("/metrics").text
    assert 'idisc_requests_total{route="/predict",status="200"} 1.0' in text
    assert 'idisc_requests_total{route="/predict",status="400"} 1.0' in text
    assert 'idisc_work_seconds_count{kind="predict"} 2.0' in text


def test_examples_are_the_photos_of_a_folder_and_their_credits(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(static.resources, "files", lambda _: tmp_path)
        assert static.read_examples() == {}
        folder = tmp_path / "assets" / "examples"
        folder.mkdir(parents=True)
        for name in ("a_room.jpg", "CREDITS.md", "notes.py"):
            (folder / name).write_bytes(name.encode())
        files = static.read_examples()
    server = served.serve()
    server.state.examples.clear()
    server.state.examples.update(files)
    with client_of(server.app) as client:
        photos = [{"file": "a_room.jpg", "title": "a room"}]
        assert client.get("/examples").json() == {"photos": photos, "credits": "CREDITS.md"}
        photo = client.get("/examples/a_room.jpg")
        assert (photo.content, photo.headers["content-type"]) == (b"a_room.jpg", "image/jpeg")
        assert client.get("/examples/notes.py").status_code == 404


def test_the_page_loads_only_its_own_scripts(client):
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*\ssrc=)|\son\w+=|\sstyle=", page.text)
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert all(address.startswith(("/page/", "data:")) for address in addresses)
    for name, value in admission.SECURITY_HEADERS.items():
        assert page.headers[name] == value
    scripts = "".join(client.get(f"/page/{name}.js").text for name in ("page", "explorer"))
    assert not re.search(r"https?://", scripts + client.get("/page/style.css").text)


@pytest.mark.parametrize("address", static.PAGE)
def test_a_file_of_the_page_is_sent_once(client, address):
    first = client.get(address)
    assert (first.status_code, first.headers["cache-control"]) == (200, "no-cache")
    again = client.get(address, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(address, headers={"if-none-match": '"old"'}).status_code == 200


def test_a_picture_may_have_one_pixel(client):
    path = path_of_result(client, served.png(served.ramp(1, 1)))
    assert client.get(f"{path}/view").status_code == 200
    assert client.get(f"{path}/file?format=ply").status_code == 200
    assert client.get(f"{path}/file?format=glb").status_code == 400  # no surface
