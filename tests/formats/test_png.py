"""`formats.png`: what is written is what Pillow reads."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from idisc.formats.png import png_bytes


@pytest.mark.parametrize(("kind", "channels"), [(np.uint8, (3,)), (np.uint16, ())])
@pytest.mark.parametrize("size", [(1, 1), (300, 7), (512, 3)])  # bands of 256 rows
def test_pillow_reads_the_same_pixels_and_texts(kind, channels, size):
    values = np.random.default_rng(0).integers(0, np.iinfo(kind).max, (*size, *channels), kind)
    content = png_bytes(values[::-1], {"unit": "metre"}, Description="depth")
    with Image.open(io.BytesIO(content)) as picture:
        assert np.array_equal(np.asarray(picture), values[::-1])
        assert picture.info["Description"] == "depth"
        assert json.loads(picture.info["idisc"]) == {"unit": "metre"}
