"""All that decides how a policy is trained, whatever it looks at. Recipes (recipes/policies.py) return one."""

from __future__ import annotations

from dataclasses import dataclass, field

from sgjepa.control.network import NetworkConfig
from sgjepa.control.schedule import Diffusion
from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError


@dataclass(frozen=True)
class PolicyConfig:
    """The paper's settings: 300,000 updates of 256 windows."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    diffusion: Diffusion = field(default_factory=Diffusion)
    law: bool = True  # False: the policy is not told which law holds
    updates: int = 300_000
    batch: int = 256  # windows
    lr: float = 1e-4  # reached after `warmup` updates, then half a cosine down to nothing
    warmup: int = 500
    weight_decay: float = 1e-6
    slowest: float = 0.9999  # the weights' running mean forgets at least 1 - this of itself in an update
    validation: int = 16  # at most so many batches of held-out windows
    log_every: int = 100  # updates
    validate_every: int = 25_000
    save_every: int = 5_000
    seed: int = 0

    def __post_init__(self) -> None:
        counts = ("updates", "batch", "validation", "log_every", "validate_every", "save_every")
        check_bounds(
            self, **dict.fromkeys(counts, (1, 1e9)), warmup=(0, 1e9), lr=(0, 1), weight_decay=(0, 1), slowest=(0, 1)
        )
        check_bounds(self, seed=(-1e18, 1e18))  # from below it is checked here
        if self.seed < 0:
            raise InputError(f"a policy's seed must not be negative, got {self.seed}")
