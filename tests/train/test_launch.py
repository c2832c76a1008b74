"""Where runs may begin, what they are refused for before a word is written, how they go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.fakes import pairs
from tests.fakes.training import ALONE, losses, same, start, stopped_after

from idisc import files
from idisc.errors import CheckpointError, DataError, InputError
from idisc.model.checkpoint import load_network
from idisc.train import launch, state, trainer


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pairs.make(tmp_path_factory.mktemp("data"))


def write_table(root: Path, scale: float) -> None:
    lines = [
        f"{split}/images/{index}.png,{split}/depth/{index}.png,{split},{scale}"
        for split, count in (("train", 6), ("test", 2))
        for index in range(count)
    ]
    (root / "pairs.csv").write_text("\n".join(["image,depth,split,depth_scale", *lines]))


def test_another_scale_is_other_data(tmp_path: Path) -> None:
    own = pairs.make(tmp_path / "data")
    write_table(own, 0.001)
    stopped_after(start(pairs.recipe(), own, tmp_path / "run"), 1)
    write_table(own, 0.002)
    with pytest.raises(DataError, match="its data have changed"):
        launch.resume(tmp_path / "run", ALONE)


def test_what_ended_before_its_first_checkpoint_starts_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as killed:
        killed.setattr(trainer.Trainer, "save", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            start(pairs.recipe(), data, out)
    assert [path.name for path in out.iterdir()] == ["config.json"]
    with pytest.raises(CheckpointError, match="the command that began the run starts it again"):
        launch.resume(out, ALONE)
    assert start(pairs.recipe(iterations=1), data, out).train().finished


def test_what_was_killed_while_it_wrote_its_record_starts_again(data: Path, tmp_path: Path) -> None:
    draft = tmp_path / "run" / ".config.json.x1.part"
    draft.parent.mkdir()
    draft.write_text('{"format": "idi')
    assert start(pairs.recipe(iterations=1), data, tmp_path / "run").train().finished


def test_what_a_user_calls_part_is_not_a_draft(data: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "film.part").touch()
    with pytest.raises(InputError, match="exists already"):
        start(pairs.recipe(), data, tmp_path / "run")


def test_a_record_of_something_else_is_not_written_over(data: Path, tmp_path: Path) -> None:
    files.write_json(tmp_path / "run" / "config.json", {"mine": 1})
    with pytest.raises(CheckpointError, match="not the record of a run"):
        start(pairs.recipe(), data, tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision": "fp16"}, "fp16 needs a GPU"),
        ({"freeze": ("encoder.bl",)}, "no parameter begins with 'encoder.bl'"),
        ({"freeze": ("encoder", "decoder", "afp", "isd", "heads")}, "nothing is left to train"),
    ],
)
def test_a_wrong_option_leaves_nothing_behind(
    data: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        start(pairs.recipe(**changes), data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_wrong_shares_leave_nothing_behind(data: Path, tmp_path: Path) -> None:
    made = pairs.recipe()
    made = replace(made, data=replace(made.data, mix=(3.0, 1.0)))
    with pytest.raises(InputError, match="2 shares for 1 training folders"):
        start(made, data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_of_an_earlier_version_goes_on(data: Path, tmp_path: Path) -> None:
    """Its records have fields that are gone, and one that is called otherwise now."""
    start(pairs.recipe(patience=3), data, tmp_path / "whole").train()
    out = tmp_path / "run"
    stopped_after(start(pairs.recipe(patience=3), data, out), 4)
    record = files.read_json(out / "config.json")
    record["recipe"]["data"]["crop"] = "eigen"
    record["recipe"]["train"]["loss"] = "silog"
    record["recipe"]["train"]["retries"] = record["recipe"]["train"].pop("patience")
    del record["pairs"]
    files.write_json(out / "config.json", record)
    stored = state.read_training(out)
    stored["guard"]["retries"] = stored["guard"].pop("patience")
    state.write_training(out, stored)
    run = launch.resume(out, ALONE)
    assert run.recipe.train.patience == run.stepper.guard.patience == 3
    run.train()
    assert same(state.read_training(out), state.read_training(tmp_path / "whole"))


@pytest.mark.parametrize(("split", "use"), [("train", "training"), ("test", "validation")])
def test_data_without_a_valid_pixel_are_refused(tmp_path: Path, split: str, use: str) -> None:
    own = pairs.make(tmp_path / "data", train=2)
    for path in (own / split / "depth").iterdir():
        Image.fromarray(np.zeros(pairs.SIZE, np.uint16)).save(path)
    with pytest.raises(DataError, match=f"no picture for {use} has a valid pixel"):
        start(pairs.recipe(), own, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_a_checkpoint_and_says_where_one_is(data: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    start(pairs.recipe(), data, first)
    with pytest.raises(InputError, match=f"a run; name its checkpoint, {first}/best"):
        start(pairs.recipe(), data, tmp_path / "second", weights=str(first))


def test_workers_may_change_when_a_run_goes_on(data: Path, tmp_path: Path) -> None:
    start(pairs.recipe(), data, tmp_path / "run", workers=1)
    assert launch.resume(tmp_path / "run", ALONE).workers == 1
    assert launch.resume(tmp_path / "run", ALONE, workers=3).workers == 3
    assert state.read_training(tmp_path / "run")["step"] == 0


def test_initial_queries_are_as_large_as_the_recipe_says(data: Path, tmp_path: Path) -> None:
    plain = start(pairs.recipe(), data, tmp_path / "plain").stepper.network
    scaled = start(pairs.recipe(query_scale=3.0), data, tmp_path / "scaled").stepper.network
    for name in ("afp.0.attention.query.weight", "isd.2.layers.1.attention.query.weight"):
        assert torch.equal(scaled.get_parameter(name), 3 * plain.get_parameter(name))


def test_the_gradient_loss_counts_in_exact_folders_only(data: Path, tmp_path: Path) -> None:
    made = pairs.recipe(iterations=1, edge_weight=100.0)
    exact = replace(made, data=replace(made.data, exact=(0,)))
    for name, recipe in (("plain", pairs.recipe(iterations=1)), ("none", made), ("exact", exact)):
        start(recipe, data, tmp_path / name).train()
    plain, none, counted = (losses(tmp_path / name)[0] for name in ("plain", "none", "exact"))
    assert plain == none
    assert counted > none + 0.1


def test_a_network_for_depth_becomes_one_for_normals(tmp_path: Path) -> None:
    data = pairs.make(tmp_path / "data", train=2, test=1)
    rows = [f"train/images/{n}.png,train/depth/{n}.png,20,20,31.5,23.5" for n in (0, 1)]
    (data / "pairs.csv").write_text("\n".join(["image,depth,fx,fy,cx,cy", *rows]))
    made = pairs.recipe(iterations=1)
    depth = start(made, data, tmp_path / "depth")
    depth.train()
    normals = replace(made, model=replace(made.model, task="normals"))
    weights = str(tmp_path / "depth" / "last")
    run = launch.start(normals, [str(data)], tmp_path / "normals", ALONE, weights=weights)
    kept, learned = (
        run.stepper.network.state_dict(),
        load_network(tmp_path / "depth" / "last").state_dict(),
    )
    other = {name for name, value in kept.items() if value.shape != learned[name].shape}
    assert other == {f"heads.{n}.layers.3.{part}" for n in range(3) for part in ("weight", "bias")}
    for name in kept.keys() - other:
        torch.testing.assert_close(kept[name], learned[name])


def test_a_start_that_training_does_not_improve_stays_the_best(data: Path, tmp_path: Path) -> None:
    made = pairs.recipe(iterations=4, validate_every=4)
    start(made, data, tmp_path / "trained").train()
    weights = tmp_path / "trained" / "best"
    ruinous = replace(made, train=replace(made.train, lr=3.0, lr_encoder=3.0))
    tuned = start(ruinous, data, tmp_path / "tuned", weights=str(weights))
    summary = tuned.train()
    assert summary.best["step"] == 0
    assert summary.best["abs_rel"] < summary.metrics["abs_rel"]
    kept, began = (
        load_network(each).state_dict() for each in (tmp_path / "tuned" / "best", weights)
    )
    assert all(torch.equal(kept[name], began[name]) for name in began)
