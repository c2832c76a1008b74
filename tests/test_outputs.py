"""Outputs: every format read back by another library or by hand, and every refusal in one line."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from idisc import geometry, outputs
from idisc.camera import Camera
from idisc.errors import InputError, MissingExtra
from idisc.outputs import WRITERS, Options
from idisc.visualize import EMPTY

SIZE = (48, 64)
CAMERA = Camera(fx=60.0, fy=50.0, cx=30.0, cy=25.5, size=SIZE, origin="assumed 60 deg")
FACTS = {"model": "a test", "domain": "indoor", "depth range": "0.1 to 10 m", "camera": "assumed"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def box_before_a_wall() -> NDArray[np.float32]:
    """A wall at 4 m, a box at 2 m before it; two pixels have no depth."""
    depth = np.full(SIZE, 4.0, np.float32)
    depth[15:35, 20:45] = 2.0
    depth[0, 0], depth[0, 1] = 0.0, np.nan
    return depth


def coloured() -> NDArray[np.uint8]:
    """Red grows to the right, green downwards."""
    image = np.zeros((*SIZE, 3), np.uint8)
    image[..., 0], image[..., 1] = np.arange(64) * 4, np.arange(48)[:, None] * 5
    return image


@dataclass(frozen=True)
class Result:
    depth: NDArray[np.float32] = field(default_factory=box_before_a_wall)
    image: NDArray[np.uint8] = field(default_factory=coloured)
    camera: Camera = CAMERA
    normals: NDArray[np.float32] | None = None
    spread: NDArray[np.float32] | None = None
    facts: Mapping[str, str] = field(default_factory=lambda: dict(FACTS))


RESULT = Result()
WALL = Result(depth=np.full(SIZE, 3.0, np.float32))


def write(kind: str, folder: Path, result: Result = RESULT, **options: Any) -> Path:
    return outputs.save(result, folder, "room", [kind], Options(**options))[0]


def texts_of(path: Path) -> dict[str, str]:
    with Image.open(path) as picture:
        assert isinstance(picture.info, dict)
        return {str(key): str(value) for key, value in picture.info.items()}


# All of them


def test_several_formats_of_one_picture_lie_side_by_side(tmp_path: Path) -> None:
    formats = ["png", "png16", "npy", "npz", "ply", "glb", "normals", "html"]
    written = outputs.save(RESULT, tmp_path / "new", "room", formats)
    assert sorted(written) == sorted((tmp_path / "new").iterdir())
    assert [path.name for path in written] == [
        "room_depth.png",
        "room_depth16.png",
        "room_depth16.json",
        "room_depth.npy",
        "room_depth.npz",
        "room_points.ply",
        "room_mesh.glb",
        "room_normals.png",
        "room_viewer.html",
    ]


def test_no_two_formats_share_a_name() -> None:
    assert len({writer.suffix for writer in WRITERS.values()}) == len(WRITERS)
    assert all(writer.help and "\n" not in writer.help for writer in WRITERS.values())


@pytest.mark.parametrize("kind", ["jpg", "png8"])
def test_metres_in_eight_bits_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"format {kind}: {kind} has 8 bits, 256 steps, and no"):
        outputs.save(RESULT, tmp_path, "room", [kind])
    with pytest.raises(InputError, match=r"room\.jpg: jpg has 8 bits.* choose png16, npy, npz"):
        outputs.write("png16", tmp_path / "room.jpg", RESULT)
    assert not list(tmp_path.iterdir())


def test_a_name_with_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"room\.exr: 'npy' is written to \.npy; change the name"):
        outputs.write("npy", tmp_path / "room.exr", RESULT)


def test_nothing_is_written_if_one_format_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="format 'pcd' does not exist"):
        outputs.save(RESULT, tmp_path, "room", ["npy", "pcd"])
    with pytest.raises(InputError, match="format spread: this result has none"):
        outputs.save(RESULT, tmp_path, "room", ["npy", "spread"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": np.full(SIZE, 200, np.uint8)}, r"depth \(48, 64\) of uint8: .* metres needed"),
        ({"camera": CAMERA.resized((24, 32))}, r"camera for \(24, 32\) pixels with depth for"),
        ({"image": np.zeros((2, 2, 3), np.uint8)}, r"image for \(2, 2\) pixels with depth for"),
        ({"depth": np.zeros(SIZE, np.float32)}, "format ply: not one pixel has a depth"),
    ],
)
def test_arrays_that_cannot_be_written_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        write("ply", tmp_path, replace(RESULT, **changes))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": (5.0, 1.0)}, "range 5 to 1: two rising distances"),
        ({"axes": "opengle"}, "axis convention 'opengle' does not exist"),
        ({"edge": 0.0}, "edge 0, grid 640"),
        ({"metres_per_unit": -1.0}, "-1 metres per unit"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Options(**options)


# Pictures


def test_the_picture_has_a_legend_below_and_its_facts_inside(tmp_path: Path) -> None:
    large = Result(*(np.repeat(np.repeat(a, 8, 0), 8, 1) for a in (RESULT.depth, RESULT.image)))
    large = replace(large, camera=CAMERA.resized((384, 512)))
    path = write("png", tmp_path, large, colours="gray", limits=(2.0, 4.0))
    picture = np.asarray(Image.open(path))
    assert picture.shape[1] == 512
    assert 384 + 40 < picture.shape[0] < 384 + 120
    assert picture[200, 200].tolist() == [0, 0, 0]  # the box: 2 m
    assert picture[300, 8].tolist() == [255, 255, 255]  # the wall: 4 m
    assert picture[4, 4].tolist() == list(EMPTY)
    assert json.loads(texts_of(path)["idisc"])["facts"] == FACTS


@pytest.mark.parametrize("size", [(16, 16), (900, 3), (30, 4000)])
def test_pictures_of_any_shape_get_a_legend(size: tuple[int, int], tmp_path: Path) -> None:
    result = Result(
        depth=np.full(size, 2.0, np.float32),
        image=np.zeros((*size, 3), np.uint8),
        camera=Camera.from_fov(60, size, "test"),
        facts={"model": "Ünglück " * 30, "picture": "\u6df1\u3055"},
    )
    picture = np.asarray(Image.open(write("png", tmp_path, result)))
    assert picture.shape[1] >= 320
    assert (picture[-80:] < 120).any()  # letters


def test_spread_says_what_it_means(tmp_path: Path) -> None:
    result = replace(RESULT, spread=np.full(SIZE, 0.2, np.float32))
    record = json.loads(texts_of(write("spread", tmp_path, result))["idisc"])
    assert record["spread"].startswith("how far the network's own answers for a pixel lie apart")
    result = replace(result, facts={**FACTS, "spread": "of the three resolutions"})
    record = json.loads(texts_of(write("spread", tmp_path, result))["idisc"])
    assert record["spread"] == "of the three resolutions"


@pytest.mark.parametrize(("axes", "blue"), [("opencv", 0), ("opengl", 255)])
def test_normals_are_at_the_pictures_size_in_stated_axes(
    axes: str, blue: int, tmp_path: Path
) -> None:
    path = write("normals", tmp_path, WALL, axes=axes)
    picture = np.asarray(Image.open(path))
    assert picture.shape == (*SIZE, 3)
    assert picture[20, 20].tolist() == [128, 128, blue]  # (0, 0, -1) to the camera
    said = json.loads(texts_of(path)["idisc"])["normals"]
    assert said.startswith(f"from depth and camera; {axes}: x right, y ")


def test_given_normals_are_preferred(tmp_path: Path) -> None:
    normals = np.tile(np.float32([1, 0, 0]), (*SIZE, 1))
    path = write("normals", tmp_path, replace(WALL, normals=normals))
    assert np.asarray(Image.open(path))[5, 5].tolist() == [255, 128, 128]
    assert "from the model" in texts_of(path)["idisc"]


# Numbers


def test_png16_is_millimetres_indoors_and_says_so_twice(tmp_path: Path) -> None:
    path = write("png16", tmp_path)
    values = np.asarray(Image.open(path))
    assert values.dtype == np.uint16
    assert (values[40, 5], values[20, 30], values[0, 0], values[0, 1]) == (4000, 2000, 0, 0)
    texts, beside = texts_of(path), json.loads(path.with_suffix(".json").read_text())
    assert float(texts["metres_per_unit"]) == beside["metres_per_unit"] == 0.001
    assert beside == json.loads(texts["idisc"])
    assert beside["camera"]["fx"] == 60.0
    assert beside["camera"]["origin"] == "assumed 60 deg"
    assert beside["facts"] == FACTS


@pytest.mark.parametrize(
    ("domain", "deepest", "unit"),
    [
        ("indoor", 65.5, 0.001),
        ("indoor", 65.6, 1 / 256),
        ("road", 4.0, 1 / 256),
        ("road", 255.9, 1 / 256),
    ],
)
def test_png16_has_the_unit_of_its_domain(
    domain: str, deepest: float, unit: float, tmp_path: Path
) -> None:
    depth = np.linspace(0.01, deepest, 48 * 64, dtype=np.float32).reshape(SIZE)
    path = write("png16", tmp_path, replace(RESULT, depth=depth, facts={"domain": domain}))
    assert float(texts_of(path)["metres_per_unit"]) == unit
    assert np.abs(np.asarray(Image.open(path)) * unit - depth).max() <= unit / 2 + 1e-5


def test_png16_says_what_does_not_fit(tmp_path: Path) -> None:
    far = replace(RESULT, depth=np.full(SIZE, 300.0, np.float32))
    with pytest.raises(InputError, match=r"depth of 300\.0 m, but 16 bits in steps of 0\.0039"):
        write("png16", tmp_path, far)
    with pytest.raises(InputError, match=r"end at 65\.5 m; choose larger steps, npy, npz or exr"):
        write("png16", tmp_path, far, metres_per_unit=0.001)
    assert (
        np.asarray(Image.open(write("png16", tmp_path, far, metres_per_unit=0.01))).max() == 30000
    )


def test_png16_keeps_the_least_depth_apart_from_none(tmp_path: Path) -> None:
    path = write("png16", tmp_path, replace(RESULT, depth=np.full(SIZE, 1e-5, np.float32)))
    assert np.asarray(Image.open(path)).min() == 1


def test_npy_is_the_depth(tmp_path: Path) -> None:
    depth = np.load(write("npy", tmp_path), allow_pickle=False)
    assert depth.dtype == np.float32
    assert np.array_equal(depth, RESULT.depth, equal_nan=True)


def test_npz_holds_all_there_is(tmp_path: Path) -> None:
    plain = np.load(write("npz", tmp_path), allow_pickle=False)
    assert sorted(plain) == ["camera", "depth", "facts"]
    assert np.array_equal(plain["camera"], CAMERA.matrix)
    assert json.loads(str(plain["facts"]))["facts"] == FACTS
    spread, normals = np.full(SIZE, 0.1, np.float32), np.ones((*SIZE, 3), np.float32)
    path = write("npz", tmp_path, replace(RESULT, spread=spread, normals=normals))
    full = np.load(path, allow_pickle=False)
    assert np.array_equal(full["spread"], spread)
    assert np.array_equal(full["normals"], normals)
    assert np.array_equal(full["depth"], RESULT.depth, equal_nan=True)


def test_exr_has_the_depth_in_channel_z(tmp_path: Path) -> None:
    open_exr = pytest.importorskip("OpenEXR", reason="OpenEXR comes with idisc[exr]")
    with open_exr.File(str(write("exr", tmp_path))) as file:
        assert np.array_equal(file.channels()["Z"].pixels, RESULT.depth, equal_nan=True)
        assert json.loads(file.header()["idisc"])["facts"] == FACTS


def test_exr_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("importlib.import_module", absent)
    with pytest.raises(MissingExtra, match=r"pip install 'idisc\[exr\]'"):
        write("exr", tmp_path)


# Shapes


def load_mesh(path: Path) -> Any:
    import trimesh

    return trimesh.load(path, process=False)


def test_ply_is_read_by_trimesh_in_metres(tmp_path: Path) -> None:
    cloud = load_mesh(write("ply", tmp_path))
    assert len(cloud.vertices) == 48 * 64 - 2
    assert cloud.vertices[-1] == pytest.approx([4 * 33 / 60, 4 * 21.5 / 50, 4.0])
    assert cloud.colors[-1].tolist()[:3] == [63 * 4, 47 * 5, 0]


def test_ply_states_its_axes_and_facts(tmp_path: Path) -> None:
    facts = {**FACTS, "picture": "Küche\nplate " + "x" * 500}
    path = write("ply", tmp_path, replace(RESULT, facts=facts), axes="opengl")
    head = path.read_bytes().partition(b"end_header\n")[0].decode("ascii").splitlines()
    assert head[:2] == ["ply", "format binary_little_endian 1.0"]
    assert "comment axes: opengl: x right, y up, z back; metres" in head
    assert "comment model: a test" in head
    assert any("fx 60.00 fy 50.00 cx 30.00 cy 25.50 for 64 x 48 pixels" in line for line in head)
    assert all(len(line) < 256 for line in head)
    assert load_mesh(path).vertices[-1] == pytest.approx([2.2, -4 * 21.5 / 50, -4.0])


def record_in(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    length = int.from_bytes(content[12:16], "little")
    tree = json.loads(content[20 : 20 + length])
    assert tree["extensionsUsed"] == ["KHR_materials_unlit"]
    extras: dict[str, Any] = tree["asset"]["extras"]
    return extras


def test_glb_has_the_size_of_the_scene_with_y_up(tmp_path: Path) -> None:
    path = write("glb", tmp_path, WALL)
    (surface,) = load_mesh(path).geometry.values()
    low, high = surface.bounds
    assert low == pytest.approx([-3 * 30 / 60, -3 * 21.5 / 50, -3.0])
    assert high == pytest.approx([3 * 33 / 60, 3 * 25.5 / 50, -3.0])
    assert surface.area == pytest.approx(3.15 * 2.82, rel=1e-4)
    assert surface.face_normals[:, 2].min() == pytest.approx(1.0)  # all look back to the camera
    assert record_in(path)["axes"] == "opengl: x right, y up, z back; metres"


def test_glb_is_cut_at_depth_edges(tmp_path: Path) -> None:
    path = write("glb", tmp_path, axes="opencv")
    (surface,) = load_mesh(path).geometry.values()
    corners = surface.vertices[surface.faces]  # (F, 3, 3)
    assert np.ptp(corners[..., 2], axis=1).max() == 0  # no triangle from the box to the wall
    assert set(surface.vertices[:, 2]) == {2.0, 4.0}
    assert record_in(path)["axes"].startswith("opencv")


def test_glb_wears_the_picture(tmp_path: Path) -> None:
    (surface,) = load_mesh(write("glb", tmp_path, WALL)).geometry.values()
    photo = np.asarray(surface.visual.material.baseColorTexture.convert("RGB")).astype(int)
    assert photo.shape == (*SIZE, 3)
    assert np.abs(photo - WALL.image).max() < 16  # a JPEG
    corner = surface.vertices[:, :2] @ [1, -1]
    assert surface.visual.uv[corner.argmax()] == pytest.approx(
        [63.5 / 64, 0.5 / 48], abs=1e-6
    )  # lower right


def test_a_large_mesh_is_thinned_and_says_so(tmp_path: Path) -> None:
    path = write("glb", tmp_path, WALL, grid=32)
    (surface,) = load_mesh(path).geometry.values()
    assert len(surface.vertices) == 24 * 32
    assert record_in(path)["every_nth_pixel"] == 2
    assert surface.vertices[0] == pytest.approx([3 * (1 - 30) / 60, 3 * (25.5 - 1) / 50, -3.0])


def test_a_surface_that_is_nowhere_is_an_error(tmp_path: Path) -> None:
    alone = np.zeros(SIZE, np.float32)
    alone[10, 10] = 1.0
    with pytest.raises(InputError, match=r"room_mesh\.glb: no surface; every pixel is cut"):
        write("glb", tmp_path, replace(RESULT, depth=alone))


# The viewer


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def depth_of(data: dict[str, Any]) -> NDArray[np.float64]:
    steps = np.frombuffer(zlib.decompress(base64.b64decode(data["depth"])), "<u2")
    units = np.cumsum(steps.reshape(data["grid"]), axis=1, dtype=np.uint16)
    return units * np.float64(data["metres_per_unit"])


def test_the_page_holds_the_depth(tmp_path: Path) -> None:
    data = data_of(write("html", tmp_path).read_text("utf-8"))
    expected = np.where(geometry.is_present(RESULT.depth), RESULT.depth, 0)
    assert depth_of(data) == pytest.approx(expected, abs=data["metres_per_unit"])
    edges = np.frombuffer(zlib.decompress(base64.b64decode(data["edges"])), np.uint8)
    assert np.array_equal(edges.reshape(SIZE), geometry.is_between(RESULT.depth))


def test_a_large_page_is_thinned_along_its_rays(tmp_path: Path) -> None:
    page = write("html", tmp_path, grid=32).read_text("utf-8")
    data = data_of(page)
    assert (data["grid"], data["first"], data["step"]) == ([24, 32], 1, 2)
    assert data["camera"] == [30.0, 25.0, 14.5, 12.25]
    assert depth_of(data) == pytest.approx(RESULT.depth[1::2, 1::2], abs=data["metres_per_unit"])
    assert "depth of one pixel of 2 x 2 of 64 x 48" in page


def test_the_page_loads_nothing_and_runs_nothing_but_its_own_scripts(tmp_path: Path) -> None:
    page = write("html", tmp_path).read_text("utf-8")
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy
    assert policy[1].startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    assert re.search(r"script-src 'sha256-\S{44}' 'sha256-\S{44}';", policy[1])
    references = re.findall(r'(?:src|href|action)\s*=\s*"(.{0,40})', page)
    assert all(reference.startswith("data:image/jpeg;base64,") for reference in references)
    elsewhere = set(re.findall(r"(?:https?:)?//[\w-]+\.[\w.-]+", page))
    assert elsewhere <= {"http://www.w3.org"}  # the name of SVG, which is no address
    assert "url(" not in page.partition("<script")[0]
    assert len(page) < 1_000_000


def test_facts_cannot_become_markup(tmp_path: Path) -> None:
    facts = {"picture": "</script><b>&$name", "model": '"><img src=x onerror=alert(1)>'}
    page = write("html", tmp_path, replace(RESULT, facts=facts)).read_text("utf-8")
    assert "<title>&lt;/script&gt;&lt;b&gt;&amp;$name: depth</title>" in page
    assert "<img src=x" not in page
    assert page.count("</script>") == 3


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None or importlib.util.find_spec("playwright") is None:
        pytest.skip("needs playwright and Chromium")
    from playwright.sync_api import sync_playwright

    gpu = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *gpu])
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens the viewer of a result offline; what it complains of fails the test."""
    context = browser.new_context(viewport={"width": 1000, "height": 800}, offline=True)
    complaints: list[str] = []

    def opened(result: Result) -> Any:
        path = write("html", tmp_path, result)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        requests: list[str] = []
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready='3d']", timeout=60_000)
        page.wait_for_timeout(500)
        assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
        return page

    yield opened
    context.close()
    assert complaints == []


def at(page: Any, view: str, row: int, column: int) -> tuple[float, float]:
    box = page.locator(view).bounding_box()
    height, width = SIZE
    return (
        box["x"] + (column + 0.5) / width * box["width"],
        box["y"] + (row + 0.5) / height * box["height"],
    )


@pytest.mark.browser
@pytest.mark.slow
def test_metres_are_under_the_cursor_and_between_two_clicks(open_page: Any) -> None:
    page = open_page(RESULT)
    reading = page.locator("#reading")
    page.mouse.move(*at(page, "#picture", 20, 30))
    assert reading.inner_text().startswith("Pixel 30, 20: depth 2.00\u202fm")
    page.mouse.move(*at(page, "#depth", 40, 5))
    assert reading.inner_text().startswith("Pixel 5, 40: depth 4.00\u202fm")
    page.mouse.move(*at(page, "#depth", 0, 0))
    assert reading.inner_text() == "Pixel 0, 0: no depth."
    page.mouse.click(*at(page, "#picture", 40, 0))
    page.mouse.click(*at(page, "#depth", 40, 60))
    assert "Between the marks: 4.00\u202fm." in reading.inner_text()  # 60 pixels at fx 60, 4 m
    page.locator("#clear").click()
    page.mouse.move(1, 1)
    assert reading.inner_text().startswith("Point at a pixel")


@pytest.mark.browser
@pytest.mark.slow
def test_the_cloud_is_drawn_and_turns(open_page: Any) -> None:
    page = open_page(WALL)
    stage = page.locator("#stage")

    def shot() -> NDArray[np.int64]:
        page.wait_for_timeout(400)
        data = page.evaluate("document.querySelector('#stage canvas').toDataURL()")
        content = base64.b64decode(data.partition(",")[2])
        return np.asarray(Image.open(io.BytesIO(content)).convert("RGBA")).astype(np.int64)

    first = shot()
    share = (first[..., 3] > 0).mean()
    assert 0.1 < share < 0.9
    assert np.ptp(first[first[..., 3] > 0][:, 0]) > 150  # red grows across the picture
    stage.focus()
    page.keyboard.press("ArrowRight")
    assert np.abs(shot() - first).max() > 50
    page.locator("[name=colour][value='1']").check(force=True)
    shades = shot()
    assert (
        len({tuple(colour) for colour in shades[shades[..., 3] == 255].tolist()}) < 20
    )  # one depth


@pytest.mark.browser
@pytest.mark.slow
def test_points_of_the_cloud_are_read_and_measured_too(open_page: Any) -> None:
    page = open_page(WALL)
    page.locator("[data-view=camera]").click()
    page.locator("#stage").scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    box = page.locator("#stage").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(x, y)
    page.mouse.click(x + 100, y)
    reading = page.locator("#reading").inner_text()
    assert "depth 3.00\u202fm" in reading
    half = 24 / 50  # of the picture's height, which fills that of the stage, at 1 m
    length = float(reading.partition("Between the marks: ")[2].partition("\u202f")[0])
    assert length == pytest.approx(100 * 2 * half * 3 / box["height"], abs=0.1)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 20, steps=4)
    page.mouse.up()
    assert "Between the marks" in page.locator("#reading").inner_text()  # a drag marks nothing


@pytest.mark.browser
@pytest.mark.slow
def test_a_tap_reads_and_marks(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True)
    page = context.new_page()
    page.goto(write("html", tmp_path).as_uri())
    page.wait_for_selector("html[data-ready='3d']", timeout=60_000)
    page.touchscreen.tap(*at(page, "#picture", 20, 30))
    assert page.locator("#reading").inner_text().startswith("Pixel 30, 20: depth 2.00\u202fm")
    assert page.locator("#reading").inner_text().endswith("One mark set; click a second point.")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390  # nothing sticks out
    context.close()


@pytest.mark.browser
@pytest.mark.slow
def test_a_keyboard_is_enough(open_page: Any) -> None:
    page = open_page(RESULT)
    page.locator("#picture").focus()
    for key in ("ArrowRight", "Enter", "Shift+ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert "Between the marks: 0.37\u202fm." in page.locator("#reading").inner_text()  # 11 px, 2 m
    page.keyboard.press("Escape")
    assert page.locator("#clear").is_hidden()


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("npy", tmp_path)
    before = path.read_bytes()

    def fails(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(np, "save", fails)
    with pytest.raises(OSError, match="disk full") as caught:
        write("npy", tmp_path, WALL)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_legend_is_no_higher_than_its_picture(tmp_path: Path) -> None:
    facts = {f"fact {number}": "some words about the model and its data" for number in range(12)}
    size = (180, 320)
    small = Result(
        image=np.zeros((*size, 3), np.uint8),
        depth=np.full(size, 2.0, np.float32),
        camera=Camera.from_fov(60, size),
        facts=facts,
    )
    with Image.open(write("png", tmp_path, small)) as picture:
        factor = picture.width // 320
        assert factor > 1
        assert picture.height <= 2 * 180 * factor


@pytest.mark.parametrize("blocked", ["room_depth16.png", "room_depth16.json"])
def test_a_16_bit_png_and_its_json_appear_together(blocked: str, tmp_path: Path) -> None:
    (tmp_path / blocked).mkdir()
    with pytest.raises(InputError, match="a folder; the name of a file is needed"):
        write("png16", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [blocked]
