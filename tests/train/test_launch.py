"""The start of runs: their initial weights, and refusals before anything is written."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.fakes import pairs, shipped
from tests.fakes.refusals import refused
from tests.fakes.training import ALONE, losses, same, start, stop_after

from idisc import files
from idisc.ancestry import Parent
from idisc.errors import CheckpointError, DataError, IdiscError
from idisc.model.checkpoint import load_network, save_checkpoint
from idisc.model.network import IDisc
from idisc.predict.model_info import read_model_info
from idisc.predict.torch_engine import TorchEngine
from idisc.train import launch, trainer


def start_error(recipe, data, out, **more):
    """The error of a start that writes nothing."""
    with pytest.raises(IdiscError) as caught:
        start(recipe, data, out, **more)
    assert not out.exists()
    return caught.value


def test_a_run_whose_data_have_changed_is_not_resumed(tmp_path):
    own, out = pairs.make(tmp_path / "data"), tmp_path / "run"
    pairs.write_table(own, depth_scale=0.001)
    stop_after(start(pairs.recipe(), own, out), 1)
    pairs.write_table(own, depth_scale=0.002)
    with refused(DataError, out):
        launch.resume(out, ALONE)
    record = out / "config.json"
    record.write_text(record.read_text().replace("non_commercial", "non_commercia1"))
    with refused(CheckpointError, record, "checksum"):
        launch.resume(out, ALONE)
    with pytest.raises(CheckpointError):
        launch.resume(own, ALONE)  # not the folder of a run
    (own / "config.json").write_text("[]")
    with pytest.raises(CheckpointError):
        launch.resume(own, ALONE)


def test_a_run_that_ended_before_its_first_checkpoint_can_be_started_again(
    data, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    with monkeypatch.context() as killed:
        killed.setattr(trainer.Trainer, "save", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            start(pairs.recipe(), data, out)
    assert [path.name for path in out.iterdir()] == ["config.json"]
    with pytest.raises(CheckpointError) as caught:
        launch.resume(out, ALONE)
    assert "same command" in caught.value.remedy
    start(pairs.recipe(), data, out)


def test_a_run_that_was_killed_while_it_wrote_its_record_can_be_started_again(data, tmp_path):
    draft = tmp_path / "run" / ".config.json.x1.part"
    draft.parent.mkdir()
    draft.write_text('{"format": "idi')
    start(pairs.recipe(), data, tmp_path / "run")


@pytest.mark.parametrize("name", ["thesis.txt", "thesis.part", "config.json"])
def test_files_of_the_user_are_not_overwritten(data, tmp_path, name):
    files.write_json(tmp_path / "run" / name, {"mine": 1})
    with pytest.raises(IdiscError):
        start(pairs.recipe(), data, tmp_path / "run")
    assert files.read_json(tmp_path / "run" / name) == {"mine": 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("precision", "fp16"),
        ("freeze", ("encoder.bl",)),
        ("freeze", ("encoder", "decoder", "afp", "isd", "heads")),
    ],
)
def test_a_wrong_option_is_refused(data, tmp_path, name, value):
    error = start_error(pairs.recipe(**{name: value}), data, tmp_path / "run")
    assert error.subject == f"train.{name}"


def test_normals_from_depth_need_a_camera(data, tmp_path):
    made = pairs.recipe()
    made = replace(made, model=replace(made.model, task="normals"))
    assert isinstance(start_error(made, data, tmp_path / "run"), DataError)


@pytest.mark.parametrize("split", ["train", "test"])
def test_data_without_valid_pixels_are_refused(tmp_path, split):
    own = pairs.make(tmp_path / "data", train=2)
    for path in (own / split / "depth").iterdir():
        Image.fromarray(np.zeros(pairs.SIZE, np.uint16)).save(path)
    error = start_error(pairs.recipe(), own, tmp_path / "run")
    assert isinstance(error, DataError)
    assert "idisc doctor" in error.remedy


def test_the_folder_of_a_run_is_not_a_checkpoint(data, tmp_path):
    first = tmp_path / "first"
    start(pairs.recipe(), data, first)
    error = start_error(pairs.recipe(), data, tmp_path / "second", weights=str(first))
    assert f"{first}/best" in error.remedy


def test_the_number_of_workers_may_change(data, tmp_path):
    start(pairs.recipe(), data, tmp_path / "run", workers=1)
    assert launch.resume(tmp_path / "run", ALONE).workers == 1
    assert launch.resume(tmp_path / "run", ALONE, workers=3).workers == 3


def test_initial_queries_are_multiplied_by_the_scale_of_the_recipe(data, tmp_path):
    plain = start(pairs.recipe(), data, tmp_path / "plain").stepper.network
    scaled = start(pairs.recipe(query_scale=3.0), data, tmp_path / "scaled").stepper.network
    for name in ("afp.0.attention.query.weight", "isd.2.layers.1.attention.query.weight"):
        assert torch.equal(scaled.get_parameter(name), 3 * plain.get_parameter(name))


def test_the_gradient_loss_is_for_exact_folders_only(data, tmp_path):
    made = pairs.recipe(iterations=1, edge_weight=100.0)
    exact = replace(made, data=replace(made.data, exact=(0,)))
    for name, recipe in (("plain", pairs.recipe(iterations=1)), ("none", made), ("exact", exact)):
        start(recipe, data, tmp_path / name).train()
    plain, none, added = (losses(tmp_path / name)[0] for name in ("plain", "none", "exact"))
    assert plain == none
    assert added > none + 0.1


@pytest.mark.parametrize("discretization", ["isd", "none"])
def test_the_idr_loss_is_for_networks_with_idrs(data, tmp_path, discretization):
    for weight in (0.0, 1.0):
        made = pairs.recipe(iterations=1, idr_weight=weight)
        made = replace(made, model=replace(made.model, discretization=discretization))
        start(made, data, tmp_path / str(weight)).train()
    plain, informed = (losses(tmp_path / str(weight))[0] for weight in (0.0, 1.0))
    assert informed < plain if discretization == "isd" else informed == plain


def test_a_network_for_depth_becomes_one_for_normals(tmp_path):
    data = pairs.make(tmp_path / "data", train=2, test=1)
    pairs.write_table(data, fx=20, fy=20, cx=31.5, cy=23.5)
    made = pairs.recipe(iterations=1)
    start(made, data, tmp_path / "depth")
    normals = replace(made, model=replace(made.model, task="normals"))
    weights = tmp_path / "depth" / "last"
    run = start(normals, data, tmp_path / "normals", weights=str(weights))
    ours, theirs = run.stepper.network.state_dict(), load_network(weights).state_dict()
    other = {name for name, value in ours.items() if value.shape != theirs[name].shape}
    assert other == {f"heads.{n}.layers.3.{part}" for n in range(3) for part in ("weight", "bias")}
    for name in ours.keys() - other:
        torch.testing.assert_close(ours[name], theirs[name])


def test_a_run_inherits_licence_data_domain_range_camera_and_parents(data, tmp_path):
    parent, made = tmp_path / "converted", pairs.recipe(iterations=2)
    origin = {"file": "kitti_swintiny.pt", "sha256": "ab", "licence": "CC BY-NC 4.0"}
    save_checkpoint(parent, made.model, IDisc(made.model).state_dict(), origin)
    run = start(made, data, tmp_path / "run", weights=str(parent))
    stop_after(run, 1)
    launch.resume(tmp_path / "run", ALONE).train()  # also without the weights it started from
    info = read_model_info(TorchEngine.load(tmp_path / "run" / "last"))
    assert (info.domain, info.depth_range, info.non_commercial) == ("road", (0.01, 80.0), True)
    assert info.training_fov_deg is not None
    assert info.licence.startswith("CC BY-NC 4.0; ")
    assert info.data == ("KITTI, Eigen split, annotated depth", "your own pictures")
    assert info.parents == (
        Parent(name="converted", sha256=files.sha256(parent / "model.safetensors")),
        Parent(name="kitti_swintiny.pt", sha256="ab"),
    )
    assert info.verified


def test_a_run_from_a_shipped_model_inherits_its_card(data, tmp_path):
    made = pairs.recipe(iterations=1)
    save_checkpoint(tmp_path / "tiny", made.model, IDisc(made.model).state_dict(), {})
    card = shipped.make(tmp_path / "rooms", checkpoint=tmp_path / "tiny")
    run = start(made, data, tmp_path / "run", weights=str(card))
    assert (run.origin["domain"], run.origin["depth_range"]) == ("indoor", (0.5, 5.6))
    assert run.origin["licence"][0] == "Apache-2.0"
    assert run.origin["data"] == ("Rendered rooms", "ImageNet-1k weights", "your own pictures")
    assert run.origin["parents"][0]["name"] == "rooms"


def test_the_initial_weights_stay_the_best_if_training_does_not_improve_them(
    data, finished, tmp_path
):
    made = pairs.recipe(iterations=4, validate_every=4)
    weights = finished / "best"
    ruinous = replace(made, train=replace(made.train, lr=3.0, lr_encoder=3.0))
    summary = start(ruinous, data, tmp_path / "tuned", weights=str(weights)).train()
    assert summary.best == {**summary.start, "step": 0}
    assert summary.best["abs_rel"] < summary.metrics["abs_rel"]
    best, initial = (load_network(each) for each in (tmp_path / "tuned" / "best", weights))
    assert same(dict(best.state_dict()), dict(initial.state_dict()))
    record = files.read_json(tmp_path / "tuned" / "config.json")
    assert record["inherited"]["parents"][0]["name"] == f"{finished.name}/best"
