"""`idisc bench` on a network small enough to count by hand: Swin-T, width 32, IDRs of 16, 64x96."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import exported, onnx_files
from tests.fakes.called import run

from idisc.export import onnx as onnx_export
from idisc.model import sampling
from idisc.model.states import read_onnx

SMALL = ["nyu_swint", "--set", "decoder.layers=1", "--set", "decoder.width=32"]
SMALL += ["--set", "afp.width=16", "--size", "64x96", "--repeats", "1"]
PARTS = ["encoder", "MSDA", "FPN", "AFP", "ISD", "total"]
PIXELS = (6, 24, 96, 384)  # of the maps at strides 32, 16, 8, 4
CHANNELS = (768, 384, 192, 96)  # of Swin-T there


def bench(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run("bench", *arguments)
    return code, out.getvalue(), err.getvalue()


def cells(out: str) -> dict[str, list[str]]:
    """The rows of the complexity table by their first cell."""
    rows = [line.split() for line in out.splitlines()]
    return {row[0]: row[1:] for row in rows if row and row[0] in PARTS}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """One run: what it printed, and what it wrote."""
    record = tmp_path_factory.mktemp("bench") / "deep" / "numbers.json"
    code, out, err = bench(*SMALL, "--json", str(record))
    assert (code, err) == (0, "")
    return out, json.loads(record.read_text())


@pytest.fixture
def components(measured: tuple[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in measured[1]["components"]}


def test_the_table_has_the_rows_of_the_paper(measured: tuple[str, dict[str, Any]]) -> None:
    out, _ = measured
    assert out.startswith("recipe nyu_swint, size 64x96, device cpu, ")
    assert "latency ms   images/s   M parameters   G mult-adds   of torch.mm" in out
    assert list(cells(out)) == PARTS


def test_the_record_has_the_numbers_of_the_table(measured: tuple[str, dict[str, Any]]) -> None:
    out, record = measured
    assert list(record) == ["about", "components"]
    assert record["about"]["recipe"] == "nyu_swint"
    assert record["about"]["size"] == "64x96"
    for row in record["components"]:
        latency, _, parameters, work, _ = cells(out)[row["name"]]
        assert latency == f"{row['latency_ms']:.1f}"
        assert parameters == f"{row['parameters'] / 1e6:.3f}"
        assert work == f"{row['multiply_adds'] / 1e9:.1f}"


def test_parameters_are_those_counted_by_hand(components: dict[str, dict[str, Any]]) -> None:
    # offsets 32 -> 128, weights 32 -> 64, value, output; norms; MLP 32 -> 128 -> 32; levels
    msda = 4224 + 2112 + 2 * 1056 + 2 * 64 + 4224 + 4128 + 4 * 32
    # adapters with bias and norm; laterals, 3x3 and 1x1 convolutions with norm
    maps = 32 * sum(CHANNELS)
    fpn = (maps + 4 * (32 + 64)) + (maps + 4 * 64) + 4 * (9216 + 64) + 4 * (1024 + 64)
    # priors; norms; query, key and value, output; MLP 16 -> 64 -> 16 with its norm
    afp = 3 * (512 + 32 + 64 + 272 + 1056 + 272 + 32 + 1088 + 1040)
    # two layers: norms, query, key and value, output, MLP with its norm; the head
    isd = 3 * (2 * (64 + 32 + 1056 + 1088 + 1056 + 64 + 4224 + 4128) + 64 + 1056 + 64 + 33)
    found = {name: row["parameters"] for name, row in components.items()}
    assert (found["MSDA"], found["FPN"], found["AFP"], found["ISD"]) == (msda, fpn, afp, isd)
    assert found["total"] == found["encoder"] + msda + fpn + afp + isd


def test_multiply_adds_are_those_counted_by_hand(components: dict[str, dict[str, Any]]) -> None:
    everywhere, finest = sum(PIXELS), sum(PIXELS[1:])
    maps = 32 * sum(pixels * channels for pixels, channels in zip(PIXELS, CHANNELS, strict=True))
    msda = everywhere * (32 * 128 + 32 * 64 + 2 * 32 * 32 + 2 * 32 * 128)
    fpn = maps + maps + everywhere * (9 * 32 * 32 + 32 * 32)  # adapters, laterals, 3x3, 1x1
    a_round = 3 * (2 * 32 * 16 * 16 + 2 * 32 * 16 * 64) + finest * 2 * 32 * 16
    afp = finest * 32 * 32 + 2 * a_round  # keys and values once, then two rounds
    a_layer = finest * (2 * 32 * 32 + 2 * 32 * 128 + 2 * 32 * 32) + 3 * 32 * 16 * 64
    isd = 2 * a_layer + finest * (32 * 32 + 32)
    found = {name: row["multiply_adds"] for name, row in components.items()}
    assert found["MSDA"] + found["FPN"] == msda + fpn
    assert (found["AFP"], found["ISD"]) == (afp, isd)
    assert found["total"] == found["encoder"] + msda + fpn + afp + isd


def test_a_part_that_a_network_lacks_has_an_empty_row() -> None:
    code, out, err = bench(*SMALL, "--set", "decoder.msda=false")
    assert (code, err) == (0, "")
    assert cells(out)["MSDA"] == ["0.0", "-", "0.000", "0.0", "0%"]


@pytest.mark.slow
def test_compare_holds_our_formulations_against_the_oracle(tmp_path: Path) -> None:
    code, out, err = bench(*SMALL, "--compare", "--json", str(tmp_path / "numbers.json"))
    assert (code, err) == (0, "")
    record = json.loads((tmp_path / "numbers.json").read_text())
    names = ["accelerated", "plain", "oracle"][0 if sampling.kernel_available() else 1 :]
    assert list(record) == ["about", "components", "cores", "networks", "peak_bytes"]
    tables = {
        "Sampling core of MSDA, inference": record["cores"]["inference"],
        "Sampling core of MSDA, forward and backward": record["cores"]["forward_and_backward"],
        "The whole network, inference": record["networks"],
    }
    for title, rows in tables.items():
        assert title in out
        assert [row["name"] for row in rows] == names
        oracle = rows[-1]
        assert oracle["times_faster"] == 1.0
        for row in rows:
            assert row["times_faster"] == pytest.approx(oracle["seconds"] / row["seconds"])
    assert list(record["peak_bytes"]) == names
    assert all(value > 27_759_053 * 4 for value in record["peak_bytes"].values())  # the weights
    assert out.count("oracle (grid_sample, whole sequences)") == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["nyu_swnt"],
            "Invalid value for 'RECIPE': recipe 'nyu_swnt' does not exist; did you mean nyu_swint",
        ),
        (
            ["nyu_swint:code"],
            "Invalid value for 'RECIPE': recipe 'nyu_swint:code': the only variant is"
            " 'nyu_swint:paper'",
        ),
        ([*SMALL, "--repeats", "0"], "Invalid value for '--repeats': 0 is not in the range x>=1."),
        ([*SMALL, "--threads", "two"], "Invalid value for '--threads': 'two' is not a valid"),
        ([*SMALL, "--device", "gpu"], "--device gpu: "),
        ([*SMALL, "--device", "cpu:x"], "--device cpu:x: Invalid device string: 'cpu:x'"),
        ([*SMALL, "--device", "hpu"], "--device hpu: "),
        ([*SMALL, "--device", "meta"], "--device meta: "),
        ([*SMALL, "--set", "afp"], "--set afp: no '='; write it as field.name=value"),
        (
            [*SMALL, "--set", "afp.idr=4"],
            "--set afp.idr: field 'idr' does not exist; did you mean idrs",
        ),
        ([*SMALL, "--set", "afp.idrs=few"], "--set afp.idrs: 'few' is not of type int"),
        ([*SMALL, "--set", "afp.idrs=0"], "afp.idrs: 0; at least 1 is needed"),
        ([*SMALL, "--set", "encoder=swin_tny"], "encoder 'swin_tny' does not exist; did you mean"),
    ],
)
def test_a_wrong_call_is_one_line(arguments: list[str], message: str) -> None:
    code, out, err = bench(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"idisc: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("size", ["64", "64x", "64X96", "0x96", "64x00", "-64x96", "6.4x96", ""])
def test_a_wrong_size_is_one_line(size: str) -> None:
    code, out, err = bench("nyu_swint", f"--size={size}")
    assert (code, out) == (2, "")
    assert err == (
        f"idisc: Invalid value for '--size': '{size}' is not a size;"
        " write height and width as 480x640 (see idisc bench --help)\n"
    )


def test_a_folder_for_the_record_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    code, out, err = bench(*SMALL, "--json", str(tmp_path))
    assert (code, out) == (2, "")
    assert f"'{tmp_path}' is a directory" in err
    assert err.count("\n") == 1


def test_a_training_step_is_compared_as_well(tmp_path: Path) -> None:
    record = tmp_path / "numbers.json"
    small = ["tiny_synthetic", "--size", "32x48", "--repeats", "1", "--train", "2"]
    code, out, _ = bench(*small, "--json", str(record))
    assert code == 0
    assert json.loads(record.read_text())["step"][-1]["name"] == "oracle"
    assert "A training step of 2 pictures" in out
    assert "images/s" in out.splitlines()[-2]


def test_engines_stand_beside_the_oracle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = exported.any_size()  # of another network: a trace of its own takes a minute
    monkeypatch.setattr(onnx_export, "build", lambda *_, **__: read_onnx(file))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # no OpenVINO
    record = tmp_path / "numbers.json"
    small = ["tiny_synthetic", "--size", "32x48", "--repeats", "1", "--engines"]
    code, out, err = bench(*small, "--json", str(record))
    assert (code, err) == (0, "exporting; this takes some minutes ...\n")
    assert "Engines, a picture from bytes to metres" in out
    found = json.loads(record.read_text())
    names = {"onnx", "int8", "plain", "oracle"} | (
        {"accelerated"} if sampling.kernel_available() else set()
    )
    rows = {row["name"]: row for row in found["engines"]}
    assert set(rows) == names
    oracle = rows["oracle"]["seconds"]
    for row in rows.values():
        assert row["times_faster"] == pytest.approx(oracle / row["seconds"])
    seconds = [row["seconds"] for row in found["engines"]]
    assert seconds == sorted(seconds)
    assert found["start"]["seconds"] > found["start"]["network"] > 0
    assert "idisc predict of one photo by ONNX: " in out


def test_a_file_is_measured_beside_its_network() -> None:
    code, out, err = bench(str(exported.any_size()), "--repeats", "1", "--threads", "1")
    assert (code, err) == (0, "")
    assert out.startswith("file small.onnx, size 96x128, device cpu, ")
    for name in ("ONNX Runtime", "plain torch", "oracle (grid_sample, whole sequences)"):
        assert name in out


def test_a_file_that_does_not_know_its_network_is_measured_alone(tmp_path: Path) -> None:
    path = onnx_files.depth_of_brightness(tmp_path / "plain.onnx")
    code, out, err = bench(str(path), "--size", "30x40", "--repeats", "1")
    assert (code, err) == (0, "")
    first, second, third = out.splitlines()
    assert first == "file plain.onnx, size 30x40"
    assert second.startswith("ONNX Runtime: 0.")
    assert third.startswith("idisc predict of one photo by ONNX: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.onnx"], "none.onnx: no such file"),
        (["none.onnx", "--compare"], "--compare is for recipes, not for files; leave it out"),
        (["none.onnx", "--train", "2"], "--train is for recipes, not for files; leave it out"),
        (["none.onnx", "--set", "a=1"], "--set is for recipes, not for files; leave it out"),
        (["none.onnx", "--device", "cuda"], "--device is for recipes, not for files; leave it out"),
        ([*SMALL, "--engines", "--device", "cuda"], "--engines: on the CPU; leave out --device"),
    ],
)
def test_what_a_file_cannot_be_asked_is_one_line(arguments: list[str], message: str) -> None:
    code, out, err = bench(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"idisc: {message}")
    assert err.count("\n") == 1
