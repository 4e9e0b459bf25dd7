"""Scenes of world models: the simulation of a launch, each model's rollout from its first frames, and the law under which
each model explains the frames best."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from sgjepa.core import run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.methods import label_of
from sgjepa.data import episode
from sgjepa.data.config import episode_plan, episode_seed
from sgjepa.data.episode import Episode
from sgjepa.envs import get_env
from sgjepa.envs.base import Env
from sgjepa.evaluation import forecast, metrics
from sgjepa.evaluation.decoded_strips import load_decoder
from sgjepa.evaluation.evaluate import ForecastConfig
from sgjepa.evaluation.model import laws_of
from sgjepa.evaluation.probes import Fitted, probe_if_fitted
from sgjepa.laws import coordinates_moved_by
from sgjepa.models.base import WorldModel
from sgjepa.models.decoder import Decoder
from sgjepa.models.rollout import rollout
from sgjepa.training import checkpoint
from sgjepa.training.config import Run
from sgjepa.view.messages import Message, outline_points, rounded
from sgjepa.view.request import Request, Slider
from sgjepa.view.scenes import Coverage, Loaded, Scenes, colours_of, coverage, training_spread

T = TypeVar("T")
CANDIDATES = 41  # maximum number of values of a law
_CHUNK = 7  # of them at a time, for which a new request has to wait
_PIXELS = 64  # for a model that takes any size, in a world without default settings
_CACHED = 16  # simulations, and as many latents: the models' law is often changed under one simulation


@dataclass(frozen=True)
class LoadedModel(Loaded):
    """A finished run, with or without decoder and probe. env: options of the environment in which it was trained."""

    run: Run
    model: WorldModel
    decoder: Decoder | None
    probe: Fitted | None
    env: dict[str, str]

    @property
    def pixels(self) -> int:
        """Side of its frames in pixels."""
        if self.model.image_size is not None:
            return self.model.image_size
        defaults = self.env_spec.defaults
        return min(size.pixels for size in defaults.sizes.values()) if defaults else _PIXELS

    @property
    def context(self) -> int:
        """The number of true frames before the rollout: that of the default evaluation, or what model and probe need."""
        return max(ForecastConfig().context, self.run.history, self.probe.config.window if self.probe else 1)

    def describe(self, colour: str) -> dict[str, Any]:
        return super().describe(colour) | {
            "context": self.context,
            "pixels": self.pixels,
            "decodes": self.decoder is not None,
            "probes": self.probe is not None,
            "blind": self.model.blind,
        }


def open_model(folder: Path, name: str) -> LoadedModel:
    """Open a finished run; an InputError if it cannot be viewed."""
    run, model = checkpoint.load_run(folder)
    record = run_folder.about(folder)
    if not record.worlds:
        raise InputError(f"{folder} does not say which world it was trained in; train it again to view it")
    if record.recorded:
        raise InputError(
            f"{folder} was trained on recordings of {record.worlds[0]}: the viewer needs a simulator beside them"
        )
    spec = get_env(record.worlds[0]).env_spec
    decoder = load_decoder(folder, run, model)
    if decoder is not None:
        decoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # 1.6 times as fast on a CPU
    laws = laws_of(folder, record.laws, spec, model.laws)
    return LoadedModel(
        name=name,
        label=label_of(run.name, spec.name, record.frozen_encoder),
        env_spec=spec,
        mean=dict(zip(laws, model.law_mean.double().tolist(), strict=True)),
        std=training_spread(laws, model.law_std.double().tolist()),
        run=run,
        model=model,
        decoder=decoder,
        probe=probe_if_fitted(folder, model, spec),
        env=record.env,
    )


# --- what is computed --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Simulation:
    """A simulated episode. outline: of its object, closed curves (T, K, 2) in picture widths; None if there is none."""

    episode: Episode
    outline: np.ndarray | None


def simulate(env: Env, seed: int, law: Mapping[str, float]) -> Simulation:
    """Simulate a launch under a law, driven by the expert where there is one.

    It is the launch of test episode `seed` in datasets of default settings.
    """
    plan = episode_plan(env.env_spec.expert_plans, 0, "test", seed)
    simulated = episode.simulate(env, episode_seed(0, "test", seed), law, plan)
    names = (quantity.name for quantity in env.env_spec.state)
    state = dict(zip(names, simulated.state.T.astype(np.float64), strict=True))
    return Simulation(simulated, env.outline(state))


@dataclass(frozen=True)
class Rollout:
    """The n frames after the context, as a model predicts them.

    frames: (n, h, w, 3) uint8, if it has a decoder. y: probed targets (n, Y), if it has a probe. errors: (n,) by metric.
    """

    frames: np.ndarray | None
    y: np.ndarray | None
    errors: dict[str, np.ndarray]


@torch.inference_mode()
def encode(loaded: LoadedModel, episode: Episode) -> Tensor:
    """The latents of all frames, (1, T, ...)."""
    return loaded.model.encode(torch.from_numpy(episode.frames)[None])


@torch.inference_mode()
def roll_out(loaded: LoadedModel, z: Tensor, episode: Episode, law: Mapping[str, float]) -> Rollout:
    """The rollout from the true latents z (1, T, ...) of the context, with the true controls, under any law."""
    context, probe = loaded.context, loaded.probe
    steps = z.shape[1] - context
    c = _condition(loaded, episode, np.array([[law[name] for name in loaded.laws]], np.float32))
    y, errors = None, {}
    if probe is None:
        predicted = rollout(loaded.model, z[:, :context], c, steps, loaded.run.history)
    else:
        probed, predicted = forecast.imagine(loaded.model, probe, z[:, :context], c, steps, loaded.run.history)
        true = probe.targets.of(episode.state[None, context:].astype(np.float64))
        y = probed[0, 1:]
        guess = metrics.Guess(probe.targets, probed[:, 1:], true, probe.std, moved=coordinates_moved_by(loaded.laws))
        errors = {name: error[0] for name, error in metrics.errors(guess).items()}
    errors["latent_mse"] = forecast.latent_error(predicted, z, context)[0]
    frames = None
    if loaded.decoder is not None:
        frames = (loaded.decoder(predicted[:, context:])[0] * 255).round().to(torch.uint8).numpy()
    return Rollout(frames, y, errors)


def candidate_laws(slider: Slider) -> np.ndarray:
    """Values of a law that are compared: evenly spaced over the slider by some of its steps, `start` among them."""
    spacing = slider.step * max(1, math.ceil((slider.high - slider.low) / (CANDIDATES - 1) / slider.step - 1e-9))
    below, above = ((end - slider.start) / spacing for end in (slider.low, slider.high))
    return np.round(slider.start + spacing * np.arange(math.ceil(below - 1e-9), math.floor(above + 1e-9) + 1), 9)


def errors_under_laws(
    loaded: LoadedModel, z: Tensor, episode: Episode, true: Mapping[str, float], name: str, values: np.ndarray
) -> Iterator[np.ndarray]:
    """Latent prediction errors of the frames after the context under each value of one law, with the other laws unchanged.

    Yields mean squared errors of the latents, some values at a time so that the work can be stopped: (V,) in total.
    """
    context = loaded.context
    for chunk in np.array_split(values, -(-len(values) // _CHUNK)):
        law = np.array([[true[other] for other in loaded.laws]] * len(chunk), np.float32)
        law[:, loaded.laws.index(name)] = chunk
        with torch.inference_mode():
            c = _condition(loaded, episode, law)
            start = z[:, :context].expand(len(chunk), *z[:, :context].shape[1:])
            predicted = rollout(loaded.model, start, c, z.shape[1] - context, loaded.run.history)
            yield forecast.latent_error(predicted, z, context).mean(axis=1)


def _condition(loaded: LoadedModel, episode: Episode, law: np.ndarray) -> Tensor:
    """law (B, L) -> c (B, T, ·)"""
    control = torch.from_numpy(episode.control)[None].expand(len(law), -1, -1)
    return loaded.model.condition(control, torch.from_numpy(law))


# --- scenes ------------------------------------------------------------------------------------------------------------


class ModelScenes(Scenes[LoadedModel]):
    """A scene for each world, of its name. Holds one simulator for each world, its options and size of frames."""

    kind = "model"

    def __init__(self, loaded: Sequence[LoadedModel]):
        super().__init__(loaded)
        self._envs: dict[tuple[Any, ...], Env] = {}
        self._simulations: OrderedDict[Any, Simulation] = OrderedDict()
        self._latents: OrderedDict[Any, Tensor] = OrderedDict()

    def answer(self, request: Request) -> Iterator[Message | None]:
        """Yield the simulation, then each model's rollout, then the law that explains the frames best for each."""
        began = time.perf_counter()
        header = {"number": request.number}
        models = [self.loaded[name] for name in request.models]
        yield self.simulation_message(request).with_header(header)
        for loaded in models:
            yield self.rollout_message(request, loaded).with_header(header)
        yield Message(header | {"kind": "answered", "ms": round(1000 * (time.perf_counter() - began))})
        for loaded in models if request.explain else ():
            for message in self.explanations(request, loaded):
                yield None if message is None else message.with_header(header)
        yield Message(header | {"kind": "finished"})

    def simulation_message(self, request: Request) -> Message:
        """The simulation with the environment of the first requested model."""
        members = self.members(request.scene)
        first = next((self.loaded[name] for name in request.models), members[0])
        simulation = self.simulation(request, first)
        return Message({"kind": "simulation", "outline": outline_points(simulation.outline)}, simulation.episode.frames)

    def rollout_message(self, request: Request, loaded: LoadedModel) -> Message:
        """A model's rollout with its errors and the coverage of its law."""
        predicted, covered = self.rollout(request, loaded)
        header = {
            "kind": "rollout",
            "model": loaded.name,
            "errors": rounded(predicted.errors),
            "outline": outline_points(self._outline(loaded, predicted.y)),
            "coverage": covered.to_json(),
        }
        return Message(header, predicted.frames)

    def explanations(self, request: Request, loaded: LoadedModel) -> Iterator[Message | None]:
        """A message for each law that the model is conditioned on; None while one is being computed."""
        for slider in self.sliders[request.scene]:
            if slider.name not in loaded.laws or loaded.model.blind:
                continue
            for measured in self.law_errors(request, loaded, slider):
                if measured is None:
                    yield None
                    continue
                values, errors = measured
                best = float(values[errors.argmin()])
                curve = {"values": rounded(values), "errors": rounded(errors), "best": rounded(best)}
                yield Message({"kind": "explanation", "model": loaded.name, "law": slider.name, **curve})

    def simulation(self, request: Request, loaded: LoadedModel) -> Simulation:
        """The requested episode with a model's environment."""
        key = (*_env_key(loaded), request.seed, *request.law.values())
        return _cached(self._simulations, key, lambda: simulate(self._env(loaded), request.seed, request.law))

    def rollout(self, request: Request, loaded: LoadedModel) -> tuple[Rollout, Coverage]:
        """A model's rollout, and the coverage of the law that it is conditioned on."""
        law = loaded.mean if loaded.model.blind else {name: request.model_law[name] for name in loaded.laws}
        predicted = roll_out(loaded, self._latent(request, loaded), self.simulation(request, loaded).episode, law)
        return predicted, coverage(law, loaded.mean, loaded.std)

    def law_errors(
        self, request: Request, loaded: LoadedModel, slider: Slider
    ) -> Iterator[tuple[np.ndarray, np.ndarray] | None]:
        """Values of a law and the latents' errors under each, (V,) both; None until all are known."""
        values, errors = candidate_laws(slider), []
        z, episode = self._latent(request, loaded), self.simulation(request, loaded).episode
        for chunk in errors_under_laws(loaded, z, episode, request.law, slider.name, values):
            errors.append(chunk)
            yield None
        yield values, np.concatenate(errors)

    def close(self) -> None:
        for env in self._envs.values():
            env.close()
        self._envs.clear()

    def _describe(self, name: str) -> dict[str, Any]:
        models = self.members(name)
        colours = colours_of(models)
        return {"models": [loaded.describe(colours[loaded.name]) for loaded in models]}

    def _outline(self, loaded: LoadedModel, y: np.ndarray | None) -> np.ndarray | None:
        """Outlines (n, K, 2) of a probed object in the picture."""
        if loaded.probe is None or y is None:
            return None
        return self._env(loaded).outline(loaded.probe.targets.to_state(y))

    def _env(self, loaded: LoadedModel) -> Env:
        key, options = _env_key(loaded), cast(dict[str, Any], loaded.env)
        if key not in self._envs:
            self._envs[key] = get_env(loaded.env_spec.name)(image_size=loaded.pixels, **options)
        return self._envs[key]

    def _latent(self, request: Request, loaded: LoadedModel) -> Tensor:
        key = (loaded.name, request.seed, *request.law.values())
        return _cached(self._latents, key, lambda: encode(loaded, self.simulation(request, loaded).episode))


def _env_key(loaded: LoadedModel) -> tuple[Any, ...]:
    """The key of a simulator: its world, options and size of frames."""
    return (loaded.env_spec.name, loaded.pixels, *sorted(loaded.env.items()))


def _cached(cache: OrderedDict[Any, T], key: Any, compute: Callable[[], T]) -> T:
    if key not in cache:
        cache[key] = compute()
        while len(cache) > _CACHED:
            cache.popitem(last=False)
    cache.move_to_end(key)
    return cache[key]
