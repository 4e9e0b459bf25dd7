"""Learned policies at two sizes: the paper's, and one that two CPU cores train in minutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from sgjepa.core.errors import unknown
from sgjepa.core.registry import Registry
from sgjepa.policies.diffusion import DiffusionConfig
from sgjepa.policies.diffusion_model import Diffusion, NetworkConfig
from sgjepa.policies.learned import PolicyConfig

SIZES = {
    # as in the paper: 70 million parameters, 300,000 updates, 100 steps of DDPM; for a GPU
    "paper": DiffusionConfig(),
    # a narrow U-Net with fewer and larger updates, and 10 steps of DDIM
    "mini": DiffusionConfig(
        network=NetworkConfig(hidden=64, layers=1, widths=(32, 64), step_width=64),
        diffusion=Diffusion(steps=50, sampler="ddim", sampled=10),
        updates=5_000,
        batch=128,
        lr=1e-3,
        warmup=100,
        log_every=10,
        validate_every=500,
        save_every=250,
    ),
}
# a ball that has to be met is all speeds: a wider GRU that is shown changes, and larger steps on half the windows. Chosen on
# what the simulator says of that world, and on held-out episodes (docs/log.md)
_MEETS_A_BALL = ("arm_catcher_ball", "arm_paddle_ball")


def diffusion(size: str, world: str) -> DiffusionConfig:
    """The diffusion policy of that size in that world."""
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    usual = SIZES[size]
    if size == "mini" and world in _MEETS_A_BALL:
        network = replace(usual.network, hidden=128, changes=True)
        return replace(usual, batch=usual.batch // 2, lr=3 * usual.lr, network=network)
    return usual


PolicyRecipe: TypeAlias = Callable[[str, str], PolicyConfig]  # of a size, in a world
POLICIES: Registry[PolicyRecipe] = Registry("kind of policy", {"diffusion": diffusion})


def policy(size: str, world: str, kind: str = "diffusion") -> PolicyConfig:
    """The settings of a kind of policy, of that size in that world: the same whatever a policy observes."""
    return POLICIES.lookup(kind)(size, world)
