"""Swin Transformer as a feature pyramid, from timm's layers.

Three things differ from timm's own model, because the released weights were trained that way:
windows are padded before they are shifted, not after; the window stays 7 and its shift 3 on maps
smaller than that, too; every layer norm has an epsilon of 1e-6, and each stage's output gets one of
its own. Names of parameters are timm's, so its ImageNet weights fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch.nn.functional as F
from timm.layers.patch_embed import PatchEmbed
from timm.models.swin_transformer import PatchMerging, SwinTransformerBlock
from torch import Tensor, nn

from idisc.model.states import State, fill
from idisc.model.tokens import in_chunks

WINDOW = 7
PATCH = 4
_Norm = partial(nn.LayerNorm, eps=1e-6)


class SwinBlock(SwinTransformerBlock):
    """timm's block on windows that are padded first; maps are (B, H, W, C)."""

    def __init__(self, width: int, heads: int, *, shifted: bool, drop_path: float) -> None:
        nominal = (WINDOW, WINDOW)  # windows never adapt to it, and masks are made for each map
        super().__init__(
            width,
            nominal,
            heads,
            window_size=WINDOW,
            shift_size=WINDOW // 2 if shifted else 0,
            always_partition=True,
            dynamic_mask=True,
            drop_path=drop_path,
            norm_layer=_Norm,
        )

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[1:3]
        padded = F.pad(self.norm1(x), (0, 0, 0, -width % WINDOW, 0, -height % WINDOW))
        x = x + self.drop_path1(self._attn(padded)[:, :height, :width])
        tokens = x.flatten(1, 2)  # (B, M, C)
        return (tokens + self.drop_path2(in_chunks(self._mlp, tokens))).view_as(x)

    def _mlp(self, tokens: Tensor) -> Tensor:
        return self.mlp(self.norm2(tokens))


class SwinStage(nn.Module):
    """Merging of 2x2 patches (but in the first stage), then blocks, every second one shifted."""

    def __init__(
        self, widths: tuple[int | None, int], heads: int, drop_path: Sequence[float]
    ) -> None:
        super().__init__()
        before, width = widths
        self.downsample = PatchMerging(before, width, norm_layer=_Norm) if before else nn.Identity()
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
    """RGB (B, 3, H, W), normalised -> maps at strides 4, 8, 16, 32."""

    def __init__(
        self, channels: Sequence[int], depths: Sequence[int], heads: Sequence[int], drop_path: float
    ) -> None:
        super().__init__()
        self.channels = tuple(channels)
        # Built for no particular size: the forward pass pads to whole patches itself.
        self.patch_embed = PatchEmbed(
            None,
            PATCH,
            embed_dim=channels[0],
            norm_layer=_Norm,
            output_fmt="NHWC",
            strict_img_size=False,
        )
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

    def take(self, complete: nn.Module) -> None:
        """Fill from timm's classifier, which has no norms for the outputs: those stay 1 and 0."""
        state = complete.state_dict()
        fill(self.patch_embed, _below(state, "patch_embed."), "patch_embed")
        fill(self.layers, _below(state, "layers."), "layers")


def _below(state: State, prefix: str) -> State:
    return {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }
