"""`idisc bench` on a network small enough to count by hand: Swin-T, width 32, IDRs of 16, 64x96."""

import json

import pytest
import torch
from tests.fakes import exported, onnx_files
from tests.fakes.called import run

from idisc.export import onnx as onnx_export
from idisc.model import sampling

SMALL = ["nyu_swint", "--set", "decoder.layers=1", "--set", "decoder.width=32"]
SMALL += ["--set", "afp.width=16", "--size", "64x96", "--repeats", "1"]
PARTS = ["encoder", "MSDA", "FPN", "AFP", "ISD", "total"]
PIXELS = (6, 24, 96, 384)  # of the maps at strides 32, 16, 8, 4
CHANNELS = (768, 384, 192, 96)  # of Swin-T there
FORMULATIONS = ["accelerated", "plain", "oracle"][0 if sampling.kernel_available() else 1 :]


def cells(out):
    """The rows of the complexity table by their first cell."""
    rows = [line.split() for line in out.splitlines()]
    return {row[0]: row[1:] for row in rows if row and row[0] in PARTS}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The rows of the complexity table as one run records them."""
    record = tmp_path_factory.mktemp("bench") / "deep" / "numbers.json"
    assert run("bench", *SMALL, "--json", record) == 0
    return {row["name"]: row for row in json.loads(record.read_text())["parts"]}


def test_parameters_are_those_counted_by_hand(parts):
    # offsets 32 -> 128, weights 32 -> 64, value, output; norms; MLP 32 -> 128 -> 32; levels
    msda = 4224 + 2112 + 2 * 1056 + 2 * 64 + 4224 + 4128 + 4 * 32
    # adapters with bias and norm; laterals, 3x3 and 1x1 convolutions with norm
    maps = 32 * sum(CHANNELS)
    fpn = (maps + 4 * (32 + 64)) + (maps + 4 * 64) + 4 * (9216 + 64) + 4 * (1024 + 64)
    # priors; norms; query, key and value, output; MLP 16 -> 64 -> 16 with its norm
    afp = 3 * (512 + 32 + 64 + 272 + 1056 + 272 + 32 + 1088 + 1040)
    # two layers: norms, query, key and value, output, MLP with its norm; the head
    isd = 3 * (2 * (64 + 32 + 1056 + 1088 + 1056 + 64 + 4224 + 4128) + 64 + 1056 + 64 + 33)
    found = {name: row["parameters"] for name, row in parts.items()}
    assert (found["MSDA"], found["FPN"], found["AFP"], found["ISD"]) == (msda, fpn, afp, isd)
    assert found["total"] == found["encoder"] + msda + fpn + afp + isd


def test_multiply_adds_are_those_counted_by_hand(parts):
    everywhere, finest = sum(PIXELS), sum(PIXELS[1:])
    maps = 32 * sum(pixels * channels for pixels, channels in zip(PIXELS, CHANNELS, strict=True))
    msda = everywhere * (32 * 128 + 32 * 64 + 2 * 32 * 32 + 2 * 32 * 128)
    fpn = maps + maps + everywhere * (9 * 32 * 32 + 32 * 32)  # adapters, laterals, 3x3, 1x1
    a_round = 3 * (2 * 32 * 16 * 16 + 2 * 32 * 16 * 64) + finest * 2 * 32 * 16
    afp = finest * 32 * 32 + 2 * a_round  # keys and values once, then two rounds
    folded = 3 * (32 * 16 * 64 + 2 * 32 * 32 * 32 + 32 * 32)  # keys and values of the IDRs
    a_layer = finest * (2 * 32 * 32 + 2 * 32 * 128) + folded
    isd = 2 * a_layer + finest * (32 * 32 + 32)
    found = {name: row["multiply_adds"] for name, row in parts.items()}
    assert found["MSDA"] + found["FPN"] == msda + fpn
    assert (found["AFP"], found["ISD"]) == (afp, isd)
    assert found["total"] == found["encoder"] + msda + fpn + afp + isd


def test_the_table_has_the_numbers_of_the_record(tmp_path, capsys):
    record = tmp_path / "numbers.json"
    assert run("bench", *SMALL, "--set", "decoder.msda=false", "--json", record) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("recipe nyu_swint, size 64x96, device cpu, ")
    assert list(cells(out)) == PARTS
    assert cells(out)["MSDA"] == ["0.0", "0.000", "0.0", "-", "-"]  # this network has none
    for row in json.loads(record.read_text())["parts"]:
        latency, parameters, work, *_ = cells(out)[row["name"]]
        assert latency == f"{row['latency_ms']:.1f}"
        assert parameters == f"{row['parameters'] / 1e6:.3f}"
        assert work == f"{row['multiply_adds'] / 1e9:.1f}"


@pytest.mark.slow
def test_engines_and_their_memory_are_compared_with_the_oracle(tmp_path, monkeypatch, capsys):
    exported.any_size()  # another network, made before its maker is replaced: a trace takes long
    monkeypatch.setattr(onnx_export, "build", lambda *_, **__: exported.model())
    record = tmp_path / "numbers.json"
    small = ["tiny_synthetic", "--size", "32x48", "--repeats", "1", "--engines", "--compare"]
    assert run("bench", *small, "--json", record) == 0
    assert "ONNX Runtime, int8" in capsys.readouterr().out
    measured = json.loads(record.read_text())
    assert list(measured) == ["about", "parts", "engines", "peak_bytes"]
    rows = {row["name"]: row for row in measured["engines"]}
    assert set(rows) == {"onnx", "int8", *FORMULATIONS}
    for row in rows.values():
        assert row["times_faster"] == pytest.approx(rows["oracle"]["seconds"] / row["seconds"])
    assert list(measured["peak_bytes"]) == FORMULATIONS
    assert min(measured["peak_bytes"].values()) > 5e7  # Python and torch


@pytest.mark.slow
def test_a_file_is_compared_with_its_network(capsys):
    threads = torch.get_num_threads()  # of this process, for the other tests
    assert run("bench", exported.any_size(), "--repeats", "1", "--threads", threads) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("file small.onnx, size 96x128, device cpu, ")
    for name in ("ONNX Runtime", "torch, plain", "oracle (grid_sample, whole sequences)"):
        assert name in out


def test_a_file_without_a_known_network_is_measured_alone(tmp_path, capsys):
    path, record = onnx_files.depth_of_brightness(tmp_path / "plain.onnx"), tmp_path / "n.json"
    assert run("bench", path, "--size", "30x40", "--repeats", "1", "--json", record) == 0
    assert capsys.readouterr().out.startswith("file plain.onnx, size 30x40\n")
    (row,) = json.loads(record.read_text())["engines"]
    assert (row["name"], row["times_faster"]) == ("onnx", None)


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        (["nyu_swnt"], "'nyu_swnt'"),
        ([*SMALL, "--repeats", "0"], "'--repeats'"),
        ([*SMALL, "--device", "gpu"], "--device gpu: "),
        ([*SMALL, "--engines", "--device", "cuda"], "--engines"),
        ([*SMALL, "--set", "afp.idr=4"], "--set afp.idr: "),
        ([*SMALL, "--set", "encoder=swin_tny"], "'swin_tny'"),
        ([*SMALL, "--json", "."], "'.'"),
        (["none.onnx"], "none.onnx: "),
        (["none.onnx", "--compare"], "--compare"),
        (["none.onnx", "--set", "a=1"], "--set"),
        *((["nyu_swint", f"--size={size}"], "'--size'") for size in ("64X96", "0x96")),
    ],
)
def test_a_bad_call_is_one_line(arguments, subject, refusal):
    assert subject in refusal("bench", *arguments)
