"""Single modules against the published code's numbers: outputs, float64 outputs, gradients.

The `eps_*` modules are scaled so that a norm with a wrong epsilon would be off by percents.
"""

import json

import numpy as np
import pytest
import torch
from tests.golden import store
from timm.models.resnet import Bottleneck
from torch import Tensor, nn

from idisc.configs.schema import AfpConfig, DecoderConfig, IsdConfig
from idisc.model import sampling
from idisc.model.convert import rename
from idisc.model.deformable import DeformableAttention
from idisc.model.discretization import CrossAttention, FeaturePartition, SceneDiscretization
from idisc.model.heads import OutputHead, fuse_depth, fuse_normals
from idisc.model.pixel_decoder import DeformablePixelDecoder, PlainPixelDecoder
from idisc.model.swin import Swin
from idisc.model.tokens import sine_encoding, size_of, to_map, to_positioned_tokens

pytestmark = pytest.mark.usefixtures("one_thread")

# Gradients of weights are sums over all tokens. That of a layer norm of Swin is stored with an
# error of 2.8e-5 of its maximum, which is its difference from ours in float64; ours has 1e-5.
SUMMED = 5e-5
PRECISIONS = (("", torch.float32, store.TOLERANCE), ("64", torch.float64, 1e-13))
SAMPLERS = ("oracle", "plain", *(["accelerated"] if sampling.kernel_available() else []))


def modules(prefix):
    """Golden modules whose name starts so, with or without `eps_`."""
    found = {}
    for folder in store.FOLDERS:
        for path in sorted((folder / "modules").glob("*.npz")):
            if path.stem.removeprefix("eps_").startswith(prefix):
                found.setdefault(path.stem, path)
    return [pytest.param(path, id=name) for name, path in found.items()]


def facts_of(path):
    return json.loads((path.parent / "index.json").read_text())[path.stem]


def check(path, network, run):
    """Outputs in both precisions, and gradients of inputs and weights, in float32.

    `network` carries the golden weights under the released names given to it by `Named`.
    """
    data, facts = np.load(path), facts_of(path)
    network.train(facts["train_mode"])
    inputs = {k[3:]: torch.from_numpy(data[k]) for k in data if k.startswith("in.")}
    if not facts["train_mode"]:  # a second pass in train mode would see other statistics
        network.double()
        with torch.no_grad():
            doubles = run({k: v.double() for k, v in inputs.items()})
        for index, out in enumerate(doubles):
            store.assert_close(
                out.numpy(), data[f"out64.{index}"], f"{path.stem} out64.{index}", 1e-13
            )
        network.float()
    for value in inputs.values():
        value.requires_grad_()
    outs = run(inputs)
    for index, out in enumerate(outs):
        store.assert_close(out.detach().numpy(), data[f"out.{index}"], f"{path.stem} out.{index}")
    total = sum((out * torch.from_numpy(data[f"cot.{i}"])).sum() for i, out in enumerate(outs))
    assert isinstance(total, Tensor)
    total.backward()
    for name, value in inputs.items():
        store.assert_close(
            value.grad.numpy(), data[f"grad.in.{name}"], f"{path.stem} grad.in.{name}"
        )
    parameters = dict(network.named_parameters())
    for name in (k.removeprefix("grad.w.") for k in data if k.startswith("grad.w.")):
        if name in facts["vanishing"] or name in facts["no_gradient"]:
            continue
        gradient = parameters[network.names[name]].grad
        golden, what = data[f"grad.w.{name}"], f"{path.stem} grad.w.{name}"
        store.assert_close(gradient.numpy(), golden, what, SUMMED)
    buffers = dict(network.named_buffers())
    for name in (k.removeprefix("after.") for k in data if k.startswith("after.")):
        ours = buffers[network.names[name]].numpy()
        store.assert_close(ours, data[f"after.{name}"], f"{path.stem} after {name}")


class Named(nn.Module):
    """A part of our network, filled from a golden module whose released names lack a prefix."""

    def __init__(self, parts, data, prefix):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        weights = {k[2:]: torch.from_numpy(np.asarray(data[k])) for k in data if k.startswith("w.")}
        self.names = {
            k: ours for k in weights if (ours := rename(prefix + k, "golden")) is not None
        }
        self.load_state_dict({self.names[k]: v for k, v in weights.items() if k in self.names})


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("path", modules("msda_core"))
def test_sampling_core(path, sampler):
    data = np.load(path)
    sizes = [tuple(size) for size in data["spatial_shapes"].tolist()]
    names = ("value", "sampling_locations", "attention_weights")
    for suffix, kind, tolerance in PRECISIONS:
        inputs = [torch.from_numpy(data[name]).to(kind).requires_grad_() for name in names]
        out = sampling.SAMPLERS[sampler](inputs[0], sizes, inputs[1], inputs[2])
        store.assert_close(
            out.detach().numpy(), data[f"out{suffix}"], f"{path.stem} out", tolerance
        )
        if "grad.value" not in data:
            continue  # special places, at some of which there is no gradient
        (out * torch.from_numpy(data["cot"])).sum().backward()
        for name, value in zip(names, inputs, strict=True):
            golden = data[f"grad.{name}{suffix}"]
            store.assert_close(value.grad.numpy(), golden, f"{path.stem} grad.{name}", tolerance)


@pytest.mark.parametrize("path", modules("msda_module"))
def test_deformable_attention(path):
    params = facts_of(path)["params"]
    sizes = [tuple(size) for size in params["spatial_shapes"]]
    module = DeformableAttention(
        params["d_model"], params["n_levels"], params["n_heads"], params["n_points"]
    )
    layer = nn.ModuleDict({"attention": module})
    parts = {"decoder": nn.ModuleDict({"msda": nn.ModuleDict({"layers": nn.ModuleList([layer])})})}
    network = Named(parts, np.load(path), "pixel_decoder.transformer.encoder.layer_1.self_attn.")

    def run(inputs):
        reference = inputs["reference_points"]  # (N, Lq, levels, 2), the same for all levels here
        locations, weights = module.sampling_locations(inputs["query"], reference[:, :, 0], sizes)
        locations = locations + (reference - reference[:, :, :1])[:, :, None, :, None]
        sampled = sampling.sample(
            module.project(inputs["input_flatten"]), sizes, locations, weights
        )
        return [module.out(sampled)]

    check(path, network, run)


@pytest.mark.parametrize("path", modules("positional_encoding"))
def test_sine_encoding(path):
    data = np.load(path)
    compared = 0
    for name in data:
        _, features, size, kind = name.split("_")
        if kind != "norm":
            continue  # an option that the network never uses
        height, width = map(int, size.split("x"))
        channels = 2 * int(features.removeprefix("feats"))
        ours = sine_encoding((height, width), channels, torch.device("cpu"))
        ours = to_map(ours[None], (height, width))[0]
        ours = ours[:, ::6, ::8] if size == "30x40" else ours
        np.testing.assert_allclose(ours.numpy(), data[name], rtol=0, atol=2e-6, err_msg=name)
        compared += 1
    assert compared == 6


@pytest.mark.parametrize("path", modules("attention_"))
def test_cross_attention(path):
    params, afp = facts_of(path)["params"], "afp" in path.stem
    attention = CrossAttention(
        params["sink_dim"], params["source_dim"], params["hidden_dim"], params["num_heads"]
    )
    parts = {
        "isd": nn.ModuleList(
            [nn.ModuleDict({"layers": nn.ModuleList([nn.ModuleDict({"attention": attention})])})]
        )
    }
    network = Named(parts, np.load(path), "isd.head_1.cross_attn_1.")

    def run(inputs):
        keys, values = attention.keys_and_values(inputs["source"])
        logits = attention.queries(inputs["sink"]) @ keys.mT
        weights = logits.softmax(-2 if afp else -1)
        if afp:
            weights = weights + 1e-6
            weights = weights / weights.sum(-1, keepdim=True)
        return [attention.project_out(weights @ values)]

    check(path, network, run)


@pytest.mark.parametrize("path", modules("afp_"))
def test_feature_partition(path):
    params = facts_of(path)["params"]
    config = AfpConfig(
        idrs=params["num_latents"],
        width=params["latent_dim"],
        heads=params["num_heads"],
        iterations=params["iterations"],
    )
    levels = nn.ModuleList(
        FeaturePartition(params["pixel_dim"], config, params["expansion"], params["activation"])
        for _ in range(params["num_resolutions"])
    )
    network = Named({"afp": levels}, np.load(path), "afp.")
    check(
        path,
        network,
        lambda inputs: [
            afp(to_positioned_tokens(inputs[f"map{level}"])) for level, afp in enumerate(levels, 1)
        ],
    )


@pytest.mark.parametrize("path", modules("isd_"))
def test_scene_discretization(path):
    params = facts_of(path)["params"]
    config = IsdConfig(layers=params["layers"], heads=params["num_heads"])
    width = params["pixel_dim"]
    isd, heads = nn.ModuleList(), nn.ModuleList()
    for _ in range(params["num_resolutions"]):
        isd.append(
            SceneDiscretization(
                width, params["query_dim"], config, params["expansion"], params["activation"]
            )
        )
        heads.append(OutputHead(width, params["output_dim"]))
    network = Named({"isd": isd, "heads": heads}, np.load(path), "isd.")

    def run(inputs):
        outs = []
        for level, (discretize, head) in enumerate(zip(isd, heads, strict=True), 1):
            maps = inputs[f"map{level}"]
            pixels = discretize(to_positioned_tokens(maps), inputs[f"idr{level}"])
            outs.append(to_map(head(pixels), size_of(maps)))
        return outs

    check(path, network, run)


@pytest.mark.parametrize("path", modules("decoder_"))
def test_deformable_pixel_decoder(path):
    params = facts_of(path)["params"]
    config = DecoderConfig(
        width=params["hidden_dim"],
        heads=params["heads"],
        layers=params["layers"],
        points=params["points"],
    )
    expansion = params["ffn_dim"] // params["hidden_dim"]
    decoder = DeformablePixelDecoder(
        params["input_dims"][::-1], config, expansion, params["activation"]
    )
    network = Named({"decoder": decoder}, np.load(path), "pixel_decoder.")

    def run(inputs):
        decoded = decoder([inputs[f"f{level}"] for level in (1, 2, 3, 4)])
        return [*decoded.pixel_embeddings, *decoded.features]

    check(path, network, run)


@pytest.mark.parametrize("path", modules("fpn_plain"))
def test_plain_pixel_decoder(path):
    params = facts_of(path)["params"]
    decoder = PlainPixelDecoder(params["input_dims"][::-1], params["hidden_dim"])
    network = Named({"decoder": decoder}, np.load(path), "pixel_decoder.")
    check(
        path,
        network,
        lambda inputs: decoder([inputs[f"f{level}"] for level in (1, 2, 3, 4)]).features,
    )


@pytest.mark.parametrize("path", modules("swin"))
def test_swin_on_sizes_where_every_padding_occurs(path):
    params = facts_of(path)["params"]
    swin = Swin(params["embed_dims"], params["depths"], params["num_heads"], drop_path=0.0)
    network = Named({"encoder": swin}, np.load(path), "pixel_encoder.")
    check(path, network, lambda inputs: swin(inputs["image"]))


@pytest.mark.parametrize("path", modules("bottleneck"))
def test_resnet_bottleneck_of_timm(path):
    shortcut = nn.Sequential(nn.Conv2d(8, 16, 1, 2, bias=False), nn.BatchNorm2d(16))
    block = Bottleneck(8, 4, stride=2, downsample=shortcut)
    parts = {"encoder": nn.ModuleDict({"body": nn.ModuleDict({"block": block})})}
    network = Named(parts, np.load(path), "pixel_encoder.")
    check(path, network, lambda inputs: [block(inputs["x"])])


@pytest.mark.parametrize("path", modules("fusion"))
def test_fusion_of_the_resolutions(path):
    data = np.load(path)
    names = sorted(k for k in data if k.startswith("in."))
    fuse = fuse_normals if "normals" in path.stem else fuse_depth
    size = tuple(data["pred"].shape[2:])
    for suffix, kind, tolerance in PRECISIONS:
        levels = [torch.from_numpy(data[name]).to(kind).requires_grad_() for name in names]
        fused = fuse(levels, size)
        golden = data[f"for_loss{suffix}"]
        store.assert_close(fused.detach().numpy(), golden, f"{path.stem} for_loss", tolerance)
        (fused * torch.from_numpy(data["cot"])).sum().backward()
        for name, level in zip(names, levels, strict=True):
            golden = data[f"grad.{name.removeprefix('in.')}{suffix}"]
            store.assert_close(level.grad.numpy(), golden, f"{path.stem} grad.{name}", tolerance)
