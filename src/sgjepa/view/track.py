"""Policies at the wheel for the viewer: the closed loop of sgjepa/control, frame by frame, with the demonstrator beside it.

An episode takes seconds, so every frame is a message of its own, and after every frame work can be dropped.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgjepa.core import config
from sgjepa.core.methods import GREY
from sgjepa.data.config import episode_seed
from sgjepa.envs.spec import EnvSpec
from sgjepa.policies.base import Policy
from sgjepa.policies.closed_loop import drive_by_frame
from sgjepa.policies.files import SPLIT
from sgjepa.policies.goal_tasks import Start
from sgjepa.policies.scripted import Demonstrator
from sgjepa.policies.vector_env import Fleet, Outcome
from sgjepa.results.trials import BASELINE_POLICIES
from sgjepa.view.coverage import coverage
from sgjepa.view.pilot import Pilot
from sgjepa.view.question import Choice, Question
from sgjepa.view.scenes import band_of, colours_of, coverage_head, ours_first, scene
from sgjepa.view.shown import Axis, axes
from sgjepa.view.wire import Message, number

EXPERT = "expert"  # the demonstrator's name; no pilot has it
_AHEAD = (
    16  # frames that pilots are ahead of the demonstrator: its plan may take a second, and a moving hand should not wait
)


@dataclass(frozen=True)
class _Seat:
    """A policy with a simulator to drive; episodes under way at the same time have one each."""

    policy: Policy
    fleet: Fleet


class Track:
    """Holds the simulators. A scene is a world with its pilots, called WORLD-control."""

    def __init__(self, pilots: Sequence[Pilot]):
        self.pilots = {one.name: one for one in pilots}
        self.names = list(dict.fromkeys(f"{one.env_spec.name}-control" for one in pilots))
        self.axes: dict[str, list[Axis]] = {name: axes(self.of(name)) for name in self.names}
        self._free: dict[tuple[str, str], list[_Seat]] = {}
        self._open = ExitStack()

    def of(self, name: str) -> list[Pilot]:
        """The pilots of a scene, SG-JEPA first."""
        return ours_first([one for one in self.pilots.values() if f"{one.env_spec.name}-control" == name])

    @property
    def choices(self) -> dict[str, Choice]:
        return {name: Choice(self.axes[name], [*(one.name for one in self.of(name)), EXPERT]) for name in self.names}

    def scenes(self) -> list[dict[str, Any]]:
        return [_scene(name, self.of(name), self.axes[name]) for name in self.names]

    def answer(self, question: Question) -> Iterator[Message | None]:
        """Frames of all in turn, as they are made, and of each at its end what it came to."""
        began = time.perf_counter()
        head = {"number": question.number}
        yield Message(head | {"kind": "began", "coverage": self.coverage(question)})
        waiting = [name for name in question.models if name == EXPERT]
        works = [self._messages(question, name) for name in question.models if name != EXPERT]
        frame = 0
        while works or waiting:
            for work in list(works):
                message = next(work, None)
                if message is None:
                    works.remove(work)
                else:
                    yield message
            frame += 1
            if waiting and (frame >= _AHEAD or not works):
                works.append(self._messages(question, waiting.pop()))
        yield Message(head | {"kind": "done", "ms": round(1000 * (time.perf_counter() - began))})
        yield Message(head | {"kind": "rest"})

    def episode(self, question: Question, name: str) -> Iterator[np.ndarray | Outcome]:
        """Its pictures, (1, h, w, 3) uint8 each, from the first frame to the one that decides; then what it came to."""
        pilot = self._pilot(question, name)
        law = {**pilot.env_spec.nominal_law, **question.law}
        start = Start(question.seed, episode_seed(pilot.settings.seed, SPLIT, question.seed), law)
        seats = self._free.setdefault((question.world, name), [])
        seat = seats.pop() if seats else self._seat(pilot, name)
        try:
            for moment in drive_by_frame(seat.policy, seat.fleet, pilot.env_spec, SPLIT, [start], question.sampling):
                pictures = moment.observation.get("frame")
                yield seat.fleet.pictures() if pictures is None or moment.over[0] else pictures
            yield seat.fleet.outcomes()[0]
        finally:
            seats.append(seat)  # `begin` leaves nothing of the episode before

    def coverage(self, question: Question) -> dict[str, Any]:
        """How far the law lies from each pilot's training."""
        chosen = [one for one in self.of(question.world) if one.name in question.models]
        return {one.name: coverage_head(coverage(question.law, one.mean, one.std)) for one in chosen}

    def close(self) -> None:
        """Give back the OpenGL contexts."""
        self._free.clear()
        self._open.close()

    def _pilot(self, question: Question, name: str) -> Pilot:
        """Whose environment it is: the demonstrator drives the first pilot's."""
        return self.of(question.world)[0] if name == EXPERT else self.pilots[name]

    def _seat(self, pilot: Pilot, name: str) -> _Seat:
        policy: Policy = Demonstrator() if name == EXPERT else copy.copy(pilot.policy)  # the same network
        return _Seat(policy, self._open.enter_context(Fleet(pilot.settings, policy.observes, 1)))

    def _messages(self, question: Question, name: str) -> Iterator[Message]:
        head, spec = {"number": question.number, "model": name}, self._pilot(question, name).env_spec
        for frame, found in enumerate(self.episode(question, name)):
            if isinstance(found, Outcome):
                yield Message(head | {"kind": "outcome"} | outcome_head(spec, found))
            else:
                yield Message(head | {"kind": "frame", "first": frame}, found)


def outcome_head(spec: EnvSpec, found: Outcome) -> dict[str, Any]:
    """What an episode came to, in words: of the world's label, and of its measures."""
    success, label = bool(found.measures["success"]), found.labels.get(spec.outcome_label, "")
    happened = [one.about for one in spec.measures if not one.unit and found.measures[one.name]]
    counted = [(one, found.measures[one.name]) for one in spec.measures if one.unit]
    numbers = [
        f"{one.name.replace('_', ' ')} {value:.3g}{'' if one.unit == '1' else ' ' + one.unit}"
        for one, value in counted
        if np.isfinite(value)
    ]
    return {
        "success": success,
        "word": "success" if success else label.replace("_", " ") or "no success",
        "words": "; ".join([*happened[:1], *numbers]),
        "steps": found.steps,
    }


def _scene(name: str, pilots: Sequence[Pilot], laws: Sequence[Axis]) -> dict[str, Any]:
    colours, spec = colours_of(pilots), pilots[0].env_spec
    shown: list[dict[str, Any]] = [
        {
            "name": one.name,
            "label": one.label,
            "colour": colours[one.name],
            "observes": list(one.policy.observes),
            "blind": not one.told,
            "training": band_of(one),
            "success": None if one.success is None else _rounded(config.to_dict(one.success)),
            "reference": False,
        }
        for one in pilots
    ]
    label = BASELINE_POLICIES[EXPERT]
    shown.append(
        dict.fromkeys(shown[0]) | {"name": EXPERT, "label": label, "colour": GREY, "training": {}, "reference": True}
    )
    about = {"models": shown, "task": spec.measures[0].about, "blind": _blind(pilots), "opening": _opening(pilots, laws)}
    return scene(name, "drive", spec, laws) | about


def _blind(pilots: Sequence[Pilot]) -> dict[str, Any] | None:
    """How often an arm succeeds that sees nothing but its own pose, as a card tells it: what sight has to surpass."""
    found = next((one.blind for one in pilots if one.blind is not None), None)
    return None if found is None else _rounded(config.to_dict(found))


def _opening(pilots: Sequence[Pilot], laws: Sequence[Axis]) -> dict[str, Any] | None:
    """The launch, law and try that a page begins with: one at which the first policy that knows any succeeds."""
    within = {axis.name: (axis.low, axis.high) for axis in laws}
    for one in pilots:
        found = one.opening
        if found is None or set(found.law) != set(within):
            continue
        if all(low <= found.law[law] <= high for law, (low, high) in within.items()):
            return {"label": one.label, "seed": found.launch, "law": found.law, "sampling": found.sampling}
    return None


def _rounded(value: Any) -> Any:
    """Numbers as a screen shows them."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items() if key != "type"}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return number(value) if isinstance(value, float) else value
