"""The encoder of FastDepth (Wofk et al., ICRA 2019): a pruned MobileNet that has seen depth.

Thirteen pairs of a depthwise and a pointwise convolution, each with batch norm and ReLU6; the
widths are what pruning left of MobileNet's. The authors' file (MIT licence) was trained on 48,000
frames of NYU-Depth v2. Its decoder is left where it is.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn

from idisc.errors import CheckpointError, require
from idisc.model.states import State, fill, first_line

WIDTHS = (16, 56, 88, 120, 144, 256, 408, 376, 272, 288, 296, 328, 480, 512)
HALVING = (2, 4, 6, 12)  # pairs whose depthwise convolution has stride 2, as the first layer has
ENDS = (3, 5, 11, 13)  # the last pairs of strides 4, 8, 16 and 32


class FastDepthEncoder(nn.Module):
    """RGB (B, 3, H, W) in [0, 1], not normalised -> maps at strides 4, 8, 16, 32."""

    def __init__(self) -> None:
        super().__init__()
        self.channels = tuple(WIDTHS[end] for end in ENDS)
        self.stem = _layer(3, WIDTHS[0], 3, stride=2)
        self.pairs = nn.ModuleList(
            nn.Sequential(
                _layer(narrow, narrow, 3, stride=2 if index in HALVING else 1, groups=narrow),
                _layer(narrow, wide, 1),
            )
            for index, (narrow, wide) in enumerate(pairwise(WIDTHS), start=1)
        )

    def forward(self, rgb: Tensor) -> list[Tensor]:
        """RGB (B, 3, H, W) in [0, 1] -> maps (B, C_l, H/s, W/s) of the strides s, rounded up."""
        maps, x = [], self.stem(rgb)
        for index, pair in enumerate(self.pairs, start=1):
            x = pair(x)
            if index in ENDS:
                maps.append(x)
        return maps

    def read(self, path: Path) -> None:
        """Fill from the authors' ONNX file, whose first layers are these in this order."""
        fill(self, _named(self, _tensors(path)), str(path))


def _layer(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )


def _tensors(path: Path) -> list[Tensor]:
    """The weights of an ONNX file's convolutions and batch norms, in the order of the graph."""
    if not path.is_file():
        raise CheckpointError(
            f"{path}: no such file; encoder fastdepth wants its authors' ONNX file"
        )
    require("onnx", extra="train")
    import onnx
    from onnx import numpy_helper

    try:
        graph = onnx.load(path, load_external_data=False).graph
        stored = {
            item.name: torch.tensor(numpy_helper.to_array(item)) for item in graph.initializer
        }
    except Exception as error:  # google.protobuf has its own class, in one of several modules
        raise CheckpointError(f"{path}: not readable as ONNX ({first_line(error)})") from None
    layers = (node for node in graph.node if node.op_type in ("Conv", "BatchNormalization"))
    return [stored[name] for node in layers for name in node.input if name in stored]


def _named(encoder: FastDepthEncoder, tensors: list[Tensor]) -> State:
    """Our names for them; the counter of a batch norm is not in the file."""
    expected = encoder.state_dict()
    counters = [name for name in expected if name.endswith("num_batches_tracked")]
    names = [name for name in expected if name not in counters][: len(tensors)]
    ours = tensors[: len(names)]  # the file goes on with the decoder
    return {
        **dict(zip(names, ours, strict=True)),
        **{name: expected[name] for name in counters},
    }
