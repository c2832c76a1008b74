"""Files: written whole or not at all, hashed, and read with an error that names them."""

import os
import stat
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.fakes.refusals import refused

from idisc import files
from idisc.errors import InputError


@pytest.fixture
def umask():
    """A mask under which files come out as rw-r----- and folders as rwxr-x---."""
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def write_half(path, error):
    with files.atomic(path) as draft:
        draft.write_text("half of the n")
        raise error


def write_half_a_folder(path):
    with files.atomic_folder(path) as draft:
        (draft / "a.txt").write_text("a")
        raise RuntimeError("torn")


def test_new_content_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "deep" / "er" / "note.txt"
    for before in (None, "first"):
        with files.atomic(path) as draft:
            draft.write_text("second" if before else "first")
            assert (path.read_text() if path.exists() else None) == before
    assert path.read_text() == "second"
    assert names_in(path.parent) == ["note.txt"]


@pytest.mark.parametrize("error", [RuntimeError("torn"), KeyboardInterrupt()])
def test_old_content_survives_an_exception_inside_the_block(tmp_path, error):
    path = tmp_path / "note.txt"
    path.write_text("old")
    with pytest.raises(type(error)):
        write_half(path, error)
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["note.txt"]


def test_a_file_gets_the_permissions_of_the_users_other_files(tmp_path, umask):
    with files.atomic(tmp_path / "note.txt") as draft:
        draft.write_text("new")
    assert mode_of(tmp_path / "note.txt") == 0o640
    assert os.umask(umask) == umask  # looking at the mask did not change it


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path):
    with pytest.raises(InputError) as caught, files.atomic(tmp_path):
        pytest.fail("the block must not run")
    assert str(caught.value) == f"{tmp_path}: a folder; the name of a file is needed"
    assert names_in(tmp_path) == []


def test_a_folder_appears_with_all_of_its_files(tmp_path, umask):
    path = tmp_path / "deep" / "run"
    with files.atomic_folder(path) as draft:
        (draft / "inner").mkdir()
        (draft / "inner" / "a.txt").write_text("a")
        (draft / "b.txt").write_text("b")
        assert not path.exists()
    assert names_in(path) == ["b.txt", "inner"]
    assert (path / "inner" / "a.txt").read_text() == "a"
    assert names_in(path.parent) == ["run"]
    assert mode_of(path) == 0o750


def test_an_empty_folder_of_that_name_is_taken(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    with files.atomic_folder(path) as draft:
        (draft / "a.txt").write_text("a")
    assert names_in(path) == ["a.txt"]
    assert names_in(tmp_path) == ["run"]


@pytest.mark.parametrize("taken", ["run", "run/mine.txt"])
def test_a_folder_with_something_in_it_or_a_file_is_refused_and_untouched(tmp_path, taken):
    path, mine = tmp_path / "run", tmp_path / taken
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with refused(InputError, path), files.atomic_folder(path):
        pytest.fail("the block must not run")
    assert mine.read_text() == "mine"
    assert names_in(tmp_path) == ["run"]


def test_nothing_is_left_of_a_folder_after_an_exception(tmp_path):
    with pytest.raises(RuntimeError, match="torn"):
        write_half_a_folder(tmp_path / "run")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "digest"),
    [
        (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        # by sha256sum: two MiB of zeros, more than is read at once
        (bytes(1 << 21), "5647f05ec18958947d32874eeb788fa396a05d0bab7c1b71f112ceb7e9b31eee"),
    ],
)
def test_sha256_is_that_of_the_standard(tmp_path, content, digest):
    path = tmp_path / "bytes.bin"
    path.write_bytes(content)
    assert files.sha256(path) == digest


def test_json_is_written_indented_and_read_back(tmp_path):
    path = tmp_path / "value.json"
    files.write_json(path, {"a": [1, None], "b": "ü"})
    lines = ["{", '  "a": [', "    1,", "    null", "  ],", '  "b": "\\u00fc"', "}", ""]
    assert path.read_bytes().decode() == "\n".join(lines)
    assert files.read_json(path) == {"a": [1, None], "b": "ü"}


def test_a_value_that_is_not_json_leaves_the_old_file(tmp_path):
    path = tmp_path / "value.json"
    files.write_json(path, 1)
    with pytest.raises(TypeError, match="not JSON serializable"):
        files.write_json(path, object())
    assert files.read_json(path) == 1
    assert names_in(tmp_path) == ["value.json"]


def test_a_missing_json_file_is_named(tmp_path):
    with refused(InputError, tmp_path / "none.json"):
        files.read_json(tmp_path / "none.json")
    with refused(InputError, tmp_path):
        files.read_json(tmp_path)


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe"])
def test_a_broken_json_file_is_named_in_one_line(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with refused(InputError, path):
        files.read_json(path)


@contextmanager
def small_files():
    """No file grows beyond 4,096 bytes meanwhile, the log of the tests neither: a full disk."""
    resource = pytest.importorskip("resource", reason="limits of Unix")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_an_error_of_the_file_and_leaves_nothing(tmp_path):
    path = tmp_path / "large.txt"
    with (
        pytest.raises(OSError, match="File too large") as caught,
        small_files(),
        files.atomic(path) as draft,
    ):
        draft.write_bytes(bytes(10_000))
    assert caught.value.filename == str(path)
    with (
        pytest.raises(OSError, match="is the disk full") as caught,
        small_files(),
        files.atomic(path) as draft,
        draft.open("wb") as file,
    ):
        np.zeros(10_000).tofile(file)
    assert caught.value.filename == str(path)
    assert names_in(tmp_path) == []


def test_a_full_disk_in_a_folder_names_the_folder(tmp_path):
    path = tmp_path / "run"
    with (
        pytest.raises(OSError, match="too large") as caught,
        small_files(),
        files.atomic_folder(path) as draft,
    ):
        files.write_json(draft / "inner.json", "x" * 10_000)
    assert caught.value.filename == str(path)
    assert names_in(tmp_path) == []


def test_an_error_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(OSError, match=r"none\.txt"), files.atomic(tmp_path / "copy.txt") as draft:
        draft.write_bytes((tmp_path / "none.txt").read_bytes())


def test_a_place_that_cannot_be_written_is_told_before_any_work(tmp_path):
    files.check_writable(tmp_path / "new" / "er" / "model.onnx")
    files.check_writable(tmp_path)
    assert names_in(tmp_path) == []
    (tmp_path / "note.txt").write_text("mine")
    files.check_writable(tmp_path / "note.txt")
    with refused(InputError, tmp_path / "note.txt" / "model.onnx", "note.txt"):
        files.check_writable(tmp_path / "note.txt" / "model.onnx")
    if Path("/proc/self").is_dir():
        with refused(InputError, "/proc/x.onnx"):
            files.check_writable(Path("/proc/x.onnx"))


def test_a_folder_that_cannot_be_replaced_stays(tmp_path, monkeypatch):
    old = tmp_path / "frames"
    old.mkdir()
    (old / "a.txt").write_text("old")
    move = Path.replace

    def fail(self, target):
        if self.suffix == ".part":
            raise PermissionError(13, "denied")
        return move(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises((InputError, OSError)), files.atomic_folder(old, replace=True) as draft:
        (draft / "a.txt").write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["frames"]
    assert (old / "a.txt").read_text() == "old"


def test_what_appears_in_the_place_of_a_new_folder_is_kept(tmp_path):
    path = tmp_path / "new"

    def write():
        with files.atomic_folder(path):
            path.mkdir()
            (path / "b.txt").write_text("theirs")

    with pytest.raises((InputError, OSError)):
        write()
    assert [each.name for each in path.iterdir()] == ["b.txt"]
