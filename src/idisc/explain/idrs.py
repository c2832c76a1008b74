"""One picture taken apart: the map of every IDR, the partition, and depth without some of them.

    explanation = explain(network, image)     # image: RGB bytes (H, W, 3), as the network sees it
    explanation.depth                         # (H, W) metres, bit for bit the prediction
    explanation.levels[0].attention           # (N, h, w): who is read where; sums to 1 over N
    explanation.levels[0].maps                # the same, clamped and rescaled to [0, 1], to look at
    explanation.levels[0].partition           # (N, h, w): who owns which pixel; sums to 1 over N
    explanation.muted({0: {3, 7}, 2: {5}})    # (H, W) metres without these IDRs
    explanation.fused({0, 1})                 # (H, W) metres of these levels alone

A level is numbered as in `Output`, 0 the coarsest; an IDR from 0 to N - 1. All maps of all levels
have one size (h, w), that of the finest level, a quarter of the picture. An explanation keeps the
pixel embeddings and the IDRs, so that muting costs ISD and heads of the levels in question and
nothing else. It is a value: any number of threads may ask it, and each answer is a new array.

To mute an IDR is to take it away from what ISD reads: its logit is minus infinity in every layer of
that level, and the softmax deals its weight out among the others. AFP is not run again, so the
other IDRs stay as they are, and so do the other levels.
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
from idisc.model.discretization import SceneDiscretization
from idisc.model.heads import resized
from idisc.model.network import IDisc, rgb_of
from idisc.model.tokens import size_of, to_placed_tokens
from idisc.predict.engine import network_of
from idisc.predict.predictor import Predictor
from idisc.sizes import Size, resize_smooth

FloatMaps = NDArray[np.float32]
QUANTILES = (0.02, 0.98)  # of a map's pixels, between which it is clamped to be looked at
LEAST_RANGE = 0.01  # of a map's weights: what varies by less is shown as flat as it is


@dataclass(frozen=True, kw_only=True)
class Level:
    """One resolution: what its IDRs are read for, and which pixels they were made of."""

    index: int  # 0 is the coarsest
    stride: int  # pixels of the picture for one of the level
    size: Size  # of the level itself; maps are enlarged to the finest
    attention: FloatMaps = field(repr=False)
    """(N, h, w): weight of each IDR in the first layer of ISD, mean over its heads."""
    partition: FloatMaps | None = field(repr=False)
    """(N, h, w): share of each pixel in each IDR, last round of AFP; None with `iterations=0`."""

    @property
    def name(self) -> str:
        """For people."""
        return f"level {self.index} (stride {self.stride})"

    @property
    def idrs(self) -> int:
        """How many there are, N."""
        return len(self.attention)

    @property
    def maps(self) -> FloatMaps:
        """The attention as the paper's figures show it: (N, h, w), each from 0 to 1."""
        return shown(self.attention)

    @property
    def membership(self) -> FloatMaps:
        """The partition, or without AFP the attention: (N, h, w), with sum 1 over N."""
        return self.attention if self.partition is None else self.partition

    @property
    def dominant(self) -> NDArray[np.intp]:
        """The IDR with the largest share of each pixel, (h, w)."""
        return self.membership.argmax(axis=0)


@dataclass(frozen=True)
class _Kept:
    """What it takes to answer again; lists have one entry for each level."""

    network: IDisc
    embeddings: list[Tensor]  # P (1, C, H_l, W_l)
    idrs: list[Tensor]  # H (1, N, E)
    answers: list[Tensor]  # log depth or raw normals, (1, 1 or 4, H_l, W_l)
    guide: Tensor | None  # of the upsampling, as `network.guide` gives it
    size: Size  # of the prediction


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A picture, what the network says of it, and why; see the top of this module."""

    image: NDArray[np.uint8] = field(repr=False)  # (H, W, 3) RGB, to lay maps over
    prediction: FloatMaps = field(repr=False)
    """Depth (H, W) in metres; of a network for normals (H, W, 3), of length one at most."""
    levels: tuple[Level, ...]  # coarse to fine
    kept: _Kept = field(repr=False)

    @property
    def depth(self) -> FloatMaps:
        """The prediction of a network for depth, (H, W) in metres; InputError for normals."""
        if self.prediction.ndim == 3:
            raise InputError("a network for normals knows no metres")
        return self.prediction

    @property
    def nbytes(self) -> int:
        """Of memory: maps, prediction, and what muting needs."""
        maps = [each for level in self.levels for each in (level.attention, level.partition)]
        arrays: list[NDArray[Any]] = [self.image, self.prediction]
        arrays += [each for each in maps if each is not None]
        kept = [*self.kept.embeddings, *self.kept.idrs, *self.kept.answers]
        kept += [] if self.kept.guide is None else [self.kept.guide]
        return sum(array.nbytes for array in arrays) + sum(tensor.nbytes for tensor in kept)

    def muted(self, idrs: Mapping[int, Collection[int]]) -> FloatMaps:
        """The prediction without some IDRs, {level: their numbers}; InputError if none is left."""
        masks = {level: self._mask(level, numbers) for level, numbers in idrs.items() if numbers}
        if not masks:
            return self.prediction.copy()
        kept = self.kept
        with torch.inference_mode():
            answers = [
                kept.network.decode_level(level, p, kept.idrs[level], muted=masks[level])
                if level in masks
                else kept.answers[level]
                for level, p in enumerate(kept.embeddings)
            ]
            return _as_array(kept.network.fuse(answers, kept.size, guide=kept.guide)[0])

    def fused(self, levels: Collection[int]) -> FloatMaps:
        """The prediction as the mean of some levels only; of all of them it is the prediction."""
        chosen = sorted({self._known(level) for level in levels})
        if not chosen:
            raise InputError("no level is left; one at least is needed")
        kept = self.kept
        answers, fine = [kept.answers[level] for level in chosen], size_of(kept.answers[-1])
        with torch.inference_mode():
            return _as_array(kept.network.fuse(answers, kept.size, fine, kept.guide)[0])

    def _mask(self, level: int, numbers: Collection[int]) -> Tensor:
        """(N,), true for what is muted."""
        count = self.levels[self._known(level)].idrs
        wrong = sorted(number for number in numbers if not 0 <= number < count)
        if wrong:
            raise InputError(f"IDR {wrong[0]} of level {level}: there are 0 to {count - 1}")
        if len(set(numbers)) == count:
            raise InputError(f"level {level}: all {count} IDRs muted; one at least must be left")
        mask = torch.zeros(count, dtype=torch.bool, device=self.kept.idrs[level].device)
        mask[list(numbers)] = True
        return mask

    def _known(self, level: int) -> int:
        if not 0 <= level < len(self.levels):
            raise InputError(f"level {level}: there are 0 to {len(self.levels) - 1}")
        return level


def explain(network: IDisc, image: NDArray[np.uint8], size: Size | None = None) -> Explanation:
    """Run a network in eval mode on RGB bytes (H, W, 3) and keep what it thought on the way.

    `size` is that of the prediction, by default the picture's. InputError for networks without
    IDRs (`discretization=edd` or `none`) and for predictions that are no numbers.
    """
    if network.config.discretization != "isd":
        found = network.config.discretization
        raise InputError(f"discretization={found}: a network without IDRs has none to look at")
    size = size or (image.shape[0], image.shape[1])
    with torch.inference_mode():
        rgb = rgb_of(torch.tensor(image[None], device=network.mean.device))  # (1, 3, H, W)
        maps = network.encode(rgb)
        features, embeddings = network.pixel_decoder(maps)
        guide = network.guide(maps[0], embeddings[-1])
        fine = size_of(embeddings[-1])
        idrs, answers, levels = [], [], []
        for index, (f, p) in enumerate(zip(features, embeddings, strict=True)):
            rounds: list[Tensor] = []
            idrs.append(network.afp[index](to_placed_tokens(f), rounds))  # H (1, N, E)
            answers.append(
                network.decode_level(index, p, idrs[index])
            )  # in chunks, as predictions are
            first = cast(SceneDiscretization, network.isd[index]).layers[0]
            _, weights = first(to_placed_tokens(p), idrs[index])  # (1, K, M, N)
            levels.append(
                Level(
                    index=index,
                    stride=network.config.decoder.finest * 2 ** (len(embeddings) - 1 - index),
                    size=size_of(p),
                    attention=_maps(weights, size_of(p), fine),
                    partition=_maps(rounds[-1], size_of(p), fine) if rounds else None,
                )
            )
        prediction = _as_array(network.fuse(answers, size, guide=guide)[0])
    if not np.isfinite(prediction).all():
        raise InputError("the network predicts NaN or infinity")
    kept = _Kept(network, embeddings, idrs, answers, guide, size)
    return Explanation(image=image, prediction=prediction, levels=tuple(levels), kept=kept)


def explain_photo(predictor: Predictor, photo: Photo, size: Size | None = None) -> Explanation:
    """The same for a photo of any size and what `idisc.load` returns; depth at the photo's size.

    `size` is that of the picture in the network, as for `Predictor.predict`. Of a model that ships
    its checkpoint is opened, each time; of any other exported file, whose graph gives nothing but
    its result, it is an InputError.
    """
    seen = resize_smooth(photo.image, size or predictor.network_size(photo.size))
    network = network_of(predictor.engine)
    try:
        explanation = explain(network, seen, photo.size)
    except InputError as error:
        raise InputError(f"{photo.name}: {error}") from None
    return replace(explanation, image=photo.image)


def shown(maps: NDArray[Any]) -> FloatMaps:
    """Maps (N, h, w), each clamped between its quantiles and rescaled to [0, 1].

    A map that hardly varies is not blown up into noise: its range counts as `LEAST_RANGE`.
    """
    low, high = np.quantile(maps, QUANTILES, axis=(1, 2), keepdims=True)  # (N, 1, 1) each
    clamped = np.clip(maps, low, high) - low
    rescaled: FloatMaps = (clamped / np.maximum(high - low, LEAST_RANGE)).astype(np.float32)
    return rescaled


def _maps(weights: Tensor, size: Size, fine: Size) -> FloatMaps:
    """Attention (1, K, M, N) of a level -> mean over heads as (N, h, w), with sum 1 over N.

    Bilinear weights sum to 1, so enlarging keeps the sums. AFP with `softmax=pixels` has sums over
    the pixels instead; each pixel's shares are then taken of their sum.
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
