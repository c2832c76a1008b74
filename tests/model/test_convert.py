"""Conversion of released checkpoints: recognition by shapes, and refusals."""

import json

import pytest
import torch
from tests.fakes.refusals import refused
from tests.golden.store import HERE

from idisc.configs import recipes
from idisc.configs.schema import ModelConfig
from idisc.errors import CheckpointError, IdiscError
from idisc.model.convert import convert, convert_state, infer_config
from idisc.model.network import IDisc
from idisc.zoo.published import PUBLISHED

DEAD = {"resnet101": 2_049_000}  # values of the classifier, which takes no part


@pytest.fixture
def state():
    """A released Swin-T file with empty tensors of the right names and shapes."""
    shapes = json.loads((HERE / "manifests" / "nyu_swint_117x150.json").read_text())
    return {
        name: torch.zeros(shape, dtype=torch.int64 if name.endswith(("index", "tracked")) else None)
        for name, shape in shapes.items()
    }


def saved(state, folder):
    torch.save(state, folder / "x.pt")
    return folder / "x.pt"


def test_the_network_is_recognised_from_its_shapes(tmp_path, state):
    converted = convert(saved(state, tmp_path))
    assert converted.model == recipes.RECIPES["nyu_swint"].model == ModelConfig()
    assert converted.tensors == 513
    assert len(converted.dropped) == 12
    assert all(name.endswith("relative_position_index") for name in converted.dropped)


@pytest.mark.parametrize("entry", [pytest.param(e, id=e.file) for e in PUBLISHED.values()])
def test_each_published_file_has_the_size_its_recipe_implies(entry):
    model = recipes.RECIPES[entry.recipes[0]].model
    with torch.device("meta"):
        network = IDisc(model)
    dead = DEAD.get(model.encoder, 0)
    parameters = sum(p.numel() for p in network.parameters()) + dead
    assert parameters / 1e6 == pytest.approx(entry.parameters, abs=5e-4)
    state = network.state_dict()
    blocks = sum(name.endswith("relative_position_bias_table") for name in state)
    extra = 2 if "resnet" in model.encoder else blocks  # the classifier; the position indices
    assert len(state) + extra == entry.tensors
    sizes = sum(value.numel() * value.element_size() for value in state.values())
    assert sizes + 4 * dead + blocks * 49 * 49 * 8 == entry.bytes


def test_half_precision_becomes_single(state):
    half = {name: v.half() if v.is_floating_point() else v for name, v in state.items()}
    converted = convert_state(half, [], "half.pt")
    assert {v.dtype for v in converted.state.values()} == {torch.float32, torch.int64}


def test_counters_may_be_missing(state):
    state = {name: v for name, v in state.items() if not name.endswith("num_batches_tracked")}
    converted = convert_state(state, [], "x.pt")
    assert converted.state["decoder.smooth.0.norm.num_batches_tracked"].item() == 0


def test_changes_set_what_shapes_cannot_tell(state):
    changes = [
        "afp.iterations=3",
        "afp.heads=2",
        "activation=silu",
        "decoder.heads=8",
        "decoder.points=2",
    ]
    model = convert_state(state, changes, "x.pt").model
    assert (model.afp.iterations, model.afp.heads, model.activation) == (3, 2, "silu")
    assert (model.decoder.heads, model.decoder.points) == (8, 2)


def test_without_iterations_afp_keeps_its_priors_alone(state):
    converted = convert_state(state, ["afp.iterations=0"], "x.pt")
    assert [name for name in converted.state if name.startswith("afp.")] == [
        f"afp.{level}.priors" for level in range(3)
    ]


ONE = torch.ones(1)
INFINITE = torch.full((1, 32, 128), float("inf"))


@pytest.mark.parametrize(
    ("name", "value", "fact"),
    [
        ("afp.mu_2", None, "missing afp.1.priors"),
        ("afp.mu_1", None, "missing afp.mu_1"),
        ("extra", ONE, "unexpected tensor extra"),
        ("afp.mu_0", ONE, "unexpected tensor afp.mu_0"),
        ("pixel_encoder.fc.evil", ONE, "unexpected pixel_encoder.fc.evil"),
        ("isd.head_9.mlp_1.0.weight", ONE, "unexpected isd.head_9.mlp_1.0.weight"),
        ("afp.mu_3", torch.ones(1, 32, 64), "afp.mu_3 is 1x32x64, 1x32x128 expected"),
        ("afp.mu_3", INFINITE, "afp.mu_3"),
        ("pixel_encoder.patch_embed.proj.weight", torch.ones(5, 3, 4, 4), "resnet50"),
        ("isd.head_1.proj_output.3.weight", torch.ones(7, 256), "7 output channels"),
        ("afp.mu_1", torch.ones(3), "afp.mu_1 has the shape (3,)"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(state, name, value, fact):
    changed = {key: each for key, each in {**state, name: value}.items() if each is not None}
    with refused(CheckpointError, "x.pt", fact):
        convert_state(changed, [], "x.pt")


def test_any_subset_of_a_released_file_is_refused(state):
    names = sorted(state)
    for step in (2, 5, 17, 38):
        part = {name: state[name] for name in names[::step]}
        with pytest.raises(IdiscError):
            convert_state(part, [], "x.pt")


def test_normals_and_the_plain_decoder_are_recognised(state):
    state["isd.head_1.proj_output.3.weight"] = torch.ones(4, 256)
    plain = {name: v for name, v in state.items() if "transformer" not in name}
    model = infer_config(plain, "x")
    assert model.task == "normals"
    assert not model.decoder.msda
