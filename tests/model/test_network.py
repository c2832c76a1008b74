"""The network as its users see it: contract, sizes, and every ablation of the paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.fakes import vit
from tests.fakes.refusals import refused

from idisc import configs
from idisc.configs import recipes
from idisc.configs.schema import AfpConfig, DecoderConfig, ModelConfig
from idisc.errors import InputError
from idisc.model import sampling
from idisc.model.network import IDisc

SMALL = ModelConfig(
    encoder="efficientnet_lite0",
    decoder=DecoderConfig(width=32, layers=2, heads=2, points=2),
    afp=AfpConfig(idrs=6, width=16),
)


def build(model: ModelConfig = SMALL) -> IDisc:
    torch.manual_seed(0)
    return IDisc(model).eval()


def learns(network: IDisc, height: int = 64, width: int = 96) -> None:
    """One training step's forward and backward: finite, a gradient for all that is to learn."""
    network.train()
    out = network(torch.rand(2, 3, height, width))
    loss = out.prediction.square().mean()
    if out.concentration is not None:
        loss = loss + out.concentration.mean()
    loss.backward()
    assert torch.isfinite(loss)
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, f"{name} has no gradient"
        assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("row", recipes.ABLATIONS)
def test_every_row_of_the_ablation_table_learns(row: str) -> None:
    network = build(configs.override(SMALL, recipes.ABLATIONS[row]))
    parts = {name for name in ("afp", "isd") if len(getattr(network, name))}
    explicit = row in ("none", "edd", "edd_msda")
    assert parts == (set() if explicit else {"afp", "isd"})
    assert hasattr(network.decoder, "msda") == row.endswith(("msda", "random_afp", "full"))
    learns(network)


@pytest.mark.parametrize(
    "change",
    [
        *(f"afp.iterations={n}" for n in (0, 1, 3, 4)),
        *(f"isd.layers={n}" for n in (1, 3, 4)),
        *(f"afp.idrs={n}" for n in (2, 8, 128)),
        *(f"resolutions={n}" for n in (1, 2, 4)),
        "afp.softmax=pixels",
        "afp.priors=random",
        "afp.update=slot",
        "afp.heads=4",
        "isd.heads=4",
        "activation=silu",
        "activation=relu",
        "expansion=2",
        "decoder.layers=6",
        "decoder.points=8",
        "decoder.heads=8",
        "decoder.msda=false",
        "decoder.finest=8",
        "upsampling=guided",
        "task=normals",
    ],
)
def test_every_other_choice_learns(change: str) -> None:
    network = build(configs.override(SMALL, [change]))
    assert network.config != SMALL
    learns(network)


def test_the_contract_of_the_output() -> None:
    network, rgb = build(), torch.rand(2, 3, 64, 96)
    with torch.no_grad():
        out = network(rgb)
    assert out.prediction.shape == (2, 1, 64, 96)
    assert (out.prediction > 0).all()
    assert [level.shape for level in out.levels] == [(2, 1, 4, 6), (2, 1, 8, 12), (2, 1, 16, 24)]
    assert [idrs.shape for idrs in out.idrs] == [(2, 6, 16)] * 3
    assert out.concentration is None
    assert out.partition is None
    assert out.attention is None


def test_what_is_asked_for_sums_to_one_at_every_pixel_and_changes_nothing() -> None:
    network, rgb = build(), torch.rand(2, 3, 64, 96)
    with torch.no_grad():
        plain, out = network(rgb), network(rgb, explain=True)
    torch.testing.assert_close(out.prediction, plain.prediction)
    assert out.partition is not None
    assert out.attention is not None
    sizes = [tuple(level.shape[2:]) for level in out.levels]
    for weights, rounds in ((out.partition, 2), (out.attention, 2)):
        assert [w.shape for w in weights] == [(2, rounds, 1, 6, *size) for size in sizes]
        for each in weights:
            torch.testing.assert_close(each.sum(3), torch.ones_like(each.sum(3)))


def test_what_is_not_asked_for_is_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    network = build()
    kept: list[Any] = []
    for module in [*network.afp, *network.isd]:
        forward = module.forward
        monkeypatch.setattr(
            module, "forward", lambda *args, f=forward: kept.append(args[-1]) or f(*args)
        )
    with torch.no_grad():
        network(torch.rand(1, 3, 64, 64))
    assert kept == [None] * 6


def test_explicit_discretization_has_nothing_to_explain() -> None:
    network = build(replace(SMALL, discretization="edd"))
    out = network(torch.rand(1, 3, 64, 64), explain=True)
    assert (out.idrs, out.partition, out.attention) == ((), (), ())


def test_priors_alone_have_no_partition_but_attention() -> None:
    network = build(replace(SMALL, afp=replace(SMALL.afp, iterations=0)))
    out = network(torch.rand(1, 3, 64, 64), explain=True)
    assert out.partition == ()
    assert out.attention is not None
    assert len(out.attention) == 3


@pytest.mark.parametrize("size", [(64, 96), (97, 131), (33, 47), (16, 16), (5, 9), (1, 1)])
def test_any_size_goes_in_and_comes_out(size: tuple[int, int]) -> None:
    with torch.no_grad():
        out = build()(torch.rand(1, 3, *size))
    assert out.prediction.shape == (1, 1, *size)
    assert torch.isfinite(out.prediction).all()
    height, width = size
    fine = (-(-height // 4), -(-width // 4))
    assert tuple(out.levels[-1].shape[2:]) == fine


@pytest.mark.parametrize("encoder", [SMALL.encoder, "vit"])
def test_extracted_features_take_the_place_of_the_encoder(
    encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if encoder == "vit":
        encoder = vit.register(monkeypatch)
    guided = replace(SMALL.decoder, finest=8)
    network = build(replace(SMALL, encoder=encoder, decoder=guided, upsampling="guided"))
    rgb = torch.rand(2, 3, 65, 90)
    with torch.no_grad():
        expected, extracted = network(rgb), network.extract(rgb)
        if encoder == "test_vit":  # two taps; a class token and one for each 16x16 pixels
            assert [tuple(values.shape) for values in extracted] == [(2, 2, 1 + 5 * 6, 64)]
            monkeypatch.setattr(network.encoder, "tokens", None)
        else:
            monkeypatch.setattr(network, "encoder", None)
        assert torch.equal(network(rgb, extracted=extracted).prediction, expected.prediction)
    assert expected.prediction.shape == (2, 1, 65, 90)
    assert [level.shape[2:] for level in expected.levels] == [(3, 3), (5, 6), (9, 12)]


def test_the_size_of_the_prediction_can_be_asked_for() -> None:
    with torch.no_grad():
        network, rgb = build(), torch.rand(1, 3, 64, 96)
        asked = network(rgb, size=(100, 140))
        assert asked.prediction.shape == (1, 1, 100, 140)
        assert torch.equal(asked.levels[0], network(rgb).levels[0])


def test_normals_come_with_their_concentration() -> None:
    network = build(replace(SMALL, task="normals"))
    with torch.no_grad():
        out = network(torch.rand(1, 3, 64, 96), size=(70, 90))
    assert out.prediction.shape == (1, 3, 70, 90)
    assert out.concentration is not None
    assert out.concentration.shape == (1, 1, 70, 90)
    assert out.levels[0].shape[1] == 4


def test_pictures_of_a_batch_do_not_see_each_other() -> None:
    network, rgb = build(), torch.rand(3, 3, 64, 96)
    with torch.no_grad():
        together, alone = network(rgb).prediction, network(rgb[1:2]).prediction
    torch.testing.assert_close(together[1:2], alone, rtol=1e-4, atol=1e-5)


def test_normalisation_is_inside() -> None:
    network, rgb = build(replace(SMALL, encoder="resnet50")), torch.rand(1, 3, 64, 64)
    seen = []
    network.encoder.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        network(rgb)
    mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
    assert torch.equal(seen[0], (rgb - mean) / std)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((3, 64, 64), torch.float32), ((1, 1, 64, 64), torch.float32), ((1, 3, 64, 64), torch.uint8)],
)
def test_what_is_no_rgb_is_refused(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    with refused(InputError, "rgb", "(B, 3, H, W)"):
        build()(torch.zeros(shape, dtype=dtype))


def test_mixed_precision_stays_close() -> None:
    network, rgb = build(), torch.rand(1, 3, 64, 96)
    with torch.no_grad():
        expected = network(rgb).prediction
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = network(rgb).prediction
    assert ((found.float() - expected).abs() / expected).median() < 0.02


def test_a_wrong_encoder_is_answered_with_the_nearest() -> None:
    with refused(InputError, "encoder 'swin_tin'", "swin_tiny"):
        IDisc(replace(SMALL, encoder="swin_tin"))


@pytest.mark.slow
def test_an_exported_program_samples_by_gathers() -> None:
    network, rgb = build(), torch.rand(1, 3, 64, 96)

    class Depth(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, rgb: torch.Tensor) -> torch.Tensor:
            prediction: torch.Tensor = self.network(rgb).prediction
            return prediction

    with torch.no_grad():
        program = torch.export.export(Depth(), (rgb,))
        found, expected = program.module()(rgb), network(rgb).prediction
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    graphs = [
        m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)
    ]
    names = {str(node.target) for graph in graphs for node in graph.nodes}
    assert "aten.index.Tensor" in names
    assert not any("grid_sampler" in name or "embedding_bag" in name for name in names)


@pytest.mark.slow
def test_a_compiler_sees_the_plain_path_in_one_graph() -> None:
    network, rgb = build(), torch.rand(1, 3, 64, 96)
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    with torch.no_grad(), sampling.using("plain"):
        expected = network(rgb).prediction
    with torch.no_grad():
        found = compiled(rgb).prediction
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
