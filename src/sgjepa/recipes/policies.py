"""Diffusion policies at two sizes: the paper's, and one that two CPU cores train in minutes."""

from __future__ import annotations

from dataclasses import replace

from sgjepa.core.errors import unknown
from sgjepa.policies.diffusion_model import Diffusion, NetworkConfig, PolicyConfig


def paper() -> PolicyConfig:
    """As in the paper: 70 million parameters, 300,000 updates, 100 steps of DDPM; for a GPU."""
    return PolicyConfig()


def mini() -> PolicyConfig:
    """A narrow U-Net with fewer and larger updates, and 10 steps of DDIM."""
    return PolicyConfig(
        network=NetworkConfig(hidden=64, layers=1, widths=(32, 64), step_width=64),
        diffusion=Diffusion(steps=50, sampler="ddim", sampled=10),
        updates=5_000,
        batch=128,
        lr=1e-3,
        warmup=100,
        log_every=10,
        validate_every=500,
        save_every=250,
    )


def _with_changes(usual: PolicyConfig) -> PolicyConfig:
    """A wider GRU that is shown changes, and larger steps on half the windows: a ball that has to be met is all speeds."""
    network = replace(usual.network, hidden=128, changes=True)
    return replace(usual, batch=usual.batch // 2, lr=3 * usual.lr, network=network)


SIZES = {"mini": mini, "paper": paper}
# chosen on what the simulator says of that world, and on held-out episodes (docs/log.md)
CHOSEN = {("mini", world): _with_changes for world in ("arm_catcher_ball", "arm_paddle_ball")}


def policy(size: str, world: str, updates: int | None = None) -> PolicyConfig:
    """The settings of that size in that world: the same whatever a policy looks at. updates: instead of the usual number."""
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    usual = SIZES[size]()
    chosen = CHOSEN[size, world](usual) if (size, world) in CHOSEN else usual
    return chosen if updates is None else replace(chosen, updates=updates)
