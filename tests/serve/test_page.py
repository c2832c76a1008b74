"""The page in a browser: uploads, readings, downloads, IDRs, errors, keyboard and touch."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from tests.fakes import browsing, served
from tests.fakes.browsing import pixels
from tests.fakes.served import running

from idisc.formats import FORMATS

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PHOTO = {"name": "room.png", "mimeType": "image/png", "buffer": served.png(served.ramp(96, 128))}


@pytest.fixture(scope="module")
def url():
    with running() as (_, url):
        yield url


class Tab:
    """A page in a window of its own, its errors, and its requests to other servers."""

    def __init__(self, browser, url, **options):
        options.setdefault("viewport", {"width": 900, "height": 640})
        self.context = browsing.new_context(browser, **options)
        self.page, self.url = self.context.new_page(), url
        self.errors = []
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._check(request.url))
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready='intake']")

    def _check(self, address):
        if not address.startswith((self.url, "data:", "blob:")):
            self.errors.append(f"requests {address}")

    def upload(self, **changes):
        self.page.set_input_files("#file", PHOTO | changes)

    def predict(self):
        self.upload()
        self.page.wait_for_selector("html[data-ready='3d']")
        self.page.locator("#status").wait_for(state="hidden")
        return self.page

    def explore(self):
        self.predict()
        self.page.locator("#look").click()
        self.page.locator("#explorer").wait_for()
        return self.page

    def position(self, view, across, down=0.5):
        """The coordinates of a point of an element, given as shares of its size."""
        self.page.locator(view).scroll_into_view_if_needed()
        box = self.page.locator(view).bounding_box()
        return box["x"] + across * box["width"], box["y"] + down * box["height"]

    def mute(self, idr, level=0):
        """Pin an IDR and mute it."""
        self.page.locator(f".idr[data-level='{level}'][data-idr='{idr}']").click()
        self.page.locator("#mute").click()

    def show(self, name, value):
        """Choose a radio button."""
        self.page.locator(f"[name={name}][value={value}]").check(force=True)

    def download(self, kind):
        """Download a format; return the name and the content of the file."""
        with self.page.expect_download() as waiting:
            self.page.locator(f"[data-format={kind}]").click()
        return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()

    def tab_to(self, selector, back=False):
        """Move the focus with the tab key."""
        for _ in range(60):
            if self.page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
                return
            self.page.keyboard.press("Shift+Tab" if back else "Tab")
        raise AssertionError(f"{selector} cannot be reached with the tab key")

    def wait_for(self, selector, text):
        self.page.locator(selector, has_text=text).wait_for()

    def read(self, selector):
        return self.page.locator(selector).inner_text().replace("\u202f", " ")


@pytest.fixture
def open_tab(browser):
    """Open tabs that end without errors; refused requests are `expected` in the console."""
    tabs = []

    def open_tab(url, expected="none", **options):
        tabs.append((Tab(browser, url, **options), expected))
        return tabs[-1][0]

    yield open_tab
    for tab, expected in tabs:
        tab.context.close()
        assert [text for text in tab.errors if expected not in text] == []


@pytest.fixture
def tab(open_tab, url):
    return open_tab(url)


def test_depth_is_read_at_the_cursor(tab):
    page = tab.predict()
    assert tab.read("#title") == "room.png"
    assert "Camera: assumed 60 deg" in tab.read("#lead")
    assert "red (sha256" in tab.read("#provenance")
    page.mouse.move(*tab.position("#picture", 64.5 / 128))
    expected = 1 + served.ramp(96, 128)[0, 64, 0] / 100
    assert tab.read("#reading").startswith(f"Pixel 64, 48: depth {expected:.2f} m")
    page.locator("#blend").fill("50")
    opacity = "getComputedStyle(document.querySelector('#picture .over')).opacity"
    assert page.evaluate(opacity) == "0.5"


def test_a_photo_can_be_dropped(tab):
    drop = """(content) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([Uint8Array.from(content)], "dropped.png"));
      dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
    }"""
    tab.page.evaluate(drop, list(PHOTO["buffer"]))
    tab.page.wait_for_selector("html[data-ready='3d']")
    assert tab.read("#title") == "dropped.png"


def test_known_distances_rescale_the_page_and_its_downloads(tab):
    page = tab.predict()

    def mark():
        page.mouse.click(*tab.position("#picture", 0.25))
        page.mouse.click(*tab.position("#depth", 0.75))

    def enter(metres):
        page.locator("#true-metres").fill(str(metres))
        page.keyboard.press("Enter")

    assert page.locator("#true-distance").is_hidden()
    mark()
    before = float(tab.read("#reading").partition("Between the marks: ")[2].split(" m")[0])
    enter(2 * before)
    mark()
    enter(8 * before)
    end = "the mean of 2 distances, whose factors differ by 300.0 %."
    assert tab.read("#scale-summary").endswith(end)
    name, content = tab.download("npy")
    assert name == "room_rescaled_depth.npy"
    expected = 4 * (1 + served.ramp(96, 128)[..., 0] / 100)
    assert np.load(io.BytesIO(content)) == pytest.approx(expected, rel=0.02)
    page.locator("#scale-reset").click()
    assert page.locator("#distances").is_hidden()
    assert tab.download("npy")[0] == "room_depth.npy"


def test_every_format_can_be_downloaded(tab):
    tab.predict()
    for row in (row for row in FORMATS.values() if row.on_web):
        name, content = tab.download(row.name)
        assert (name, len(content) > 100) == (f"room{row.suffix}", True)


def test_the_cloud_turns_and_normals_are_shown(tab):
    page = tab.predict()
    before = browsing.at_rest(page, "#stage canvas")
    assert 0.1 < (before[..., 3] > 0).mean() < 0.95
    page.locator("#stage").focus()
    page.keyboard.press("ArrowRight")
    turned = browsing.eventually(
        lambda: pixels(page, "#stage canvas"), lambda seen: np.abs(seen - before).max() > 50
    )
    assert np.abs(turned - before).max() > 50
    tab.show("shown", "normals")
    picture = page.locator("#depth .normals")
    picture.wait_for()
    picture.evaluate("(image) => image.decode()")
    assert picture.evaluate("(image) => image.naturalWidth") == 128
    assert "down green" in tab.read("#shown-note")


def test_a_failed_request_for_normals_is_reported_and_a_full_queue_is_waited_for(open_tab, url):
    tab = open_tab(url, expected="status of 4")
    page = tab.predict()
    answers = [
        {"status": 404, "json": {"error": "this result is not kept any more"}},
        {"status": 429, "json": {"error": "full"}, "headers": {"Retry-After": "1"}},
    ]
    page.route("**/file?format=normals", lambda route: route.fulfill(**answers.pop(0)), times=2)
    tab.show("shown", "normals")
    tab.wait_for("#message", "this result is not kept any more")
    assert page.locator("[name=shown][value=depth]").is_checked()
    assert page.locator("#depth .normals").is_hidden()
    tab.show("shown", "normals")
    tab.wait_for("#message", "The server is busy")
    page.locator("#depth .normals").wait_for()
    page.locator("#status").wait_for(state="hidden")
    assert answers == []


def test_the_idrs_of_a_pixel_are_shown_with_their_maps(tab):
    page = tab.explore()
    page.mouse.move(*tab.position("#explored", 0.1))
    assert tab.read("#belongs") == (
        "Pixel 12, 48 belongs to: level 0: IDR 0 100 %, IDR 1 0 %, IDR 2 0 %;"
        " level 1: IDR 0 80 %, IDR 1 10 %, IDR 2 10 %."
    )
    page.mouse.move(*tab.position("#explored", 0.9))
    strong = page.locator(".idr.strong").evaluate_all("all => all.map(x => x.dataset.idr)")
    assert strong == ["2", "2"]
    darkness = pixels(page, ".level .spot canvas")[..., 3]  # of the coarse level
    assert darkness[:, :10].min() > 200
    assert darkness[:, 12:].max() == 0
    tab.show("kind", "attention")
    page.mouse.move(*tab.position("#explored", 0.9))
    assert "reads: level 0: IDR 2 80 %" in tab.read("#belongs")


def test_a_muted_idr_changes_depth(tab):
    page = tab.explore()
    whole = pixels(page, "#without canvas")
    tab.mute(0, level=1)
    idr = page.locator(".idr[data-level='1'][data-idr='0']")
    assert idr.get_attribute("aria-pressed") == "true"
    page.mouse.move(1, 1)
    assert tab.read("#explored-title") == "IDR 0 of level 1, pinned"
    assert pixels(page, "#explored .dim")[:, -3:, 3].min() > 200
    tab.wait_for("#effect-note", "1 muted:")
    assert tab.read("#effect-note").endswith("at 99 % of the pixels by up to 0.50 m")
    changed = np.abs(pixels(page, "#without canvas") - whole).sum(axis=2)
    assert (changed[:, 5:40] > 0).mean() > 0.9
    assert (changed[:, 50:] > 20).mean() == 0
    tab.show("effect", "change")
    colours = pixels(page, "#without canvas")
    assert (colours[:, :40, 0] - colours[:, :40, 2]).min() > 100  # orange: farther
    page.mouse.move(*tab.position("#without", 0.1))
    tag = page.locator("#without .tag").nth(1).inner_text()
    assert tag.replace("\u202f", " ") == "+0.50 m"
    page.locator("#unmute").click()
    tab.wait_for("#effect-note", "nothing is muted")


def test_a_refused_muting_changes_nothing(open_tab, url):
    tab = open_tab(url, expected="400")
    page = tab.explore()
    for idr in range(3):
        tab.mute(idr)
        tab.wait_for("#effect-note", f"{min(idr + 1, 2)} muted:")
    assert tab.read("#message").startswith("level 0: all 3 IDRs muted")
    assert page.locator(".idr.muted").count() == 2
    assert tab.read("#mute") == "Mute"
    tab.mute(0)
    tab.wait_for("#effect-note", "1 muted:")
    page.locator("#status").wait_for(state="hidden")  # the error is gone


def test_an_unreachable_server_is_reported(open_tab, url):
    tab = open_tab(url, expected="ERR_FAILED")
    page = tab.predict()
    page.route("**/results/**", lambda route: route.abort())
    for control in ("[data-format=npy]", "#look"):
        page.locator(control).click()
        page.locator("#status.bad").wait_for()
        assert tab.read("#message") == "The server cannot be reached. Is it still running?"
        page.evaluate("document.querySelector('#status').classList.remove('bad')")


def test_all_controls_work_with_the_keyboard(tab):
    page = tab.predict()
    assert page.locator("#spoken").text_content() == "Depth is ready."
    tab.tab_to("#look")
    page.keyboard.press("Enter")
    page.locator("#explorer:focus").wait_for()
    tab.tab_to(".idr[data-level='0'][data-idr='0']")
    for key in ("ArrowRight", "Enter", "m"):
        page.keyboard.press(key)
    tab.wait_for("#effect-note", "1 muted:")
    label = page.locator(".idr[data-level='0'][data-idr='1']").get_attribute("aria-label")
    expected = "IDR 1 of level 0 dominates in 38 % of the pixels; muted."
    assert label.replace("\u202f", " ") == expected
    page.keyboard.press("Escape")
    assert page.locator(".idr[aria-pressed=true]").count() == 0
    page.keyboard.press("ArrowLeft")
    two_columns = "(group) => { group.style.gridTemplateColumns = '1fr 1fr'; }"
    page.locator(".idrs").first.evaluate(two_columns)
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.idr") == "2"
    tab.tab_to("#picture", back=True)
    for key in ("ArrowRight", "Enter", "Shift+ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert "Between the marks:" in tab.read("#reading")
    tab.tab_to("#true-metres")
    page.keyboard.press("Enter")
    page.locator("#distances").wait_for()
    tab.tab_to("#scale-reset")
    page.keyboard.press("Enter")
    page.locator("#distances").wait_for(state="hidden")
    unlabelled = """() => [...document.querySelectorAll("button, input, [role=application], a")]
      .filter((control) => !control.closest("[hidden]"))
      .filter((control) => !(control.ariaLabel || control.textContent.trim()
        || control.labels?.length || control.querySelector("img")?.alt))
      .map((control) => control.outerHTML)"""
    assert page.evaluate(unlabelled) == []


def test_after_a_refused_file_the_page_still_works(open_tab):
    with running(upload_mb=0.5) as (_, url):
        tab = open_tab(url, expected="400")
        tab.upload(name="notes.txt", mimeType="text/plain", buffer=b"hello")
        tab.page.locator("#status.bad").wait_for()
        expected = "notes.txt: not a picture, or its first bytes are damaged"
        assert tab.read("#message") == expected
        tab.upload(name="large.png", buffer=bytes(600_000))
        tab.wait_for("#message", "large.png: 0.6 MB, at most 0.5 here")
        tab.predict()


def test_a_full_queue_is_shown_and_waited_for(open_tab):
    with running(queue=1) as (server, url):
        server.engine.go.clear()
        first, second = open_tab(url), open_tab(url, expected="429")
        first.upload()
        first.wait_for("#message", "Computing depth")
        second.upload()
        second.wait_for("#message", "The server is busy; trying again")
        assert "soon" in second.page.locator("#spoken").text_content()  # and no countdown
        server.engine.go.set()
        for tab in (first, second):
            tab.page.wait_for_selector("html[data-ready='3d']")


def test_a_prediction_can_be_stopped_while_it_is_computed_or_drawn(open_tab):
    with running() as (server, url):
        tab = open_tab(url)
        page = tab.page

        def upload_and_stop(message):
            tab.upload(name="hall.png")
            tab.wait_for("#message", message)
            page.locator("#stop").click()
            page.locator("#status").wait_for(state="hidden")

        server.engine.go.clear()
        upload_and_stop("Computing depth")
        server.engine.go.set()
        tab.predict()
        page.route("**/view", lambda _: None)  # never answered
        upload_and_stop("Drawing.")
        page.unroute("**/view")
        assert tab.read("#title") == "room.png"
        assert tab.download("npy")[0] == "room_depth.npy"
        browsing.eventually(
            lambda: page.request.get(f"{url}/metrics").text(),
            lambda text: "idisc_results_kept 1.0" in text,  # the stopped one is dropped
        )
        tab.explore()


def test_a_model_without_idrs_is_explained(open_tab):
    with running(explorer=False) as (_, url):
        tab = open_tab(url)
        page = tab.predict()
        assert tab.read("#inside-lead").endswith("name the checkpoint folder it was made from")
        assert page.locator("#look").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_and_works_by_touch(open_tab, url, scheme):
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    tab = open_tab(url, color_scheme=scheme, **phone)
    page = tab.explore()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.touchscreen.tap(*tab.position("#picture", 0.5))
    assert "depth" in tab.read("#reading")
    page.touchscreen.tap(*tab.position("#explored", 0.1))
    assert tab.read("#explored-title") == "IDR 0 of level 0, pinned"
    page.locator("#mute").tap()
    tab.wait_for("#effect-note", "1 muted:")
    assert tab.read("#belongs").startswith("Pixel ")  # the reading of the tap stays
    header = page.locator("header").screenshot()
    corner = np.asarray(Image.open(io.BytesIO(header)).convert("L"))[0, 0]
    assert (corner > 128) == (scheme == "light")
