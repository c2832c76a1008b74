"""The network as a whole: its output, sizes of images, and every ablation of the paper."""

from dataclasses import replace

import pytest
import torch
from tests.fakes import vit
from tests.fakes.pairs import TINY
from tests.fakes.refusals import refused

from idisc import configs
from idisc.configs import recipes
from idisc.configs.schema import DecoderConfig
from idisc.errors import InputError
from idisc.model import sampling
from idisc.model.backbones import find_backbone
from idisc.model.network import IDisc

SMALL = replace(TINY, decoder=DecoderConfig(width=32, layers=2, heads=2, points=2))


def build(model=SMALL):
    torch.manual_seed(0)
    return IDisc(model).eval()


@pytest.mark.parametrize(
    "changes",
    [
        *recipes.ABLATIONS.values(),
        *(["afp.iterations=3"], ["isd.layers=3"], ["afp.idrs=2"]),
        *(["resolutions=1"], ["resolutions=4"], ["afp.softmax=pixels"], ["afp.update=slot"]),
        *(["afp.heads=4"], ["isd.heads=4"], ["activation=silu"], ["activation=relu"]),
        *(["expansion=2"], ["decoder.layers=6"], ["decoder.points=8"], ["decoder.heads=8"]),
        *(["decoder.finest=8"], ["upsampling=guided"], ["task=normals"]),
    ],
    ids=" ".join,
)
def test_every_ablation_and_option_can_be_trained(changes):
    network = build(configs.override(SMALL, changes)).train()
    assert (
        bool(len(network.afp)) == bool(len(network.isd)) == (network.config.discretization == "isd")
    )
    assert hasattr(network.decoder, "msda") == network.config.decoder.msda
    out = network(torch.rand(2, 3, 64, 96))
    loss = out.prediction.square().mean()
    if out.concentration is not None:
        assert out.prediction.shape == (2, 3, 64, 96)
        assert out.concentration.shape == (2, 1, 64, 96)
        loss = loss + out.concentration.mean()
    loss.backward()
    assert torch.isfinite(loss)
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, f"{name} has no gradient"
        assert torch.isfinite(parameter.grad).all(), name


def test_the_contract_of_the_output():
    network, rgb = build(), torch.rand(2, 3, 64, 96)
    with torch.no_grad():
        out = network(rgb)
    assert out.prediction.shape == (2, 1, 64, 96)
    assert (out.prediction > 0).all()
    assert [level.shape for level in out.levels] == [(2, 1, 4, 6), (2, 1, 8, 12), (2, 1, 16, 24)]
    assert [idrs.shape for idrs in out.idrs] == [(2, 8, 16)] * 3
    assert out.concentration is None
    assert out.partition is None
    assert out.attention is None


def test_parts_that_a_network_lacks_are_empty_in_an_explanation():
    rgb = torch.rand(1, 3, 64, 64)
    explicit = build(replace(SMALL, discretization="edd"))(rgb, explain=True)
    assert (explicit.idrs, explicit.partition, explicit.attention) == ((), (), ())
    priors = build(replace(SMALL, afp=replace(SMALL.afp, iterations=0)))(rgb, explain=True)
    assert priors.partition == ()
    assert priors.attention is not None
    assert len(priors.attention) == 3


def test_images_of_any_size_are_accepted():
    network = build()
    for height, width in [(97, 131), (33, 47), (16, 16), (5, 9), (1, 1)]:
        with torch.no_grad():
            out = network(torch.rand(1, 3, height, width))
        assert out.prediction.shape == (1, 1, height, width)
        assert torch.isfinite(out.prediction).all()
        assert tuple(out.levels[-1].shape[2:]) == (-(-height // 4), -(-width // 4))


@pytest.mark.parametrize(("encoder", "rank"), [(SMALL.encoder, 0), ("vit", 0), ("vit", 2)])
def test_extracted_features_replace_the_encoder(encoder, rank, monkeypatch):
    if encoder == "vit":
        encoder = vit.register(monkeypatch)
    guided = replace(SMALL.decoder, finest=8)
    config = replace(SMALL, encoder=encoder, decoder=guided, upsampling="guided")
    network = build(replace(config, adapter_rank=rank))
    rgb = torch.rand(2, 3, 65, 90)
    with torch.no_grad():
        expected, extracted = network(rgb), network.extract(rgb)
        if encoder == "test_vit":  # two taps; a class token and one for each 16x16 pixels
            taps = 1 if rank else 2  # adapters change the last one
            assert [tuple(values.shape) for values in extracted] == [(2, taps, 1 + 5 * 6, 64)]
            monkeypatch.setattr(network.encoder, "tokens", None)
        else:
            monkeypatch.setattr(network, "encoder", None)
        assert torch.equal(network(rgb, extracted=extracted).prediction, expected.prediction)
    assert expected.prediction.shape == (2, 1, 65, 90)
    assert [level.shape[2:] for level in expected.levels] == [(3, 3), (5, 6), (9, 12)]


def test_adapters_correct_a_frozen_transformer_and_start_without_effect(monkeypatch):
    config = replace(SMALL, encoder=vit.register(monkeypatch))
    plain, adapted = build(config), build(replace(config, adapter_rank=2))
    missing, _ = adapted.load_state_dict(plain.state_dict(), strict=False)
    assert {name.split(".")[1] for name in missing} == {"adapters"}
    rgb = torch.rand(1, 3, 64, 96)
    with torch.no_grad():
        expected = plain(rgb).prediction
        torch.testing.assert_close(adapted(rgb).prediction, expected, rtol=1e-5, atol=1e-6)
        scenes = [each.scene_of(each.adapt(each.extract(rgb))) for each in (plain, adapted)]
        torch.testing.assert_close(*scenes, rtol=1e-5, atol=1e-6)
        for adapter in adapted.encoder.adapters:
            torch.nn.init.normal_(adapter.fc2.up.weight)
        assert not torch.allclose(adapted(rgb).prediction, expected, rtol=1e-2)


def test_only_a_vit_has_adapters():
    with refused(InputError, "adapter_rank", SMALL.encoder):
        build(replace(SMALL, adapter_rank=2))


def test_the_size_of_the_prediction_is_an_argument():
    with torch.no_grad():
        network, rgb = build(), torch.rand(1, 3, 64, 96)
        asked = network(rgb, size=(100, 140))
        assert asked.prediction.shape == (1, 1, 100, 140)
        assert torch.equal(asked.levels[0], network(rgb).levels[0])


def test_images_of_a_batch_are_independent():
    network, rgb = build(), torch.rand(3, 3, 64, 96)
    with torch.no_grad():
        together, alone = network(rgb).prediction, network(rgb[1:2]).prediction
    torch.testing.assert_close(together[1:2], alone, rtol=1e-4, atol=1e-5)


def test_the_network_normalises_its_input():
    network, rgb = build(), torch.rand(1, 3, 64, 64)
    seen = []
    network.encoder.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        network(rgb)
    statistics = find_backbone(SMALL.encoder)
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (statistics.mean, statistics.std))
    assert torch.equal(seen[0], (rgb - mean) / std)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((3, 64, 64), torch.float32), ((1, 1, 64, 64), torch.float32), ((1, 3, 64, 64), torch.uint8)],
)
def test_other_tensors_than_rgb_are_refused(shape, dtype):
    with refused(InputError, "rgb", "(B, 3, H, W)"):
        build()(torch.zeros(shape, dtype=dtype))


def test_an_unknown_encoder_is_refused_with_similar_names():
    with refused(InputError, "encoder 'swin_tin'", "swin_tiny"):
        IDisc(replace(SMALL, encoder="swin_tin"))


@pytest.mark.slow
def test_the_network_compiles_to_one_graph():
    network, rgb = build(), torch.rand(1, 3, 64, 96)
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    with torch.no_grad(), sampling.using("plain"):
        expected = network(rgb).prediction
    with torch.no_grad():
        found = compiled(rgb).prediction
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
