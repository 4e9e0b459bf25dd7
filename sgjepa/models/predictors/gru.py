"""The GRU predictor, the paper's default."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from sgjepa.core.config import check_bounds
from sgjepa.models.predictors.recurrent import RecurrentPredictor


@dataclass(frozen=True)
class GRU:
    """14.57 M parameters as it stands here, with latents of 256 and a history of 20."""

    depth: int = 3
    width: int = 512
    mlp: int = 2048
    dropout: float = 0.1

    def __post_init__(self) -> None:
        check_bounds(self, depth=(1, 1000), width=(1, 65_536), mlp=(1, 1_048_576), dropout=(0, 1))

    def build(self, latent: int, history: int) -> nn.Module:
        """The predictor for latents of this width."""
        return RecurrentPredictor(
            lambda: GRUCell(self.width), latent, history, self.depth, self.width, self.mlp, self.dropout
        )


class GRUCell(nn.Module):
    """nn.GRU without its final state. On a CPU it beats a loop over cells, and compiling either gains nothing."""

    def __init__(self, width: int):
        super().__init__()
        self.gru = nn.GRU(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.gru(x)[0]
        return y
