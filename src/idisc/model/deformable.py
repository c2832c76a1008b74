"""Multi-scale deformable attention (MSDA): every pixel samples a few locations on every level.

A query is not compared with keys. It directly predicts where to sample (offsets from its own
position, in pixels of the sampled level) and the weight of each sample. `sampling` computes the
samples; this module contains the layers around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from idisc.configs.schema import Activation, DecoderConfig
from idisc.model.layers import Mlp
from idisc.model.sampling import sample
from idisc.model.tokens import in_chunks, pixel_centres, sine_encoding
from idisc.sizes import Size


class DeformableAttention(nn.Module):
    """Each of K heads samples S locations on each of V levels, predicted by the query; width C."""

    def __init__(self, width: int, levels: int, heads: int, points: int) -> None:
        super().__init__()
        self.levels, self.heads, self.points = levels, heads, points
        self.offsets = nn.Linear(width, heads * levels * points * 2)
        self.weights = nn.Linear(width, heads * levels * points)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize offsets outwards: one direction per head, one more pixel per point."""
        for layer in (self.offsets, self.weights):
            nn.init.zeros_(layer.weight)
        nn.init.zeros_(self.weights.bias)
        for layer in (self.value, self.out):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        angle = torch.arange(self.heads) * (2 * math.pi / self.heads)
        direction = torch.stack((angle.cos(), angle.sin()), dim=-1)  # (K, 2)
        direction = direction / direction.abs().amax(-1, keepdim=True)
        steps = torch.arange(1, self.points + 1).view(1, 1, -1, 1) * direction.view(-1, 1, 1, 2)
        with torch.no_grad():
            self.offsets.bias.copy_(steps.expand(-1, self.levels, -1, -1).flatten())

    def project(self, tokens: Tensor) -> Tensor:
        """Project the values to be sampled: (B, L, C) -> (B, L, K, C/K)."""
        return self.value(tokens).unflatten(-1, (self.heads, -1))

    def sampling_locations(
        self, query: Tensor, reference: Tensor, sizes: Sequence[Size]
    ) -> tuple[Tensor, Tensor]:
        """Return locations (B, Q, K, V, S, 2) and weights (B, Q, K, V, S) of the queries."""
        shape = (self.heads, self.levels, self.points)
        extent = torch.tensor([(width, height) for height, width in sizes], device=query.device)
        # one row makes the division fast
        extent = extent[:, None].expand(*shape, 2).flatten()
        offsets = self.offsets(query) / extent  # pixels of the sampled level -> 0..1
        locations = reference[:, :, None, None, None] + offsets.unflatten(-1, (*shape, 2))
        weights = self.weights(query).unflatten(-1, (self.heads, -1)).softmax(-1)  # all levels
        return locations, weights.unflatten(-1, shape[1:])

    def forward(
        self, query: Tensor, reference: Tensor, value: Tensor, sizes: Sequence[Size]
    ) -> Tensor:
        """Map query (B, Q, C), reference (B or 1, Q, 2), value (B, L, K, C/K) to (B, Q, C)."""
        locations, weights = self.sampling_locations(query, reference, sizes)
        return self.out(sample(value, sizes, locations, weights))


class DeformableLayer(nn.Module):
    """MSDA and MLP, each with a residual.

    The query is normalised and has a position encoding; the value has neither.
    """

    def __init__(
        self, config: DecoderConfig, levels: int, expansion: int, activation: Activation
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width, eps=1e-5)
        self.attention = DeformableAttention(config.width, levels, config.heads, config.points)
        self.mlp = Mlp(config.width, expansion, activation)
        for layer in self.mlp:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)

    def forward(
        self, tokens: Tensor, position: Tensor, reference: Tensor, sizes: Sequence[Size]
    ) -> Tensor:
        """Map tokens (B, L, C), position (1, L, C), reference (1, L, 2) to (B, L, C).

        Without gradients the given tokens are overwritten, because a copy of this size is
        expensive.
        """
        value = self.attention.project(tokens)  # all values first: any token may sample anywhere

        def refine(tokens: Tensor, position: Tensor, reference: Tensor) -> Tensor:
            query = self.norm(tokens) + position
            tokens = tokens + self.attention(query, reference, value, sizes)
            return tokens + self.mlp(tokens)

        return in_chunks(refine, tokens, position, reference, overwrite=True)


class DeformableEncoder(nn.Module):
    """The MSDA layers: the tokens of all levels, coarse to fine, refine each other."""

    def __init__(
        self, config: DecoderConfig, levels: int, expansion: int, activation: Activation
    ) -> None:
        super().__init__()
        self.level_embedding = nn.Parameter(torch.randn(levels, config.width))
        self.layers = nn.ModuleList(
            DeformableLayer(config, levels, expansion, activation) for _ in range(config.layers)
        )

    def forward(self, tokens: Tensor, sizes: Sequence[Size]) -> Tensor:
        """Refine the pixels of all levels, (B, L, C) -> (B, L, C).

        Never computed in half precision: an offset of many pixels would lose its fraction. Without
        gradients the given tokens are overwritten, as in each layer.
        """
        with torch.autocast(tokens.device.type, enabled=False):
            dtype, device = self.level_embedding.dtype, tokens.device
            tokens = tokens.to(dtype)
            position = torch.cat(
                [
                    sine_encoding(size, tokens.shape[-1], device).to(dtype) + level
                    for size, level in zip(sizes, self.level_embedding, strict=True)
                ]
            )  # (L, C)
            centres = torch.cat([pixel_centres(size, device) for size in sizes])  # (L, 2)
            reference = centres.to(dtype)
            for layer in self.layers:
                tokens = layer(tokens, position[None], reference[None], sizes)
        return tokens
