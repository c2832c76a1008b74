"""Two blocks that several modules share: an MLP for tokens and a convolution with batch norm."""

from __future__ import annotations

from torch import Tensor, nn

from idisc.configs.schema import Activation

ACTIVATIONS: dict[Activation, type[nn.Module]] = {"gelu": nn.GELU, "silu": nn.SiLU, "relu": nn.ReLU}


class Mlp(nn.Sequential):
    """Pre-normed two-layer MLP, (B, M, C) -> (B, M, C); the caller adds the residual."""

    def __init__(self, width: int, expansion: int, activation: Activation) -> None:
        super().__init__(
            nn.LayerNorm(width, eps=1e-5),
            nn.Linear(width, expansion * width),
            ACTIVATIONS[activation](),
            nn.Linear(expansion * width, width),
        )


class ConvNorm(nn.Module):
    """Convolution without bias, batch norm, and the activation if one is named: (B, C, H, W)."""

    def __init__(
        self,
        channels: int,
        width: int,
        kernel: int,
        activation: Activation | None,
        stride: int = 1,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(
            channels, width, kernel, stride=stride, padding=kernel // 2, bias=False
        )
        self.norm = nn.BatchNorm2d(width)
        self.activation = ACTIVATIONS[activation]() if activation else nn.Identity()
        nn.init.kaiming_uniform_(self.conv.weight, a=1)

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.activation(self.norm(self.conv(features)))
        return out
