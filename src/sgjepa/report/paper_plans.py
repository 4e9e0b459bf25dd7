"""Errors of latents of runs that plan, until experiments ask Results themselves."""

from __future__ import annotations

from sgjepa.evaluation.latent_errors import LatentErrors
from sgjepa.report.closed_loop import Latents as Latents
from sgjepa.results.control import Player


def known_of(player: Player, latents: Latents) -> list[LatentErrors]:
    """Of its trainings, those that are known."""
    return [latents[weights] for trials in player.trainings if (weights := trials[0].driver.weights) in latents]
