"""Laws: the physical parameters that differ between episodes, and how their values are drawn.

A law knows how to put its value into a MuJoCo model. An episode carries a dict {law name: value}; nothing in
the project assumes that there is only one. Adding a law is one entry in LAWS (docs/add_a_law.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from sgjepa.core.errors import InputError, unknown


@dataclass(frozen=True)
class Law:
    """One physical parameter: its name (also its dataset column), its unit, and how a value enters the model."""

    name: str
    unit: str
    apply: Callable[[Any, float], None]  # (mujoco.MjModel, value): sets it in the model, in place
    limit: float = math.inf  # |value| beyond it is a slip of the finger


def _apply_gravity(model: Any, value: float) -> None:
    # downward positive: the paper's signed g, so a negative value makes things fall up
    model.opt.gravity[2] = -value


LAWS: dict[str, Law] = {
    "gravity": Law("gravity", "m/s^2", _apply_gravity, limit=1000.0),
}


def check(law: Mapping[str, Any]) -> dict[str, float]:
    """A dict of laws from outside, with every name known and every value a finite number."""
    if not isinstance(law, Mapping):
        raise InputError(f"law must be a dict such as {{'gravity': 4.0}}, got {law!r}")
    checked = {}
    for name, value in law.items():
        if name not in LAWS:
            raise unknown("law", name, LAWS)
        given = number(value)
        if not math.isfinite(given):
            raise InputError(f"law '{name}' must be a finite number in {LAWS[name].unit}, got {value!r}")
        if abs(given) > LAWS[name].limit:
            raise InputError(f"law '{name}' must lie within ±{LAWS[name].limit:g} {LAWS[name].unit}, got {value!r}")
        checked[name] = given
    return checked


def number(value: Any) -> float:
    """A number as a float; NaN for what is none: a text, a truth value, an integer too large for a float."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


@dataclass(frozen=True)
class ClippedNormal:
    """max(N(mean, std^2), floor): the paper's narrow band of training laws."""

    mean: float
    std: float
    floor: float

    def sample(self, rng: np.random.Generator) -> float:
        return max(float(rng.normal(self.mean, self.std)), self.floor)


@dataclass(frozen=True)
class Grid:
    """Every value equally often, in the order of the episode numbers: the paper's held-out test laws."""

    values: tuple[float, ...]


Sampler = ClippedNormal | Grid


def evenly(start: float, stop: float, step: float) -> Grid:
    """The grid start, start + step, ..., stop."""
    count = round((stop - start) / step) + 1
    return Grid(tuple(round(start + i * step, 10) for i in range(count)))


def draw(samplers: Mapping[str, Sampler], rng: np.random.Generator, number: int) -> dict[str, float]:
    """The laws of episode `number`. Several grids make their full product, the first one running fastest."""
    law = {}
    for name, sampler in samplers.items():
        if isinstance(sampler, Grid):
            number, place = divmod(number, len(sampler.values))
            law[name] = sampler.values[place]
        else:
            law[name] = sampler.sample(rng)
    return law
