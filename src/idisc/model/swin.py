"""Swin Transformer as a feature pyramid.

Three details differ from timm's model, because the released weights were trained that way: windows
are padded before they are shifted; the window is 7 and its shift 3 on smaller maps, too; every
layer norm has an epsilon of 1e-6, and the output of each stage has its own norm. The names of
parameters are those of timm, so its ImageNet weights fit. Its layers are not used, because
importing them takes 0.2 GB and seconds that a prediction does not need otherwise.

Letters in shapes: B batch, H W size, C channels, M tokens in order of their windows, T = 49 tokens
of a window, K heads. Maps are (B, H, W, C) inside.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from idisc.model.states import State, load_into
from idisc.model.tokens import in_chunks
from idisc.sizes import Size

WINDOW = 7
PATCH = 4
_Norm = partial(nn.LayerNorm, eps=1e-6)


class PatchEmbedding(nn.Module):
    """Turns squares of 4x4 pixels into tokens: (B, 3, 4H, 4W) -> (B, H, W, C)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, PATCH, stride=PATCH)
        self.norm = _Norm(width)

    def forward(self, rgb: Tensor) -> Tensor:
        return self.norm(self.proj(rgb).permute(0, 2, 3, 1))


class PatchMerging(nn.Module):
    """Merges four neighbours into one token: (B, H, W, C) -> (B, H/2, W/2, width), rounded up."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.norm = _Norm(4 * before)
        self.reduction = nn.Linear(4 * before, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        fours = x.unflatten(2, (-1, 2)).unflatten(1, (-1, 2))  # (B, H/2, 2, W/2, 2, C)
        return self.reduction(self.norm(fours.permute(0, 1, 3, 4, 2, 5).flatten(3)))


class WindowAttention(nn.Module):
    """Self-attention within each window, with a learned bias for every relative position."""

    relative_position_index: Tensor

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        reach = 2 * WINDOW - 1  # displacements along one axis, -6..6
        self.relative_position_bias_table = nn.Parameter(torch.empty(reach**2, heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        place = torch.arange(WINDOW**2)
        y, x = (axis[:, None] - axis + WINDOW - 1 for axis in (place // WINDOW, place % WINDOW))
        self.register_buffer("relative_position_index", reach * y + x, persistent=False)  # (T, T)

    def forward(self, tokens: Tensor, side: Tensor | None = None) -> Tensor:
        """Map windows (B, M, C) to (B, M, C); tokens of different `side` (1, M, 1) are separate."""
        qkv = self.qkv(tokens).unflatten(1, (-1, WINDOW**2)).unflatten(-1, (3, self.heads, -1))
        queries, keys, values = qkv.permute(3, 0, 1, 4, 2, 5)  # each (B, M/T, K, T, C/K)
        bias = self.relative_position_bias_table[self.relative_position_index]  # (T, T, K)
        logits = (queries * queries.shape[-1] ** -0.5) @ keys.mT + bias.permute(2, 0, 1)
        if side is not None:
            side = side.unflatten(1, (-1, WINDOW**2))  # (1, M/T, T, 1)
            logits = logits.masked_fill((side != side.mT)[:, :, None], -torch.inf)
        read = logits.softmax(dim=-1) @ values  # (B, M/T, K, T, C/K)
        return self.proj(read.transpose(2, 3).flatten(3).flatten(1, 2))


class DropPath(nn.Module):
    """Stochastic depth: in training, drops the residual of a picture with this probability."""

    def __init__(self, drop_prob: float) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, residual: Tensor) -> Tensor:
        if not self.training or self.drop_prob == 0:
            return residual
        keep = 1 - self.drop_prob
        return residual * residual.new_empty(len(residual), 1, 1).bernoulli_(keep) / keep


class SwinBlock(nn.Module):
    """Window attention and an MLP, each with a residual; (B, H, W, C) -> (B, H, W, C)."""

    def __init__(self, width: int, heads: int, *, shifted: bool, drop_path: float) -> None:
        super().__init__()
        self.shift = WINDOW // 2 if shifted else 0
        self.norm1 = _Norm(width)
        self.attn = WindowAttention(width, heads)
        self.drop_path1 = DropPath(drop_path)
        self.norm2 = _Norm(width)
        layers = {"fc1": nn.Linear(width, 4 * width), "act": nn.GELU()}
        self.mlp = nn.Sequential(OrderedDict(**layers, fc2=nn.Linear(4 * width, width)))
        self.drop_path2 = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(1, 2)  # (B, HW, C)
        tokens = tokens + self.drop_path1(self._attend(self.norm1(x)).flatten(1, 2))
        tokens = tokens + self.drop_path2(in_chunks(self._mlp, tokens))
        return tokens.view_as(x)

    def _attend(self, x: Tensor) -> Tensor:
        height, width = x.shape[1:3]
        x = F.pad(x, (0, 0, 0, -width % WINDOW, 0, -height % WINDOW))
        size = x.shape[1], x.shape[2]
        if not self.shift:
            return _from_windows(self._attend_in_windows(_to_windows(x)), size)[:, :height, :width]
        x = x.roll((-self.shift, -self.shift), dims=(1, 2))
        x = _from_windows(
            self._attend_in_windows(_to_windows(x), self._sides(size, x.device)), size
        )
        return x.roll((self.shift, self.shift), dims=(1, 2))[:, :height, :width]

    def _attend_in_windows(self, *tensors: Tensor) -> Tensor:
        return in_chunks(self.attn, *tensors, group_size=WINDOW**2)

    def _sides(self, size: Size, device: torch.device) -> Tensor:
        """Mark the tokens that the shift moved from the other end of an axis: (1, M, 1)."""
        rows, columns = (
            torch.arange(length, device=device) >= length - self.shift for length in size
        )
        return _to_windows((2 * rows[:, None] + columns)[None, ..., None])

    def _mlp(self, tokens: Tensor) -> Tensor:
        return self.mlp(self.norm2(tokens))


def _to_windows(x: Tensor) -> Tensor:
    """Reorder (B, H, W, C) to (B, M, C), window after window, row by row in each."""
    windows = x.unflatten(2, (-1, WINDOW)).unflatten(1, (-1, WINDOW))  # (B, H/7, 7, W/7, 7, C)
    return windows.transpose(2, 3).flatten(1, 4)


def _from_windows(tokens: Tensor, size: Size) -> Tensor:
    """Invert `_to_windows`: (B, M, C) -> (B, H, W, C)."""
    grid = size[0] // WINDOW, size[1] // WINDOW, WINDOW, WINDOW
    return tokens.unflatten(1, grid).transpose(2, 3).flatten(3, 4).flatten(1, 2)


class SwinStage(nn.Module):
    """Merging of 2x2 patches (except in the first stage), then blocks, every second one shifted."""

    def __init__(
        self, widths: tuple[int | None, int], heads: int, drop_path: Sequence[float]
    ) -> None:
        super().__init__()
        before, width = widths
        self.downsample = PatchMerging(before, width) if before else nn.Identity()
        self.blocks = nn.Sequential(
            *(
                SwinBlock(width, heads, shifted=i % 2 == 1, drop_path=rate)
                for i, rate in enumerate(drop_path)
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.blocks(self.downsample(x))
        return out


class Swin(nn.Module):
    """Maps normalised RGB (B, 3, H, W) to maps at strides 4, 8, 16, 32."""

    def __init__(
        self, channels: Sequence[int], depths: Sequence[int], heads: Sequence[int], drop_path: float
    ) -> None:
        super().__init__()
        self.channels = tuple(channels)
        self.patch_embed = PatchEmbedding(channels[0])
        last = sum(depths) - 1
        # Stochastic depth grows from 0 to its maximum.
        rates = iter([drop_path * block / last for block in range(last + 1)])
        self.layers = nn.ModuleList(
            SwinStage((before, width), head, [next(rates) for _ in range(depth)])
            for before, width, head, depth in zip(
                (None, *channels[:-1]), channels, heads, depths, strict=True
            )
        )
        self.norms = nn.ModuleList(_Norm(width) for width in channels)

    def forward(self, normalised: Tensor) -> list[Tensor]:
        height, width = normalised.shape[2:]
        padded = F.pad(normalised, (0, -width % PATCH, 0, -height % PATCH))
        x = self.patch_embed(padded)  # (B, H/4, W/4, C)
        maps = []
        for stage, norm in zip(self.layers, self.norms, strict=True):
            x = stage(x)
            maps.append(norm(x).permute(0, 3, 1, 2))  # (B, C, H, W), channels last in memory
        return maps

    def load_from_classifier(self, complete: nn.Module) -> None:
        """Load timm's classifier; it has no norms for the outputs, which keep 1 and 0."""
        state = complete.state_dict()
        load_into(self.patch_embed, _remove_prefix(state, "patch_embed."), "patch_embed")
        load_into(self.layers, _remove_prefix(state, "layers."), "layers")


def _remove_prefix(state: State, prefix: str) -> State:
    return {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }
