"""Laws: the physical parameters that differ between episodes, and how their values are drawn.

A law knows how to put its value into a MuJoCo model. An episode carries a dict {law name: value}: one, several or none.
A sampler draws values, defines which count as in distribution, and has a density. Adding a law is one
entry in LAWS (docs/add_a_law.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Protocol

import numpy as np

from sgjepa.core.errors import InputError, one_line
from sgjepa.core.registry import Registry
from sgjepa.theory import coverage


@dataclass(frozen=True)
class Law:
    """One physical parameter: its name (also its dataset column), its unit, and how a value enters the model.

    symbol, plural: for text about a value ("g = 4") and about values ("25 gravities"); made from the name where empty.
    moves: the position coordinates that it accelerates, by their names in the worlds' states, such as ("z",).
    """

    name: str
    unit: str
    apply: Callable[[Any, float], None]  # (mujoco.MjModel, value): sets it in the model, in place
    limit: float = math.inf  # a larger |value| is refused as a typing error
    symbol: str = ""
    plural: str = ""
    moves: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The symbol, or the name of a law without one."""
        return self.symbol or self.name

    @property
    def plural_label(self) -> str:
        """A noun for several values of the law."""
        return self.plural or f"values of {self.name}"


def _apply_gravity(model: Any, value: float) -> None:
    # downward positive: the paper's signed g, so a negative value makes things fall up
    model.opt.gravity[2] = -value


def _apply_gravity_x(model: Any, value: float) -> None:
    # a tilted table: positive pulls to the right of the picture
    model.opt.gravity[0] = value


LAWS: Registry[Law] = Registry(
    "law",
    {
        "gravity": Law("gravity", "m/s^2", _apply_gravity, limit=1000.0, symbol="g", plural="gravities", moves=("z",)),
        "gravity_x": Law(
            "gravity_x", "m/s^2", _apply_gravity_x, limit=1000.0, symbol="g_x", plural="horizontal gravities", moves=("x",)
        ),
    },
)


def get_law(name: str) -> Law:
    """The law of that name; for an unregistered name a `Law` that cannot be applied, for text about a file that names it."""
    return LAWS.get(name) or Law(name, "", _apply_nothing)


def coordinates_moved_by(names: Iterable[str]) -> tuple[str, ...]:
    """The position coordinates that the laws of these names accelerate, each once."""
    return tuple(dict.fromkeys(coordinate for name in names for coordinate in get_law(name).moves))


def _apply_nothing(model: Any, value: float) -> None:
    raise InputError("a law that is not in LAWS cannot be applied")


def check(law: Mapping[str, Any]) -> dict[str, float]:
    """Check a dict of laws from a caller: every name must be known, every value a finite number."""
    if not isinstance(law, Mapping):
        raise InputError(f"law must be a dict such as {{'gravity': 4.0}}, got {law!r}")
    checked = {}
    for name, value in law.items():
        known, checked_value = LAWS.lookup(name), number(value)
        if not math.isfinite(checked_value):
            raise InputError(f"law '{name}' must be a finite number in {known.unit}, got {one_line(repr(value), 60)}")
        if abs(checked_value) > known.limit:
            raise InputError(f"law '{name}' must lie within ±{known.limit:g} {known.unit}, got {value!r}")
        checked[name] = checked_value
    return checked


def number(value: Any) -> float:
    """A number as a float; NaN for anything else: a string, a bool, an integer too large for a float."""
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
    choices: ClassVar[int] = 1

    def sample(self, rng: np.random.Generator, index: int = 0) -> float:
        return max(float(rng.normal(self.mean, self.std)), self.floor)

    @property
    def parameters(self) -> tuple[float, ...]:
        return self.mean, self.std, self.floor

    @property
    def bounds(self) -> tuple[float, float]:
        """Two standard deviations to either side."""
        return self.mean - 2 * self.std, self.mean + 2 * self.std

    def density(self, values: np.ndarray) -> np.ndarray:
        spread = self.std or 1e-9
        return np.where(values >= self.floor, np.exp(-0.5 * ((values - self.mean) / spread) ** 2), 0.0)

    def moments(self, order: int) -> np.ndarray | None:
        if not self.std > 0:
            return None
        return coverage.clipped_normal(0.0, 1.0, (self.floor - self.mean) / self.std, order).raw

    @property
    def description(self) -> str:
        return f"= {self.mean:g} ± {self.std:g}"


@dataclass(frozen=True)
class Grid:
    """Every value equally often, in the order of the episode numbers: the paper's held-out test laws."""

    values: tuple[float, ...]

    @property
    def choices(self) -> int:
        return len(self.values)

    def sample(self, rng: np.random.Generator, index: int = 0) -> float:
        return self.values[index]

    @property
    def parameters(self) -> tuple[float, ...]:
        return self.values

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def std(self) -> float:
        return float(np.std(self.values))

    @property
    def bounds(self) -> tuple[float, float]:
        """The first and the last value."""
        return min(self.values), max(self.values)

    def density(self, values: np.ndarray) -> np.ndarray:
        low, high = self.bounds
        return ((values >= low) & (values <= high)).astype(float)

    def moments(self, order: int) -> np.ndarray | None:
        return None  # the values of the episodes themselves are exact

    @property
    def description(self) -> str:
        low, high = self.bounds
        return f"from {low:g} to {high:g}"


@dataclass(frozen=True)
class Observed:
    """The range and moments of values in recorded episodes. They cannot be drawn again."""

    mean: float
    std: float
    low: float
    high: float
    choices: ClassVar[int] = 1

    def sample(self, rng: np.random.Generator, index: int = 0) -> float:
        raise InputError("the laws of recorded episodes cannot be drawn again")

    @property
    def parameters(self) -> tuple[float, ...]:
        return self.low, self.high

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest recorded value."""
        return self.low, self.high

    def density(self, values: np.ndarray) -> np.ndarray:
        return ((values >= self.low) & (values <= self.high)).astype(float)

    def moments(self, order: int) -> np.ndarray | None:
        return None

    @property
    def description(self) -> str:
        return f"from {self.low:g} to {self.high:g}"


class AnySampler(Protocol):
    """The interface of samplers of a law's values.

    choices      number of values that alternate with the episode number; 1 for random draws
    sample       the value of an episode; `index` counts through the choices
    parameters   numbers that define it, checked like values of the law
    bounds       lowest and highest value that count as in distribution
    density      density of its values, 1 at the highest
    description  text that follows the law's symbol: "= 4 ± 0.5", "from 3 to 5"
    moments      E[((value - mean) / std)^k] for k = 0 .. order, in closed form; None if there is none
    """

    @property
    def mean(self) -> float: ...
    @property
    def std(self) -> float: ...
    @property
    def choices(self) -> int: ...
    def sample(self, rng: np.random.Generator, index: int = 0) -> float: ...
    @property
    def parameters(self) -> tuple[float, ...]: ...
    @property
    def bounds(self) -> tuple[float, float]: ...
    def density(self, values: np.ndarray) -> np.ndarray: ...
    @property
    def description(self) -> str: ...
    def moments(self, order: int) -> np.ndarray | None: ...


Sampler = ClippedNormal | Grid | Observed  # the samplers that a config can name


def evenly(start: float, stop: float, step: float) -> Grid:
    """The grid start, start + step, ..., stop."""
    count = round((stop - start) / step) + 1
    return Grid(tuple(round(start + i * step, 10) for i in range(count)))


def draw(samplers: Mapping[str, AnySampler], rng: np.random.Generator, number: int) -> dict[str, float]:
    """The laws of episode `number`. Several grids make their full product, the first one running fastest."""
    law = {}
    for name, sampler in samplers.items():
        number, index = divmod(number, sampler.choices)
        law[name] = sampler.sample(rng, index)
    return law


def in_distribution(samplers: Mapping[str, AnySampler], law: np.ndarray) -> np.ndarray:
    """Whether each episode lies within the bounds of every sampler: law (N, L) in their order -> (N,) bool."""
    within = np.ones(len(law), bool)
    for column, sampler in zip(law.T, samplers.values(), strict=True):
        low, high = sampler.bounds
        within &= (column >= low - 1e-6) & (column <= high + 1e-6)
    return within
