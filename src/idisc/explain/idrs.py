"""Explanation of one picture: the maps of all IDRs, the partition, and ablated predictions.

    explanation = explain(network, image)     # image: RGB bytes (H, W, 3) at the network's size
    explanation.depth                         # (H, W) metres, bit for bit the prediction
    explanation.levels[0].attention           # (N, h, w): weights of ISD; sums to 1 over N
    explanation.levels[0].maps                # the same, clamped and rescaled to [0, 1]
    explanation.levels[0].partition           # (N, h, w): weights of AFP; sums to 1 over N
    explanation.muted({0: {3, 7}, 2: {5}})    # (H, W) metres without these IDRs
    explanation.fused({0, 1})                 # (H, W) metres of these levels alone

Levels are numbered as in `Output`, 0 is the coarsest. The maps of all levels have the size (h, w)
of the finest one. An explanation keeps the pixel embeddings and the IDRs, so that muting runs only
ISD and the heads of the levels in question. It is immutable; threads may share it.

Muting an IDR sets its logit to minus infinity in every layer of ISD at its level, so that the
softmax distributes its weight among the others. AFP is not run again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idisc.errors import InputError
from idisc.images import Photo
from idisc.model.discretization import SceneDiscretization, SceneLayer
from idisc.model.heads import resized
from idisc.model.network import IDisc, rgb_of
from idisc.model.tokens import size_of, to_positioned_tokens
from idisc.predict.open import network_of
from idisc.predict.predictor import Predictor
from idisc.sizes import Size, resize_smooth
from idisc.tasks import Task

FloatMaps = NDArray[np.float32]
QUANTILES = (0.02, 0.98)  # of a map, between which it is clamped for display
MIN_RANGE = 0.01  # of the weights of a map; smaller ranges are not stretched to full contrast


@dataclass(frozen=True, kw_only=True)
class Level:
    """The maps of the IDRs at one level."""

    index: int  # 0 is the coarsest
    stride: int  # pixels of the picture per pixel of the level
    size: Size  # of the level itself; maps are enlarged to the finest
    attention: FloatMaps = field(repr=False)
    """(N, h, w): weight of each IDR in the first layer of ISD, mean over the heads."""
    partition: FloatMaps | None = field(repr=False)
    """(N, h, w): share of each pixel in each IDR, last iteration of AFP; None without AFP."""

    @property
    def name(self) -> str:
        """The level as text."""
        return f"level {self.index} (stride {self.stride})"

    @property
    def idrs(self) -> int:
        """The number of IDRs, N."""
        return len(self.attention)

    @property
    def maps(self) -> FloatMaps:
        """The attention as the paper shows it: (N, h, w), each map stretched to [0, 1]."""
        return stretch(self.attention)

    @property
    def membership(self) -> FloatMaps:
        """The partition, or the attention without AFP: (N, h, w), with sum 1 over N."""
        return self.attention if self.partition is None else self.partition

    @property
    def dominant(self) -> NDArray[np.intp]:
        """The IDR with the largest share of each pixel, (h, w)."""
        return self.membership.argmax(axis=0)


@dataclass(frozen=True)
class _State:
    """Intermediate results, from which predictions are repeated; lists have an entry per level."""

    network: IDisc
    embeddings: list[Tensor]  # P (1, C, H_l, W_l)
    idrs: list[Tensor]  # H (1, N, E)
    outputs: list[Tensor]  # log depth or raw normals, (1, 1 or 4, H_l, W_l)
    guide: Tensor | None  # of the upsampling, as `network.guide` gives it
    size: Size  # of the prediction


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A picture, its prediction, and how the network computed it; see the top of this module."""

    image: NDArray[np.uint8] = field(repr=False)  # (H, W, 3) RGB, the background of maps
    prediction: FloatMaps = field(repr=False)
    """Depth (H, W) in metres, or normals (H, W, 3) of length one at most."""
    levels: tuple[Level, ...]  # coarse to fine
    kept: _State = field(repr=False)

    @property
    def task(self) -> Task:
        """What the network predicts."""
        return self.kept.network.config.output

    @property
    def depth(self) -> FloatMaps:
        """The prediction of a network for depth, (H, W) in metres; InputError for others."""
        if not self.task.metric:
            raise InputError("network", f"predicts {self.task.name}, not depth")
        return self.prediction

    @property
    def nbytes(self) -> int:
        """The memory of the picture, the prediction, the maps and the intermediate results."""
        maps = [values for level in self.levels for values in (level.attention, level.partition)]
        kept = [*self.kept.embeddings, *self.kept.idrs, *self.kept.outputs, self.kept.guide]
        arrays = (self.image, self.prediction, *maps, *kept)
        return sum(values.nbytes for values in arrays if values is not None)

    def muted(self, idrs: Mapping[int, Collection[int]]) -> FloatMaps:
        """Return the prediction without the IDRs {level: their numbers}."""
        masks = {level: self._mask(level, numbers) for level, numbers in idrs.items() if numbers}
        if not masks:
            return self.prediction.copy()
        kept = self.kept
        with torch.inference_mode():
            outputs = [
                kept.network.decode_level(level, p, kept.idrs[level], muted=masks[level])
                if level in masks
                else kept.outputs[level]
                for level, p in enumerate(kept.embeddings)
            ]
            return _as_array(kept.network.fuse(outputs, kept.size, guide=kept.guide)[0])

    def fused(self, levels: Collection[int]) -> FloatMaps:
        """Return the prediction as the mean of some levels only."""
        chosen = sorted({self._known(level) for level in levels})
        if not chosen:
            raise InputError("levels", "at least one is needed")
        kept = self.kept
        outputs, fine = [kept.outputs[level] for level in chosen], size_of(kept.outputs[-1])
        with torch.inference_mode():
            return _as_array(kept.network.fuse(outputs, kept.size, fine, kept.guide)[0])

    def _mask(self, level: int, numbers: Collection[int]) -> Tensor:
        """Return (N,), true for muted IDRs."""
        count = self.levels[self._known(level)].idrs
        wrong = sorted(number for number in numbers if not 0 <= number < count)
        if wrong:
            raise InputError(f"IDR {wrong[0]} of level {level}", f"there are 0 to {count - 1}")
        if len(set(numbers)) == count:
            raise InputError(
                f"level {level}", f"all {count} IDRs muted", "one at least must be left"
            )
        mask = torch.zeros(count, dtype=torch.bool, device=self.kept.idrs[level].device)
        mask[list(numbers)] = True
        return mask

    def _known(self, level: int) -> int:
        if not 0 <= level < len(self.levels):
            raise InputError(f"level {level}", f"there are 0 to {len(self.levels) - 1}")
        return level


def explain(network: IDisc, image: NDArray[np.uint8], size: Size | None = None) -> Explanation:
    """Run a network in eval mode on RGB bytes (H, W, 3) and return its explanation.

    `size` is that of the prediction, by default the picture's. InputError for networks without
    IDRs (`discretization=edd` or `none`) and for predictions that are not finite.
    """
    discretization = network.config.discretization
    if discretization != "isd":
        raise InputError(f"discretization={discretization}", "the network has no IDRs")
    size = size or (image.shape[0], image.shape[1])
    with torch.inference_mode():
        rgb = rgb_of(torch.tensor(image[None], device=network.mean.device))  # (1, 3, H, W)
        maps = network.encode(rgb)
        features, embeddings = network.pixel_decoder(maps)
        guide = network.guide(maps[0], embeddings[-1])
        fine = size_of(embeddings[-1])
        idrs, outputs, levels = [], [], []
        for index, (f, p) in enumerate(zip(features, embeddings, strict=True)):
            iterations: list[Tensor] = []
            idrs.append(network.afp[index](to_positioned_tokens(f), iterations))  # H (1, N, E)
            outputs.append(network.decode_level(index, p, idrs[index]))
            first = cast(SceneLayer, cast(SceneDiscretization, network.isd[index]).layers[0])
            source = first.attention.fold(idrs[index])
            _, weights = first(to_positioned_tokens(p), source)  # (1, K, M, N)
            levels.append(
                Level(
                    index=index,
                    stride=network.config.decoder.finest * 2 ** (len(embeddings) - 1 - index),
                    size=size_of(p),
                    attention=_maps(weights, size_of(p), fine),
                    partition=_maps(iterations[-1], size_of(p), fine) if iterations else None,
                )
            )
        prediction = _as_array(network.fuse(outputs, size, guide=guide)[0])
    if not np.isfinite(prediction).all():
        raise InputError("network", "predicts NaN or infinity")
    kept = _State(network, embeddings, idrs, outputs, guide, size)
    return Explanation(image=image, prediction=prediction, levels=tuple(levels), kept=kept)


def explain_photo(predictor: Predictor, photo: Photo, size: Size | None = None) -> Explanation:
    """Explain the prediction of a photo of any size; the prediction has the size of the photo.

    `size` is that of the picture in the network, as for `Predictor.predict`. The checkpoint of a
    shipped model is opened on every call; other exported files are an InputError.
    """
    seen = resize_smooth(photo.image, size or predictor.network_size(photo.size))
    network = network_of(predictor.engine)
    try:
        explanation = explain(network, seen, photo.size)
    except InputError as error:
        raise error.within(photo.name) from None
    return replace(explanation, image=photo.image)


def stretch(maps: NDArray[Any]) -> FloatMaps:
    """Return maps (N, h, w), each clamped to its `QUANTILES` and rescaled to [0, 1] for display.

    The range of a map counts as at least `MIN_RANGE`, so that noise is not amplified.
    """
    low, high = np.quantile(maps, QUANTILES, axis=(1, 2), keepdims=True)  # (N, 1, 1) each
    clamped = np.clip(maps, low, high) - low
    rescaled: FloatMaps = (clamped / np.maximum(high - low, MIN_RANGE)).astype(np.float32)
    return rescaled


def _maps(weights: Tensor, size: Size, fine: Size) -> FloatMaps:
    """Return weights (1, K, M, N) of a level as maps (N, h, w): mean over heads, sum 1 over N.

    The weights of each pixel are divided by their sum, because AFP with `softmax=pixels` normalizes
    over the pixels. Bilinear enlarging keeps the sums.
    """
    shares = weights.float().mean(1)  # (1, M, N)
    shares = shares / shares.sum(dim=-1, keepdim=True)
    maps = shares.mT.unflatten(-1, size)  # (1, N, H_l, W_l)
    return _contiguous(resized(maps, fine)[0])


def _as_array(prediction: Tensor) -> FloatMaps:
    """(1, 1 or 3, H, W) -> (H, W) or (H, W, 3)."""
    array = _contiguous(prediction[0].permute(1, 2, 0).float())
    return array[..., 0] if array.shape[2] == 1 else array


def _contiguous(values: Tensor) -> FloatMaps:
    array: FloatMaps = values.cpu().contiguous().numpy()
    return array
