"""The HTTP API: files as `formats` encodes them, results that are private, errors in one line."""

import base64
import io
import math
import re
import tempfile
import zlib

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from fastapi.testclient import TestClient
from tests.fakes import onnx_files, served

import idisc
from idisc import formats
from idisc.errors import InputError
from idisc.explain import idrs
from idisc.formats import FORMATS
from idisc.predict.predictor import Predictor
from idisc.serve import admission, app, explorer
from idisc.tasks import NORMALS

PNG = served.png()
KNOWN = "10,20 50,20 = 5m"


def client_of(server, **options):
    return TestClient(server.app, base_url="http://localhost", **options)


@pytest.fixture
def server():
    return served.serve()


@pytest.fixture
def client(server):
    with client_of(server) as opened:
        yield opened


def send(client, content=PNG, name="room.png", **query):
    form = {key: query.pop(key) for key in ("fov", "known_distance") if key in query}
    return client.post("/predict", files={"file": (name, content)}, params=query, data=form)


def kept(client):
    return send(client, format="json").json()["result"]


def expected(kind, known=None):
    """What the library encodes for the same picture."""
    prediction = Predictor(served.RedEngine()).predict(
        idisc.images.read_photo(PNG, "room.png"), known_distance=known
    )
    return formats.encode(prediction, FORMATS[kind])[FORMATS[kind].suffix]


def unpacked(packed, shape):
    steps = np.frombuffer(zlib.decompress(base64.b64decode(packed["depth"])), "<u2")
    units = np.cumsum(steps.reshape(shape), axis=1, dtype=np.uint16)
    return units * np.float64(packed["metres_per_unit"])


# Files


@pytest.mark.parametrize("known", [None, KNOWN])
@pytest.mark.parametrize("kind", [row.name for row in FORMATS.values() if row.on_web])
def test_files_are_those_of_the_library(client, kind, known):
    answer = send(client, format=kind, **({"known_distance": known} if known else {}))
    assert answer.status_code == 200
    assert answer.content == expected(kind, known)
    name = "room_rescaled" if known else "room"
    assert f'filename="{name}{FORMATS[kind].suffix}"' in answer.headers["content-disposition"]
    token = kept(client)
    query = {"format": kind, **({"known_distance": known} if known else {})}
    assert client.get(f"/results/{token}/file", params=query).content == answer.content


def test_the_usual_format_is_a_png_of_16_bits(client):
    answer = send(client)
    assert (answer.headers["content-type"], answer.content) == ("image/png", expected("png16"))


def test_json_is_short_and_names_a_result(client):
    body = send(client, format="json", fov="90").json()
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
def test_names_of_uploads_are_harmless(client, name, stem):
    service = client.app.app.state.server.service
    prediction = service.predict(app.Upload(PNG, name))
    assert service.file(prediction, FORMATS["npy"]).name == f"{stem}_depth.npy"


# What the page asks for


def test_the_view_holds_scene_photo_and_facts(client):
    token = kept(client)
    plain = client.get(f"/results/{token}/view").json()
    assert (plain["name"], plain["grid"]) == ("room.png", [48, 64])
    depth = unpacked(plain, (48, 64))
    assert depth == pytest.approx(1 + served.ramp()[..., 0] / 100, abs=0.001)
    assert plain["photo"].startswith("data:image/jpeg;base64,")
    assert "assumed 60 deg" in plain["description"]["camera"]
    scaled = client.get(f"/results/{token}/view", params={"known_distance": KNOWN}).json()
    (change,) = scaled["record"]["provenance"]["rescalings"]
    assert unpacked(scaled, (48, 64)) == pytest.approx(depth * change["factor"], rel=1e-3)


def test_a_large_result_is_thinned_for_the_page_and_whole_in_files(client):
    content = served.png(served.ramp(60, 1300))
    token = send(client, content, format="json").json()["result"]
    assert client.get(f"/results/{token}/view").json()["step"] == 3
    stored = client.get(f"/results/{token}/file", params={"format": "npy"}).content
    assert np.load(io.BytesIO(stored)).shape == (60, 1300)


def test_an_explanation_has_maps_and_muting_changes_depth(client, server):
    token = kept(client)
    about = client.post(f"/results/{token}/explain").json()
    coarse, fine = about["levels"]
    assert (about["quantiles"], about["least_range"]) == ([*idrs.QUANTILES], idrs.MIN_RANGE)
    assert (coarse["stride"], coarse["size"], coarse["idrs"]) == (16, [3, 4], 3)
    assert coarse["dominant"] == pytest.approx([5 / 16, 6 / 16, 5 / 16])
    assert (coarse["partition_peak"], fine["partition_peak"]) == (1.0, 0.0)
    maps = zlib.decompress(client.get(f"/results/{token}/maps").content)
    stored = np.frombuffer(maps, np.uint8).reshape(3, 3, 12, 16)  # the fine level has no partition
    explained = served.Thirds(np.zeros((48, 64), np.float32))
    attention = stored[0] / 255 * coarse["attention_peak"]
    assert attention == pytest.approx(explained.levels[0].attention, abs=0.002)
    whole = unpacked(about["depth"], (48, 64))
    answer = client.post(f"/results/{token}/mute", json={"muted": {"0": [0], "1": [2]}}).json()
    change = unpacked(answer["depth"], (48, 64)) - whole
    assert change[:, :20] == pytest.approx(0.5, abs=0.001)
    assert change[:, 24:40] == pytest.approx(0.0, abs=0.001)
    told = unpacked(answer["change"], (48, 64)) + answer["change_from_m"]
    assert told == pytest.approx(change, abs=0.001)
    assert answer["mean_m"] == pytest.approx(np.abs(change).mean(), abs=0.001)
    assert answer["largest_m"] == pytest.approx(0.5, abs=0.001)
    assert server.explorer.calls == 1  # once for all of it


def test_of_a_large_picture_arrays_are_whole_and_the_explorer_shows_the_depth_of_the_view(
    client, server
):
    noise = np.random.default_rng(0).integers(0, 256, (60, 1300, 3), np.uint8)
    files = {"file": ("room.png", served.png(noise))}
    arrays = np.load(io.BytesIO(client.post("/explain?format=npz", files=files).content))
    assert sorted(arrays) == ["attention_0", "attention_1", "depth", "partition_0"]
    assert arrays["depth"] == pytest.approx(1 + noise[..., 0] / 100)
    assert server.engine.calls == 0  # the explanation has depth of its own
    token = client.post("/explain", files=files).json()["result"]
    view = client.get(f"/results/{token}/view").json()
    about = client.post(f"/results/{token}/explain").json()
    shown = arrays["depth"][view["first"] :: view["step"], view["first"] :: view["step"]]
    assert unpacked(about["depth"], view["grid"]) == pytest.approx(shown, abs=0.001)
    muted = client.post(f"/results/{token}/mute", json={"muted": {}}).json()
    assert muted["depth"] == about["depth"]


@pytest.mark.parametrize("kind", ["json", "npz"])
def test_of_an_upload_that_cannot_be_explained_nothing_is_kept(server, client, monkeypatch, kind):
    def fails(*_):
        raise InputError("room.png", "too dark")

    monkeypatch.setattr(served.ThirdsExplorer, "__call__", fails)
    answer = client.post(f"/explain?format={kind}", files={"file": ("room.png", PNG)})
    assert (answer.status_code, answer.json()) == (400, {"error": "room.png: too dark"})
    assert "idisc_results_kept 0" in client.get("/metrics").text


def test_an_exported_file_has_depth_and_says_why_it_has_no_more(tmp_path):
    path = onnx_files.depth_of_brightness(tmp_path / "small.onnx")
    door = app.create_app(explorer.open_network(path))
    with TestClient(door) as client:
        why = client.get("/health").json()["explorer_missing"]
        assert why.startswith("small.onnx: an exported file gives depth and no more")
        answer = client.post("/explain", files={"file": ("a.png", PNG)})
        assert (answer.status_code, answer.json()) == (400, {"error": why})
        token = kept(client)
        assert client.post(f"/results/{token}/explain").json() == {"error": why}


def test_a_network_for_normals_is_refused_at_the_start():
    engine = served.RedEngine()
    engine.task = NORMALS
    with pytest.raises(InputError):
        app.create_app(explorer.with_explorer(Predictor(engine)))


# Errors


@pytest.mark.parametrize("content", [b"", b"hello", PNG[:100], b"GIF89a" + bytes(50)])
def test_what_is_no_picture_is_named_in_one_line(client, content):
    answer = send(client, content)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("room.png: ")
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"format": "jpg"}, 422, "format: "),
        ({"fov": "180"}, 422, "fov: Input should be less than or equal to 179"),
        ({"fov": "nan"}, 422, "fov: Input should be a finite number"),
        ({"fow": "60"}, 422, "fow: unknown; the fields are format"),
        ({"known_distance": "far"}, 400, "known distance 'far': "),
        ({"known_distance": "1,1 900,1 = 1m"}, 400, "room.png: point 900,1"),
    ],
)
def test_values_that_make_no_sense_are_named(client, query, status, message):
    answer = send(client, **query)
    assert answer.status_code == status
    assert answer.json()["error"].startswith(message)


def test_forms_that_cannot_be_used_are_named(client):
    for files, message in (
        ([("known_distance", (None, "1,1 2,2 = 1m"))], "file: Field required"),
        ([("file", ("a.png", PNG)), ("file", ("b.png", PNG))], "file: given twice"),
        ([("file", (None, "/etc/passwd"))], "file: text"),
        ([("file", (None, "http://127.0.0.1/room.png"))], "file: text"),
        ([("file", ("a.png", PNG)), ("fow", (None, "60"))], "fow: unknown"),
    ):
        answer = client.post("/predict", files=files)
        assert answer.status_code == 422
        assert answer.json()["error"].startswith(message)
    for header in ("multipart/form-data; boundary=x", "multipart/form-data"):
        headers = {"content-type": header}
        assert client.post("/predict", content=b"--y", headers=headers).status_code == 400


def test_a_prediction_that_a_format_cannot_hold_is_an_error(client):
    answer = send(client, format="png16", known_distance="10,20 50,20 = 9000m")
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("format png16: ")


def test_a_bug_shows_nothing_of_itself():
    server = served.serve()

    def breaks(*_):
        raise RuntimeError("secret")

    server.engine.run = breaks
    with client_of(server, raise_server_exceptions=False) as client:
        answer = send(client)
    assert answer.status_code == 500
    assert "secret" not in answer.json()["error"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_what_is_not_there_is_a_line_too(client):
    assert client.get("/nothing").json() == {"error": "Not Found"}
    assert client.get("/predict").status_code == 405
    assert client.get("/page/../app.py").status_code == 404
    assert client.get("/examples/..%2F..%2Fapp.py").status_code == 404


# Results are nobody else's


def test_results_go_by_a_name_that_is_secret_and_not_listed(client):
    first, second = kept(client), kept(client)
    assert first != second
    another = "y" if first.endswith("x") else "x"  # one name in 64 does
    gone = client.get(f"/results/{first[:-1]}{another}/view")
    assert gone.status_code == 404
    assert gone.json()["error"].startswith("result: ")
    assert client.get("/results").status_code == 404
    assert first not in client.get("/metrics").text
    assert client.get(f"/results/{first}/view").headers["cache-control"] == "no-store"


def test_a_result_is_forgotten_when_its_page_says_so(client):
    token = kept(client)
    assert client.delete(f"/results/{token}").status_code == 204
    for path in ("view", "maps", "file"):
        assert client.get(f"/results/{token}/{path}").status_code == 404
    assert client.post(f"/results/{token}/mute", json={"muted": {}}).status_code == 404
    assert client.delete(f"/results/{token}").status_code == 204


def test_neither_uploads_nor_files_touch_the_disk_or_stay_in_memory(client, monkeypatch):
    noise = np.random.default_rng(0).integers(0, 256, (600, 800, 3), np.uint8)
    content = served.png(noise)
    assert len(content) > 1_400_000
    spilt = []
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", spilt.append)
    for name in ("mkdtemp", "mkstemp"):
        monkeypatch.setattr(tempfile, name, spilt.append)
    for kind in ("png", "png16", "npz", "glb"):
        assert send(client, content, format=kind).status_code == 200
    client.post("/explain?format=npz", files={"file": ("room.png", PNG)})
    assert spilt == []
    assert "idisc_results_kept 0.0" in client.get("/metrics").text  # of files


# The rest


def test_health_tells_what_a_page_needs(client):
    body = client.get("/health").json()
    assert (body["status"], body["model"], body["domain"]) == ("ok", "red", "indoor")
    assert (body["waiting"], body["slots"], body["explorer_missing"]) == (0, 8, "")


def test_metrics_count_answers_and_work(client):
    send(client)
    send(client, b"hello")
    text = client.get("/metrics").text
    assert 'idisc_requests_total{route="/predict",status="200"} 1.0' in text
    assert 'idisc_requests_total{route="/predict",status="400"} 1.0' in text
    assert 'idisc_work_seconds_count{kind="predict"} 2.0' in text


def test_examples_are_what_lies_in_the_package(tmp_path, monkeypatch):
    folder = tmp_path / "assets" / "examples"
    monkeypatch.setattr(app.resources, "files", lambda _: tmp_path)
    assert app.read_examples() == {}
    folder.mkdir(parents=True)
    (folder / "living_room.jpg").write_bytes(b"photo")
    (folder / "CREDITS.md").write_bytes(b"whose")
    (folder / "notes.py").write_bytes(b"no")
    assert app.read_examples() == {
        "CREDITS.md": (b"whose", "text/plain; charset=utf-8"),
        "living_room.jpg": (b"photo", "image/jpeg"),
    }
    monkeypatch.undo()
    server = served.serve()
    server.app.app.state.server.examples.clear()
    server.app.app.state.server.examples.update(
        {"CREDITS.md": (b"whose", "text/plain"), "a_room.jpg": (PNG, "image/jpeg")}
    )
    with client_of(server) as client:
        body = client.get("/examples").json()
        assert body == {
            "photos": [{"file": "a_room.jpg", "title": "a room"}],
            "credits": "CREDITS.md",
        }
        assert client.get("/examples/a_room.jpg").content == PNG


def test_the_page_runs_scripts_of_its_own_only(client):
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*\ssrc=)|\son\w+=|\sstyle=", page.text)
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert [each for each in addresses if not each.startswith(("/page/", "data:"))] == []
    for address in addresses:
        if address.startswith("/"):
            assert client.get(address).status_code == 200
    for name, value in admission.HEADERS.items():
        assert page.headers[name] == value
    scripts = "".join(client.get(f"/page/{name}.js").text for name in ("page", "explorer"))
    assert not re.search(r"https?://", scripts + client.get("/page/style.css").text)


def test_the_page_is_read_once_and_sent_once(client, monkeypatch):
    monkeypatch.setattr(app.resources, "files", None)  # all of it is in memory
    for address in app.PAGE:
        first = client.get(address)
        assert (first.status_code, first.headers["cache-control"]) == (200, "no-cache")
        again = client.get(address, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert client.get(address, headers={"if-none-match": '"old"'}).status_code == 200


def test_a_picture_of_one_pixel_goes_through(client):
    token = send(client, served.png(served.ramp(1, 1)), format="json").json()["result"]
    assert client.get(f"/results/{token}/view").status_code == 200
    assert client.get(f"/results/{token}/file?format=ply").status_code == 200
    assert client.get(f"/results/{token}/file?format=glb").status_code == 400  # no surface
