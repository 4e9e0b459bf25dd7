"""The network of the policy: what the last frames showed and which law holds, then the U-Net that finds noise in controls.

features of the last H frames ─ GRU ─ LayerNorm ─┐    (at small size with their changes from frame to frame)
law, z-scored ───────────────────────────────────┼─ condition ─▶ U-Net: noisy controls ─▶ the noise in them
step of diffusion ─ sines ─ MLP ─────────────────┘
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sgjepa.control.unet import StepEmbedding, UNet
from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError


@dataclass(frozen=True)
class NetworkConfig:
    """The paper's sizes. history: H, frames that are looked back at. horizon: A, controls that are planned."""

    history: int = 20
    horizon: int = 16
    hidden: int = 256  # of the GRU
    layers: int = 2
    widths: tuple[int, ...] = (256, 512, 1024)  # of the U-Net, each at half the resolution of the one before
    kernel: int = 5
    groups: int = 8
    step_width: int = 256
    # the GRU is also shown how much each feature has changed since the frame before. A GRU finds that by itself, but not in
    # the few updates of a small policy, and without speeds nobody knows where a ball goes
    changes: bool = False

    def __post_init__(self) -> None:
        counts = dict.fromkeys(("hidden", "widths", "kernel", "groups"), (1, 65_536))
        check_bounds(self, history=(1, 10_000), horizon=(1, 10_000), layers=(1, 100), step_width=(4, 65_536), **counts)
        if not self.widths or any(width % self.groups for width in self.widths):
            raise InputError(f"the widths of a U-Net must divide by its {self.groups} groups, got {list(self.widths)}")
        if self.horizon % 2 ** (len(self.widths) - 1):
            halvings = len(self.widths) - 1
            raise InputError(f"{self.horizon} planned controls cannot be halved {halvings} times: choose another horizon")
        if self.kernel % 2 == 0 or self.step_width % 2:
            raise InputError(f"a kernel is odd and a step's width even, got {self.kernel} and {self.step_width}")

    def build(self, features: int, controls: int, laws: int) -> Network:
        """laws: 0 if the policy is not told the law."""
        return Network(self, features, controls, laws)


class Network(nn.Module):
    """Everything of the policy that is trained."""

    def __init__(self, cfg: NetworkConfig, features: int, controls: int, laws: int):
        super().__init__()
        self.horizon, self.controls = cfg.horizon, controls
        # (F,) how much each feature usually changes in a frame: their root mean squares, from the data
        self.pace: Tensor | None
        self.register_buffer("pace", torch.ones(features) if cfg.changes else None)
        self.look = nn.GRU(features * (2 if cfg.changes else 1), cfg.hidden, cfg.layers, batch_first=True)
        self.norm = nn.LayerNorm(cfg.hidden)
        self.step = StepEmbedding(cfg.step_width)
        self.unet = UNet(controls, cfg.step_width + cfg.hidden + laws, cfg.widths, cfg.kernel, cfg.groups)

    def seen(self, features: Tensor, law: Tensor) -> Tensor:
        """features (B, H, F), oldest first, law (B, L) -> what controls are planned from, (B, hidden + L)."""
        if self.pace is not None:
            changes = torch.zeros_like(features)  # of the oldest frame none is known
            changes[:, 1:] = features.diff(dim=1) / self.pace
            features = torch.cat([features, changes], dim=-1)
        _, last = self.look(features)  # (layers, B, hidden)
        return torch.cat([self.norm(last[-1]), law], dim=-1)

    def forward(self, x: Tensor, step: Tensor, seen: Tensor) -> Tensor:
        """Noisy controls (B, A, C), step (B,), what was seen (B, S) -> the noise in them, (B, A, C)."""
        out: Tensor = self.unet(x, torch.cat([self.step(step), seen], dim=-1))
        return out
