"""Converts released checkpoints: tensors are renamed, and the configuration follows from shapes.

A released file is a plain dictionary of tensors. Some parts of the configuration do not affect any
shape: the number of AFP iterations, the heads of AFP and ISD, and the activation. The heads of MSDA
are known only as a product with its points. Every released configuration has 2, 1, GELU and 4
there. For other files the caller passes changes (`afp.iterations=3`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from idisc import configs
from idisc.configs.schema import AfpConfig, DecoderConfig, IsdConfig, ModelConfig
from idisc.errors import CheckpointError, InputError
from idisc.model.network import IDisc
from idisc.model.states import State, check_state, read_state

_ATTENTION = {
    "norm": "sink_norm",
    "norm_context": "source_norm",
    "to_q": "query",
    "to_kv": "key_value",
    "to_out": "out",
}
_MSDA = {
    "self_attn.sampling_offsets": "attention.offsets",
    "self_attn.attention_weights": "attention.weights",
    "self_attn.value_proj": "attention.value",
    "self_attn.output_proj": "attention.out",
    "norm1": "norm",
    "norm2": "mlp.0",
    "linear1": "mlp.1",
    "linear2": "mlp.3",
}
_CONVS = {
    r"lateral_fpn_conv_([1-9]\d*)": "laterals.{}",
    r"fpn_conv_([1-9]\d*)": "smooth.{}",
    r"out_conv_([1-9]\d*)": "refined.{}",
    r"layer_([1-9]\d*)": "smooth.{}",
    # The plain decoder has no lateral for the coarsest map, so its first is number 2.
    **{f"adapter_{i}": f"laterals.{i - 2}" for i in (2, 3, 4)},
}

_ENCODERS = {  # first convolution, its width, blocks of the third stage
    ("conv1", 64, 6): "resnet50",
    ("conv1", 64, 23): "resnet101",
    ("conv_stem", 48, 7): "efficientnet_b5",
    ("patch_embed.proj", 96, 6): "swin_tiny",
    ("patch_embed.proj", 96, 18): "swin_small",
    ("patch_embed.proj", 128, 18): "swin_base",
    ("patch_embed.proj", 192, 18): "swin_large_22k",
}

# Released name -> ours, the first pattern that matches a whole name; None: it is not used.
# A group that is a number counts from 1 in the file and from 0 here.
_RENAMES: tuple[tuple[str, str | None], ...] = (
    # Follows from the window size.
    (r"pixel_encoder\.layers\.\d\.blocks\.\d+\.attn\.relative_position_index", None),
    (r"pixel_encoder\.fc\.(?:weight|bias)", None),  # ResNet's classifier
    *(
        (
            rf"pixel_encoder\.layers\.{s}\.downsample\.(.+)",
            f"encoder.layers.{s + 1}.downsample.{{}}",
        )
        for s in range(3)  # released: merging at the end of a stage; timm: at the start of the next
    ),
    *((rf"pixel_encoder\.norm{s}\.(.+)", f"encoder.norms.{s}.{{}}") for s in range(4)),
    (r"pixel_encoder\.((?:patch_embed|layers)\..+)", "encoder.{}"),
    (r"pixel_encoder\.(.+)", "encoder.body.{}"),
    (r"afp\.mu_([1-9]\d*)", "afp.{}.priors"),
    *(
        (rf"afp\.cross_attn_([1-9]\d*)_d1\.{old}\.(.+)", f"afp.{{}}.attention.{new}.{{}}")
        for old, new in _ATTENTION.items()
    ),
    (r"afp\.mlp_cross_([1-9]\d*)_d1\.(.+)", "afp.{}.mlp.{}"),
    *(
        (
            rf"isd\.head_([1-9]\d*)\.cross_attn_([1-9]\d*)\.{old}\.(.+)",
            f"isd.{{}}.layers.{{}}.attention.{new}.{{}}",
        )
        for old, new in _ATTENTION.items()
    ),
    (r"isd\.head_([1-9]\d*)\.mlp_([1-9]\d*)\.(.+)", "isd.{}.layers.{}.mlp.{}"),
    (r"isd\.head_([1-9]\d*)\.proj_output\.(.+)", "heads.{}.layers.{}"),
    (r"pixel_decoder\.input_adapter_([1-9]\d*)\.(.+)", "decoder.adapters.{}.{}"),
    (r"pixel_decoder\.transformer\.level_embed", "decoder.msda.level_embedding"),
    *(
        (
            rf"pixel_decoder\.transformer\.encoder\.layer_([1-9]\d*)\.{old}\.(.+)",
            f"decoder.msda.layers.{{}}.{new}.{{}}",
        )
        for old, new in _MSDA.items()
    ),
    *(
        (rf"pixel_decoder\.{old}\.weight", f"decoder.{new}.conv.weight")
        for old, new in _CONVS.items()
    ),
    *((rf"pixel_decoder\.{old}\.(norm\..+)", f"decoder.{new}.{{}}") for old, new in _CONVS.items()),
)


@dataclass(frozen=True)
class Converted:
    """A released checkpoint in the format of this package."""

    model: ModelConfig
    state: State
    tensors: int  # in the file
    dropped: tuple[str, ...]  # released names that the network does not use


def convert(path: Path, changes: Sequence[str] = ()) -> Converted:
    """Read a released checkpoint; `changes` (`afp.iterations=3`) set what shapes do not tell."""
    return convert_state(read_state(path), changes, str(path))


def convert_state(source: State, changes: Sequence[str], where: str) -> Converted:
    """Convert the tensors of a released checkpoint; `where` names them in errors."""
    model = configs.override(infer_config(source, where), changes)
    renamed: State = {}
    names: dict[str, str] = {}  # ours -> the file's
    dropped = []
    for name, value in source.items():
        ours = rename(name, where)
        if ours is None or _is_unused(ours, model):
            dropped.append(name)
            continue
        if ours in renamed:
            raise CheckpointError(where, f"{names[ours]} and {name} are the same tensor")
        renamed[ours] = value.float() if value.is_floating_point() else value
        names[ours] = name
    with torch.device("meta"):
        expected = IDisc(model).state_dict()
    for name, value in expected.items():
        if name.endswith("num_batches_tracked"):  # counters, which may be missing
            renamed.setdefault(name, torch.zeros(value.shape, dtype=value.dtype))
    check_state(renamed, expected, where, names)
    return Converted(model, renamed, len(source), tuple(dropped))


def rename(name: str, where: str) -> str | None:
    """Return our name of a released tensor; None if the network does not use it."""
    for pattern, template in _RENAMES:
        if match := re.fullmatch(pattern, name):
            if template is None:
                return None
            return template.format(*(str(int(g) - 1) if g.isdigit() else g for g in match.groups()))
    raise CheckpointError(where, f"unexpected tensor {name}", "not a released iDisc checkpoint")


def infer_config(state: Mapping[str, Tensor], where: str) -> ModelConfig:
    """Return the configuration implied by the shapes of a released checkpoint."""
    outputs, width = _shape(state, "isd.head_1.proj_output.3.weight", 2, where)
    if outputs not in (1, 4):
        raise CheckpointError(
            where, f"{outputs} output channels", "1 (depth) or 4 (normals) expected"
        )
    _, idrs, idr_width = _shape(state, "afp.mu_1", 3, where)
    layers = _count(state, r"isd\.head_1\.cross_attn_(\d+)\.to_q\.weight")
    try:
        return ModelConfig(
            encoder=_encoder(state, where),
            task="depth" if outputs == 1 else "normals",
            discretization="isd" if layers else "none",
            resolutions=_count(state, r"isd\.head_(\d+)\.proj_output\.3\.weight"),
            expansion=_expansion(state, idr_width),
            decoder=_decoder(state, width, where),
            afp=AfpConfig(idrs=idrs, width=idr_width),
            isd=IsdConfig(layers=max(layers, 1)),
        )
    except InputError as error:  # the shapes are inconsistent
        raise CheckpointError(*error.within(where).args) from None


def _encoder(state: Mapping[str, Tensor], where: str) -> str:
    blocks = _count(state, r"pixel_encoder\.(?:layer3|layers\.2\.blocks|blocks\.3)\.(\d+)\..+")
    for (stem, width, count), encoder in _ENCODERS.items():
        name = f"pixel_encoder.{stem}.weight"
        if name in state and (state[name].shape[0], blocks) == (width, count):
            return encoder
    raise CheckpointError(where, f"none of the encoders {', '.join(_ENCODERS.values())}")


def _decoder(state: Mapping[str, Tensor], width: int, where: str) -> DecoderConfig:
    if "pixel_decoder.transformer.level_embed" not in state:
        return DecoderConfig(msda=False, width=width)
    layer = "pixel_decoder.transformer.encoder.layer_"
    levels, _ = _shape(state, "pixel_decoder.transformer.level_embed", 2, where)
    (products,) = _shape(state, f"{layer}1.self_attn.attention_weights.bias", 1, where)
    heads = DecoderConfig().heads
    return DecoderConfig(
        width=width,
        layers=_count(state, rf"{re.escape(layer)}(\d+)\..+"),
        heads=heads,
        points=max(1, products // levels // heads),
    )


def _expansion(state: Mapping[str, Tensor], width: int) -> int:
    inner = state.get("afp.mlp_cross_1_d1.1.weight")
    return 4 if inner is None else max(1, inner.numel() // width**2)


def _shape(state: Mapping[str, Tensor], name: str, axes: int, where: str) -> tuple[int, ...]:
    if name not in state:
        raise CheckpointError(
            where, f"missing {name}", "not a released iDisc checkpoint, or a damaged one"
        )
    shape = tuple(state[name].shape)
    if len(shape) != axes or 0 in shape:
        raise CheckpointError(where, f"{name} has the shape {shape}", "not a released checkpoint")
    return shape


def _count(state: Mapping[str, Tensor], pattern: str) -> int:
    return len({match[1] for name in state if (match := re.fullmatch(pattern, name))})


def _is_unused(name: str, model: ModelConfig) -> bool:
    """Return whether this network does not use a tensor: AFP without iterations, or no ISD."""
    if not name.startswith("afp."):
        return False
    return model.discretization == "none" or (
        model.afp.iterations == 0 and not name.endswith(".priors")
    )
