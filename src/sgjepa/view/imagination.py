"""What a model makes of an episode's first frames and a law: frames, states, errors; and which law it would choose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sgjepa.data.episode import Episode
from sgjepa.evaluation import forecast, metrics
from sgjepa.models.rollout import rollout
from sgjepa.view.shown import Shown

LAWS = 41  # values of a law that are tried
_TOGETHER = 7  # at a time: a hand that moves waits for no more than that


@dataclass(frozen=True)
class Imagined:
    """After the context, n frames long. frames: (n, h, w, 3) uint8. y: probed targets (n, Y). errors: (n,) by name."""

    frames: np.ndarray | None
    y: np.ndarray | None
    errors: dict[str, np.ndarray]


@torch.inference_mode()
def encode(shown: Shown, episode: Episode) -> Tensor:
    """The latents of all its frames, (1, T, ...)."""
    return shown.model.encode(torch.from_numpy(episode.frames)[None])


@torch.inference_mode()
def imagine(shown: Shown, z: Tensor, episode: Episode, told: Mapping[str, float]) -> Imagined:
    """From the true latents z (1, T, ...) of the context on, with the true controls and the law that is told."""
    context, fitted = shown.context, shown.fitted
    steps = z.shape[1] - context
    c = _condition(shown, episode, np.array([[told[name] for name in shown.laws]], np.float32))
    y, errors = None, {}
    if fitted is None:
        rolled = rollout(shown.model, z[:, :context], c, steps, shown.run.history)
    else:
        states, rolled = forecast.imagine(shown.model, fitted, z[:, :context], c, steps, shown.run.history)
        wanted = fitted.targets.of(episode.state[None, context:].astype(np.float64))
        y = states[0, 1:]
        guess = metrics.Guess(fitted.targets, states[:, 1:], wanted, fitted.std)
        errors = {name: error[0] for name, error in metrics.errors(guess).items()}
    errors["latent_mse"] = forecast.latent_error(rolled, z, context)[0]
    frames = None
    if shown.decoder is not None:
        frames = (shown.decoder(rolled[:, context:])[0] * 255).round().to(torch.uint8).numpy()
    return Imagined(frames, y, errors)


def explain(
    shown: Shown, z: Tensor, episode: Episode, true: Mapping[str, float], name: str, values: np.ndarray
) -> Iterator[np.ndarray]:
    """How well each value of one law, the others as they are, explains the frames after the context.

    Yields mean squared errors of the latents, a few values at a time, so that who asks can stop: together (V,).
    """
    context = shown.context
    for some in np.array_split(values, -(-len(values) // _TOGETHER)):
        law = np.array([[true[one] for one in shown.laws]] * len(some), np.float32)
        law[:, shown.laws.index(name)] = some
        with torch.inference_mode():
            c = _condition(shown, episode, law)
            given = z[:, :context].expand(len(some), *z[:, :context].shape[1:])
            rolled = rollout(shown.model, given, c, z.shape[1] - context, shown.run.history)
            yield forecast.latent_error(rolled, z, context).mean(axis=1)


def _condition(shown: Shown, episode: Episode, law: np.ndarray) -> Tensor:
    """law (B, L) -> c (B, T, ·)"""
    control = torch.from_numpy(episode.control)[None].expand(len(law), -1, -1)
    return shown.model.condition(control, torch.from_numpy(law))
