"""`idisc doctor` as a user meets it."""

import numpy as np
import pytest
from PIL import Image
from tests.fakes.called import run


@pytest.fixture
def folder(tmp_path):
    """Four pairs of a slope with stripes, three to train and one to test."""
    random = np.random.default_rng(0)
    for index in range(4):
        split = tmp_path / "own" / ("test" if index == 3 else "train")
        for name in ("images", "depth"):
            (split / name).mkdir(parents=True, exist_ok=True)
        image = random.integers(0, 255, (6, 8, 3), dtype=np.uint8).repeat(10, 0).repeat(10, 1)
        depth = np.linspace(4000, 1000, 60).astype(np.uint16)[:, None].repeat(80, 1)
        Image.fromarray(image).save(split / "images" / f"{index}.png")
        Image.fromarray(depth).save(split / "depth" / f"{index}.png")
    return tmp_path / "own"


def test_facts_come_first_and_warnings_alone_are_no_failure(folder, capsys):
    assert run("doctor", folder) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "dataset    folder: your own pictures",
        "train      3 pictures",
        "test       1 picture",
        "inspected  4 of 4 pairs",
        "pictures   60x80 (100%) (height x width)",
        "depth      median 2.5 m, 98 % between 1 and 4 m",
        "valid      100.0% of the pixels",
        "warning    camera: images without intrinsics: 4 of 4 (test/images/3.png,"
        " train/images/0.png, train/images/1.png, ...); point clouds (evaluate --clouds)"
        " need fx, fy, cx, cy: columns of a CSV, or NAME_intrinsics.json next to NAME_test.txt",
    ]
    assert err == ""


def test_nothing_wrong_is_said_so(folder, capsys):
    rows = "\n".join(
        f"train/images/{i}.png,train/depth/{i}.png,{split},80,80,40,30"
        for i, split in enumerate(("train", "train", "test"))
    )
    (folder / "pairs.csv").write_text(f"image,depth,split,fx,fy,cx,cy\n{rows}\n")
    assert run("doctor", folder, "--samples", 2) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "dataset    folder: your own pictures, listed in pairs.csv"
    assert lines[-1] == "result     no problems found"


def test_errors_are_one_line_each_and_exit_with_3(folder, capsys):
    (folder / "train/depth/0.png").write_bytes(b"junk")
    Image.new("L", (80, 60)).save(folder / "train/depth/1.png")
    assert run("doctor", folder) == 3
    out, err = capsys.readouterr()
    findings = [line for line in out.splitlines() if line.startswith(("error", "warning"))]
    assert [line.split()[:2] for line in findings] == [
        ["error", "damaged:"],
        ["error", "bits:"],
        ["warning", "camera:"],
    ]
    assert err == f"idisc: {folder}: 2 errors, 1 warning\n"


def test_bad_calls_are_one_line(folder, refusal):
    (folder / "bare").mkdir()
    calls = {
        (): "'DIR'",
        (folder / "none",): "none'",
        (folder / "bare",): str(folder / "bare"),
        (folder, "--list", folder / "no.txt"): str(folder / "no.txt"),
        (folder, "--dataset", "nyu"): "manifest.jsonl",
        (folder, "--dataset", "kity"): "did you mean kitti",
        (folder, "--samples", 0): "0 is not in the range",
    }
    for arguments, fact in calls.items():
        assert fact in refusal("doctor", *arguments)
