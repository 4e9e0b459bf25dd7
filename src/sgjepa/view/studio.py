"""Simulators and models at work for the viewer: a question goes in, messages come out, the quick ones first.

OpenGL contexts belong to a thread, so a studio is used by one thread from its first question on.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from torch import Tensor

from sgjepa.envs import find
from sgjepa.envs.base import Env
from sgjepa.view import wire
from sgjepa.view.coverage import Coverage, coverage
from sgjepa.view.imagination import LAWS, Imagined, encode, explain, imagine
from sgjepa.view.question import Choice, Question
from sgjepa.view.scenes import band_of, colours_of, coverage_head, ours_first, scene
from sgjepa.view.shown import Axis, Shown, axes
from sgjepa.view.truth import Truth, simulate
from sgjepa.view.wire import Message, number, plain

T = TypeVar("T")
_KEPT = 16  # truths and latents that are remembered: a told law moves over one truth


class Studio:
    """Holds one simulator per world, its options and picture size."""

    def __init__(self, shown: Sequence[Shown]):
        self.shown = {one.name: one for one in shown}
        self.worlds = list(dict.fromkeys(one.env_spec.name for one in shown))
        self.axes: dict[str, list[Axis]] = {world: axes(self.of(world)) for world in self.worlds}
        self._envs: dict[tuple[Any, ...], Env] = {}
        self._truths: OrderedDict[Any, Truth] = OrderedDict()
        self._latents: OrderedDict[Any, Tensor] = OrderedDict()

    def of(self, world: str) -> list[Shown]:
        """The models of a world, SG-JEPA first."""
        return ours_first([one for one in self.shown.values() if one.env_spec.name == world])

    @property
    def choices(self) -> dict[str, Choice]:
        return {world: Choice(self.axes[world], [one.name for one in self.of(world)]) for world in self.worlds}

    def scenes(self) -> list[dict[str, Any]]:
        return [_scene(self.of(world), self.axes[world]) for world in self.worlds]

    def answer(self, question: Question) -> Iterator[Message | None]:
        """First the truth, then each model's imagination, then the law each would choose. None: a place to stop."""
        began = time.perf_counter()
        models = [self.shown[name] for name in question.models]
        truth = self.truth(question, models[0] if models else self.of(question.world)[0])
        yield Message(self._head(question, "truth") | {"outline": wire.outline(truth.outline)}, truth.episode.frames)
        for one in models:
            yield self._imagined(question, one)
        yield Message(self._head(question, "done") | {"ms": round(1000 * (time.perf_counter() - began))})
        if question.explain:
            for one in models:
                yield from self._explained(question, one)
        yield Message(self._head(question, "rest"))

    def truth(self, question: Question, one: Shown) -> Truth:
        """As that model would see it: simulated, or remembered."""
        key = (*_place(one), question.seed, *question.law.values())
        env = self._env(one)
        return _remember(self._truths, key, lambda: simulate(env, question.seed, question.law))

    def imagined(self, question: Question, one: Shown) -> tuple[Imagined, Coverage]:
        """What a model makes of it, and how far the law that it is told lies from its training."""
        episode = self.truth(question, one).episode
        told = one.mean if one.model.blind else {name: question.told[name] for name in one.laws}
        return imagine(one, self._latent(question, one), episode, told), coverage(told, one.mean, one.std)

    def explained(self, question: Question, one: Shown, axis: Axis) -> Iterator[tuple[np.ndarray, np.ndarray] | None]:
        """Values of a law and the latents' errors under each, (V,) both; None until all are known."""
        values, errors = tried(axis), []
        z, episode = self._latent(question, one), self.truth(question, one).episode
        for some in explain(one, z, episode, question.law, axis.name, values):
            errors.append(some)
            yield None
        yield values, np.concatenate(errors)

    def outline(self, one: Shown, y: np.ndarray | None) -> np.ndarray | None:
        """Where a probed object would be seen, (n, K, 2)."""
        if one.fitted is None or y is None:
            return None
        return self._env(one).outline(one.fitted.targets.to_state(y))

    def close(self) -> None:
        """Give back the OpenGL contexts."""
        for env in self._envs.values():
            env.close()
        self._envs.clear()

    def _env(self, one: Shown) -> Env:
        place, how = _place(one), cast(dict[str, Any], one.env)
        if place not in self._envs:
            self._envs[place] = find(one.env_spec.name)(image_size=one.pixels, **how)
        return self._envs[place]

    def _latent(self, question: Question, one: Shown) -> Tensor:
        key = (one.name, question.seed, *question.law.values())
        return _remember(self._latents, key, lambda: encode(one, self.truth(question, one).episode))

    def _head(self, question: Question, kind: str) -> dict[str, Any]:
        return {"number": question.number, "kind": kind}

    def _imagined(self, question: Question, one: Shown) -> Message:
        found, covered = self.imagined(question, one)
        head = self._head(question, "imagined") | imagined_head(found, covered, self.outline(one, found.y))
        return Message(head | {"model": one.name}, found.frames)

    def _explained(self, question: Question, one: Shown) -> Iterator[Message | None]:
        for axis in self.axes[question.world]:
            if axis.name not in one.laws or one.model.blind:
                continue
            for found in self.explained(question, one, axis):
                if found is None:
                    yield None
                    continue
                head = self._head(question, "explained") | explained_head(*found)
                yield Message(head | {"model": one.name, "law": axis.name})


def imagined_head(found: Imagined, covered: Coverage, outline: np.ndarray | None) -> dict[str, Any]:
    """What a page shows of it, besides pictures."""
    return {
        "errors": {name: plain(values) for name, values in found.errors.items()},
        "outline": wire.outline(outline),
        "coverage": coverage_head(covered),
    }


def explained_head(values: np.ndarray, errors: np.ndarray) -> dict[str, Any]:
    """The curve over the values of a law, and where it is lowest."""
    return {"values": plain(values), "errors": plain(errors), "best": number(float(values[errors.argmin()]))}


def tried(axis: Axis) -> np.ndarray:
    """Laws that a model is told, to see which explains the frames: some steps of the hand apart, `start` among them."""
    apart = axis.step * max(1, math.ceil((axis.high - axis.low) / (LAWS - 1) / axis.step - 1e-9))
    below, above = ((end - axis.start) / apart for end in (axis.low, axis.high))
    return np.round(axis.start + apart * np.arange(math.ceil(below - 1e-9), math.floor(above + 1e-9) + 1), 9)


def _place(one: Shown) -> tuple[Any, ...]:
    """What a simulator is made for."""
    return (one.env_spec.name, one.pixels, *sorted(one.env.items()))


def _remember(kept: OrderedDict[Any, T], key: Any, make: Callable[[], T]) -> T:
    if key not in kept:
        kept[key] = make()
        while len(kept) > _KEPT:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]


def _scene(models: Sequence[Shown], laws: Sequence[Axis]) -> dict[str, Any]:
    colours = colours_of(models)
    spec = models[0].env_spec
    return scene(spec.name, "imagine", spec, laws) | {
        "models": [
            {
                "name": one.name,
                "label": one.label,
                "colour": colours[one.name],
                "context": one.context,
                "pixels": one.pixels,
                "decodes": one.decoder is not None,
                "probes": one.fitted is not None,
                "blind": one.model.blind,
                "training": band_of(one),
            }
            for one in models
        ],
    }
