"""The page in a real browser, offline but for its own server: everything a person can do there."""

import io
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the extra serve is not installed")
import uvicorn
from tests.fakes import browsing, served
from tests.fakes.browsing import pixels

from idisc.formats import FORMATS

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PHOTO = {"name": "room.png", "mimeType": "image/png", "buffer": served.png(served.ramp(96, 128))}


class Running:
    """A server of this process, in a thread of its own."""

    def __init__(self, server):
        self.engine, self.app = server.engine, server.app
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        # h11 and no websockets: what is installed beside it does not matter
        config = uvicorn.Config(server.app, log_level="error", http="h11", ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.listening],))

    def __enter__(self):
        self.thread.start()
        while not self.server.started and self.thread.is_alive():
            time.sleep(0.01)
        assert self.server.started
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(browsing.PATIENCE_S)
        self.listening.close()


@pytest.fixture(scope="module")
def running():
    with Running(served.serve()) as server:
        yield server


class Opened:
    """A page, and what it complained of or asked for elsewhere."""

    def __init__(self, browser, url, **options):
        options.setdefault("viewport", {"width": 900, "height": 640})
        self.context = browsing.new_context(browser, **options)
        self.page, self.url = self.context.new_page(), url
        self.complaints = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready='intake']")

    def _asked(self, url):
        if not url.startswith((self.url, "data:", "blob:")):
            self.complaints.append(f"asks for {url}")

    def upload(self):
        self.page.set_input_files("#file", PHOTO)
        self.page.wait_for_selector("html[data-ready='3d']")
        self.page.locator("#status").wait_for(state="hidden")
        return self.page

    def explore(self):
        self.upload()
        self.page.locator("#look").click()
        self.page.locator("#explorer").wait_for()
        return self.page

    def at(self, view, across, down):
        self.page.locator(view).scroll_into_view_if_needed()
        box = self.page.locator(view).bounding_box()
        return box["x"] + across * box["width"], box["y"] + down * box["height"]

    def tab_to(self, selector, back=False):
        """With the tab key alone."""
        for _ in range(60):
            if self.page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
                return
            self.page.keyboard.press("Shift+Tab" if back else "Tab")
        raise AssertionError(f"{selector}: not among the stops of the tab key")

    def read(self, selector):
        text = self.page.locator(selector).inner_text()
        return text.replace("\u202f", " ")


@pytest.fixture
def opened(browser, running):
    page = Opened(browser, running.url)
    yield page
    page.context.close()
    assert page.complaints == []


def test_a_photo_becomes_metres_under_the_cursor(opened):
    page = opened.upload()
    assert opened.read("#title") == "room.png"
    assert "Camera: assumed 60 deg" in opened.read("#lead")
    page.mouse.move(*opened.at("#picture", 64.5 / 128, 0.5))
    expected = 1 + served.ramp(96, 128)[0, 64, 0] / 100
    assert opened.read("#reading").startswith(f"Pixel 64, 48: depth {expected:.2f} m")
    page.locator("#blend").fill("50")
    over = "getComputedStyle(document.querySelector('#picture .over')).opacity"
    assert page.evaluate(over) == "0.5"
    assert "red (sha256" in opened.read("#provenance")


def test_a_photo_can_be_dropped(opened):
    opened.page.evaluate(
        """(content) => {
          const carried = new DataTransfer();
          carried.items.add(new File([Uint8Array.from(content)], "dropped.png"));
          dispatchEvent(new DragEvent("drop", { dataTransfer: carried, cancelable: true }));
        }""",
        list(PHOTO["buffer"]),
    )
    opened.page.wait_for_selector("html[data-ready='3d']")
    assert opened.read("#title") == "dropped.png"


def add_distance(opened, end, metres):
    opened.page.mouse.click(*opened.at("#picture", 0.25, 0.5))
    opened.page.mouse.click(*opened.at("#depth", end, 0.5))
    opened.page.locator("#true-metres").fill(str(metres))
    opened.page.keyboard.press("Enter")


def test_known_distances_rescale_the_page_and_its_downloads(opened):
    page = opened.upload()
    page.mouse.click(*opened.at("#picture", 0.25, 0.5))
    assert page.locator("#true-distance").is_hidden()
    page.mouse.click(*opened.at("#depth", 0.75, 0.5))
    before = float(opened.read("#reading").partition("Between the marks: ")[2].split(" m")[0])
    page.locator("#clear").click()
    add_distance(opened, 0.75, 2 * before)
    add_distance(opened, 0.75, 8 * before)
    end = "the mean of 2 distances, whose factors differ by 300.0 %."
    assert opened.read("#scale-summary").endswith(end)
    with page.expect_download() as waiting:
        page.locator("[data-format=npy]").click()
    assert waiting.value.suggested_filename == "room_rescaled_depth.npy"
    scaled = np.load(waiting.value.path())
    assert scaled == pytest.approx(4 * (1 + served.ramp(96, 128)[..., 0] / 100), rel=0.02)
    with page.expect_download() as waiting:
        page.locator("[data-format=ply]").click()
    assert b"comment rescaled: depth x" in Path(waiting.value.path()).read_bytes()
    page.locator("#scale-reset").click()
    assert page.locator("#distances").is_hidden()
    with page.expect_download() as waiting:
        page.locator("[data-format=npy]").click()
    assert waiting.value.suggested_filename == "room_depth.npy"


def test_every_format_is_downloaded(opened):
    page = opened.upload()
    starts = {
        ".png": b"\x89PNG",
        ".npy": b"\x93NUMPY",
        ".npz": b"PK",
        ".ply": b"ply",
        ".glb": b"glTF",
    }
    for row in (row for row in FORMATS.values() if row.on_web):
        with page.expect_download() as waiting:
            page.locator(f"[data-format={row.name}]").click()
        assert Path(waiting.value.path()).read_bytes().startswith(starts[row.ending])
        assert waiting.value.suggested_filename == f"room{row.suffix}"


def test_the_cloud_turns_and_normals_are_shown(opened):
    page = opened.upload()
    first = browsing.at_rest(page, "#stage canvas")
    assert 0.1 < (first[..., 3] > 0).mean() < 0.95
    page.locator("#stage").focus()
    page.keyboard.press("ArrowRight")
    turned = browsing.eventually(
        lambda: pixels(page, "#stage canvas"), lambda seen: np.abs(seen - first).max() > 50
    )
    assert np.abs(turned - first).max() > 50
    page.locator("[name=shown][value=normals]").check(force=True)
    picture = page.locator("#depth .normals")
    picture.wait_for()
    picture.evaluate("(image) => image.decode()")
    assert picture.evaluate("(image) => image.naturalWidth") == 128
    assert "down green" in opened.read("#shown-note")


def test_normals_wait_for_a_full_line_and_say_why_they_do_not_come(browser, running):
    opened = Opened(browser, running.url)
    page, address = opened.upload(), "**/file?format=normals"
    normals = page.locator("[name=shown][value=normals]")
    answers = [
        {"status": 404, "json": {"error": "this result is not kept any more"}},
        {"status": 429, "json": {"error": "full"}, "headers": {"Retry-After": "1"}},
    ]
    page.route(address, lambda route: route.fulfill(**answers.pop(0)), times=2)
    normals.check(force=True)
    page.locator("#message", has_text="this result is not kept any more").wait_for()
    assert page.locator("[name=shown][value=depth]").is_checked()
    assert page.locator("#depth .normals").is_hidden()
    normals.check(force=True)
    page.locator("#message", has_text="The server is busy").wait_for()
    page.locator("#depth .normals").wait_for()
    page.locator("#status").wait_for(state="hidden")
    assert answers == []
    opened.context.close()


def test_a_pixel_names_its_idrs_and_their_maps(opened):
    page = opened.explore()
    page.mouse.move(*opened.at("#explored", 0.1, 0.5))
    assert opened.read("#belongs") == (
        "Pixel 12, 48 belongs to: level 0: IDR 0 100 %, IDR 1 0 %, IDR 2 0 %;"
        " level 1: IDR 0 80 %, IDR 1 10 %, IDR 2 10 %."
    )
    page.mouse.move(*opened.at("#explored", 0.9, 0.5))
    assert page.locator(".idr.strong").evaluate_all("all => all.map(x => x.dataset.idr)") == [
        "2",
        "2",
    ]
    dark = pixels(page, ".level .spot canvas")[..., 3]  # of the coarse level
    assert dark[:, :10].min() > 200
    assert dark[:, 12:].max() == 0
    page.locator("[name=kind][value=attention]").check(force=True)
    page.mouse.move(*opened.at("#explored", 0.9, 0.5))
    assert "reads: level 0: IDR 2 80 %" in opened.read("#belongs")


def test_an_idr_is_pinned_and_muted_and_depth_changes(opened):
    page = opened.explore()
    whole = pixels(page, "#without canvas")
    idr = page.locator(".idr[data-level='1'][data-idr='0']")
    idr.click()
    assert idr.get_attribute("aria-pressed") == "true"
    page.mouse.move(1, 1)
    assert opened.read("#explored-title") == "IDR 0 of level 1, pinned"
    assert pixels(page, "#explored .dim")[:, -3:, 3].min() > 200
    page.locator("#mute").click()
    page.locator("#effect-note", has_text="1 muted:").wait_for()
    assert opened.read("#effect-note").endswith("at 99 of 100 pixels up to 0.50 m")
    changed = np.abs(pixels(page, "#without canvas") - whole).sum(axis=2)
    assert (changed[:, 5:40] > 0).mean() > 0.9
    assert (changed[:, 50:] > 20).mean() == 0
    page.locator("[name=effect][value=change]").check(force=True)
    shades = pixels(page, "#without canvas")
    assert (shades[:, :40, 0] - shades[:, :40, 2]).min() > 100  # orange: farther
    page.mouse.move(*opened.at("#without", 0.1, 0.5))
    tag = page.locator("#without .tag").nth(1).inner_text()
    assert tag.replace("\u202f", " ") == "+0.50 m"
    page.locator("#unmute").click()
    page.locator("#effect-note", has_text="nothing is muted").wait_for()


def test_a_refused_muting_leaves_all_as_it_was(browser, running):
    opened = Opened(browser, running.url)
    page = opened.explore()
    for idr in range(3):
        page.locator(f".idr[data-level='0'][data-idr='{idr}']").click()
        page.locator("#mute").click()
        page.locator("#effect-note", has_text=f"{min(idr + 1, 2)} muted:").wait_for()
    assert opened.read("#message").startswith("level 0: all 3 IDRs muted")
    assert page.locator(".idr.muted").count() == 2
    assert opened.read("#mute") == "Mute it"
    page.locator(".idr[data-level='0'][data-idr='0']").click()
    page.locator("#mute").click()
    page.locator("#effect-note", has_text="1 muted:").wait_for()
    page.locator("#status").wait_for(state="hidden")  # that refusal is over
    # The browser itself notes it in its console
    assert [text for text in opened.complaints if "400" not in text] == []
    opened.context.close()


def test_one_tap_of_a_finger_mutes(browser, running):
    options = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    opened = Opened(browser, running.url, **options)
    page = opened.explore()
    page.locator("#explored").tap()
    page.locator("#mute").tap()
    page.locator("#effect-note", has_text="1 muted:").wait_for()
    assert opened.read("#belongs").startswith("Pixel ")  # the reading of the tap stays
    opened.context.close()


def test_a_server_that_is_gone_is_said_whatever_is_asked(browser, running):
    opened = Opened(browser, running.url)
    page = opened.upload()
    page.route("**/results/**", lambda route: route.abort())
    for control in ("[data-format=npy]", "#look"):
        page.locator(control).click()
        page.locator("#status.bad").wait_for()
        assert opened.read("#message") == "The server cannot be reached; does it still run?"
        page.evaluate("document.querySelector('#status').classList.remove('bad')")
    opened.context.close()


def test_the_page_works_with_the_keyboard_alone(opened):
    page = opened.upload()
    assert page.locator("#spoken").text_content() == "Depth is ready."
    opened.tab_to("#look")
    page.keyboard.press("Enter")
    page.locator("#explorer:focus").wait_for()
    opened.tab_to(".idr[data-level='0'][data-idr='0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.press("m")
    page.locator("#effect-note", has_text="1 muted:").wait_for()
    label = page.locator(".idr[data-level='0'][data-idr='1']").get_attribute("aria-label")
    assert label.replace("\u202f", " ") == (
        "IDR 1 of level 0 has most of 38 % of the pixels; muted."
    )
    page.keyboard.press("Escape")
    assert page.locator(".idr[aria-pressed=true]").count() == 0
    page.keyboard.press("ArrowLeft")
    two_columns = "(each) => { each.style.gridTemplateColumns = '1fr 1fr'; }"
    page.locator(".idrs").first.evaluate(two_columns)
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.idr") == "2"
    opened.tab_to("#picture", back=True)
    for key in ("ArrowRight", "Enter", "Shift+ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert "Between the marks:" in opened.read("#reading")
    opened.tab_to("#true-metres")
    page.keyboard.press("Enter")
    page.locator("#distances").wait_for()
    opened.tab_to("#scale-reset")
    page.keyboard.press("Enter")
    page.locator("#distances").wait_for(state="hidden")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, [role=application], a")]
          .filter((each) => !each.closest("[hidden]"))
          .filter((each) => !(each.ariaLabel || each.textContent.trim() || each.labels?.length
            || each.querySelector("img")?.alt))
          .map((each) => each.outerHTML)"""
    )
    assert unnamed == []


def test_a_file_that_is_no_photo_is_named_and_the_page_goes_on(browser):
    with Running(served.serve(upload_mb=0.5)) as running:
        opened = Opened(browser, running.url)
        bad = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"hello"}
        opened.page.set_input_files("#file", bad)
        opened.page.locator("#status.bad").wait_for()
        message = "notes.txt: not a picture, or its first bytes are damaged"
        assert opened.read("#message") == message
        large = {"name": "large.png", "mimeType": "image/png", "buffer": bytes(600_000)}
        opened.page.set_input_files("#file", large)
        opened.page.locator("#message", has_text="large.png: 0.6 MB, at most 0.5 here").wait_for()
        opened.upload()
        # The browser itself notes the refusal in its console
        assert [text for text in opened.complaints if "400" not in text] == []
        opened.context.close()


def test_a_full_line_is_told_and_waited_for(browser):
    with Running(served.serve(queue=1)) as running:
        running.engine.go.clear()
        first, second = Opened(browser, running.url), Opened(browser, running.url)
        first.page.set_input_files("#file", PHOTO)
        first.page.locator("#message", has_text="Computing depth").wait_for()
        second.page.set_input_files("#file", PHOTO)
        second.page.locator("#message", has_text="The server is busy; trying again").wait_for()
        assert "soon" in second.page.locator("#spoken").text_content()  # and no countdown
        running.engine.go.set()
        for each in (first, second):
            each.page.wait_for_selector("html[data-ready='3d']")
            assert [text for text in each.complaints if "429" not in text] == []
            each.context.close()


def test_waiting_can_be_stopped(browser):
    with Running(served.serve()) as running:
        running.engine.go.clear()
        opened = Opened(browser, running.url)
        opened.page.set_input_files("#file", PHOTO)
        opened.page.locator("#message", has_text="Computing depth").wait_for()
        opened.page.locator("#stop").click()
        opened.page.locator("#status").wait_for(state="hidden")
        running.engine.go.set()
        opened.upload()
        assert opened.complaints == []
        opened.context.close()


def test_a_photo_stopped_while_it_is_drawn_leaves_the_one_before(browser):
    with Running(served.serve()) as running:
        opened = Opened(browser, running.url)
        page = opened.upload()
        page.route("**/view", lambda _: None)  # never answered
        page.set_input_files("#file", PHOTO | {"name": "hall.png"})
        page.locator("#message", has_text="Drawing.").wait_for()
        page.locator("#stop").click()
        page.locator("#status").wait_for(state="hidden")
        page.unroute("**/view")
        assert opened.read("#title") == "room.png"
        with page.expect_download() as waiting:
            page.locator("[data-format=npy]").click()
        assert waiting.value.suggested_filename == "room_depth.npy"
        browsing.eventually(
            lambda: page.request.get(f"{running.url}/metrics").text(),
            lambda text: "idisc_results_kept 1.0" in text,  # nobody can ask for the other
        )
        opened.explore()
        assert opened.complaints == []
        opened.context.close()


def test_a_model_without_idrs_says_so(browser):
    with Running(served.serve(explorer=False)) as running:
        opened = Opened(browser, running.url)
        page = opened.upload()
        assert opened.read("#inside-lead").endswith("name the checkpoint folder it was made from")
        assert page.locator("#look").is_hidden()
        opened.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_room_for_all_of_it(browser, running, scheme):
    options = {"viewport": {"width": 360, "height": 740}, "has_touch": True}
    opened = Opened(browser, running.url, color_scheme=scheme, **options)
    page = opened.explore()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.touchscreen.tap(*opened.at("#picture", 0.5, 0.5))
    assert "depth" in opened.read("#reading")
    page.touchscreen.tap(*opened.at("#explored", 0.1, 0.5))
    assert opened.read("#explored-title") == "IDR 0 of level 0, pinned"
    content = page.locator("header").screenshot()
    corner = np.asarray(Image.open(io.BytesIO(content)).convert("L"))[0, 0]
    assert (corner > 128) == (scheme == "light")
    opened.context.close()
    assert opened.complaints == []
