"""What a person would do with a page: wait a little longer on a busy machine, and look again."""

import base64
import io
import time
from typing import TypeVar

import numpy as np
from PIL import Image

PATIENCE_S = 90.0  # nothing takes a second on an idle machine
Seen = TypeVar("Seen")


def new_context(browser, **options):
    """A window of its own, whose pages are waited for with patience."""
    context = browser.new_context(**options)
    context.set_default_timeout(1000 * PATIENCE_S)
    return context


def eventually(look, expected):
    """What is seen once it is as expected, or last when patience ends."""
    end = time.monotonic() + PATIENCE_S
    while not expected(seen := look()) and time.monotonic() < end:
        time.sleep(0.05)
    return seen


def pixels(page, selector):
    """RGBA of a canvas."""
    data = page.locator(selector).first.evaluate("(canvas) => canvas.toDataURL()")
    content = base64.b64decode(data.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGBA")).astype(np.int64)


def at_rest(page, selector):
    """The same, once it has something on it and has stopped moving."""
    seen = [eventually(lambda: pixels(page, selector), lambda drawn: drawn[..., 3].any())]

    def look():
        page.wait_for_timeout(150)
        seen.append(pixels(page, selector))
        return np.array_equal(seen[-1], seen.pop(0))

    eventually(look, bool)
    return seen[-1]
