"""Encoders: their maps, and where their initial weights come from."""

import logging

import pytest
import timm
import torch
from tests.fakes.refusals import refused

from idisc.errors import CheckpointError, InputError
from idisc.model.backbones import BACKBONES, find_backbone, load_encoder_weights
from idisc.model.vit import VitPyramid

SMALL = ("resnet50", "efficientnet_lite0", "swin_tiny", "dinov2_vits14")
# Sizes rounded up, rounded down, fixed unless asked otherwise, and maps of another layout.
OTHERS = ("mobilenetv3_small_100", "convnext_atto", "swin_tiny_patch4_window7_224", "pvt_v2_b0")


@pytest.mark.parametrize("name", [*SMALL, "efficientnet_b5", *(f"timm:{name}" for name in OTHERS)])
def test_maps_have_strides_4_8_16_32_rounded_up(name):
    encoder = find_backbone(name).build().eval()
    for height, width in ((64, 96), (97, 131), (33, 40), (3, 5)):
        with torch.no_grad():
            maps = encoder(torch.randn(1, 3, height, width))
        sizes = [(-(-height // stride), -(-width // stride)) for stride in (4, 8, 16, 32)]
        expected = [
            (1, *shape) for shape in zip(encoder.channels, *zip(*sizes, strict=True), strict=True)
        ]
        assert [tuple(m.shape) for m in maps] == expected
        assert all(torch.isfinite(m).all() for m in maps)


def test_stochastic_depth_grows_from_none_to_its_maximum():
    encoder = BACKBONES["swin_tiny"].build()
    rates = [
        getattr(block.drop_path1, "drop_prob", 0.0) for s in encoder.layers for block in s.blocks
    ]
    assert rates == pytest.approx([0.2 * i / 11 for i in range(12)])


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("timm:no_such_net", "timm"),
        ("timm:vit_small_patch16_dinov3", "16, 16, 16"),
        ("timm:vit_tiny_patch16_224", "pyramid"),
    ],
)
def test_models_without_a_pyramid_are_refused(name, fact):
    with refused(InputError, f"encoder {name}", fact):
        find_backbone(name).build()


def test_each_encoder_has_the_statistics_of_its_training():
    assert find_backbone("swin_tiny").mean == (0.485, 0.456, 0.406)
    # As published; the AdvProp weights it starts from had others.
    assert find_backbone("efficientnet_b5").std == (0.229, 0.224, 0.225)
    assert find_backbone("efficientnet_lite0").mean == (0.5, 0.5, 0.5)
    assert find_backbone("timm:mobilevit_s").std == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "name", ["swin_tiny", "dinov2_vits14", "efficientnet_b5", "timm:convnext_atto"]
)
def test_weights_come_from_a_file(name, tmp_path):
    torch.manual_seed(1)
    complete = timm.create_model(find_backbone(name).weights, pretrained=False)
    torch.save(complete.state_dict(), tmp_path / "weights.pth")
    encoder = find_backbone(name).build()
    load_encoder_weights(encoder, name, tmp_path / "weights.pth")
    theirs = {value.flatten()[:4].sum().item() for value in complete.state_dict().values()}
    part = encoder.vit if isinstance(encoder, VitPyramid) else encoder  # its pyramid is learnt
    ours = {k: v for k, v in part.state_dict().items() if not k.startswith("norms.")}
    assert ours
    for key, value in ours.items():
        assert value.flatten()[:4].sum().item() in theirs, key
    assert not logging.getLogger("timm.models._builder").filters  # as before


def test_swin_reads_the_file_of_its_authors(tmp_path):
    """Their file merges patches at the end of a stage and has a wrapper and constants."""
    complete = timm.create_model("swin_tiny_patch4_window7_224", pretrained=False)
    state = {}
    for key, value in complete.state_dict().items():
        parts = key.split(".")
        if parts[0] == "layers" and parts[2] == "downsample":
            parts[1] = str(int(parts[1]) - 1)
        state[".".join(parts).replace("head.fc.", "head.")] = value
    state["layers.0.blocks.0.attn.relative_position_index"] = torch.zeros(49, 49, dtype=torch.int64)
    torch.save({"model": state}, tmp_path / "swin.pth")
    encoder = BACKBONES["swin_tiny"].build()
    load_encoder_weights(encoder, "swin_tiny", tmp_path / "swin.pth")
    ours = encoder.layers[1].downsample.reduction.weight
    assert torch.equal(ours, complete.layers[1].downsample.reduction.weight)


def test_a_file_of_another_network_is_refused(tmp_path):
    path = tmp_path / "other.pth"
    torch.save(timm.create_model("resnet18", pretrained=False).state_dict(), path)
    with refused(CheckpointError, path, "resnet50"):
        load_encoder_weights(BACKBONES["resnet50"].build(), "resnet50", path)
    with refused(CheckpointError, tmp_path / "none.pth"):
        load_encoder_weights(BACKBONES["resnet50"].build(), "resnet50", tmp_path / "none.pth")


def test_a_hub_that_cannot_be_reached_is_an_error(monkeypatch):
    def refuse(*_, **__):
        raise OSError("no route to host\nmore lines")

    monkeypatch.setattr(timm, "create_model", refuse)
    facts = ("swin_base_patch4_window7_224.ms_in1k", "(no route to host)")
    with refused(CheckpointError, "encoder swin_base", *facts):
        load_encoder_weights(None, "swin_base", "imagenet")


def test_the_initial_weights_of_the_published_training_are_downloaded(monkeypatch):
    asked = []
    create = timm.create_model

    def offline(name, pretrained=False, **options):
        asked.append((name, pretrained))
        return create(name, pretrained=False, **options)

    encoder = BACKBONES["swin_tiny"].build()
    monkeypatch.setattr(timm, "create_model", offline)
    load_encoder_weights(encoder, "swin_tiny", "imagenet")
    assert asked == [("swin_tiny_patch4_window7_224.ms_in1k", True)]
