"""The viewer: what the page holds, and what a person can do with it in a real browser."""

import base64
import json
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest
from tests.fakes import browsing
from tests.fakes.predicted import DEPTH, RESULT, SIZE, WALL, provenance, write

from idisc import geometry
from idisc.scale import read_scale

LENGTH = "Between the marks: "


def data_of(page):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def depth_of(data):
    steps = np.frombuffer(zlib.decompress(base64.b64decode(data["depth"])), "<u2")
    units = np.cumsum(steps.reshape(data["grid"]), axis=1, dtype=np.uint16)
    return units * np.float64(data["metres_per_unit"])


def test_the_page_holds_the_depth(tmp_path):
    data = data_of(write("html", tmp_path).read_text("utf-8"))
    expected = np.where(geometry.is_present(DEPTH), DEPTH, 0)
    assert depth_of(data) == pytest.approx(expected, abs=data["metres_per_unit"])
    edges = np.frombuffer(zlib.decompress(base64.b64decode(data["edges"])), np.uint8)
    assert np.array_equal(edges.reshape(SIZE), geometry.is_between(DEPTH))


def test_a_large_page_is_thinned_along_its_rays(tmp_path):
    page = write("html", tmp_path, grid=32).read_text("utf-8")
    data = data_of(page)
    assert (data["grid"], data["first"], data["step"]) == ([24, 32], 1, 2)
    assert data["camera"] == [30.0, 25.0, 14.5, 12.25]
    assert depth_of(data) == pytest.approx(DEPTH[1::2, 1::2], abs=data["metres_per_unit"])
    assert "depth of one pixel of 2 x 2 of 48x64 (height x width)" in page


def test_the_page_loads_nothing_and_runs_nothing_but_its_own_scripts(tmp_path):
    page = write("html", tmp_path).read_text("utf-8")
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy
    assert policy[1].startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    assert re.search(r"script-src( 'sha256-\S{44}'){3};", policy[1])
    references = re.findall(r'(?:src|href|action)\s*=\s*"(.{0,40})', page)
    assert all(reference.startswith("data:image/jpeg;base64,") for reference in references)
    elsewhere = set(re.findall(r"(?:https?:)?//[\w-]+\.[\w.-]+", page))
    assert elsewhere <= {"http://www.w3.org"}  # the name of SVG, which is no address
    assert "url(" not in page.partition("<script")[0]
    assert len(page) < 1_000_000


def test_names_cannot_become_markup(tmp_path):
    made = provenance("</script><b>&$name", name='"><img src=x onerror=alert(1)>')
    page = write("html", tmp_path, replace(RESULT, provenance=made)).read_text("utf-8")
    assert "<title>&lt;/script&gt;&lt;b&gt;&amp;$name: depth</title>" in page
    assert "<img src=x" not in page
    assert page.count("</script>") == 4


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens the viewer of a result offline; what it complains of fails the test."""
    size = {"width": 1000, "height": 800}
    context = browsing.new_context(browser, viewport=size, offline=True)
    complaints = []

    def opened(result):
        path = write("html", tmp_path, result)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        requests = []
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready='3d']")
        browsing.at_rest(page, "#stage canvas")
        assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
        return page

    yield opened
    context.close()
    assert complaints == []


def at(page, view, row, column):
    box = page.locator(view).bounding_box()
    height, width = SIZE
    return (
        box["x"] + (column + 0.5) / width * box["width"],
        box["y"] + (row + 0.5) / height * box["height"],
    )


def colours_of(picture):
    """How many there are, of pixels that are drawn: one depth has few."""
    return len({tuple(colour) for colour in picture[picture[..., 3] == 255].tolist()})


@pytest.mark.browser
def test_metres_are_under_the_cursor_and_between_two_clicks(open_page):
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
def test_known_distances_rescale_the_page_and_are_offered_for_the_next_photo(open_page, tmp_path):
    page = open_page(RESULT)

    def add(end, metres):
        page.mouse.click(*at(page, "#picture", 40, 0))
        page.mouse.click(*at(page, "#depth", 40, end))
        page.locator("#true-metres").fill(metres)
        page.keyboard.press("Enter")

    add(60, "8")  # predicted 4 m: twice as much
    page.mouse.move(*at(page, "#depth", 40, 5))
    assert page.locator("#reading").inner_text().startswith("Pixel 5, 40: depth 8.00\u202fm")
    option = page.locator("#distance-list code").inner_text()
    assert option == '--known-distance "0,40 60,40 = 8m"'
    assert page.locator(".ticks span").last.inner_text() == "8\u202fm"
    add(30, "4.5")  # predicted 2 m
    assert "2 distances, whose factors differ by 12.5" in page.locator("#distances").inner_text()
    with page.expect_download() as download:
        page.locator("#scale-download").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    found = read_scale(path)
    assert path.name == "room_scale.json"
    assert found.scale.factor == pytest.approx((2 * 2.25) ** 0.5, rel=1e-3)
    assert [known.metres for known in found.scale.known] == [8.0, 4.5]
    page.locator("#scale-reset").click()
    page.mouse.move(*at(page, "#depth", 40, 6))
    assert page.locator("#reading").inner_text().startswith("Pixel 6, 40: depth 4.00\u202fm")


@pytest.mark.browser
def test_the_cloud_is_drawn_and_turns(open_page):
    page = open_page(WALL)

    def stage():
        return browsing.pixels(page, "#stage canvas")

    first = stage()
    share = (first[..., 3] > 0).mean()
    assert 0.1 < share < 0.9
    assert np.ptp(first[first[..., 3] > 0][:, 0]) > 150  # red grows across the picture
    page.locator("#stage").focus()
    page.keyboard.press("ArrowRight")
    turned = browsing.eventually(stage, lambda seen: np.abs(seen - first).max() > 50)
    assert np.abs(turned - first).max() > 50
    page.locator("[name=colour][value='1']").check(force=True)
    assert browsing.eventually(lambda: colours_of(stage()), lambda count: count < 20) < 20


@pytest.mark.browser
def test_points_of_the_cloud_are_read_and_measured_too(open_page):
    page = open_page(WALL)
    page.locator("[data-view=camera]").click()
    page.locator("#stage").scroll_into_view_if_needed()
    browsing.at_rest(page, "#stage canvas")
    box = page.locator("#stage").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(x, y)
    page.mouse.click(x + 100, y)
    reading = browsing.eventually(page.locator("#reading").inner_text, lambda text: LENGTH in text)
    assert "depth 3.00\u202fm" in reading
    half = 24 / 50  # of the picture's height, which fills that of the stage, at 1 m
    length = float(reading.partition(LENGTH)[2].partition("\u202f")[0])
    assert length == pytest.approx(100 * 2 * half * 3 / box["height"], abs=0.1)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 20, steps=4)
    page.mouse.up()
    assert "Between the marks" in page.locator("#reading").inner_text()  # a drag marks nothing


@pytest.mark.browser
def test_a_tap_shows_depth_and_sets_a_mark(browser, tmp_path):
    size = {"width": 390, "height": 800}
    context = browsing.new_context(browser, viewport=size, has_touch=True)
    page = context.new_page()
    page.goto(write("html", tmp_path).as_uri())
    page.wait_for_selector("html[data-ready='3d']")
    page.touchscreen.tap(*at(page, "#picture", 20, 30))
    assert page.locator("#reading").inner_text().startswith("Pixel 30, 20: depth 2.00\u202fm")
    assert page.locator("#reading").inner_text().endswith("One mark set; click a second point.")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390  # nothing sticks out
    context.close()


@pytest.mark.browser
def test_the_page_works_with_the_keyboard_alone(open_page):
    page = open_page(RESULT)
    page.locator("#picture").focus()
    for key in ("ArrowRight", "Enter", "Shift+ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert "Between the marks: 0.37\u202fm." in page.locator("#reading").inner_text()  # 11 px, 2 m
    page.keyboard.press("Escape")
    assert page.locator("#clear").is_hidden()
