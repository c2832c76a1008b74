"""The network as one graph from bytes to metres, in a form that `torch.export` can trace.

Tracing for images of any size meets two obstacles, which this module removes.

- `torch.export` describes the height of a stride-32 map as nested roundings of the image height,
  and compares such expressions in every operation, which takes hours. The traced module therefore
  has additional inputs, the *size inputs*: tensors of which only the shape counts, the map size of
  one stride. `sized_like` declares that a map has the size of such an input, so that every size is
  a plain symbol. `onnx.py` removes these inputs again; the exported file computes them.
- Deformable attention gathers 64 rows per query and head, gigabytes at 480x640. It is traced as the
  single operation `sample`; `sampling.py` defines it in ONNX, one block of queries at a time.

The batch size is one: index arithmetic is simpler, and a CPU gains nothing from larger batches.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from idisc.errors import InputError, first_line
from idisc.model import swin
from idisc.model.network import IDisc, rgb_of
from idisc.model.sampling import sample_by_rows, using
from idisc.model.vit import PIXELS_PER_TOKEN, VitPyramid
from idisc.predict.onnx_engine import LEVEL_STD, SCENE
from idisc.predict.torch_engine import disagreement
from idisc.sizes import Size

STRIDES = (2, 4, 8, 16, 32)  # each has a size input
TRACED: Size = (117, 150)  # size of the traced image: the maps of all strides differ in size


@torch.library.custom_op("idisc::sized_like", mutates_args=())
def sized_like(maps: Tensor, reference: Tensor, axis: int, factor: int) -> Tensor:  # noqa: ARG001
    """Return `maps`; axes `axis` and `axis + 1` have the size of the reference, times `factor`."""
    return maps.clone()


@sized_like.register_fake
def _(maps: Tensor, reference: Tensor, axis: int, factor: int) -> Tensor:
    shape = list(maps.shape)
    shape[axis : axis + 2] = [reference.shape[0] * factor, reference.shape[1] * factor]
    return maps.new_empty(shape)


@torch.library.custom_op("idisc::sample", mutates_args=())
def sample(value: Tensor, sizes: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
    """`model.sampling` for one image: value (L, K, D), sizes (V, 2), ... -> (Q, K * D)."""
    levels = [(height, width) for height, width in sizes.tolist()]
    return sample_by_rows(value[None], levels, locations[None], weights[None])[0]


@sample.register_fake
def _(value: Tensor, sizes: Tensor, locations: Tensor, weights: Tensor) -> Tensor:  # noqa: ARG001
    return value.new_empty(locations.shape[0], value.shape[1] * value.shape[2])


def _sample_one_image(
    value: Tensor, sizes: Sequence[Size], locations: Tensor, weights: Tensor
) -> Tensor:
    """Compute `sampling.sample` for a batch of one, as the single operation `sample`."""
    levels = torch.tensor(sizes, dtype=torch.int64)
    return sample(value[0], levels, locations[0], weights[0])[None]


def output_names(network: IDisc) -> list[str]:
    """Return the names of the outputs of an exported network, in their order."""
    names: list[str] = [network.config.task]
    if network.config.output.metric and network.config.resolutions > 1:
        names.append(LEVEL_STD)
    return [*names, SCENE] if isinstance(network.encoder, VitPyramid) else names


class BytesToMetres(nn.Module):
    """A copy of a network with the inputs and outputs of an exported file."""

    def __init__(self, network: IDisc, *, dynamic: bool) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        self.dynamic, self.outputs = dynamic, output_names(network)
        self.sizes: dict[int, Tensor] = {}  # the size inputs by stride, during a forward pass
        if dynamic:
            self._declare_sizes(self.network.encoder)

    def forward(self, image: Tensor, output_size: Tensor, *sizes: Tensor) -> tuple[Tensor, ...]:
        """Bytes (1, H, W, 3) -> the outputs named by `output_names`, maps of size (h, w).

        `output_size` (h, w) is the size input of the result. `sizes` are those of `STRIDES`; a
        graph for one image size has none.
        """
        if sizes:
            self.sizes = dict(zip(STRIDES, sizes, strict=True))  # read by the hooks, too
        rgb = rgb_of(image)
        extracted = self.network.adapt(self.network.extract(rgb))
        maps = self.network.encode(rgb, extracted)
        maps = [self._sized(m, stride) for m, stride in zip(maps, STRIDES[1:], strict=True)]
        self.sizes = {}
        size = (output_size.shape[0], output_size.shape[1])
        result = self.network.decode(maps, size)
        prediction = result.prediction.permute(0, 2, 3, 1)  # (1, h, w, C)
        task = self.network.config.output
        found = {task.name: prediction[..., 0] if task.components == 1 else prediction}
        if LEVEL_STD in self.outputs:
            found[LEVEL_STD] = disagreement(result.levels, size)[:, 0]
        if (scene := self.network.scene_of(extracted)) is not None:
            found[SCENE] = scene
        return tuple(found[name] for name in self.outputs)

    def _sized(self, maps: Tensor, stride: int, *, axis: int = 2, padded: bool = False) -> Tensor:
        """Declare the size of maps; `padded`: those of an image padded to multiples of 32."""
        if not self.sizes:
            return maps
        reference, factor = (32, 32 // stride) if padded else (stride, 1)
        return sized_like(maps, self.sizes[reference], axis, factor)

    def _declare_sizes(self, encoder: nn.Module) -> None:
        """Make every layer of the encoder that reduces the size declare that of its result."""
        if isinstance(encoder, swin.Swin):
            self._declare(encoder.patch_embed, STRIDES[1], axis=1)
            for stride, stage in zip(STRIDES[1:], encoder.layers, strict=True):
                for module in stage.modules():
                    if isinstance(module, (swin.PatchMerging, swin.SwinBlock)):
                        self._declare(module, stride, axis=1)
            return
        body: nn.Module = getattr(encoder, "body", encoder)
        padded = bool(getattr(encoder, "align", False))
        if padded:
            body.register_forward_pre_hook(
                lambda _module, inputs: (self._sized(inputs[0], 1, padded=True),)
            )
        for module, stride in _reducing_layers(encoder, body, padded=padded):
            self._declare(module, stride, padded=padded)
        if isinstance(encoder, VitPyramid):
            self._declare(encoder.vit.patch_embed, PIXELS_PER_TOKEN, axis=1)
            object.__setattr__(encoder, "grid", self._token_grid)  # replaces the method

    def _token_grid(self, _size: Size) -> Size:
        tokens = self.sizes[PIXELS_PER_TOKEN]
        return tokens.shape[0], tokens.shape[1]

    def _declare(self, module: nn.Module, stride: int, **options: Any) -> None:
        module.register_forward_hook(
            lambda _module, _inputs, result: self._sized(result, stride, **options)
        )


def trace(network: IDisc, size: Size | None) -> Any:
    """Trace a network with `torch.export` for images of `size`, or of any size if it is None.

    InputError if `torch.export` cannot trace the encoder.
    """
    module = BytesToMetres(network, dynamic=size is None)
    height, width = size or TRACED
    image = torch.zeros(1, height, width, 3, dtype=torch.uint8)
    inputs = [image, _size_input(height + 3, width + 5)]  # neither the image's size nor a square
    both = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    varying: dict[str, Any] = {"image": None, "output_size": both}
    if size is None:
        inputs += [_size_input(-(-height // s), -(-width // s)) for s in STRIDES]
        varying |= {"image": {1: both[0], 2: both[1]}, "sizes": (both,) * len(STRIDES)}
    try:
        with torch.no_grad(), using(_sample_one_image):
            return torch.export.export(
                module,
                tuple(inputs),
                dynamic_shapes=varying,
                strict=False,
                # Assumptions about the memory layout (is one of the sizes 1?) are not conditions.
                prefer_deferred_runtime_asserts_over_guards=True,
            )
    except Exception as error:  # torch raises many classes; all mean that the trace failed
        remedy = "nothing is written" if size else "--size with one size may work"
        raise InputError(
            f"encoder {network.config.encoder}",
            f"torch.export cannot trace it ({first_line(error)})",
            remedy,
        ) from error


def _size_input(height: int, width: int) -> Tensor:
    return torch.zeros(height, width, dtype=torch.bool)


def _reducing_layers(
    encoder: nn.Module, body: nn.Module, *, padded: bool
) -> list[tuple[nn.Module, int]]:
    """Layers with smaller output than input, and the stride of the output; found by running it."""
    found: list[tuple[nn.Module, int]] = []
    height, width = (-(-length // 32) * 32 if padded else length for length in TRACED)
    strides = {(-(-height // s), -(-width // s)): s for s in STRIDES}

    def inspect(module: nn.Module, inputs: tuple[Any, ...], result: Any) -> None:
        if not (isinstance(result, Tensor) and result.ndim == 4 and inputs[0].ndim == 4):
            return
        stride = strides.get((result.shape[2], result.shape[3]))
        if stride and result.shape[2:] != inputs[0].shape[2:]:
            found.append((module, stride))

    leaves = [module for module in body.modules() if not any(True for _ in module.children())]
    hooks = [module.register_forward_hook(inspect) for module in leaves]
    with torch.no_grad():
        encoder(torch.zeros(1, 3, *TRACED))
    for hook in hooks:
        hook.remove()
    return found
