"""`idisc prepare` as a user meets it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.fakes import indoor
from tests.fakes.called import run

from idisc import files


@pytest.fixture
def nyu(tmp_path: Path) -> Path:
    """Three frames of training and two of test."""
    indoor.nyu(tmp_path / "raw", {"kitchen_0004": 3, "test/office_0001": 2})
    return tmp_path / "raw"


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_counts_beside_the_paper_and_pins_the_manifest(
    nyu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run("prepare", "nyu", "--raw", nyu, "--out", out) == 0
    stdout, stderr = capsys.readouterr()
    valid = "91.7% of the pixels valid"  # two of 24 rows have no depth
    assert stdout.splitlines() == [
        f"train     3 pictures (the paper: 24,231), {valid}",
        f"test      2 pictures (the paper: 654), {valid}",
        f"manifest  {out / 'manifest.jsonl'}",
        f"sha256    {files.sha256(out / 'manifest.jsonl')}",
    ]
    assert stderr == ""
    header, *records = lines_of(out / "manifest.jsonl")
    assert header["dataset"] == "nyu"
    assert len(records) == 5


def test_the_same_command_again_changes_nothing(
    nyu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ("prepare", "nyu", "--raw", nyu, "--out", tmp_path / "out")
    assert run(*call) == 0
    first = capsys.readouterr().out
    assert run(*call) == 0
    assert capsys.readouterr().out == first
    assert run(*call, "--set", "pictures=link") == 2
    assert "out: prepared with other choices; name a new folder" in capsys.readouterr().err


def test_a_list_decides_which_pictures_are_taken(
    nyu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listing = tmp_path / "nyu_train.txt"
    listing.write_text("/kitchen_0004/rgb_00001.jpg /kitchen_0004/sync_depth_00001.png 518.8579\n")
    out = tmp_path / "out"
    assert run("prepare", "nyu", "--raw", nyu, "--out", out, "--list", listing) == 0
    assert capsys.readouterr().out.startswith("train     1 picture (the paper: 24,231)")
    (record,) = lines_of(out / "manifest.jsonl")[1:]
    assert record["image"] == "rgb/kitchen_0004/rgb_00001.jpg"


def test_a_line_that_comes_again_is_prepared_once(
    nyu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listing, out = tmp_path / "train.txt", tmp_path / "out"
    listing.write_text("kitchen_0004/rgb_00001.jpg kitchen_0004/sync_depth_00001.png 518\n" * 2)
    assert run("prepare", "nyu", "--raw", nyu, "--out", out, "--list", listing) == 0
    stderr = capsys.readouterr().err
    assert stderr.startswith("1 line of the lists named a pair again, first kitchen_0004/rgb_00001")
    assert len(lines_of(out / "manifest.jsonl")) == 2


def test_rendered_pictures_need_no_raw_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ("prepare", "synthetic", "--set", "count=2", "--set", "size=32x40")
    assert run(*call, "--out", tmp_path / "out") == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()[:2]] == [
        "train     1 picture",
        "test      1 picture",
    ]
    assert run(*call, "--raw", tmp_path, "--out", tmp_path / "other") == 2
    assert "leave out --raw" in capsys.readouterr().err


def test_help_lists_the_choices_with_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("prepare", "--help") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["depth=annotated|sweep", "kitti"] in lines
    assert ["size=240x320", "synthetic,", "synthetic_normals"] in lines


def children_of(parent: int) -> set[int]:
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended while we looked
            if stat.read_text().rpartition(")")[2].split()[1] == str(parent):
                found.add(int(stat.parent.name))
    return found


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_a_killed_run_leaves_no_worker_behind(
    tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    call = [sys.executable, "-m", "idisc", "prepare", "synthetic", "--workers", "2"]
    call += ["--set", "count=4000", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(call, stderr=subprocess.PIPE, text=True)
    try:
        notes = tmp_path / "out/rgb"
        assert wait_for(lambda: notes.is_dir() and any(notes.glob("*.png")))
        children = children_of(process.pid)
        assert len(children) >= 2
        process.send_signal(sent)
        _, stderr = process.communicate(timeout=30)
        assert process.returncode == code
        if sent == signal.SIGTERM:
            assert stderr.strip() == "idisc: interrupted"
        assert wait_for(lambda: not any(map(is_running, children)), seconds=10)
    finally:
        process.kill()
        process.wait()


def test_a_wrong_raw_file_is_reported_at_the_end_and_can_be_replaced(
    nyu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(nyu, whole)
    indoor.truncate(nyu / "kitchen_0004/sync_depth_00001.png")
    out = tmp_path / "out"
    call = ("prepare", "nyu", "--raw", nyu, "--out", out)
    assert run(*call) == 2
    stdout, stderr = capsys.readouterr()
    assert stdout.startswith("train     2 pictures")
    assert stderr.startswith("idisc: 1 raw file missing or unreadable, listed in")
    assert "/sync_depth_00001.png: damaged or cut short" in stderr
    assert "get them from https://cs.nyu.edu" in stderr
    assert stderr.count("\n") == 1
    assert (out / "missing.txt").read_text().count("\n") == 1
    shutil.copytree(whole, nyu, dirs_exist_ok=True)
    assert run(*call) == 0
    assert capsys.readouterr().out.startswith("train     3 pictures")
    assert not (out / "missing.txt").exists()


def test_bad_calls_are_one_line_and_leave_nothing_behind(
    nyu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, bare, taken = tmp_path / "empty.txt", tmp_path / "bare", tmp_path / "taken"
    empty.write_text("\n")
    bare.mkdir()
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    to = ("--out", tmp_path / "out")
    raw = ("--raw", nyu)
    calls: dict[tuple[object, ...], str] = {
        ("prepare",): "Missing argument 'DATASET'",
        ("prepare", "nyuu", *raw, *to): "dataset 'nyuu' does not exist; did you mean nyu",
        ("prepare", "folder", *raw, *to): "'folder', your own pairs, needs no preparation",
        ("prepare", "nyu", *raw): "Missing option '--out'",
        ("prepare", "nyu", *to): "nyu: the extracted archive, <scene>/rgb_NNNNN.jpg",
        ("prepare", "nyu", "--raw", tmp_path / "none", *to): "none' does not exist",
        ("prepare", "nyu", "--raw", bare, *to): "bare: nothing of nyu in it; the extracted",
        ("prepare", "ddad", *raw, *to): "raw: nothing of ddad in it; ddad.json",
        ("prepare", "nyu", *raw, "--out", nyu / "x"): "where raw files are looked for",
        ("prepare", "nyu", *raw, "--out", taken): "taken: exists already; choose another name",
        ("prepare", "nyu", *raw, *to, "--list", empty): "empty.txt: an empty list",
        ("prepare", "nyu", *raw, *to, "--list", tmp_path / "no"): "no: no such list file",
        ("prepare", "nyu", *raw, *to, "--set", "picture=link"): "did you mean pictures",
        ("prepare", "kitti", *raw, *to, "--set", "depth=laser"): "'laser' is not one of annotated",
        (
            "prepare",
            "nyu",
            *raw,
            *to,
            "--set",
            "seed=99",
        ): "'seed' does not exist; choose from",
        ("prepare", "nyu", *raw, *to, "--workers", 0): "0 is not in the range",
    }
    for arguments, message in calls.items():
        assert run(*arguments) == 2, arguments
        stdout, stderr = capsys.readouterr()
        assert stdout == ""
        assert stderr.count("\n") == 1, stderr
        assert message in stderr
    assert sorted(tmp_path.rglob("*")) == before
