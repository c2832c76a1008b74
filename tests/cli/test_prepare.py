"""`idisc prepare` as a user meets it."""

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.fakes import indoor
from tests.fakes.called import run

from idisc import files


@pytest.fixture
def nyu(tmp_path):
    """Three frames of training and two of test."""
    indoor.nyu(tmp_path / "raw", {"kitchen_0004": 3, "test/office_0001": 2})
    return tmp_path / "raw"


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_counts_beside_the_paper_and_pins_the_manifest(nyu, tmp_path, capsys):
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


def test_a_line_that_comes_again_is_prepared_once(nyu, tmp_path, capsys):
    listing, out = tmp_path / "train.txt", tmp_path / "out"
    listing.write_text("kitchen_0004/rgb_00001.jpg kitchen_0004/sync_depth_00001.png 518\n" * 2)
    assert run("prepare", "nyu", "--raw", nyu, "--out", out, "--list", listing) == 0
    stderr = capsys.readouterr().err
    assert stderr.startswith("1 line of the lists named a pair again, first kitchen_0004/rgb_00001")
    assert len(lines_of(out / "manifest.jsonl")) == 2


def test_help_lists_the_choices_with_their_values(capsys):
    assert run("prepare", "--help") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["depth=annotated|sweep", "kitti"] in lines
    assert ["size=240x320", "synthetic,", "synthetic_normals"] in lines


def children_of(parent):
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended while we looked
            if stat.read_text().rpartition(")")[2].split()[1] == str(parent):
                found.add(int(stat.parent.name))
    return found


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_killed_run_leaves_no_worker_behind(tmp_path, sent, code):
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
        assert "leaked semaphore" not in stderr
        assert wait_for(lambda: not any(map(is_running, children)), seconds=10)
    finally:
        process.kill()
        process.wait()


def test_a_wrong_raw_file_is_reported_at_the_end_and_can_be_replaced(nyu, tmp_path, capsys):
    whole = tmp_path / "whole"
    shutil.copytree(nyu, whole)
    indoor.truncate(nyu / "kitchen_0004/sync_depth_00001.png")
    out = tmp_path / "out"
    call = ("prepare", "nyu", "--raw", nyu, "--out", out)
    assert run(*call) == 2
    stdout, stderr = capsys.readouterr()
    assert stdout.startswith("train     2 pictures")
    assert stderr.startswith(f"idisc: {out / 'missing.txt'}: 1 raw file")
    assert "/sync_depth_00001.png" in stderr
    assert "https://cs.nyu.edu" in stderr
    assert stderr.count("\n") == 1
    assert (out / "missing.txt").read_text().count("\n") == 1
    shutil.copytree(whole, nyu, dirs_exist_ok=True)
    assert run(*call) == 0
    assert capsys.readouterr().out.startswith("train     3 pictures")
    assert not (out / "missing.txt").exists()


def test_bad_calls_are_one_line_and_leave_nothing_behind(nyu, tmp_path, refusal):
    before = sorted(tmp_path.rglob("*"))
    whole = ("nyu", "--raw", nyu, "--out", tmp_path / "out")
    calls = {
        (): "'DATASET'",
        ("nyuu", *whole[1:]): "did you mean nyu",
        ("folder", *whole[1:]): "'folder'",
        whole[:3]: "'--out'",
        ("nyu", *whole[3:]): "--raw",
        ("nyu", "--raw", tmp_path / "none", *whole[3:]): "none'",
        (*whole, "--list", tmp_path / "no"): str(tmp_path / "no"),
        (*whole, "--set", "picture=link"): "did you mean pictures",
        ("kitti", *whole[1:], "--set", "depth=laser"): "annotated",
        (*whole, "--workers", 0): "0 is not in the range",
    }
    for arguments, fact in calls.items():
        assert fact in refusal("prepare", *arguments)
    assert sorted(tmp_path.rglob("*")) == before
