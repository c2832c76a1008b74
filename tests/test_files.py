"""Files: written completely or not at all, hashed, and read with an error that names them."""

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
    """A mask under which files get rw-r----- and folders rwxr-x---."""
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


# One file


def test_new_content_appears_when_the_block_ends(tmp_path, umask):
    path = tmp_path / "deep" / "er" / "note.txt"
    for before, after in ((None, "first"), ("first", "second")):
        with files.atomic(path) as draft:
            draft.write_text(after)
            assert (path.read_text() if path.exists() else None) == before
        assert path.read_text() == after
    assert names_in(path.parent) == ["note.txt"]
    assert mode_of(path) == 0o640
    assert os.umask(umask) == umask  # reading the mask did not change it


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("write", [files.atomic, files.atomic_folder])
def test_nothing_changes_after_an_exception_inside_the_block(tmp_path, write, error):
    def interrupted(path):
        with write(path) as draft:
            (draft / "a.txt" if draft.is_dir() else draft).write_text("half of the n")
            raise error

    path = tmp_path / "note.txt"
    if write is files.atomic:
        path.write_text("old")
    with pytest.raises(error):
        interrupted(path)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["old"] * (write is files.atomic)


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path):
    with refused(InputError, tmp_path), files.atomic(tmp_path):
        pytest.fail("the block must not run")
    assert names_in(tmp_path) == []


# Folders


def test_a_folder_appears_with_all_of_its_files(tmp_path, umask):
    path = tmp_path / "deep" / "run"
    path.mkdir(parents=True)  # an empty folder of that name may exist
    with files.atomic_folder(path) as draft:
        (draft / "inner").mkdir()
        (draft / "inner" / "a.txt").write_text("a")
        assert names_in(path) == []
    assert (path / "inner" / "a.txt").read_text() == "a"
    assert names_in(path.parent) == ["run"]
    assert mode_of(path) == 0o750


@pytest.mark.parametrize("taken", ["run", "run/mine.txt"])
def test_a_file_or_a_folder_that_is_not_empty_is_refused_and_untouched(tmp_path, taken):
    path, mine = tmp_path / "run", tmp_path / taken
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with refused(InputError, path), files.atomic_folder(path):
        pytest.fail("the block must not run")
    assert mine.read_text() == "mine"
    assert names_in(tmp_path) == ["run"]


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
    assert names_in(tmp_path) == ["frames"]
    assert (old / "a.txt").read_text() == "old"


def test_what_appears_in_the_place_of_a_new_folder_is_kept(tmp_path):
    path = tmp_path / "new"
    with pytest.raises((InputError, OSError)), files.atomic_folder(path):
        files.write_json(path / "theirs.json", 1)
    assert names_in(path) == ["theirs.json"]


# Disks


@contextmanager
def small_files():
    """No file can grow beyond 4,096 bytes, also the log of the tests: a full disk."""
    resource = pytest.importorskip("resource", reason="limits of Unix")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def write_with_numpy(path):
    with path.open("wb") as file:
        np.zeros(10_000).tofile(file)  # its error has no reason


@pytest.mark.parametrize(
    ("context", "write", "reason"),
    [
        (files.atomic, lambda draft: draft.write_bytes(bytes(10_000)), "too large"),
        (files.atomic, write_with_numpy, "is the disk full"),
        (
            files.atomic_folder,
            lambda draft: files.write_json(draft / "a.json", "x" * 10_000),
            "too large",
        ),
    ],
)
def test_a_full_disk_is_an_error_of_the_file_and_leaves_nothing(tmp_path, context, write, reason):
    path = tmp_path / "large"
    with pytest.raises(OSError, match=reason) as caught, small_files(), context(path) as draft:
        write(draft)
    assert caught.value.filename == str(path)
    assert names_in(tmp_path) == []


def test_an_error_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(OSError, match=r"none\.txt"), files.atomic(tmp_path / "copy.txt") as draft:
        draft.write_bytes((tmp_path / "none.txt").read_bytes())


def test_a_place_that_cannot_be_written_is_found_before_any_work(tmp_path):
    files.check_writable(tmp_path / "new" / "er" / "model.onnx")
    files.check_writable(tmp_path)
    assert names_in(tmp_path) == []
    (tmp_path / "note.txt").write_text("mine")
    files.check_writable(tmp_path / "note.txt")
    for check in (files.check_writable, files.check_new_folder):
        with refused(InputError, tmp_path / "note.txt" / "model.onnx", "note.txt"):
            check(tmp_path / "note.txt" / "model.onnx")
        if Path("/proc/self").is_dir():
            with refused(InputError, "/proc/x.onnx"):
                check(Path("/proc/x.onnx"))


# Contents


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


@pytest.mark.parametrize("content", [None, b"", b'{"a": 1', b"\xff\xfe"])
def test_a_missing_or_broken_json_file_is_named_in_one_line(tmp_path, content):
    path = tmp_path / "broken.json"
    if content is not None:
        path.write_bytes(content)
    with refused(InputError, path):
        files.read_json(path)
