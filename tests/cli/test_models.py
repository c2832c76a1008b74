"""`idisc models`: what ships and what was published, with size, licence, data and numbers."""

import pytest
from tests.fakes import shipped

from idisc.zoo import cards
from idisc.zoo.published import PUBLISHED


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "HOME", tmp_path / "zoo")
    return tmp_path / "zoo"


def test_without_a_shipped_model_the_published_ones_are_listed(run):
    code, out, err = run("models")
    assert (code, err) == (0, "")
    assert out.startswith("No model ships with this version.")
    for entry in PUBLISHED.values():
        (line,) = (line for line in out.splitlines() if line.strip().startswith(entry.file))
        assert f"{entry.bytes / 1e6:.0f} MB" in line
        name = "d1" if "d1" in entry.expected else "a11.5"
        assert f"{name} {entry.expected[name]:.3f}" in line
    assert "CC BY-NC 4.0: not for commercial use" in out
    assert "idisc convert FILE --out DIR" in out


def test_a_shipped_model_stands_first_and_is_described_by_name(run, home, refusal):
    path = shipped.make(home / "rooms").with_suffix(".onnx")
    _, listed, _ = run("models")
    (line,) = (line for line in listed.splitlines() if "rooms (default)" in line)
    assert all(text in line for text in ("0 MB", "indoor", "Apache-2.0", "d1 0.810"))
    code, out, _ = run("models", "rooms")
    assert code == 0
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    assert ["range", "depth to 5.6 m in training"] in lines
    assert ["pictures", "48x64 (height x width) in training, 60 deg across"] in lines
    assert "made of   encoder: ImageNet-1k weights (BSD-3-Clause, https://example.org" in out
    assert "NYU-Depth v2, protocol bts: d1 0.810 [0.800, 0.820], rmse 0.500" in out
    (file,) = cards.describe([path])
    assert f"rooms.onnx, {file.bytes} bytes, SHA-256 {file.sha256}" in out
    assert "did you mean rooms?" in refusal("models", "room")


def test_a_published_file_is_described_with_its_address(run):
    code, out, _ = run("models", "kitti_swintiny.pt")
    assert code == 0
    assert "https://dl.cv.ethz.ch/idisc/checkpoints/kitti_swintiny.pt" in out
    assert "licence   CC BY-NC 4.0: not for commercial use" in out
