"""A pilot: a finished policy, opened for looking on while it drives, with what its own trials say of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sgjepa import zoo
from sgjepa.core import artifact
from sgjepa.data.config import DatasetConfig
from sgjepa.envs.spec import EnvSpec
from sgjepa.policies.diffusion import DiffusionPolicy, load_policy
from sgjepa.policies.evaluate import driver_of
from sgjepa.policies.files import WEIGHTS, read_trial
from sgjepa.recipes.datasets import dataset, usual
from sgjepa.results.success import Opening, Success, opening_in, success_in
from sgjepa.results.trials import own_trials, source_label
from sgjepa.view.shown import spread

_PIXELS = 128  # of a policy that does not look at pictures: for the eye


@dataclass(frozen=True)
class Pilot:
    """A policy that is shown. settings: of the environment that it drives. success: None if it was never put to trial.

    opening: an episode in which it succeeds, by its own trials or its card. blind: of an arm that sees only its pose.
    """

    name: str
    label: str
    folder: Path
    policy: DiffusionPolicy
    settings: DatasetConfig
    success: Success | None
    opening: Opening | None
    blind: Success | None

    @property
    def env_spec(self) -> EnvSpec:
        return self.settings.env_spec

    @property
    def laws(self) -> tuple[str, ...]:
        return self.policy.record.settings.laws

    @property
    def told(self) -> bool:
        """Whether it knows the law."""
        return bool(self.policy.record.settings.config["law"])

    @property
    def mean(self) -> dict[str, float]:
        """Of each law over the training episodes."""
        return _home(self.policy)

    @property
    def std(self) -> dict[str, float]:
        return spread(self.laws, self.policy.record.scaling.law.std)


def open_pilot(folder: Path, name: str) -> Pilot:
    """A finished policy with the run that it sees through; an InputError says what is wrong with either."""
    policy = load_policy(folder)
    world = policy.record.settings.world
    weights = policy.record.files[WEIGHTS]
    trials = own_trials(folder, weights)
    settings = read_trial(trials[0])[0].played if trials else dataset(world, next(iter(usual(world).sizes)))
    pixels = policy.pixels or (settings.image_size if "frame" in policy.observes else _PIXELS)
    card = _card(folder, weights)
    return Pilot(
        name=name,
        label=source_label(driver_of(folder, policy), world),
        folder=folder,
        policy=policy,
        settings=replace(settings, image_size=pixels),
        success=success_in(trials) if trials else card.success if card else None,
        opening=opening_in(trials, _home(policy)) if trials else card.opening if card else None,
        blind=card.blind if card else None,
    )


def _home(policy: DiffusionPolicy) -> dict[str, float]:
    """Of each law the mean over the training episodes."""
    return dict(zip(policy.record.settings.laws, policy.record.scaling.law.mean, strict=True))


def _card(folder: Path, weights: str) -> zoo.PolicyCard | None:
    """What the zoo says of these weights."""
    if not (folder / zoo.CARD).is_file():
        return None
    card = artifact.read_record(zoo.PolicyCard, folder / zoo.CARD, f"delete {folder} and take it from the zoo again")
    return card if card.files.get(WEIGHTS) == weights else None
