"""Checkpoint folders: loading returns what was saved, and damaged ones are refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.fakes.mutations import five_changed_bytes
from tests.fakes.pairs import TINY
from tests.fakes.refusals import refused

import idisc
from idisc import checksums
from idisc.configs.schema import AfpConfig
from idisc.errors import CheckpointError, InputError
from idisc.model.checkpoint import load_network, save_checkpoint
from idisc.model.network import IDisc
from idisc.predict.torch_engine import TorchEngine

SMALL = replace(TINY, afp=AfpConfig(idrs=4, width=16, priors="random", update="slot"))


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    save_checkpoint(tmp_path / "model", SMALL, IDisc(SMALL).state_dict(), {"file": "test"})
    return tmp_path / "model"


def test_a_loaded_network_equals_the_saved_one(tmp_path):
    torch.manual_seed(0)
    network = IDisc(SMALL).eval()
    save_checkpoint(tmp_path / "model", SMALL, network.state_dict(), {})
    loaded = idisc.load_network(tmp_path / "model")
    assert isinstance(loaded, IDisc)
    assert loaded.config == SMALL
    assert not loaded.training
    rgb = torch.rand(1, 3, 48, 64)
    with torch.no_grad():
        assert torch.equal(loaded(rgb).prediction, network(rgb).prediction)


def test_the_record_has_format_network_and_origin(folder):
    record = json.loads((folder / "config.json").read_text())
    assert record["format"] == "idisc/1"
    assert record["model"]["afp"]["idrs"] == 4
    assert record["origin"] == {"file": "test"}
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_an_existing_folder_is_not_changed(folder):
    before = (folder / "model.safetensors").read_bytes()
    with refused(InputError, folder):
        save_checkpoint(folder, SMALL, {}, {})
    assert (folder / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("part", ["tensors", "header"])
def test_five_changed_bytes_are_refused(folder, part):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    length = 8 + int.from_bytes(whole[:8], "little")
    names = whole.index(b'"dtype"')  # after the checksums, at the entries of the tensors
    start, end = (length, len(whole)) if part == "tensors" else (names, length)
    for seed in range(3):
        path.write_bytes(five_changed_bytes(whole, np.random.default_rng(seed), end, start))
        with refused(CheckpointError, path):
            load_network(folder)


def test_a_changed_record_is_refused_unless_its_checksum_is_removed(folder):
    path = folder / "config.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record))  # indented otherwise
    assert TorchEngine.load(folder).verified
    path.write_text(json.dumps({**record, "origin": {"training_fov_deg": 90}}))
    with refused(CheckpointError, path, "crc32"):
        load_network(folder)
    del record["crc32"]
    path.write_text(json.dumps(record))
    assert not TorchEngine.load(folder).verified


def test_a_file_without_checksums_is_accepted_and_known_to_be_unverified(folder):
    path = folder / "model.safetensors"
    save_file(load_file(path), path)
    assert not TorchEngine.load(folder).verified


def edited(change):
    """Return a function that changes the record of a checkpoint."""

    def edit(folder):
        record = json.loads((folder / "config.json").read_text())
        del record["crc32"]
        change(record)
        (folder / "config.json").write_text(json.dumps(record))

    return edit


def truncate(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("damage", "subject", "fact"),
    [
        (lambda f: (f / "config.json").unlink(), "", "config.json"),
        (lambda f: (f / "model.safetensors").unlink(), "/model.safetensors", "no such file"),
        (truncate, "/model.safetensors", "not readable"),
        (lambda f: (f / "config.json").write_text("{"), "/config.json", "JSON"),
        (edited(lambda r: r.update(format="idisc/9")), "/config.json", "'idisc/9'"),
        (
            edited(lambda r: r["model"].update(encodr="x")),
            "/config.json: model",
            "did you mean encoder",
        ),
        (
            edited(lambda r: r["model"]["afp"].update(idrs=5)),
            "/model.safetensors",
            "afp.0.noise is 1x4x16, 1x5x16 expected",
        ),
    ],
)
def test_a_damaged_folder_is_refused(folder, damage, subject, fact):
    damage(folder)
    with refused(CheckpointError, f"{folder}{subject}", fact):
        load_network(folder)


def test_a_file_or_nothing_instead_of_a_folder(tmp_path):
    with refused(CheckpointError, tmp_path / "none", "no such folder"):
        load_network(tmp_path / "none")
    (tmp_path / "nyu.pt").write_bytes(b"")
    with refused(CheckpointError, tmp_path / "nyu.pt", "`idisc convert`"):
        load_network(str(tmp_path / "nyu.pt"))


def test_a_record_may_name_several_files_in_half_precision(folder):
    weights = load_file(folder / "model.safetensors")
    names = {"encoder.safetensors": {}, "rest.safetensors": {}}
    for name, value in weights.items():
        file = "encoder" if name.startswith("encoder.") else "rest"
        names[f"{file}.safetensors"][name] = value.half() if value.is_floating_point() else value
    for name, state in names.items():
        save_file(state, folder / name)
    record = json.loads((folder / "config.json").read_text())
    del record["crc32"]
    (folder / "rooms.json").write_text(json.dumps({**record, "weights": [*names]}))
    for name, value in load_network(folder / "rooms.json").state_dict().items():
        assert value.dtype == weights[name].dtype
        torch.testing.assert_close(value, weights[name], rtol=1e-3, atol=1e-6)
    encoder = folder / "encoder.safetensors"
    stated = [{"path": encoder.name, "crc32": checksums.crc32(encoder)}]
    content = encoder.read_bytes()
    encoder.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for changes, subject, fact in (
        ({"weights": [*names], "files": stated}, encoder, "checksum"),
        ({"weights": ["rest.safetensors"]}, folder / "rest.safetensors", "missing encoder."),
        ({"weights": 3}, folder / "rooms.json", "weights"),
    ):
        (folder / "rooms.json").write_text(json.dumps({**record, **changes}))
        with refused(CheckpointError, subject, fact):
            load_network(folder / "rooms.json")
