"""The residual stack around a recurrent cell. GRU and SSM differ in the cell that is passed in and in nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgjepa.models.layers import layer_norm

State: TypeAlias = tuple[Tensor, ...]


class RecurrentCell(nn.Module, ABC):
    """A recurrence over time, x (B, T, width) -> (B, T, width), whose state starts at zero."""

    scans: ClassVar[bool] = False  # whether it has `scan`

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def start(self, x: Tensor) -> tuple[Tensor, State]:
        """x (B, T, width), T may be 0 -> what `forward` answers, and the state after it, (B, ...) each."""

    @abstractmethod
    def advance(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """x (B, width), one step -> (B, width), and the state after it."""

    def scan(self, x: Tensor, state: Tensor, counts: Sequence[int]) -> Tensor:
        """Many sequences that do not begin together: x (R, width), the rows of one moment after those of another.

        counts: sequences in each moment, never falling; those that are new come last, with a state of zero.
        state (n, width): of the first n sequences, before the first moment. Returns (R, width).
        """
        raise NotImplementedError


class RecurrentLayer(nn.Module):
    """x + s * cell(MLP([norm(x); c])), with a learned scalar s that starts at 0.1."""

    def __init__(self, cell: RecurrentCell, width: int, hidden: int, dropout: float):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, width))
        self.cell: RecurrentCell = cell
        self.dropout = nn.Dropout(dropout)
        self.scale = nn.Parameter(torch.tensor(0.1))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        y: Tensor = self.dropout(self.cell(self.mlp(torch.cat([layer_norm(x), c], dim=-1))))
        return x + self.scale * y

    # --- forward in two halves, for many windows at once -------------------------------------------------------------

    def conditioned(self, c: Tensor) -> Tensor:
        """The condition's term in the MLP's first layer, (..., width) -> (..., hidden)."""
        first = self.mlp[0]
        assert isinstance(first, nn.Linear)
        return F.linear(c, first.weight[:, c.shape[-1] :], first.bias)

    def before_cell(self, x: Tensor, conditioned: Tensor, noise: Tensor | None) -> Tensor:
        """The cell's input; noise: dropout's, with its scale, None for none."""
        first, gelu, _, last = self.mlp
        assert isinstance(first, nn.Linear)
        h = gelu(F.linear(layer_norm(x), first.weight[:, : x.shape[-1]]) + conditioned)
        y: Tensor = last(h if noise is None else h * noise)
        return y

    def after_cell(self, x: Tensor, y: Tensor, noise: Tensor | None) -> Tensor:
        """Add the cell's output to the residual stream."""
        return x + self.scale * (y if noise is None else y * noise)


class RecurrentPredictor(nn.Module):
    """z, c (B, t, D) -> (B, t, D), t <= history; the state starts at zero in every window."""

    def __init__(
        self,
        cell: Callable[[], RecurrentCell],
        latent: int,
        history: int,
        depth: int,
        width: int,
        hidden: int,
        dropout: float,
    ):
        super().__init__()
        self.position = nn.Parameter(torch.randn(1, history, latent))
        self.input = nn.Linear(latent, width)
        self.condition = nn.Linear(latent, width)
        self.layers = nn.ModuleList(RecurrentLayer(cell(), width, hidden, dropout) for _ in range(depth))
        self.output = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, latent))

    @property
    def recurrent_layers(self) -> list[RecurrentLayer]:
        """The layers, typed as `RecurrentLayer`."""
        return cast("list[RecurrentLayer]", list(self.layers))

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        x, c = self.input(z + self.position[:, : z.shape[1]]), self.condition(c)
        for layer in self.layers:
            x = layer(x, c)
        prediction: Tensor = self.output(x)
        return prediction
