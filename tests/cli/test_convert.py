"""`idisc convert` as a user meets it."""

import pytest
import torch
from tests.fakes.called import run
from tests.golden import rule, store

import idisc
from idisc.zoo.published import PUBLISHED

CASE = store.Case(store.HERE, "cases", "nyu_swint_117x150")


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A released Swin-T checkpoint, with weights made by rule."""
    path = tmp_path_factory.mktemp("released") / "nyu_swintiny.pt"
    torch.save({name: torch.as_tensor(value) for name, value in CASE.weights().items()}, path)
    return path


def test_it_says_what_it_recognised_and_the_result_predicts_as_published(
    released, tmp_path, capsys
):
    assert run("convert", released, "--out", tmp_path / "nyu") == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["read"] == "nyu_swintiny.pt, 513 tensors, 38.975 M parameters"
    assert lines["encoder"] == "swin_tiny"
    assert lines["decoder"] == "MSDA, 4 layers, 4 heads x 4 points, width 256"
    assert lines["fits"] == "nyu_swint"
    assert lines["licence"] == "CC BY-NC 4.0"
    assert lines["written"] == str(tmp_path / "nyu")
    with torch.no_grad():
        prediction = idisc.load_network(tmp_path / "nyu")(CASE.rgb()).prediction
    ours = rule.select(prediction.numpy(), CASE.meta["stages"]["pred"]["select"])
    store.assert_close(ours, CASE.arrays["pred"], "prediction")


def test_the_list_has_every_file_with_address_licence_and_numbers(capsys):
    assert run("convert", "--list") == 0
    out = capsys.readouterr().out
    for entry in PUBLISHED.values():
        assert f"from      {entry.address}\n" in out
    assert out.count("https://dl.cv.ethz.ch/idisc/checkpoints/") == 13
    assert "d1 0.940 d2 0.993 d3 0.999 rmse 0.313 abs_rel 0.086 log10 0.037\n" in out
    assert out.count("CC BY-NC 4.0: not for commercial use") == 13


def test_bad_calls_are_one_line_and_leave_nothing_behind(released, tmp_path, refusal):
    cut = tmp_path / "cut.pt"
    cut.write_bytes(released.read_bytes()[:100_000])
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    out = tmp_path / "out"
    calls = {
        ("convert",): "FILE and --out are needed",
        ("convert", released): "FILE and --out are needed",
        ("convert", cut, "--out", out): "cut.pt: ",
        ("convert", released, "--out", taken): "taken: ",
        ("convert", released, "--out", cut / "x"): "x: ",
        ("convert", released, "--out", out, "--set", "afp.iter=1"): "--set afp.iter: ",
        ("convert", released, "--out", out, "--set", "afp.idrs=8"): "afp.mu_1",
    }
    for arguments, message in calls.items():
        assert message in refusal(*arguments)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.pt", "taken"]
    assert (taken / "mine.txt").read_text() == "mine"
