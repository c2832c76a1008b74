"""The network as one graph from bytes to metres, in a form that an exporter can follow.

Two things stand in the way of a graph for any size, and this module is about them.

- To `torch.export` the height of a map of stride 32 is an expression in the height of the picture,
  roundings within roundings, and every operation compares such expressions: minutes, then hours. So
  the graph has *rulers*, extra inputs with nothing in them but the size of one stride's maps.
  `measured` says that a map is as large as a ruler; what it was before is forgotten, and every size
  is a plain symbol. `onnx.py` takes the rulers out again: a file computes them from its picture.
- Deformable attention gathers 64 rows for every query and head, gigabytes at 480x640. As the single
  operation `sample` it stays out of the trace, and the file has it query block by query block.

The batch is one picture: index arithmetic is simpler, and a CPU gains nothing from more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from idisc.model import swin
from idisc.model.backbones import SideBySide
from idisc.model.deformable import DeformableAttention, DeformableLayer
from idisc.model.fastdepth import CELL, FastDepth, FastDepthEncoder
from idisc.model.network import Encoded, IDisc, rgb_of
from idisc.model.sampling import sample_by_rows
from idisc.predict.torch_engine import disagreement
from idisc.sizes import Size

STRIDES = (2, 4, 8, 16, 32)
COMPANION = "companion"  # its ruler: one for each of its cells of 32x32 pixels
PROBE: Size = (117, 150)  # the traced picture: its maps differ in size from stride to stride


@torch.library.custom_op("idisc::measured", mutates_args=())
def measured(maps: Tensor, ruler: Tensor, axis: int, times: int) -> Tensor:  # noqa: ARG001
    """The same maps; axes `axis` and the next are as long as those of the ruler, so many times."""
    return maps.clone()


@measured.register_fake
def _(maps: Tensor, ruler: Tensor, axis: int, times: int) -> Tensor:
    shape = list(maps.shape)
    shape[axis], shape[axis + 1] = ruler.shape[0] * times, ruler.shape[1] * times
    return maps.new_empty(shape)


@torch.library.custom_op("idisc::sample", mutates_args=())
def sample(value: Tensor, sizes: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
    """`model.sampling` for one picture: value (L, K, D), sizes (V, 2), ... -> (Q, K * D)."""
    levels = [(height, width) for height, width in sizes.tolist()]
    return sample_by_rows(value[None], levels, locations[None], weights[None])[0]


@sample.register_fake
def _(value: Tensor, sizes: Tensor, locations: Tensor, weights: Tensor) -> Tensor:  # noqa: ARG001
    return value.new_empty(locations.shape[0], value.shape[1] * value.shape[2])


class BytesToMetres(nn.Module):
    """A network between what a file takes and what it gives; a copy, the network stays as it is."""

    def __init__(self, network: IDisc, *, dynamic: bool) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        self.dynamic = dynamic
        self.rulers: dict[int | str, Tensor] = {}
        for module in self.network.modules():
            if isinstance(module, DeformableLayer):
                module.add_module("attention", SampledAttention(module.attention))
        if dynamic:
            self._measure_encoder()
            if self.network.companion is not None:
                self._measure_companion(self.network.companion)

    def forward(self, image: Tensor, canvas: Tensor, *rulers: Tensor) -> tuple[Tensor, ...]:
        """Bytes (1, H, W, 3) and rulers -> depth (1, h, w) and spread, or normals (1, h, w, 3).

        `canvas` is the ruler of the output, the others those of `lengths`; a graph for one size has
        only the canvas.
        """
        if rulers:
            of = [length.of for length in lengths(self.network)]
            self.rulers = dict(zip(of, rulers, strict=True))  # for the hooks, too
        maps, opinion = self.network.encode(rgb_of(image))
        maps = [self._as_long(m, stride) for m, stride in zip(maps, STRIDES[1:], strict=True)]
        self.rulers = {}
        size = (canvas.shape[0], canvas.shape[1])
        output = self.network(Encoded(maps, opinion), size=size)
        if self.network.config.task == "normals":
            return (output.prediction.permute(0, 2, 3, 1),)
        if len(output.levels) < 2:
            return (output.prediction[:, 0],)
        return output.prediction[:, 0], disagreement(output.levels, size, opinion)[:, 0]

    def _as_long(self, maps: Tensor, stride: int, *, axis: int = 2, whole: bool = False) -> Tensor:
        """Maps measured by the ruler of their stride; `whole`: of a picture padded to 32."""
        if not self.rulers:
            return maps
        ruler, times = (32, 32 // stride) if whole else (stride, 1)
        return measured(maps, self.rulers[ruler], axis, times)

    def _measure_encoder(self) -> None:
        """Have the maps within the encoder measured, too, wherever their size changes."""
        encoder = self.network.encoder
        together = encoder.encoders if isinstance(encoder, SideBySide) else [encoder]
        for each in together:
            self._measure(each)

    def _measure(self, encoder: nn.Module) -> None:
        if isinstance(encoder, swin.Swin):
            self._measure_result(encoder.patch_embed, STRIDES[1], axis=1)
            for stride, stage in zip(STRIDES[1:], encoder.layers, strict=True):
                for module in stage.modules():
                    if isinstance(module, (swin.PatchMerging, swin.SwinBlock)):
                        self._measure_result(module, stride, axis=1)
            return
        body = encoder if isinstance(encoder, FastDepthEncoder) else getattr(encoder, "body", None)
        if body is None:
            return  # a ViT has one size, an easy one
        whole = bool(getattr(encoder, "align", False))
        if whole:
            body.register_forward_pre_hook(
                lambda _module, inputs: (self._as_long(inputs[0], 1, whole=True),)
            )
        for module, stride in _reducing(encoder, body, whole=whole):
            self._measure_result(module, stride, whole=whole)

    def _measure_companion(self, companion: FastDepth) -> None:
        stride = 1
        for module in companion.encoder.modules():
            if isinstance(module, nn.Conv2d) and module.stride == (2, 2):
                stride *= 2
                module.register_forward_hook(partial(self._as_cells, times=32 // stride))
        self.network.add_module(
            "companion", RuledCompanion(companion, lambda: self.rulers[COMPANION])
        )

    def _as_cells(self, _module: nn.Module, _inputs: Any, result: Tensor, *, times: int) -> Tensor:
        return measured(result, self.rulers[COMPANION], 2, times)

    def _measure_result(self, module: nn.Module, stride: int, **how: Any) -> None:
        module.register_forward_hook(
            lambda _module, _inputs, result: self._as_long(result, stride, **how)
        )


class RuledCompanion(nn.Module):
    """A companion that sees the picture in as many cells as its ruler has."""

    def __init__(self, companion: FastDepth, ruler: Callable[[], Tensor]) -> None:
        super().__init__()
        self.companion, self.ruler = companion, ruler

    def forward(self, rgb: Tensor) -> Tensor:
        """As `FastDepth.forward`."""
        ruler = self.ruler()
        return self.companion.in_cells(rgb, (ruler.shape[0], ruler.shape[1]))


class SampledAttention(nn.Module):
    """`DeformableAttention` with `sample` as one operation; the batch is one."""

    def __init__(self, attention: DeformableAttention) -> None:
        super().__init__()
        self.attention = attention

    def project(self, tokens: Tensor) -> Tensor:
        """As `DeformableAttention.project`."""
        return self.attention.project(tokens)

    def forward(
        self, query: Tensor, reference: Tensor, value: Tensor, sizes: Sequence[Size]
    ) -> Tensor:
        """As `DeformableAttention.forward`."""
        locations, weights = self.attention.places(query, reference, sizes)
        lengths = torch.tensor(sizes, dtype=torch.int64)
        read = sample(value[0], lengths, locations[0], weights[0])[None]
        return self.attention.out(read)


def example(size: Size | None, lengths: Sequence[Length] = ()) -> tuple[Tensor, ...]:
    """Inputs of `BytesToMetres` for a trace: a picture, the canvas, and without a size rulers."""
    height, width = size or PROBE
    image = torch.zeros(1, height, width, 3, dtype=torch.uint8)
    canvas = _ruler(height + 3, width + 5)  # neither the picture's size nor a square
    if size:
        return image, canvas
    return image, canvas, *(_ruler(*length.at(PROBE)) for length in lengths)


@dataclass(frozen=True)
class Length:
    """How long a ruler is: (side of the picture + more) over unit, rounded down; 1 at least."""

    of: int | str  # a stride, or COMPANION
    more: Size
    unit: Size

    @property
    def name(self) -> str:
        """Of the ruler, in a graph."""
        return f"ruler_{self.of}"

    def at(self, picture: Size) -> Size:
        """Down and across, for a picture of that size."""
        down, across = (
            max((side + more) // unit, 1)
            for side, more, unit in zip(picture, self.more, self.unit, strict=True)
        )
        return down, across


def lengths(network: IDisc) -> list[Length]:
    """The rulers that a network needs for pictures of any size, in the order of its inputs."""
    found = [Length(s, (s - 1, s - 1), (s, s)) for s in STRIDES]
    if network.companion is not None:
        found.append(Length(COMPANION, (CELL[0] // 2, CELL[1] // 2), CELL))
    return found


def _ruler(height: int, width: int) -> Tensor:
    return torch.zeros(height, width, dtype=torch.bool)


def _reducing(encoder: nn.Module, body: nn.Module, *, whole: bool) -> list[tuple[nn.Module, int]]:
    """Layers whose result is smaller than their input, with its stride; seen on one picture."""
    found: list[tuple[nn.Module, int]] = []
    height, width = (-(-length // 32) * 32 if whole else length for length in PROBE)
    strides = {(-(-height // s), -(-width // s)): s for s in STRIDES}

    def look(module: nn.Module, inputs: tuple[Any, ...], result: Any) -> None:
        if not (isinstance(result, Tensor) and result.ndim == 4 and inputs[0].ndim == 4):
            return
        stride = strides.get((result.shape[2], result.shape[3]))
        if stride and result.shape[2:] != inputs[0].shape[2:]:
            found.append((module, stride))

    hooks = [
        module.register_forward_hook(look)
        for module in body.modules()
        if not any(True for _ in module.children())
    ]
    with torch.no_grad():
        encoder(torch.zeros(1, 3, *PROBE))
    for hook in hooks:
        hook.remove()
    return found
