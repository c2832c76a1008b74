"""A plain vision transformer as an encoder: frozen tokens, and a learned pyramid on top of them.

A ViT has one resolution and little sense of edges. Its input is resized so that one token covers
16x16 pixels of the image for any patch size, which makes the token grid the map of stride 16. A
small convolutional branch sees the image itself and contributes the detail at strides 4 and 8.

The two halves are separate so that a frozen transformer runs once per image: `tokens` is its part,
and what it returns can be cached; `pyramid` is everything that is trained. Optional adapters
correct the last blocks of the frozen transformer, whose weights several models can therefore share.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from idisc.errors import require
from idisc.model.layers import ConvNorm
from idisc.model.states import load_into
from idisc.model.tokens import size_of, to_map
from idisc.sizes import Size

PIXELS_PER_TOKEN = 16  # of the image, along each side
EDGES, COARSER_EDGES = 48, 64  # channels of the convolutional branch at strides 4 and 8
MIXED, FINE = 192, 128  # channels of the mixed tokens, and of what they give to stride 8


def load_timm() -> Any:
    """Import timm on demand: it takes 0.2 GB and some seconds, and Swin does not need it."""
    require("timm", extra="train")
    import timm

    return timm


class LowRank(nn.Module):
    """A low-rank correction of a frozen linear layer (LoRA, Hu et al. 2022), zero at first."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(frozen.in_features, rank, bias=False)
        self.up = nn.Linear(rank, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Map the input of the layer (..., in) to what is added to its output (..., out)."""
        return self.up(self.down(x))


class BlockAdapter(nn.Module):
    """Low-rank corrections of the four linear layers of a timm ViT block."""

    def __init__(self, block: Any, rank: int) -> None:
        super().__init__()
        self.qkv, self.proj = LowRank(block.attn.qkv, rank), LowRank(block.attn.proj, rank)
        self.fc1, self.fc2 = LowRank(block.mlp.fc1, rank), LowRank(block.mlp.fc2, rank)

    def forward(self, block: Any, tokens: Tensor) -> Tensor:
        """Run the corrected block on tokens (B, 1 + M, C)."""
        attn, mlp = block.attn, block.mlp
        x = block.norm1(tokens)
        qkv = (attn.qkv(x) + self.qkv(x)).unflatten(-1, (3, attn.num_heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, heads, 1 + M, C/heads)
        x = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)  # (B, 1 + M, C)
        tokens = tokens + block.ls1(attn.proj(x) + self.proj(x))
        x = block.norm2(tokens)
        x = mlp.act(mlp.fc1(x) + self.fc1(x))
        return tokens + block.ls2(mlp.fc2(x) + self.fc2(x))


class VitPyramid(nn.Module):
    """Maps normalised RGB (B, 3, H, W) to maps at strides 4, 8, 16, 32.

    The map of stride 4 contains edges only. The others come from a mixture of the tokens of all
    `taps`, the numbers (from 0) of the blocks whose outputs are used.
    """

    channels = (EDGES, FINE + COARSER_EDGES, MIXED, MIXED)

    def __init__(self, name: str, taps: tuple[int, ...]) -> None:
        super().__init__()
        self.vit = load_timm().create_model(
            name, pretrained=False, num_classes=0, dynamic_img_size=True
        )
        self.taps = taps
        self.patch = self.vit.patch_embed.patch_size[0]
        width = self.vit.embed_dim
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.mix = nn.Sequential(nn.Linear(len(taps) * width, MIXED), nn.GELU())
        self.fine = nn.Linear(MIXED, FINE)
        self.coarse = nn.Conv2d(MIXED, MIXED, 3, stride=2, padding=1)
        self.edges = nn.Sequential(
            ConvNorm(3, EDGES, 7, "gelu", stride=4), ConvNorm(EDGES, EDGES, 3, "gelu")
        )
        self.coarser_edges = ConvNorm(EDGES, COARSER_EDGES, 3, "gelu", stride=2)
        self.adapters = nn.ModuleList()

    def add_adapters(self, rank: int) -> None:
        """Add adapters to the blocks between the last two taps; at first they change nothing."""
        blocks = self.vit.blocks[self.taps[-2] + 1 : self.taps[-1] + 1]
        self.adapters.extend(BlockAdapter(block, rank) for block in blocks)

    def forward(self, normalised: Tensor) -> list[Tensor]:
        """Map normalised RGB (B, 3, H, W) to maps (B, C_l, H/s, W/s), sizes rounded up."""
        return self.pyramid(self.tokens(normalised), normalised)

    def tokens(self, normalised: Tensor) -> Tensor:
        """Run the transformer: RGB (B, 3, H, W) -> tokens of each tap (B, T, 1 + M, C).

        The first token is the class token; M = (H/16)(W/16) follow row by row. They are not
        normalised, so that the blocks after a tap can be trained on cached tokens. With adapters,
        the last tap is left out, and `add_adapted_tap` adds it.
        """
        grid = self.grid(size_of(normalised))
        size = [self.patch * length for length in grid]
        pixels = F.interpolate(normalised, size, mode="bilinear", antialias=True)
        tapped = self.vit.forward_intermediates(
            pixels,
            indices=list(self.taps[:-1] if self.adapters else self.taps),
            return_prefix_tokens=True,
            norm=False,
            stop_early=True,
            output_fmt="NLC",
            intermediates_only=True,
        )
        return torch.stack([torch.cat((first, rest), dim=1) for rest, first in tapped], dim=1)

    def pyramid(self, tokens: Tensor, normalised: Tensor) -> list[Tensor]:
        """Run the learned part: tokens (B, T, 1 + M, C) and the same RGB -> the four maps."""
        grid = self.grid(size_of(normalised))
        tokens = self.add_adapted_tap(tokens)
        mixed = self.mix(self.norm(tokens[:, :, 1:]).transpose(1, 2).flatten(2))  # (B, M, C)
        middle, fine = to_map(mixed, grid), to_map(self.fine(mixed), grid)  # stride 16
        edges = self.edges(normalised)  # stride 4
        coarser = self.coarser_edges(edges)  # stride 8
        fine = F.interpolate(fine, size_of(coarser), mode="bilinear", align_corners=False)
        return [edges, torch.cat((fine, coarser), dim=1), middle, self.coarse(middle)]

    def add_adapted_tap(self, tokens: Tensor) -> Tensor:
        """Append the tap that adapters compute, if it is missing: -> (B, T, 1 + M, C)."""
        if tokens.shape[1] == len(self.taps):
            return tokens
        last = tokens[:, -1]  # (B, 1 + M, C)
        for number, adapter in enumerate(self.adapters, start=self.taps[-2] + 1):
            last = adapter(self.vit.blocks[number], last)
        return torch.cat((tokens, last[:, None]), dim=1)

    def grid(self, size: Size) -> Size:
        """Return the rows and columns of tokens for an image of that size."""
        height, width = size
        return -(-height // PIXELS_PER_TOKEN), -(-width // PIXELS_PER_TOKEN)

    def load_from_classifier(self, complete: nn.Module) -> None:
        """Load the transformer; the pyramid is learned from scratch."""
        load_into(self.vit, complete.state_dict(), "vit")
