"""What is shown: finished runs, opened for looking at, and the worlds and laws that a page offers for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from sgjepa import laws
from sgjepa.core import run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.methods import label_of
from sgjepa.core.stats import UNVARIED
from sgjepa.envs import find
from sgjepa.envs.spec import EnvSpec
from sgjepa.evaluation.decoded_strips import load_decoder
from sgjepa.evaluation.evaluate import ForecastConfig
from sgjepa.evaluation.model import laws_of
from sgjepa.evaluation.probes import Fitted, kept_probe
from sgjepa.models.base import WorldModel
from sgjepa.models.decoder import Decoder
from sgjepa.training import checkpoint
from sgjepa.training.config import Run

_PIXELS = 64  # for a model that takes any size, in a world without usual settings


@dataclass(frozen=True)
class Shown:
    """A model that is shown, without whatever it lacks: decoder and probe.

    name: of its folder, made unique. laws: those that it is told, in order.
    """

    name: str
    label: str
    folder: Path
    env_spec: EnvSpec
    laws: tuple[str, ...]
    run: Run
    model: WorldModel
    decoder: Decoder | None
    fitted: Fitted | None
    env: dict[str, str]  # options of the world in which it was trained

    @property
    def pixels(self) -> int:
        """Of the pictures that it sees."""
        if self.model.image_size is not None:
            return self.model.image_size
        return min(size.pixels for size in self.env_spec.defaults.sizes.values()) if self.env_spec.defaults else _PIXELS

    @property
    def context(self) -> int:
        """True frames that it is given: as many as in the usual evaluation, or as it and its probe need."""
        return max(ForecastConfig().context, self.run.history, self.fitted.config.window if self.fitted else 1)

    @property
    def mean(self) -> dict[str, float]:
        """Of each law over the training episodes: they travel with the weights."""
        return dict(zip(self.laws, self.model.law_mean.double().tolist(), strict=True))

    @property
    def std(self) -> dict[str, float]:
        return spread(self.laws, self.model.law_std.double().tolist())


def spread(names: Sequence[str], std: Sequence[float]) -> dict[str, float]:
    """Of each law over the training episodes; 0 for one that never varied."""
    return {name: 0.0 if value == UNVARIED else value for name, value in zip(names, std, strict=True)}


class Trained(Protocol):
    """What was trained under laws of a world: a model or a policy."""

    @property
    def env_spec(self) -> EnvSpec: ...

    @property
    def laws(self) -> tuple[str, ...]: ...

    @property
    def mean(self) -> dict[str, float]: ...

    @property
    def std(self) -> dict[str, float]: ...


@dataclass(frozen=True)
class Axis:
    """A law that can be moved, from `low` to `high` in steps; it begins at `start`, the training mean."""

    name: str
    symbol: str
    unit: str
    low: float
    high: float
    start: float
    step: float

    def check(self, value: object) -> float:
        """A value from outside."""
        given = laws.check({self.name: value})[self.name]
        if not self.low <= given <= self.high:
            raise InputError(f"{self.name} must lie between {self.low:g} and {self.high:g} {self.unit}, got {given:g}")
        return given


def open_shown(folders: Sequence[Path]) -> list[Shown]:
    """Open finished runs."""
    return [open_run(folder, name) for folder, name in named(folders)]


def named(folders: Sequence[Path], taken: Sequence[str] = ()) -> list[tuple[Path, str]]:
    """Folders, each with a name; two of one name, or of one that is taken, are told apart by a number."""
    names = list(taken)
    for folder in folders:
        base = folder.resolve().name
        names.append(next(n for n in (base, *(f"{base}-{i}" for i in range(2, len(names) + 3))) if n not in names))
    return list(zip(folders, names[len(taken) :], strict=True))


def open_run(folder: Path, name: str) -> Shown:
    """A finished run."""
    run, model = checkpoint.load_run(folder)
    there = run_folder.about(folder)
    if not there.worlds:
        raise InputError(f"{folder} does not say which world it was trained in; train it again to view it")
    if there.recorded:
        raise InputError(
            f"{folder} was trained on recordings of {there.worlds[0]}: the viewer needs a simulator beside them"
        )
    spec = find(there.worlds[0]).env_spec
    decoder = load_decoder(folder, run, model)
    if decoder is not None:
        decoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # 1.6 times as fast on a CPU
    return Shown(
        name=name,
        label=label_of(run.name, spec.name, there.frozen_encoder),
        folder=folder,
        env_spec=spec,
        laws=laws_of(folder, there.laws, spec, model.laws),
        run=run,
        model=model,
        decoder=decoder,
        fitted=kept_probe(folder, model, spec),
        env=there.env,
    )


def axes(models: Sequence[Trained]) -> list[Axis]:
    """The laws of one world: as far as the usual test goes, and over what each of these was trained on."""
    found = []
    for name in dict.fromkeys(name for one in models for name in one.laws):
        law, spec = laws.find(name), models[0].env_spec
        told = [one for one in models if name in one.laws]
        asked = spec.defaults.test[name].bounds if spec.defaults and name in spec.defaults.test else None
        wide = 2 if asked else 3  # standard deviations
        low = min(one.mean[name] - wide * one.std[name] for one in told)
        high = max(one.mean[name] + wide * one.std[name] for one in told)
        if asked:  # the range that the paper asks about
            low, high = min(low, asked[0]), max(high, asked[1])
        elif low == high:  # it never varied, and nobody says how far to go
            low, high = low - 1, high + 1
        step = 10.0 ** math.floor(math.log10(max(high - low, 1e-6) / 100))  # 100 to 1,000 places for the hand
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
        start = round(told[0].mean[name] / step) * step
        found.append(Axis(name, law.label, law.unit, *(round(value, 9) for value in (low, high, start, step))))
    return found
