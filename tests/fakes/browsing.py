"""Helpers for tests in a browser, which wait as long as a busy machine needs."""

import base64
import io
import time
from typing import TypeVar

import numpy as np
from PIL import Image

PATIENCE_S = 90.0  # an idle machine needs less than a second
Seen = TypeVar("Seen")


def new_context(browser, **options):
    """Open a window of its own."""
    context = browser.new_context(**options)
    context.set_default_timeout(1000 * PATIENCE_S)
    return context


def eventually(look, expected):
    """Return what `look` returns, as soon as it is as expected or when the time is over."""
    end = time.monotonic() + PATIENCE_S
    while not expected(seen := look()) and time.monotonic() < end:
        time.sleep(0.05)
    return seen


def pixels(page, selector):
    """Return the RGBA of a canvas."""
    data = page.locator(selector).first.evaluate("(canvas) => canvas.toDataURL()")
    content = base64.b64decode(data.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGBA")).astype(np.int64)


def at_rest(page, selector):
    """Return the RGBA of a canvas that is not empty and has stopped changing."""
    seen = [eventually(lambda: pixels(page, selector), lambda drawn: drawn[..., 3].any())]

    def look():
        page.wait_for_timeout(150)
        seen.append(pixels(page, selector))
        return np.array_equal(seen[-1], seen.pop(0))

    eventually(look, bool)
    return seen[-1]
