"""Requests of a page: which scene, launch and law, and which models. What comes from outside is checked here, once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sgjepa import laws
from sgjepa.core.errors import InputError, one_line, unknown

MAX_LENGTH = 20_000  # characters
MAX_SEED = 999_999


@dataclass(frozen=True)
class Slider:
    """A law that the page can change, from `low` to `high` by `step`. It starts at `start`, the training mean."""

    name: str
    symbol: str
    unit: str
    low: float
    high: float
    start: float
    step: float

    def check(self, value: object) -> float:
        """The value as a number; an InputError if it is none, or out of range."""
        number = laws.check({self.name: value})[self.name]
        if not self.low <= number <= self.high:
            raise InputError(f"{self.name} must lie between {self.low:g} and {self.high:g} {self.unit}, got {number:g}")
        return number


@dataclass(frozen=True)
class Choices:
    """The choices of a page in one scene."""

    sliders: Sequence[Slider]
    models: Sequence[str]  # by name; policies, where they act


@dataclass(frozen=True)
class Request:
    """A request of a page.

    number: the page's own, which every answer repeats. seed: number of the launch. law: of the simulation. model_law: the
    one that models are conditioned on. explain: whether to search for the law that explains the frames best. sampling:
    seed of the policies' random numbers.
    """

    number: int
    scene: str
    seed: int
    law: dict[str, float]
    model_law: dict[str, float]
    models: tuple[str, ...]
    explain: bool = True
    sampling: int = 0


def parse_request(text: str, choices: Mapping[str, Choices]) -> Request:
    """Parse a request from untrusted text; an InputError if it is not valid. choices: by the name of the scene."""
    if len(text) > MAX_LENGTH:
        raise InputError(f"a request has at most {MAX_LENGTH} characters, got {len(text)}")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"a request must be JSON ({one_line(error, 80)})") from error
    if not isinstance(content, dict):
        raise InputError(f"a request must be an object, got {type(content).__name__}")
    known = sorted(Request.__dataclass_fields__)
    if extra := sorted(set(content) - set(known)):
        raise unknown("part of a request", one_line(extra[0], 40), known)
    scene = content.get("scene")
    if not isinstance(scene, str) or scene not in choices:
        raise unknown("scene", one_line(scene, 40), choices)
    sliders = choices[scene].sliders
    law, model_law = _check_law(content.get("law"), sliders), content.get("model_law")
    return Request(
        number=_check_number(content.get("number")),
        scene=scene,
        seed=_check_seed(content.get("seed"), "seed"),
        law=law,
        model_law=law if model_law is None else _check_law(model_law, sliders),
        models=_check_models(content.get("models"), choices[scene].models),
        explain=content.get("explain", True) is not False,
        sampling=_check_seed(content.get("sampling", 0), "sampling"),
    )


def number_in(text: str) -> int | None:
    """The number of an invalid request, if it can be read."""
    try:
        return _check_number(json.loads(text[:MAX_LENGTH])["number"])
    except (ValueError, RecursionError, TypeError, KeyError):
        return None


def _check_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise InputError(f"the number of a request must be a whole number from 0, got {one_line(value, 40)}")
    return value


def _check_seed(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_SEED:
        raise InputError(f"{name} must be a whole number from 0 to {MAX_SEED}, got {one_line(value, 40)}")
    return value


def _check_law(law: Any, sliders: Sequence[Slider]) -> dict[str, float]:
    if not isinstance(law, dict) or set(law) != {slider.name for slider in sliders}:
        names = ", ".join(slider.name for slider in sliders) or "no law"
        raise InputError(f"a law must be an object with {names}, got {one_line(law, 60)}")
    return {slider.name: slider.check(law[slider.name]) for slider in sliders}


def _check_models(names: Any, known: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(names, list) or len(names) > len(known):
        raise InputError(f"models must be a list of at most {len(known)} names, got {one_line(names, 60)}")
    for name in names:
        if name not in known:
            raise unknown("model", one_line(name, 40), known)
    return tuple(dict.fromkeys(names))
