"""Grey photos in a folder, and readers for the results of a call."""

import json

import numpy as np
from PIL import Image


def three_photos(place):
    """Make the folder `photos` with two photos, and a third one in a subfolder."""
    for name, shade in (("a.png", 50), ("b.jpg", 100), ("deep/c.png", 150)):
        path = place / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (shade, shade, shade)).save(path)
    return place / "photos"


def shown(folder):
    """Return the names of the visible files of a folder."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def metres(path):
    """Return the median depth of a 16-bit PNG, with the factor in its JSON file."""
    values = np.asarray(Image.open(path))
    assert values.dtype == np.uint16
    record = json.loads(path.with_suffix(".json").read_text())
    return float(np.median(values)) * float(record["metres_per_unit"])
