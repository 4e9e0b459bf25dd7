"""Scenes: what a page shows at a time, a world with models that imagine it or with policies that drive it. Rooms make them.

Page -> the rooms together: it knows which one a question is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from sgjepa.core.errors import InputError
from sgjepa.core.methods import styles
from sgjepa.envs.spec import EnvSpec
from sgjepa.evaluation.metrics import METRICS
from sgjepa.results.table import OURS
from sgjepa.view.coverage import Coverage
from sgjepa.view.question import Choice, Question
from sgjepa.view.shown import Axis, Trained
from sgjepa.view.wire import Message, number

T = TypeVar("T", bound="Named")
_GREY = "#949494"  # instead of black, which nobody sees on a dark page


class Room(Protocol):
    """What answers questions about its scenes. It is used by one thread, from its first question on."""

    @property
    def choices(self) -> Mapping[str, Choice]:
        """What may be asked, by scene."""

    def scenes(self) -> list[dict[str, Any]]:
        """What a page must know of each before it asks."""

    def answer(self, question: Question) -> Iterator[Message | None]:
        """Messages, the quick ones first. None: a place to stop."""

    def close(self) -> None:
        """Give back the OpenGL contexts."""


class Page:
    """All rooms, as one."""

    def __init__(self, rooms: Sequence[Room]):
        if not rooms:
            raise InputError("there is no run to view; name one: sgjepa view RUN")
        self.rooms = tuple(rooms)

    @property
    def choices(self) -> dict[str, Choice]:
        return {name: choice for room in self.rooms for name, choice in room.choices.items()}

    def scenes(self) -> list[dict[str, Any]]:
        return [one for room in self.rooms for one in room.scenes()]

    def about(self) -> dict[str, Any]:
        """All that a page must know before it asks."""
        return {"worlds": self.scenes(), "units": {name: metric.unit for name, metric in METRICS.items()}}

    def room(self, name: str) -> Room:
        """Whose scene it is."""
        return next(room for room in self.rooms if name in room.choices)

    def answer(self, question: Question) -> Iterator[Message | None]:
        return self.room(question.world).answer(question)

    def close(self) -> None:
        for room in self.rooms:
            room.close()


class Named(Trained, Protocol):
    """What a scene has several of."""

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str: ...


def ours_first(several: Sequence[T]) -> list[T]:
    """SG-JEPA in front of what it is compared with; otherwise as they were named."""
    return sorted(several, key=lambda one: not one.label.startswith(OURS))


def scene(name: str, kind: str, spec: EnvSpec, laws: Sequence[Axis]) -> dict[str, Any]:
    """What all scenes say of themselves. kind: "imagine" or "drive"."""
    title = spec.name.replace("_", " ")
    about = {"name": name, "kind": kind, "title": title, "fps": spec.fps, "frames": spec.frames}
    return about | {"laws": [asdict(axis) for axis in laws]}


def colours_of(several: Sequence[Named]) -> dict[str, str]:
    """By name: the colour of its method, or one of its own where a method is shown twice."""
    labels = [one.label for one in several]
    told_apart = labels if len(set(labels)) == len(labels) else [one.name for one in several]
    look = styles(told_apart)
    seen = {text: _GREY if look[text][0] == "#000000" else look[text][0] for text in told_apart}
    return {one.name: seen[text] for one, text in zip(several, told_apart, strict=True)}


def band_of(one: Trained) -> dict[str, Any]:
    """The laws that it was trained on."""
    return {name: {"mean": number(one.mean[name]), "std": number(one.std[name])} for name in one.laws}


def coverage_head(covered: Coverage) -> dict[str, Any]:
    """How far a law lies from the training."""
    return {"words": covered.words, "L_law": number(covered.L_law), "inside": covered.inside}
