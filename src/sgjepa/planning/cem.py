"""Search for controls of low cost: CEM, with iCEM and MPPI as variants of one loop. The search does not depend on models.

A search of your own is a function like `search` here; `sgjepa.register_planner` gives it a name.

Every iteration draws candidates around a mean plan, computes their costs, and moves the mean and the spread:

cem    to the mean and spread of the elites
icem   the same, with noise that changes slowly along the plan, fewer candidates from one iteration to the next, and some of
       the last elites among the next candidates (Pinneri et al., 2020)
mppi   to the mean of all drawn candidates, weighted by exp(-cost / temperature); the spread stays (Williams et al., 2017)

The mean of every iteration is a candidate of the next, and the last mean is evaluated too: the plan of lowest cost is
returned. E searches run in one batch; the noise of each comes from its own generator, so the searches are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError
from sgjepa.core.registry import Registry

Cost: TypeAlias = Callable[[Tensor], Tensor]  # plans (E, N, P, A) -> (E, N)
_SMALLEST = 1e-3  # lower bound of the spread, as a share of the limits


@dataclass(frozen=True)
class Search:
    """Settings of a search. spread: the initial standard deviation, as a share of the controls' limits."""

    way: str = "cem"  # the name of a registered planner
    candidates: int = 300
    iterations: int = 30
    elites: int = 30
    spread: float = 0.5
    momentum: float = 0.0  # share of the last mean and spread in the next
    temperature: float = 0.5  # mppi: in standard deviations of the candidates' costs
    colour: float = 2.0  # icem: noise with a power of 1 / frequency ** colour along the plan
    shrink: float = 1.25  # icem: factor by which candidates decrease per iteration, at least to twice the elites
    kept: float = 0.3  # icem: share of the elites that are candidates of the next iteration

    def __post_init__(self) -> None:
        PLANNERS.lookup(self.way)
        check_bounds(self, candidates=(1, 1e6), iterations=(1, 1e6), elites=(1, 1e6), spread=(0, 1e3), momentum=(0, 1))
        check_bounds(self, temperature=(1e-9, 1e9), colour=(0, 10), shrink=(1, 100), kept=(0, 1))
        if self.elites > self.candidates:
            raise InputError(
                f"a search cannot choose {self.elites} elites among {self.candidates} candidates: set fewer (--elites)"
            )
        if self.way == "mppi" and self.candidates < 2:
            raise InputError("mppi weighs the candidates drawn around the mean: set at least 2 candidates (--candidates)")
        if self.way == "icem" and self.reused_elites + 1 >= self.candidates:
            raise InputError(
                f"{self.reused_elites} reused elites and the mean fill all {self.candidates} candidates: set more of them"
            )

    @property
    def reused_elites(self) -> int:
        """icem: the number of elites that are candidates of the next iteration too."""
        return round(self.kept * self.elites)

    def count(self, iteration: int) -> int:
        """The number of candidates of an iteration."""
        if self.way != "icem":
            return self.candidates
        return min(self.candidates, max(round(self.candidates / self.shrink**iteration), 2 * self.elites))


# a search: settings, cost, initial mean (E, P, A), the controls' limits (A,), a generator for each of the E, and the number
# of actions per control -> the best plans (E, P, A) and their costs (E,)
Searches: TypeAlias = Callable[[Search, Cost, Tensor, Tensor, Sequence[np.random.Generator], int], tuple[Tensor, Tensor]]
PLANNERS: Registry[Searches] = Registry("planner", dict.fromkeys(("cem", "icem", "mppi"), "sgjepa.planning.cem:search"))


@torch.no_grad()
def search(
    cfg: Search, cost: Cost, mean: Tensor, limit: Tensor, rngs: Sequence[np.random.Generator], actions: int = 1
) -> tuple[Tensor, Tensor]:
    """The best plans and their costs, (E, P, A) and (E,). mean: the initial mean, (E, P, A). limit: of |control|, (A,).

    actions: the number of consecutive actions in a control; coloured noise is correlated along them.
    """
    spread, (steps, controls) = (cfg.spread * limit).expand_as(mean), mean.shape[1:]
    best, lowest = mean.clamp(-limit, limit), mean.new_full((len(mean),), torch.inf)
    elite = mean[:, None][:, :0]  # of the last iteration, (E, k, P, A)
    for iteration in range(cfg.iterations):
        reused = elite[:, : cfg.reused_elites] if cfg.way == "icem" else elite[:, :0]
        fresh = cfg.count(iteration) - reused.shape[1] - 1
        noise = torch.from_numpy(np.stack([_noise(cfg, rng, fresh, steps, controls, actions) for rng in rngs])).to(mean)
        drawn = mean[:, None] + spread[:, None] * noise
        plans = torch.cat([mean[:, None], reused, drawn], dim=1).clamp(-limit, limit)  # (E, N, P, A)
        costs = _finite_costs(cost, plans)
        order = costs.argsort(dim=1)
        elite = plans.take_along_dim(order[:, : cfg.elites, None, None], dim=1)
        first = costs.gather(1, order[:, :1])[:, 0]
        best = torch.where((first < lowest)[:, None, None], elite[:, 0], best)
        lowest = torch.minimum(first, lowest)
        if cfg.way == "mppi":
            centre, width = _weighted(plans[:, 1:], costs[:, 1:], cfg.temperature), spread
        else:
            centre, width = elite.mean(dim=1), elite.std(dim=1, correction=0)
        mean = cfg.momentum * mean + (1 - cfg.momentum) * centre
        spread = torch.maximum(cfg.momentum * spread + (1 - cfg.momentum) * width, _SMALLEST * limit)
    mean = mean.clamp(-limit, limit)
    last = _finite_costs(cost, mean[:, None])[:, 0]
    return torch.where((last < lowest)[:, None, None], mean, best), torch.minimum(last, lowest)


def _finite_costs(cost: Cost, plans: Tensor) -> Tensor:
    """The costs (E, N) of plans (E, N, P, A); an InputError if one is not finite."""
    costs = cost(plans)
    if not costs.isfinite().all():
        raise InputError(
            f"{int((~costs.isfinite()).sum())} of {costs.numel()} plans cost {costs[~costs.isfinite()][0].item()}: "
            "a search needs finite costs; check the model's predictions and the cost"
        )
    return costs


def _weighted(plans: Tensor, costs: Tensor, temperature: float) -> Tensor:
    """The mean of plans (E, N, P, A), each with the weight exp(-cost / temperature) -> (E, P, A).

    plans excludes the last mean: in many dimensions it costs far less than all candidates drawn around it, and would get
    all the weight.
    """
    scale = temperature * costs.std(dim=1, keepdim=True, correction=0).clamp(min=1e-12)
    weight = torch.softmax(-costs / scale, dim=1)
    return (weight[..., None, None] * plans).sum(dim=1)


def _noise(cfg: Search, rng: np.random.Generator, count: int, steps: int, controls: int, actions: int = 1) -> np.ndarray:
    """Noise (count, P, A) with variance 1: white, or for icem coloured along the plan's actions."""
    long = steps * actions
    white = rng.standard_normal((count, long, controls // actions), dtype=np.float32)
    if cfg.way == "icem" and long > 1 and cfg.colour > 0:
        spectrum = np.fft.rfft(white, axis=1)
        frequency = np.maximum(np.fft.rfftfreq(long), 1 / long)
        scale = frequency ** (-cfg.colour / 2)
        # for real signals every frequency except the first (and the last, if the length is even) counts twice
        twice = np.full(len(scale), 2.0)
        twice[0] = 1.0
        twice[-1] = 1.0 if long % 2 == 0 else 2.0
        scale /= np.sqrt((twice * scale**2).sum() / long)
        white = np.fft.irfft(spectrum * scale[:, None], n=long, axis=1).astype(np.float32)
    return white.reshape(count, steps, controls)
