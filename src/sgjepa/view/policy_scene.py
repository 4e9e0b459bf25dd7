"""Scenes of policies: each acts in the simulation in closed loop, frame by frame, together with the expert.

An episode takes seconds, so every frame is a message of its own, and after each the work can be dropped.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa import zoo
from sgjepa.core import config, files
from sgjepa.core.methods import GREY
from sgjepa.data.config import DatasetConfig, episode_seed
from sgjepa.envs.spec import EnvSpec
from sgjepa.policies.base import Policy
from sgjepa.policies.closed_loop import drive_by_frame
from sgjepa.policies.evaluate import driver_of
from sgjepa.policies.files import SPLIT, WEIGHTS, read_trial
from sgjepa.policies.goal_tasks import Start
from sgjepa.policies.learned import LearnedPolicy, load_policy
from sgjepa.policies.scripted import Demonstrator
from sgjepa.policies.vector_env import Fleet, Outcome
from sgjepa.recipes.datasets import dataset, world_defaults
from sgjepa.results.success import Opening, Success, opening_in, success_in
from sgjepa.results.trials import BASELINE_POLICIES, own_trials, source_label
from sgjepa.view.messages import Message, rounded
from sgjepa.view.request import Request
from sgjepa.view.scenes import Loaded, Scenes, colours_of, coverage, training_spread

EXPERT = "expert"  # a name that no policy has
_EXPERT_DELAY = 16  # frames: its plan may take a second, for which the frames of policies should not wait
_PIXELS = 128  # of frames that only the viewer needs: the policy does not look at any


@dataclass(frozen=True)
class LoadedPolicy(Loaded):
    """A finished policy, with results from its trials or its card in the zoo.

    settings: of the environment that it acts in. success: None without any trial. opening: an episode in which it
    succeeds. blind_success: of a policy on proprioception only.
    """

    policy: LearnedPolicy
    settings: DatasetConfig
    success: Success | None
    opening: Opening | None
    blind_success: Success | None

    def describe(self, colour: str) -> dict[str, Any]:
        return super().describe(colour) | {
            "observes": list(self.policy.observes),
            "blind": not self.policy.record.settings.config["law"],
            "success": None if self.success is None else rounded(asdict(self.success)),
            "reference": False,
        }


def open_policy(folder: Path, name: str) -> LoadedPolicy:
    """Open a finished policy with the run of its features; an InputError if either is damaged."""
    policy = load_policy(folder)
    record = policy.record
    world, weights, laws = record.settings.world, record.files[WEIGHTS], record.settings.laws
    mean = dict(zip(laws, record.scaling.law.mean, strict=True))
    trials, card = own_trials(folder, weights), _card_of(folder, weights)
    settings = read_trial(trials[0])[0].played if trials else dataset(world, next(iter(world_defaults(world).sizes)))
    pixels = policy.pixels or (settings.image_size if "frame" in policy.observes else _PIXELS)
    return LoadedPolicy(
        name=name,
        label=source_label(driver_of(folder, policy), world),
        env_spec=settings.env_spec,
        mean=mean,
        std=training_spread(laws, record.scaling.law.std),
        policy=policy,
        settings=replace(settings, image_size=pixels),
        success=success_in(trials) if trials else card.success if card else None,
        opening=opening_in(trials, mean) if trials else card.opening if card else None,
        blind_success=card.blind_success if card else None,
    )


def _card_of(folder: Path, weights: str) -> zoo.PolicyCard | None:
    """The card in a folder of the zoo, if it is about these weights."""
    if not (folder / zoo.CARD).is_file():
        return None
    card = config.from_dict(zoo.PolicyCard, files.read_json(folder / zoo.CARD))
    return card if card.files.get(WEIGHTS) == weights else None


@dataclass(frozen=True)
class _Player:
    """A policy with its own simulator, one for each episode that runs at the same time."""

    policy: Policy
    fleet: Fleet


class PolicyScenes(Scenes[LoadedPolicy]):
    """A scene for each world, called WORLD-policy. Holds the simulators."""

    kind = "policy"
    suffix = "-policy"
    references = (EXPERT,)

    def __init__(self, loaded: Sequence[LoadedPolicy]):
        super().__init__(loaded)
        self._idle: dict[tuple[str, str], list[_Player]] = {}
        self._open = ExitStack()

    def answer(self, request: Request) -> Iterator[Message | None]:
        """Yield the frames of all policies in turn, and the outcome at the end of each episode."""
        began = time.perf_counter()
        header = {"number": request.number}
        yield self.start_message(request).with_header(header)
        waiting = [name for name in request.models if name == EXPERT]
        episodes = [self._messages(request, name) for name in request.models if name != EXPERT]
        frame = 0
        while episodes or waiting:
            for messages in list(episodes):
                message = next(messages, None)
                if message is None:
                    episodes.remove(messages)
                else:
                    yield message.with_header(header)
            frame += 1
            if waiting and (frame >= _EXPERT_DELAY or not episodes):
                episodes.append(self._messages(request, waiting.pop()))
        yield Message(header | {"kind": "answered", "ms": round(1000 * (time.perf_counter() - began))})
        yield Message(header | {"kind": "finished"})

    def start_message(self, request: Request) -> Message:
        """The coverage of the requested law by each policy's training."""
        requested = [self.loaded[name] for name in request.models if name != EXPERT]
        covered = {loaded.name: coverage(request.law, loaded.mean, loaded.std).to_json() for loaded in requested}
        return Message({"kind": "started", "coverage": covered})

    def episode(self, request: Request, name: str) -> Iterator[np.ndarray | Outcome]:
        """The frames of an episode, (1, h, w, 3) uint8 each, until its outcome is certain; then the outcome."""
        # the expert acts in the first policy's environment
        of = self.members(request.scene)[0] if name == EXPERT else self.loaded[name]
        law = {**of.env_spec.nominal_law, **request.law}
        start = Start(request.seed, episode_seed(of.settings.seed, SPLIT, request.seed), law)
        idle = self._idle.setdefault((request.scene, name), [])
        player = idle.pop() if idle else self._new_player(of, name)
        try:
            for moment in drive_by_frame(player.policy, player.fleet, of.env_spec, SPLIT, [start], request.sampling):
                frames = moment.observation.get("frame")
                yield player.fleet.pictures() if frames is None or moment.over[0] else frames
            yield player.fleet.outcomes()[0]
        finally:
            idle.append(player)  # the next episode starts anew

    def outcome_message(self, scene: str, name: str, outcome: Outcome) -> Message:
        """The outcome of an episode, in the words of its world."""
        spec = self.members(scene)[0].env_spec
        return Message({"kind": "outcome", "model": name, **describe_outcome(spec, outcome)})

    def close(self) -> None:
        self._idle.clear()
        self._open.close()

    def _new_player(self, of: LoadedPolicy, name: str) -> _Player:
        policy: Policy = Demonstrator() if name == EXPERT else copy.copy(of.policy)  # the network is shared
        return _Player(policy, self._open.enter_context(Fleet(of.settings, policy.observes, 1)))

    def _messages(self, request: Request, name: str) -> Iterator[Message]:
        for frame, step in enumerate(self.episode(request, name)):
            if isinstance(step, Outcome):
                yield self.outcome_message(request.scene, name, step)
            else:
                yield Message({"kind": "frame", "model": name, "first": frame}, step)

    def _describe(self, name: str) -> dict[str, Any]:
        policies = self.members(name)
        colours = colours_of(policies)
        models = [loaded.describe(colours[loaded.name]) for loaded in policies]
        expert = {"name": EXPERT, "label": BASELINE_POLICIES[EXPERT], "colour": GREY, "training": {}, "reference": True}
        blind = next((loaded.blind_success for loaded in policies if loaded.blind_success is not None), None)
        return {
            "models": [*models, dict.fromkeys(models[0]) | expert],
            "task": policies[0].env_spec.measures[0].about,
            "blind": None if blind is None else rounded(asdict(blind)),
            "opening": self._opening(name),
        }

    def _opening(self, name: str) -> dict[str, Any] | None:
        """The initial launch, law and sampling seed of a page: a known success within the range of the sliders."""
        range_of = {slider.name: (slider.low, slider.high) for slider in self.sliders[name]}
        for loaded in self.members(name):
            opening = loaded.opening
            if opening is None or set(opening.law) != set(range_of):
                continue
            if all(low <= opening.law[law] <= high for law, (low, high) in range_of.items()):
                return {"label": loaded.label, "seed": opening.launch, "law": opening.law, "sampling": opening.sampling}
        return None


def describe_outcome(spec: EnvSpec, outcome: Outcome) -> dict[str, Any]:
    """An outcome in words: the world's label of it, and its measures."""
    success, label = bool(outcome.measures["success"]), outcome.labels.get(spec.outcome_label, "")
    happened = [measure.about for measure in spec.measures if not measure.unit and outcome.measures[measure.name]]
    measured = [
        f"{measure.name.replace('_', ' ')} {value:.3g}{'' if measure.unit == '1' else ' ' + measure.unit}"
        for measure in spec.measures
        if measure.unit and np.isfinite(value := outcome.measures[measure.name])
    ]
    return {
        "success": success,
        "word": "success" if success else label.replace("_", " ") or "no success",
        "words": "; ".join([*happened[:1], *measured]),
        "steps": outcome.steps,
    }
