"""FastDepth (Wofk et al., ICRA 2019): a pruned MobileNet that has seen depth.

Thirteen pairs of a depthwise and a pointwise convolution, each with batch norm and ReLU6, and six
layers back up; the widths are what pruning left of them. Its ONNX file (MIT licence) holds weights
that its authors trained on 48,000 frames of NYU-Depth v2. Its encoder can be one of ours, free to
learn; the whole of it can be the companion of a network, and stays as it is.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from idisc.errors import CheckpointError, first_line
from idisc.model.states import State, fill, read_onnx
from idisc.model.tokens import size_of
from idisc.sizes import Size

WIDTHS = (16, 56, 88, 120, 144, 256, 408, 376, 272, 288, 296, 328, 480, 512)
HALVING = (2, 4, 6, 12)  # pairs whose depthwise convolution has stride 2, as the first layer has
ENDS = (3, 5, 11, 13)  # the last pairs of strides 4, 8, 16 and 32
DECODER_WIDTHS = (512, 200, 256, 120, 56, 16)
SKIPS = {1: 5, 2: 3, 3: 1}  # after which layer of the decoder which pair is added
CELL = (30, 40)  # rows and columns of a picture of 4:3 that are 32x32 pixels to it: see `FastDepth`
SEEN = 250 * 224 / 228  # rows of a whole frame in its training: 250, of which 228 became 224
ZOOM = 256 / SEEN  # how much larger things look to it in cells
NEAREST = 0.1  # metres; below, it only says that it does not know


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
        every = self.each_pair(rgb)
        return [every[end - 1] for end in ENDS]

    def each_pair(self, rgb: Tensor) -> list[Tensor]:
        """RGB (B, 3, H, W) in [0, 1] -> a map (B, C, h, w) of each of the 13 pairs."""
        maps, x = [], self.stem(rgb)
        for pair in self.pairs:
            x = pair(x)
            maps.append(x)
        return maps


class FastDepth(nn.Module):
    """RGB (B, 3, H, W) in [0, 1] -> log depth (B, 1, h, w); frozen, and always in eval mode.

    It was trained on frames of 4:3 that had been squeezed to squares. So a picture is shown to it
    in squares of 32x32 pixels, one for every `CELL`: the usual 240x320 become 256x256 (h, w), in
    which things look larger and therefore nearer by `ZOOM`. Like the network around it, it takes a
    larger picture of the same room for one from closer by.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoder = FastDepthEncoder()
        self.decoder = nn.ModuleList(
            nn.Sequential(
                _layer(wide, wide, 5, groups=wide, activation=nn.ReLU),
                _layer(wide, narrow, 1, activation=nn.ReLU),
            )
            for wide, narrow in pairwise(DECODER_WIDTHS)
        )
        self.last = _layer(DECODER_WIDTHS[-1], 1, 1, activation=nn.ReLU)
        self.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> FastDepth:  # noqa: ARG002
        """Stay as it is: the batch norms of a frozen network must not drift."""
        super().train(False)
        return self

    def forward(self, rgb: Tensor) -> Tensor:
        """RGB (B, 3, H, W) in [0, 1] -> log of metres (B, 1, h, w)."""
        (height, width), (rows, columns) = size_of(rgb), CELL
        down, across = (height + rows // 2) // rows, (width + columns // 2) // columns
        return self.in_cells(rgb, (max(down, 1), max(across, 1)))

    def in_cells(self, rgb: Tensor, cells: Size) -> Tensor:
        """The same in so many cells down and across -> (B, 1, 32 down, 32 across)."""
        size = (32 * cells[0], 32 * cells[1])
        shown = F.interpolate(rgb, size, mode="bilinear", align_corners=False)
        return (self.metres(shown).clamp(min=NEAREST) * ZOOM).log()

    def metres(self, rgb: Tensor) -> Tensor:
        """RGB (B, 3, 32 n, 32 m) -> metres (B, 1, 32 n, 32 m), as its file."""
        pairs = self.encoder.each_pair(rgb)
        x = pairs[-1]
        for index, layer in enumerate(self.decoder):
            x = F.interpolate(layer(x), scale_factor=2.0, mode="nearest")
            if index in SKIPS:
                x = x + pairs[SKIPS[index] - 1]
        metres: Tensor = self.last(x)
        return metres


def read_weights(network: FastDepth | FastDepthEncoder, path: Path) -> None:
    """Fill from its ONNX file, whose layers are ours in our order, the encoder's first."""
    fill(network, _named(network, _tensors(path)), str(path))


def _layer(
    inputs: int,
    outputs: int,
    kernel: int,
    *,
    stride: int = 1,
    groups: int = 1,
    activation: type[nn.ReLU | nn.ReLU6] = nn.ReLU6,
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        activation(inplace=True),
    )


def _tensors(path: Path) -> list[Tensor]:
    """The weights of an ONNX file's convolutions and batch norms, in the order of the graph."""
    graph = read_onnx(path).graph
    from onnx import numpy_helper  # is there, now that a file was read with it

    try:
        stored = {
            item.name: torch.tensor(numpy_helper.to_array(item)) for item in graph.initializer
        }
    except Exception as error:  # weights that lie elsewhere, or are cut short
        raise CheckpointError(f"{path}: not readable as ONNX ({first_line(error)})") from None
    layers = (node for node in graph.node if node.op_type in ("Conv", "BatchNormalization"))
    return [stored[name] for node in layers for name in node.input if name in stored]


def _named(network: nn.Module, tensors: list[Tensor]) -> State:
    """Our names for them; the counter of a batch norm is not in the file."""
    expected = network.state_dict()
    counters = [name for name in expected if name.endswith("num_batches_tracked")]
    names = [name for name in expected if name not in counters][: len(tensors)]
    ours = tensors[: len(names)]  # where only the encoder is wanted, the file goes on
    return {
        **dict(zip(names, ours, strict=True)),
        **{name: expected[name] for name in counters},
    }
