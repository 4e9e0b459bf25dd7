"""The causal Transformer predictor of the original LeWM, and the ways to condition it that the paper compares.

adaln          the condition shifts, scales and gates both halves of every block
input_concat   the condition joins the latent once, before the first block
block_concat   the condition joins the input of both halves of every block
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import unknown
from sgjepa.models.layers import Attention, layer_norm, mlp

CONDITIONS = ("adaln", "input_concat", "block_concat")


@dataclass(frozen=True)
class Transformer:
    """gate_init: the initial factor of each half of a block where it joins the residual stream."""

    depth: int = 6
    heads: int = 16
    head_dim: int = 64
    mlp: int = 2048
    dropout: float = 0.1
    condition: str = "adaln"
    gate_init: float = 0.0

    def __post_init__(self) -> None:
        if self.condition not in CONDITIONS:
            raise unknown("condition", self.condition, CONDITIONS)
        check_bounds(self, depth=(1, 1000), heads=(1, 1024), head_dim=(1, 65_536), mlp=(1, 1_048_576), dropout=(0, 1))
        check_bounds(self, gate_init=(-1e6, 1e6))

    def build(self, latent: int, history: int) -> nn.Module:
        """Build the predictor for latents of this width."""
        return TransformerPredictor(self, latent, history)


# The paper's conditioning study. The MLP widths bring every variant to 14.97 or 14.98 M parameters.
VARIANTS = {
    "adaln_0": Transformer(gate_init=0.0),
    "adaln_0.1": Transformer(gate_init=0.1),
    "adaln_1": Transformer(gate_init=1.0),
    "input_concat": Transformer(condition="input_concat", mlp=2776, gate_init=0.1),
    "block_concat": Transformer(condition="block_concat", mlp=2304, gate_init=0.1),
}


def variant(name: str, like: Transformer, latent: int) -> Transformer:
    """`like` with the conditioning of that variant, and an MLP that keeps the number of parameters, to a multiple of 8.

    At the paper's size this gives the paper's widths.
    """
    settings = VARIANTS[name]
    if settings.condition == "adaln":
        return replace(like, gate_init=settings.gate_init)
    modulation, join = 6 * latent * (latent + 1), latent * (2 * latent + 1)  # parameters of each
    joins = 2 if settings.condition == "block_concat" else 1 / like.depth  # per block
    mlp = like.mlp + (modulation - joins * join) / (2 * latent + 1)
    return replace(like, condition=settings.condition, gate_init=settings.gate_init, mlp=8 * round(mlp / 8))


def causal(attention: Attention, h: Tensor) -> Tensor:
    """Causal attention: every token sees itself and those before it."""
    y: Tensor = attention(h, causal=True)
    return y


# tokens (B, N, D) -> what they gather, or the last of them alone; models/candidate_rollouts.py has its own
Attend = Callable[[Attention, Tensor], Tensor]


class TransformerPredictor(nn.Module):
    """z, c (B, t, D) -> (B, t, D), t <= history. The width is the latent's; a final norm and no output projection."""

    def __init__(self, config: Transformer, latent: int, history: int):
        super().__init__()
        block = AdaLNBlock if config.condition == "adaln" else ConcatBlock
        self.position = nn.Parameter(torch.randn(1, history, latent))
        self.join = Join(latent) if config.condition == "input_concat" else None
        self.blocks = nn.ModuleList(block(config, latent) for _ in range(config.depth))
        self.norm = nn.LayerNorm(latent)

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        x = z + self.position[:, : z.shape[1]]
        if self.join is not None:
            x = self.join(x, c)
        for block in self.blocks:
            x = block(x, c)
        prediction: Tensor = self.norm(x)
        return prediction


class AdaLNBlock(nn.Module):
    """x + gate * half(norm(x) * (1 + scale) + shift), where the condition sets shift, scale and gate."""

    def __init__(self, config: Transformer, width: int):
        super().__init__()
        self.attention = Attention(width, config.heads, config.head_dim, bias=False, dropout=config.dropout)
        self.mlp = mlp(width, config.mlp, config.dropout)
        modulation = nn.Linear(width, 6 * width)
        nn.init.zeros_(modulation.weight)
        nn.init.zeros_(modulation.bias)
        with torch.no_grad():
            modulation.bias[2 * width : 3 * width] = config.gate_init
            modulation.bias[5 * width :] = config.gate_init
        self.modulation = nn.Sequential(nn.SiLU(), modulation)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        return self.both_halves(x, self.conditioned(c))

    def conditioned(self, c: Tensor) -> Tensor:
        """Shift, scale and gate of both halves from the condition, (..., D) -> (..., 6 D)."""
        y: Tensor = self.modulation(c)
        return y

    def both_halves(self, x: Tensor, conditioned: Tensor, attend: Attend = causal, since: int = 0) -> Tensor:
        """x (B, N, D) -> the answers of the tokens from number `since` on, as `attend` gives them."""
        shift1, scale1, gate1, shift2, scale2, gate2 = conditioned.chunk(6, dim=-1)
        # a norm without scale here and an affine one inside each half: the reference has both
        gathered = attend(self.attention, layer_norm(x) * (1 + scale1) + shift1)
        x = x[:, since:] + gate1[:, since:] * gathered
        y: Tensor = x + gate2[:, since:] * self.mlp(layer_norm(x) * (1 + scale2[:, since:]) + shift2[:, since:])
        return y


class ConcatBlock(nn.Module):
    """x + s * half(join(norm(x), c)), with a learned scalar s for each half; input_concat has no join here."""

    def __init__(self, config: Transformer, width: int):
        super().__init__()
        joins = config.condition == "block_concat"
        self.attention = Attention(width, config.heads, config.head_dim, bias=False, dropout=config.dropout)
        self.mlp = mlp(width, config.mlp, config.dropout)
        self.joins = nn.ModuleList(Join(width) for _ in range(2)) if joins else None
        self.scale = nn.Parameter(torch.full((2,), config.gate_init))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        return self.both_halves(x, c)

    def conditioned(self, c: Tensor) -> Tensor:
        """Return the condition unchanged."""
        return c

    def both_halves(self, x: Tensor, conditioned: Tensor, attend: Attend = causal, since: int = 0) -> Tensor:
        """x (B, N, D) -> the answers of the tokens from number `since` on, as `attend` gives them."""
        gathered = attend(self.attention, self._input(x, conditioned, 0))
        x = x[:, since:] + self.scale[0] * gathered
        y: Tensor = x + self.scale[1] * self.mlp(self._input(x, conditioned[:, since:], 1))
        return y

    def _input(self, x: Tensor, c: Tensor, half: int) -> Tensor:
        y: Tensor = x if self.joins is None else self.joins[half](layer_norm(x), c)
        return y


class Join(nn.Module):
    """[x; c] back to the width of x."""

    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        y: Tensor = self.linear(torch.cat([x, c], dim=-1))
        return y
