"""Layers that several models share. Shapes: B batch, T time, N tokens, D width, A = controls + laws."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW = 32  # tokens: up to here plain attention is faster than the fused kernel of CPUs (17 tokens: 1.7 times)


class ElementwiseParameter(nn.Parameter):
    """A parameter with two axes that is used element-wise, not as a matrix.

    An optimiser that orthogonalises matrices (Muon) reads `getattr(p, "no_matrix", False)` and leaves it to AdamW.
    The mark is a class attribute, so it survives deepcopy, which drops attributes set on a plain parameter.
    """

    no_matrix = True


class Pixels(nn.Module):
    """Frames as stored, (N, h, w, 3) uint8 -> pictures (N, 3, h, w) float, z-scored by colour."""

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        mean: tuple[float, ...] = (0.485, 0.456, 0.406),
        std: tuple[float, ...] = (0.229, 0.224, 0.225),
        channels_last: bool = False,
    ):
        """channels_last: leave the colours of a pixel side by side in memory, for an encoder that wants them so."""
        super().__init__()  # the defaults are ImageNet's
        self.channels_last = channels_last
        for name, value in (("mean", mean), ("std", std)):
            self.register_buffer(name, 255 * torch.tensor(value).view(3, 1, 1), persistent=False)

    def forward(self, frames: Tensor) -> Tensor:
        if self.channels_last:
            # row by row: an inner loop of three colours would be slow
            mean, std = (x.flatten().repeat(frames.shape[2]) for x in (self.mean, self.std))  # (3 w,)
            rows = frames.flatten(2).to(mean.dtype).sub_(mean).div_(std)
            return rows.view(frames.shape).permute(0, 3, 1, 2)
        # contiguous while a pixel is still one byte: the convolutions are slower on channels-last input
        return frames.permute(0, 3, 1, 2).contiguous().to(self.mean.dtype).sub_(self.mean).div_(self.std)


class ConditionEncoder(nn.Module):
    """Action -> condition, frame by frame: the paper's convolution has kernel 1, so nothing mixes in time."""

    def __init__(self, actions: int, hidden: int, width: int, channels: int = 10):
        super().__init__()
        self.conv = nn.Conv1d(actions, channels, kernel_size=1)
        self.mlp = nn.Sequential(nn.Linear(channels, hidden), nn.SiLU(), nn.Linear(hidden, width))

    def forward(self, action: Tensor) -> Tensor:
        """(B, T, A) -> (B, T, D)"""
        c: Tensor = self.mlp(self.conv(action.transpose(1, 2)).transpose(1, 2))
        return c


class Projector(nn.Module):
    """Linear, BatchNorm, GELU, Linear on every vector; the BatchNorm sees all other axes as one batch."""

    def __init__(self, width: int, hidden: int, out: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.GELU(), nn.Linear(hidden, out))

    @property
    def last(self) -> nn.Linear:
        """The layer that the output comes from."""
        layer = self.layers[-1]
        assert isinstance(layer, nn.Linear)
        return layer

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x.flatten(0, -2))
        return y.view(*x.shape[:-1], -1)

    def first(self, x: Tensor) -> Tensor:
        """The first layer only, (..., width) -> (..., hidden)."""
        y: Tensor = self.layers[0](x)
        return y

    def rest(self, x: Tensor, last: int) -> Tensor:
        """The layers after the first, (N, hidden) -> (last, out): BatchNorm sees all rows, only the last are returned."""
        _, norm, gelu, linear = self.layers
        y: Tensor = linear(gelu(norm(x)[-last:]))
        return y


class Attention(nn.Module):
    """Pre-norm multi-head attention. Three matrices for q, k, v: Muon orthogonalises each on its own."""

    def __init__(self, width: int, heads: int, head_dim: int, bias: bool, dropout: float = 0.0, eps: float = 1e-5):
        super().__init__()
        inner = heads * head_dim
        self.heads, self.dropout = heads, dropout
        self.norm = nn.LayerNorm(width, eps=eps)
        self.query = nn.Linear(width, inner, bias=bias)
        self.key = nn.Linear(width, inner, bias=bias)
        self.value = nn.Linear(width, inner, bias=bias)
        self.out = nn.Linear(inner, width)

    def forward(self, x: Tensor, first: int | None = None, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """x (B, N, D) -> (B, N, D), or only the answers of the `first` tokens. mask (N, N): True where q may see k."""
        h = self.norm(x)
        dropout = self.dropout if self.training else 0.0
        if first == 1 and mask is None and not causal and not dropout:
            answer: Tensor = self.out(self._of_one(h))
            return answer
        q, k, v = (
            layer(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, N, head_dim)
            for layer, tokens in ((self.query, h[:, :first]), (self.key, h), (self.value, h))
        )
        if x.shape[1] <= FEW and x.device.type == "cpu" and mask is None and not causal and not dropout:
            y = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1) @ v  # the fused kernel is slow on small matrices
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
        y = self.out(y.transpose(1, 2).flatten(2))
        return F.dropout(y, self.dropout, self.training)

    def heads_of(self, x: Tensor, since: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Scaled queries from token `since` on, keys and values of tokens x (B, N, D), (B, heads, N, head_dim) each."""
        h = self.norm(x)
        projections = ((self.query, h[:, since:]), (self.key, h), (self.value, h))
        q, k, v = (layer(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer, tokens in projections)
        return q * q.shape[-1] ** -0.5, k, v

    def gather(self, y: Tensor) -> Tensor:
        """Project the concatenated outputs of the heads, (B, heads, N, head_dim) -> (B, N, D)."""
        answer: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return answer

    def _of_one(self, h: Tensor) -> Tensor:
        """The attention output of the first token, h (B, N, D) -> (B, 1, inner), without keys and values of other tokens.

        q·(W h + b) = (W'q)·h + q·b, and Σ a (W h + b) = W Σ a h + b, because the a of a token sum to one.
        """
        q = self.query(h[:, 0]).unflatten(-1, (self.heads, -1))  # (B, heads, head_dim)
        q = q * q.shape[-1] ** -0.5
        key, value = (layer.weight.view(self.heads, -1, h.shape[-1]) for layer in (self.key, self.value))
        score = torch.einsum("bhd,hdw->bhw", q, key) @ h.mT  # (B, heads, N)
        if self.key.bias is not None:  # changes nothing, as it is the same for all tokens; but then it has its gradient
            score = score + (q * self.key.bias.view(self.heads, -1)).sum(-1, keepdim=True)
        y = torch.einsum("bhw,hdw->bhd", torch.softmax(score, dim=-1) @ h, value).flatten(1)
        return (y if self.value.bias is None else y + self.value.bias)[:, None]


def mlp(width: int, hidden: int, dropout: float = 0.0, eps: float = 1e-5) -> nn.Sequential:
    """The pre-norm feed-forward half of a Transformer block."""
    drop = nn.Dropout(dropout)
    layers = (nn.Linear(width, hidden), nn.GELU(), drop, nn.Linear(hidden, width), drop)
    return nn.Sequential(nn.LayerNorm(width, eps=eps), *layers)


class Block(nn.Module):
    """A plain pre-norm Transformer block."""

    def __init__(self, width: int, heads: int, head_dim: int, hidden: int, bias: bool, dropout: float, eps: float):
        super().__init__()
        self.attention = Attention(width, heads, head_dim, bias, dropout, eps)
        self.mlp = mlp(width, hidden, dropout, eps)

    def forward(self, x: Tensor, first: int | None = None, mask: Tensor | None = None) -> Tensor:
        x = x[:, :first] + self.attention(x, first, mask)
        y: Tensor = x + self.mlp(x)
        return y


def layer_norm(x: Tensor) -> Tensor:
    """LayerNorm over the last axis without scale and shift."""
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)
