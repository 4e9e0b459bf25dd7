"""Diffusion policies at two sizes: the paper's, and one that two CPU cores train in minutes."""

from __future__ import annotations

from sgjepa.control.config import PolicyConfig
from sgjepa.control.network import NetworkConfig
from sgjepa.control.schedule import Diffusion
from sgjepa.core.errors import unknown


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


SIZES = {"mini": mini, "paper": paper}


def policy(size: str) -> PolicyConfig:
    """The settings of that size."""
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    return SIZES[size]()
