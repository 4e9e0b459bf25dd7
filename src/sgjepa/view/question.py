"""What a page may ask: a world, a launch, a law, perhaps another one that the models are told. Checked at this door."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sgjepa.core.errors import InputError, one_line, unknown
from sgjepa.view.shown import Axis
from sgjepa.view.truth import check_seed

LONGEST = 20_000  # characters


@dataclass(frozen=True)
class Question:
    """number: the page's own, to know the answers by. told: as the law, unless the page unlocked it.

    world: of `Choice`, one of a page's scenes. sampling: the seed of a policy's chance.
    """

    number: int
    world: str
    seed: int
    law: dict[str, float]
    told: dict[str, float]
    models: tuple[str, ...]
    explain: bool = True
    sampling: int = 0


@dataclass(frozen=True)
class Choice:
    """What can be asked of one world."""

    axes: Sequence[Axis]
    models: Sequence[str]


def read(text: str, choices: Mapping[str, Choice]) -> Question:
    """A question from outside; an InputError says what is wrong with it."""
    if len(text) > LONGEST:
        raise InputError(f"a question has at most {LONGEST} characters, got {len(text)}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"a question must be JSON ({one_line(error, 80)})") from error
    if not isinstance(found, dict):
        raise InputError(f"a question must be an object, got {type(found).__name__}")
    known = {"number", "world", "seed", "law", "told", "models", "explain", "sampling"}
    if extra := sorted(set(found) - known):
        raise unknown("part of a question", one_line(extra[0], 40), sorted(known))
    world = found.get("world")
    if not isinstance(world, str) or world not in choices:
        raise unknown("world", one_line(world, 40), choices)
    choice, law = choices[world], found.get("law")
    checked = _law(law, choice.axes)
    told = found.get("told")
    return Question(
        number=_number(found.get("number")),
        world=world,
        seed=check_seed(found.get("seed")),
        law=checked,
        told=checked if told is None else _law(told, choice.axes),
        models=_models(found.get("models"), choice.models),
        explain=found.get("explain", True) is not False,
        sampling=check_seed(found.get("sampling", 0), "sampling"),
    )


def number_in(text: str) -> int | None:
    """The number of a question that could not be read, if that much is there."""
    try:
        return _number(json.loads(text[:LONGEST])["number"])
    except (ValueError, RecursionError, TypeError, KeyError):
        return None


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise InputError(f"the number of a question must be a whole number from 0, got {one_line(value, 40)}")
    return value


def _law(law: Any, axes: Sequence[Axis]) -> dict[str, float]:
    if not isinstance(law, dict) or set(law) != {axis.name for axis in axes}:
        names = ", ".join(axis.name for axis in axes) or "no law"
        raise InputError(f"a law must be an object with {names}, got {one_line(law, 60)}")
    return {axis.name: axis.check(law[axis.name]) for axis in axes}


def _models(names: Any, choices: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(names, list) or len(names) > len(choices):
        raise InputError(f"models must be a list of at most {len(choices)} names, got {one_line(names, 60)}")
    for name in names:
        if name not in choices:
            raise unknown("model", one_line(name, 40), choices)
    return tuple(dict.fromkeys(names))
