"""The core of the paper: AFP (eq. 1), ISD (eq. 2) and, as a baseline, explicit bins, EDD (eq. 3).

To be read with section 3.1 of the paper. Adaptive feature partitioning turns a scene into N
internal discrete representations (IDRs), and internal scene discretization turns them back into
pixels. Both are cross-attention between M pixels and N IDRs; they differ in the axis of the
softmax. The code has some parts that the text of the paper omits and its weights need: a sine
encoding of the position, which `network` adds to F and P; layer norms before each projection;
logits divided by the square root of their width; an output projection; residuals; MLPs.

Letters in shapes: B batch, M pixels of a level, C their channels, N IDRs, E their channels, K
heads, T tokens (pixels or IDRs), R iterations. Letters in equations are those of the paper: F
features, P pixel embeddings, H IDRs, D the output of ISD for P, and Q, K, V queries, keys, values.
Every module here is for one level; the network has one of each for each resolution.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from idisc.configs.schema import Activation, AfpConfig, EddConfig, IsdConfig
from idisc.model.layers import Mlp
from idisc.model.tokens import in_chunks


class Folded(NamedTuple):
    """The source of cross-attention, seen from the sink: all heads with all T tokens."""

    keys: Tensor  # (B, K T, sink)
    offsets: Tensor  # (B, 1, K T), of the logits
    values: Tensor  # (B, K T, sink)


class CrossAttention(nn.Module):
    """The projections of eq. 1 and 2: queries from the sink, keys and values from the source."""

    def __init__(self, sink: int, source: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.sink_norm = nn.LayerNorm(sink, eps=1e-6)
        self.source_norm = nn.LayerNorm(source, eps=1e-6)
        self.query = nn.Linear(sink, width)
        self.key_value = nn.Linear(source, 2 * width)
        self.out = nn.Linear(width, sink)

    def queries(self, sink: Tensor) -> Tensor:
        """Map (B, T, sink) to Q (B, K, T, width/K), divided by the square root of its width."""
        queries = self._by_head(self.query(self.sink_norm(sink)))
        return queries * queries.shape[-1] ** -0.5

    def keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Map (B, T, source) to K and V, each (B, K, T, width/K)."""
        both = in_chunks(lambda tokens: self.key_value(self.source_norm(tokens)), source)
        keys, values = both.chunk(2, dim=-1)
        return self._by_head(keys), self._by_head(values)

    def project_out(self, read: Tensor) -> Tensor:
        """Concatenate and project the output of the heads: (B, K, T, width/K) -> (B, T, sink)."""
        return self.out(read.transpose(1, 2).flatten(2))

    def fold(self, source: Tensor) -> Folded:
        """Map (B, T, source) to keys and values into which the other projections are multiplied.

        Q K^T = norm(x) (W_q^T K^T) + b_q K^T, and the output projection of a mean of values is the
        mean of the projected values. For a sink of many tokens and a source of few, this saves the
        two projections of each token of the sink.
        """
        keys, values = self.keys_and_values(source)  # (B, K, T, width/K)
        keys = keys * keys.shape[-1] ** -0.5
        query = self.query.weight.unflatten(0, (self.heads, -1))  # (K, width/K, sink)
        bias = self.query.bias.unflatten(0, (self.heads, -1, 1))  # (K, width/K, 1)
        out = self.out.weight.mT.unflatten(0, (self.heads, -1))  # (K, width/K, sink)
        return Folded(
            (keys @ query).flatten(1, 2),
            (keys @ bias).flatten(1).unsqueeze(1),
            (values @ out).flatten(1, 2),
        )

    def _by_head(self, tokens: Tensor) -> Tensor:
        return tokens.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class FeaturePartition(nn.Module):
    """Adaptive feature partitioning, AFP (eq. 1): M pixels of features F become N IDRs H.

    The softmax is over the IDRs instead of the pixels: each pixel distributes itself among the
    IDRs, so the IDRs compete for pixels instead of all averaging the same picture. The R iterations
    share their weights; with R = 0 the priors are the output, the same for every picture.
    """

    noise: Tensor

    def __init__(
        self, features: int, config: AfpConfig, expansion: int, activation: Activation
    ) -> None:
        super().__init__()
        self.config = config
        width = config.width
        if config.priors == "learned":
            self.priors = nn.Parameter(torch.randn(1, config.idrs, width))  # H_prior
        else:
            self.mean = nn.Parameter(torch.randn(1, 1, width))
            self.log_deviation = nn.Parameter(torch.zeros(1, 1, width))
            # The draw that is used outside of training.
            self.register_buffer("noise", torch.randn(1, config.idrs, width))
        if config.iterations:
            self.attention = CrossAttention(width, features, width, config.heads)
            self.gate = nn.GRUCell(width, width) if config.update == "slot" else None
            self.mlp = Mlp(width, expansion, activation)

    def forward(self, features: Tensor, partitions: list[Tensor] | None = None) -> Tensor:
        """Map F (B, M, C) to H (B, N, E).

        The partition W (B, K, M, N) of each iteration, whose rows sum to 1, is appended to the
        list, if given.
        """
        idrs = self.initial_idrs(len(features))  # (B, N, E)
        if not self.config.iterations:
            return idrs
        keys, values = self.attention.keys_and_values(features)  # (B, K, M, E/K), for all R rounds
        for _ in range(self.config.iterations):
            logits = keys @ self.attention.queries(idrs).mT  # k_i q_j (B, K, M, N)
            partition = logits.softmax(dim=-1 if self.config.softmax == "idrs" else -2)  # W_ij
            if partitions is not None:
                partitions.append(partition)
            read = self._mean_weights(partition).mT @ values  # sum_i W_ij v_i (B, K, N, E/K)
            idrs = self._update(idrs, self.attention.project_out(read))
            idrs = idrs + self.mlp(idrs)
        return idrs

    def initial_idrs(self, batch: int) -> Tensor:
        """Return the IDRs before the first iteration, (B, N, E): learned, or drawn per picture."""
        if self.config.priors == "learned":
            return self.priors.expand(batch, -1, -1)
        noise = self.noise.expand(batch, -1, -1)
        if self.training:
            noise = torch.randn_like(noise)
        return self.mean + self.log_deviation.exp() * noise

    def _mean_weights(self, partition: Tensor) -> Tensor:
        """Weights that sum to 1 over the pixels: an IDR is a mean of its pixels, not their sum."""
        if self.config.softmax == "pixels":
            return partition  # is that already
        shares = partition + 1e-6  # as released: an IDR without pixels averages all of them
        return shares / shares.sum(dim=-2, keepdim=True)

    def _update(self, idrs: Tensor, update: Tensor) -> Tensor:
        if self.gate is None:
            return idrs + update
        return self.gate(update.flatten(0, 1), idrs.flatten(0, 1)).view_as(idrs)


class SceneLayer(nn.Module):
    """One layer of ISD: attention to the IDRs (eq. 2), then an MLP, each with a residual."""

    def __init__(
        self, pixels: int, idrs: int, heads: int, expansion: int, activation: Activation
    ) -> None:
        super().__init__()
        self.attention = CrossAttention(pixels, idrs, pixels, heads)
        self.mlp = Mlp(pixels, expansion, activation)

    def forward(
        self, pixels: Tensor, idrs: Folded, muted: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Map D_i (B, M, C) and folded H to D_(i+1) (B, M, C) and the attention (B, K, M, N)."""
        logits = self.attention.sink_norm(pixels) @ idrs.keys.mT + idrs.offsets  # Q K^T
        logits = logits.unflatten(-1, (self.attention.heads, -1))  # (B, M, K, N)
        if muted is not None:
            logits = logits.masked_fill(muted, -torch.inf)  # weight 0; the others share the rest
        attention = logits.softmax(dim=-1)  # over the IDRs: each row sums to 1
        read = attention.flatten(2) @ idrs.values + self.attention.out.bias  # softmax(Q K^T) V
        pixels = pixels + read  # + D_i
        return pixels + self.mlp(pixels), attention.transpose(1, 2)


class SceneDiscretization(nn.Module):
    """Internal scene discretization, ISD (eq. 2): every pixel becomes a mixture of the N IDRs."""

    def __init__(
        self, pixels: int, idrs: int, config: IsdConfig, expansion: int, activation: Activation
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            SceneLayer(pixels, idrs, config.heads, expansion, activation)
            for _ in range(config.layers)
        )

    def forward(
        self,
        pixels: Tensor,
        idrs: Tensor,
        attention: list[Tensor] | None = None,
        muted: Tensor | None = None,
    ) -> Tensor:
        """Map D_0 = P (B, M, C), H (B, N, E) to D (B, M, C).

        The attention (B, K, M, N) of each layer is appended to the list, if given. `muted` (N,) is
        true for IDRs that no pixel attends to in any layer; at least one must remain.
        """

        folded = [cast(SceneLayer, layer).attention.fold(idrs) for layer in self.layers]

        def discretize(pixels: Tensor) -> Tensor:
            for layer, source in zip(self.layers, folded, strict=True):
                pixels, weights = layer(pixels, source, muted)
                if attention is not None:
                    attention.append(weights)
            return pixels

        return in_chunks(discretize, pixels) if attention is None else discretize(pixels)


class ExplicitDiscretization(nn.Module):
    """Explicit depth discretization, EDD (eq. 3): depth as a mean of N depths, the bins.

    It is eq. 2 with one number for each value, no residual and one layer, which a test verifies.
    The bin centres are learned, one set for all pictures, starting from an even spacing in log
    depth.
    """

    def __init__(self, pixels: int, config: EddConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(pixels, eps=1e-6)
        self.bins = nn.Linear(pixels, config.bins)  # its rows: one embedding for each bin
        ends = math.log(config.min_depth), math.log(config.max_depth)
        self.log_centres = nn.Parameter(torch.linspace(*ends, config.bins))

    def forward(self, pixels: Tensor) -> Tensor:
        """Map P (B, M, C) to log depth (B, M, 1), the log of sum_j p_j d_j."""
        log_shares = self.bins(self.norm(pixels)).log_softmax(dim=-1)  # log p_j (B, M, N)
        return (log_shares + self.log_centres).logsumexp(dim=-1, keepdim=True)
