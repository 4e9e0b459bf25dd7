"""Scenes: what a page shows at a time, a world with models or with policies. Here is what both kinds have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from sgjepa import laws
from sgjepa.core.methods import styles
from sgjepa.core.stats import UNVARIED
from sgjepa.envs.spec import EnvSpec
from sgjepa.results.selection import SG_JEPA
from sgjepa.theory.coverage import affine_L_law
from sgjepa.view.messages import Message, rounded
from sgjepa.view.request import Choices, Request, Slider

INSIDE = 2.0  # standard deviations: what counts as in distribution (laws.ClippedNormal.bounds)
_SAME = 1e-6  # relative: smaller differences of a law are none
_GREY = "#949494"  # instead of black, which nobody sees on a dark page


@dataclass(frozen=True)
class Loaded:
    """A finished model or policy, open for viewing.

    name: of its folder, unique on the page. label: its method. mean, std: of each law over the training episodes; the
    standard deviation of a law that never varied is 0.
    """

    name: str
    label: str
    env_spec: EnvSpec
    mean: dict[str, float]
    std: dict[str, float]

    @property
    def laws(self) -> tuple[str, ...]:
        """The laws of its training, in the order of its inputs."""
        return tuple(self.mean)

    def describe(self, colour: str) -> dict[str, Any]:
        """What a page has to know of it before the first request."""
        training = {law: {"mean": self.mean[law], "std": self.std[law]} for law in self.laws}
        return {"name": self.name, "label": self.label, "colour": colour, "training": rounded(training)}


def training_spread(names: Sequence[str], std: Sequence[float]) -> dict[str, float]:
    """The standard deviation of each law over the training episodes, from those that normalise it."""
    return {name: 0.0 if value == UNVARIED else value for name, value in zip(names, std, strict=True)}


@dataclass(frozen=True)
class Coverage:
    """How far a law lies outside of a training.

    sigma: distance of each law from its training mean, in standard deviations, with its sign. L_law: the law coverage in
    the affine basis of all laws, if they were drawn independently.
    """

    sigma: dict[str, float]
    L_law: float

    @property
    def inside(self) -> bool:
        """Whether the law is in distribution."""
        return all(abs(distance) <= INSIDE for distance in self.sigma.values())

    @property
    def words(self) -> str:
        """The distance in words, such as "4 sigma out"."""
        if not self.sigma:
            return "no law varies"
        parts = []
        for name, distance in self.sigma.items():
            if abs(distance) > INSIDE:
                which = f"{laws.get_law(name).label} " if len(self.sigma) > 1 else ""
                away = f"{abs(distance):.1f} sigma out".replace(".0 ", " ")
                parts.append(which + (away if math.isfinite(distance) else "never varied in training"))
        return ", ".join(parts) or "inside"

    def to_json(self) -> dict[str, Any]:
        """The coverage as messages carry it."""
        return {"words": self.words, "L_law": rounded(self.L_law), "inside": self.inside}


def coverage(law: Mapping[str, float], mean: Mapping[str, float], std: Mapping[str, float]) -> Coverage:
    """The coverage of a law by a training with this mean and standard deviation of each law.

    L_law of independent laws in the affine basis is 1 + Σ ((g - μ) / σ)²: what `affine_L_law` says of each adds up.
    """
    sigma, total = {}, 1.0
    for name, middle in mean.items():
        least = _SAME * max(1.0, abs(middle))
        if std[name] <= least:
            sigma[name] = 0.0 if abs(law[name] - middle) <= least else math.inf
            total += sigma[name]
        else:
            sigma[name] = (law[name] - middle) / std[name]
            total += float(affine_L_law(np.array(law[name]), middle, std[name])) - 1
    return Coverage(sigma, total)


def sliders_for(loaded: Sequence[Loaded]) -> list[Slider]:
    """Sliders for the laws of one world: over the range of the usual test, and over what each of these was trained on."""
    spec, sliders = loaded[0].env_spec, []
    for name in dict.fromkeys(law for each in loaded for law in each.laws):
        trained = [each for each in loaded if name in each.laws]
        tested = spec.defaults.test[name].bounds if spec.defaults and name in spec.defaults.test else None
        width = 2 if tested else 3  # standard deviations
        low = min(each.mean[name] - width * each.std[name] for each in trained)
        high = max(each.mean[name] + width * each.std[name] for each in trained)
        if tested:
            low, high = min(low, tested[0]), max(high, tested[1])
        elif low == high:  # it never varied, and nobody says how far to go
            low, high = low - 1, high + 1
        step = 10.0 ** math.floor(math.log10(max(high - low, 1e-6) / 100))  # 100 to 1,000 positions
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
        start = round(trained[0].mean[name] / step) * step
        law = laws.get_law(name)
        sliders.append(Slider(name, law.label, law.unit, *(round(value, 9) for value in (low, high, start, step))))
    return sliders


L = TypeVar("L", bound=Loaded)


class Scenes(ABC, Generic[L]):
    """All scenes of one kind. OpenGL contexts belong to a thread: one thread uses them from the first answer on."""

    kind: ClassVar[str]
    suffix: ClassVar[str] = ""  # of a scene's name, behind that of its world
    references: ClassVar[tuple[str, ...]] = ()  # what can be requested of every scene, besides what was loaded

    def __init__(self, loaded: Sequence[L]):
        self.loaded = {each.name: each for each in loaded}
        self.names = list(dict.fromkeys(self._scene_of(each) for each in loaded))
        self.sliders = {name: sliders_for(self.members(name)) for name in self.names}

    def members(self, scene: str) -> list[L]:
        """What was loaded for a scene: SG-JEPA first, otherwise in the order of the command."""
        several = [each for each in self.loaded.values() if self._scene_of(each) == scene]
        return sorted(several, key=lambda each: not each.label.startswith(SG_JEPA))

    @property
    def choices(self) -> dict[str, Choices]:
        """What can be requested, by scene."""
        return {
            name: Choices(self.sliders[name], [*(each.name for each in self.members(name)), *self.references])
            for name in self.names
        }

    def describe(self) -> list[dict[str, Any]]:
        """What a page has to know of each scene before the first request."""
        return [self._describe_common(name) | self._describe(name) for name in self.names]

    def _scene_of(self, loaded: Loaded) -> str:
        return loaded.env_spec.name + self.suffix

    def _describe_common(self, name: str) -> dict[str, Any]:
        spec = self.members(name)[0].env_spec
        about = {"name": name, "kind": self.kind, "title": spec.name.replace("_", " "), "fps": spec.fps}
        return about | {"frames": spec.frames, "laws": [asdict(slider) for slider in self.sliders[name]]}

    @abstractmethod
    def _describe(self, name: str) -> dict[str, Any]:
        """What only this kind of scene has."""

    @abstractmethod
    def answer(self, request: Request) -> Iterator[Message | None]:
        """Messages, the quick ones first. None: nothing to send, but a moment at which work can be dropped."""

    @abstractmethod
    def close(self) -> None:
        """Give back the OpenGL contexts."""


def colours_of(loaded: Sequence[Loaded]) -> dict[str, str]:
    """By name, the colour of the method, or one of its own where a method is there twice."""
    labels = [each.label for each in loaded]
    if len(set(labels)) < len(labels):
        labels = [each.name for each in loaded]
    colours = {label: colour for label, (colour, _) in styles(labels).items()}
    return {
        each.name: _GREY if colours[label] == "#000000" else colours[label]
        for each, label in zip(loaded, labels, strict=True)
    }
