"""What tests of several rooms share: a browser, if there is one."""

import importlib.util
import shutil

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine is no error
settings.load_profile("untimed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SOFTWARE = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")


@pytest.fixture(scope="module")  # its loop is that of the main thread: nobody else's asyncio runs
def browser():
    """The system's Chromium, drawing in software; tests are skipped without it."""
    if CHROMIUM is None:
        pytest.skip("no chromium on the path")
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("playwright is not installed; it comes with the extra dev")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        options = ["--no-sandbox", *SOFTWARE]
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=options, timeout=120_000)
        yield chromium
        chromium.close()
