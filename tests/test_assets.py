"""What lies in the package beside its code: example photos that may be passed on."""

from importlib import resources
from pathlib import Path

import pytest

from idisc.images import read_photo

EXAMPLES = Path(str(resources.files("idisc").joinpath("assets", "examples")))
PHOTOS = sorted(path.name for path in EXAMPLES.glob("*.jpg"))


def test_there_are_a_few_photos_and_they_are_small():
    assert 3 <= len(PHOTOS) <= 5
    assert sum(path.stat().st_size for path in EXAMPLES.iterdir()) < 1_200_000


@pytest.mark.parametrize("name", PHOTOS)
def test_a_photo_can_be_read_names_no_camera_and_is_free_to_pass_on(name):
    table = (EXAMPLES / "CREDITS.md").read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in table if line.startswith(f"| `{name}` |"))
    _, _, licence, author, source = (cell.strip() for cell in line.strip("|").split("|"))
    assert licence.startswith(("[CC0 1.0]", "[CC BY 4.0]", "[BSD 2-clause]"))
    assert author
    assert source.startswith("https://")
    photo = read_photo(EXAMPLES / name)
    assert min(photo.size) >= 480
    assert photo.lens.focal_35mm is None
    assert photo.notes == ()
