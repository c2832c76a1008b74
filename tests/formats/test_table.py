"""The table of formats: names, what they need, complete files or none, documented."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.fakes.predicted import RESULT, SIZE, WALL, write
from tests.fakes.refusals import refused

from idisc import formats
from idisc.errors import InputError
from idisc.formats import FORMATS, FormatOptions

DOCS = Path(__file__).parents[2] / "docs" / "prediction.md"
FAR = replace(RESULT, depth=np.full(SIZE, 300.0, np.float32))


def names(paths):
    return sorted(path.name for path in paths)


def test_every_format_of_a_prediction_is_a_file_with_its_suffix(tmp_path):
    complete = replace(RESULT, level_std=np.full(SIZE, 0.1, np.float32)).with_normals()
    rows = [row for row in FORMATS.values() if not row.package]
    written = formats.save(complete, tmp_path / "new", "room", rows)
    assert names(written) == names(list((tmp_path / "new").iterdir()))
    sidecars = {"room_depth16.json", "room_depth.json"}
    assert {path.name for path in written} == {f"room{row.suffix}" for row in rows} | sidecars
    for row in rows:
        content = formats.encode(complete, row)
        assert next(iter(content)) == row.suffix
        if row.name != "npz":  # whose zip file has the time of its entries
            assert (tmp_path / "new" / f"room{row.suffix}").read_bytes() == content[row.suffix]


def test_names_are_parsed_from_one_text_or_several():
    assert [row.name for row in formats.parse(" npy, PLY,,npy")] == ["npy", "ply"]
    assert [row.name for row in formats.parse(["html,png16", "Png"])] == ["html", "png16", "png"]
    for wrong in ("", " , ", [], "npy,pgn", "webp", "jpg", "png8"):
        with pytest.raises(InputError):
            formats.parse(wrong)


@pytest.mark.parametrize("name", ["uncertainty", "ply"])
def test_nothing_is_written_if_a_format_lacks_what_it_needs(name, tmp_path):
    empty = replace(RESULT, depth=np.zeros(SIZE, np.float32))
    with refused(InputError, f"format {name}"):
        formats.save(empty, tmp_path, "room", formats.parse(f"npz,{name}"))
    assert not list(tmp_path.iterdir())


def test_a_failed_format_does_not_prevent_the_others(tmp_path):
    with refused(InputError, "format png16", tmp_path / "room_depth.npy"):
        formats.save(FAR, tmp_path, "room", formats.parse("png16,npy"))
    assert names(list(tmp_path.iterdir())) == ["room_depth.json", "room_depth.npy"]


@pytest.mark.parametrize(
    "options",
    [{"limits": (5.0, 1.0)}, {"axes": "opengle"}, {"edge": 0.0}, {"metres_per_unit": -1.0}],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InputError):
        FormatOptions(**options)


@pytest.mark.parametrize("blocked", ["room_depth16.png", "room_depth16.json"])
def test_the_files_of_a_format_appear_together(blocked, tmp_path):
    (tmp_path / blocked).mkdir()
    with pytest.raises(InputError):
        write("png16", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [blocked]


def test_a_failed_write_leaves_the_old_files(tmp_path, monkeypatch):
    path = write("npy", tmp_path)
    before = path.read_bytes()

    def fails(*_):
        raise OSError(28, "disk full")

    monkeypatch.setattr(Path, "write_bytes", fails)
    with pytest.raises(OSError, match="disk full") as caught:
        write("npy", tmp_path, WALL)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert names(list(tmp_path.iterdir())) == ["room_depth.json", path.name]


@pytest.mark.parametrize("name", ["../evil", "a/b", "/tmp/evil", "a/", "", ".", ".."])
def test_a_name_does_not_lead_out_of_the_folder(tmp_path, name):
    with refused(InputError, f"name '{name}'"):
        formats.save(RESULT, tmp_path / "out", name, formats.parse("npy"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x.png", "x.NPY", "x.html"])
def test_a_file_name_is_refused_as_a_folder_unless_it_exists(tmp_path, name):
    with refused(InputError, tmp_path / name):
        write("npy", tmp_path / name)
    (tmp_path / name).mkdir()
    assert write("npy", tmp_path / name).is_file()


def test_the_documentation_lists_every_format():
    listed = re.findall(
        r"^\| `(\w+)` \| `(\S+)` \| (\S*) \| (\S*) \| (.*?) \|$", DOCS.read_text(), re.M
    )
    assert listed == [
        (row.name, row.suffix, "yes" * row.in_video, "yes" * row.on_web, row.description)
        for row in FORMATS.values()
    ]
