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
# interception depends on velocities: a wider GRU with feature changes as input, larger steps and half the batch; selected
# with the true state and on held-out episodes (docs/log.md)
_INTERCEPTION = ("arm_catcher_ball", "arm_paddle_ball")


def diffusion(size: str, world: str) -> DiffusionConfig:
    """The settings of the diffusion policy of a size, in a world."""
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    base = SIZES[size]
    if size == "mini" and world in _INTERCEPTION:
        network = replace(base.network, hidden=128, changes=True)
        return replace(base, batch=base.batch // 2, lr=3 * base.lr, network=network)
    return base


PolicyRecipe: TypeAlias = Callable[[str, str], PolicyConfig]  # of a size, in a world
POLICIES: Registry[PolicyRecipe] = Registry("kind of policy", {"diffusion": diffusion})


def policy(size: str, world: str, kind: str = "diffusion") -> PolicyConfig:
    """The settings of a kind of policy of a size, in a world; they do not depend on what it observes."""
    return POLICIES.lookup(kind)(size, world)
