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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from idisc.model import swin
from idisc.model.deformable import DeformableAttention, DeformableLayer
from idisc.model.network import IDisc, rgb_of
from idisc.model.sampling import sample_by_rows
from idisc.model.vit import VitPyramid
from idisc.predict.torch_engine import disagreement
from idisc.sizes import Size

STRIDES = (2, 4, 8, 16, 32)
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
        self.rulers: dict[int, Tensor] = {}
        for module in self.network.modules():
            if isinstance(module, DeformableLayer):
                module.add_module("attention", SampledAttention(module.attention))
        if dynamic:
            self._measure(self.network.encoder)

    def forward(self, image: Tensor, canvas: Tensor, *rulers: Tensor) -> tuple[Tensor, ...]:
        """Bytes (1, H, W, 3) and rulers -> depth (1, h, w) and spread, or normals (1, h, w, 3).

        `canvas` is the ruler of the output, the others those of `lengths`; a graph for one size has
        only the canvas.
        """
        if rulers:
            of = [length.of for length in lengths()]
            self.rulers = dict(zip(of, rulers, strict=True))  # for the hooks, too
        maps = self.network.encode(rgb_of(image))
        maps = [self._as_long(m, stride) for m, stride in zip(maps, STRIDES[1:], strict=True)]
        self.rulers = {}
        size = (canvas.shape[0], canvas.shape[1])
        output = self.network.decode(maps, size)
        if self.network.config.task == "normals":
            return (output.prediction.permute(0, 2, 3, 1),)
        if len(output.levels) < 2:
            return (output.prediction[:, 0],)
        return output.prediction[:, 0], disagreement(output.levels, size)[:, 0]

    def _as_long(self, maps: Tensor, stride: int, *, axis: int = 2, whole: bool = False) -> Tensor:
        """Maps measured by the ruler of their stride; `whole`: of a picture padded to 32."""
        if not self.rulers:
            return maps
        ruler, times = (32, 32 // stride) if whole else (stride, 1)
        return measured(maps, self.rulers[ruler], axis, times)

    def _measure(self, encoder: nn.Module) -> None:
        if isinstance(encoder, swin.Swin):
            self._measure_result(encoder.patch_embed, STRIDES[1], axis=1)
            for stride, stage in zip(STRIDES[1:], encoder.layers, strict=True):
                for module in stage.modules():
                    if isinstance(module, (swin.PatchMerging, swin.SwinBlock)):
                        self._measure_result(module, stride, axis=1)
            return
        if isinstance(encoder, VitPyramid):
            for module, stride in _reducing(encoder, encoder, whole=False):
                self._measure_result(module, stride)
            self._measure_result(encoder.vit.patch_embed, 16, axis=1)
            object.__setattr__(encoder, "grid", self._grid)  # in place of the method
            return
        body = cast(nn.Module, encoder.body)
        whole = bool(getattr(encoder, "align", False))
        if whole:
            body.register_forward_pre_hook(
                lambda _module, inputs: (self._as_long(inputs[0], 1, whole=True),)
            )
        for module, stride in _reducing(encoder, body, whole=whole):
            self._measure_result(module, stride, whole=whole)

    def _grid(self, _size: Size) -> Size:
        """The ruler of a ViT's tokens, instead of a division of the picture's sides."""
        ruler = self.rulers[16]
        return ruler.shape[0], ruler.shape[1]

    def _measure_result(self, module: nn.Module, stride: int, **how: Any) -> None:
        module.register_forward_hook(
            lambda _module, _inputs, result: self._as_long(result, stride, **how)
        )


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

    of: int  # a stride
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


def lengths() -> list[Length]:
    """The rulers that pictures of any size need, in the order of the graph's inputs."""
    return [Length(s, (s - 1, s - 1), (s, s)) for s in STRIDES]


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
