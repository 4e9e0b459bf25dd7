"""Validation: signs of collapse, how well targets can be read from the latents, and warnings when something is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.runs import RUN, train_until

from sgjepa.core import run_folder
from sgjepa.data.probe_targets import Targets
from sgjepa.training.config import Run
from sgjepa.training.validation import ProbeScores, ProbeWatch, effective_rank, latent_health, probe_scores, warning
from sgjepa.training.world_model import train

PLANAR = Targets(("x", "z", "vx", "vz", "theta", "omega"), ("x", "z"), ("vx", "vz"), "theta", "omega", 4, 1 / 16)


# --- collapse --------------------------------------------------------------------------------------------------------


def gaussian() -> torch.Tensor:
    return torch.randn(40, 50, 16, generator=torch.Generator().manual_seed(0))


def test_effective_rank_counts_equal_directions() -> None:
    assert effective_rank(gaussian().flatten(0, 1)) == pytest.approx(16, rel=0.02)
    assert effective_rank(gaussian().flatten(0, 1) * (torch.arange(16) < 4)) == pytest.approx(4, rel=0.02)


def test_healthy_latents_need_no_word() -> None:
    assert warning(latent_health(gaussian()), 16) is None


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        (torch.full((16,), 0.01), "latents are collapsing: mean standard deviation 0.010"),
        ((torch.arange(16) > 0).float(), "a latent dimension is dead: its standard deviation is 0.000"),
    ],
)
def test_a_collapse_is_said_in_words(scale: torch.Tensor, words: str) -> None:
    said = warning(latent_health(gaussian() * scale), 16)
    assert said is not None
    assert said.startswith(words)


def test_few_directions_are_said_in_words() -> None:
    line = gaussian()[..., :1] * torch.ones(64)  # every dimension alive, all the same
    said = warning(latent_health(line), 64)
    assert said is not None
    assert said.startswith("latents use few directions: effective rank 1.0 of 64")


# --- what can be read ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run() -> Run:
    return replace(RUN, train=replace(RUN.train, frames=64))


def motion(episodes: int = 40, frames: int = 24) -> np.ndarray:
    """(B, T, 6): bodies that fly straight and turn evenly, each in its own way."""
    rng = np.random.default_rng(0)
    t = np.arange(frames)[None] / 16
    place, speed = rng.normal(size=(2, episodes, 3, 1))
    x, z, theta = np.moveaxis(place + speed * t[:, None], 1, 0)
    rates = [np.broadcast_to(speed[:, i], t.repeat(episodes, 0).shape) for i in range(3)]
    return np.stack([x, z, rates[0], rates[1], theta, rates[2]], axis=-1).astype(np.float32)


def latents(states: np.ndarray, with_angle: bool) -> torch.Tensor:
    """(B, T, 8): position and the sine and cosine of four times the angle, mixed; or noise in the angle's place."""
    rng = np.random.default_rng(1)
    angle = PLANAR.of(states)[..., 4:6] if with_angle else rng.normal(size=(*states.shape[:2], 2))
    return torch.from_numpy(np.concatenate([states[..., :2], angle], axis=-1) @ rng.normal(size=(4, 8)))


def scores(with_angle: bool) -> dict[str, float]:
    states = motion()
    return probe_scores(PLANAR, latents(states, with_angle), states, np.arange(len(states)), window=4)


def test_a_probe_reads_what_is_in_the_latents_and_nothing_else() -> None:
    there, gone = scores(True), scores(False)
    assert set(there) == set(PLANAR.names)
    for name in ("x", "z", "vx", "vz"):  # four frames tell a velocity
        assert there[name] < 0.01
        assert gone[name] < 0.1
    for name in ("sin 4theta", "cos 4theta"):
        assert there[name] < 0.01
        assert gone[name] > 0.9, "no better than the mean"


def test_an_episode_is_not_scored_by_a_probe_that_was_fitted_to_it() -> None:
    """Latents that only tell which episode it is read everything in their own episodes and nothing in others."""
    rng = np.random.default_rng(0)
    states = np.repeat(rng.normal(size=(20, 1, 6)), 24, axis=1).astype(np.float32)
    names = torch.eye(20).double()[:, None].expand(-1, 24, -1)
    found = probe_scores(PLANAR, names, states, np.arange(20), window=1)
    assert min(found.values()) > 0.9


def test_few_episodes_for_many_features_do_not_look_like_a_loss() -> None:
    """Thirty episodes, and sixty dimensions that tell nothing: still far from unreadable."""
    states = motion(30)
    noise = 0.3 * torch.randn(30, 24, 60, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = probe_scores(PLANAR, torch.cat([latents(states, True), noise], dim=-1), states, np.arange(30), window=4)
    assert max(found["x"], found["z"]) < 0.1
    assert max(found.values()) < 1.5


def test_too_little_or_broken_latents_give_no_score() -> None:
    states = motion(4)
    z = latents(states, True)
    assert probe_scores(PLANAR, z, states, np.zeros(4, int), window=4) == {}
    assert probe_scores(PLANAR, z, states, np.arange(4), window=25) == {}
    assert probe_scores(PLANAR, z * torch.nan, states, np.arange(4), window=4) == {}


def test_what_never_moves_has_no_score() -> None:
    states = motion()
    states[..., 1] = 3.0
    assert "z" not in probe_scores(PLANAR, latents(states, True), states, np.arange(40), window=4)


def test_a_target_that_leaves_the_latents_is_said_once() -> None:
    watch = ProbeWatch()
    assert watch.warnings(scores(True)) == []
    said = watch.warnings(scores(False))
    assert [words.split(" is leaving the latents: its probe error rose from 0.00 to ")[0] for words in said] == [
        "sin 4theta",
        "cos 4theta",
    ]
    assert all(words.endswith("raise the weight of SIGReg") for words in said)
    assert watch.warnings(scores(False)) == []


@pytest.mark.parametrize(
    "errors",
    [
        [1.0, 0.9, 1.1],  # it was never there
        [0.9, 0.5, 0.1],  # it comes
        [0.2, 0.5, 0.3, 0.55],  # it wavers
        [0.32, 0.7],  # it was hardly there
    ],
)
def test_the_watch_does_not_cry_wolf(errors: list[float]) -> None:
    watch = ProbeWatch()
    assert not any(watch.warnings({"x": error}) for error in errors)


# --- in a training ---------------------------------------------------------------------------------------------------


def readable(folder: Path) -> list[dict[str, float]]:
    rows = [row for row in run_folder.read(folder) if row["split"] == "validation"]
    return [{name: value for name, value in row.items() if name.startswith("readable.")} for row in rows]


def test_every_validation_of_a_training_notes_what_can_be_read(run: Run, finished: Path, tmp_path: Path) -> None:
    found = readable(train(run, tmp_path / "run", finished.parent))
    assert [set(row) for row in found] == [{f"readable.{name}" for name in PLANAR.names}] * 2
    assert all(np.isfinite(value) and value >= 0 for row in found for value in row.values())


def test_a_frozen_encoder_and_a_world_with_nothing_to_read_are_passed_over(
    run: Run, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = replace(run, train=replace(run.train, epochs=1))
    first = train(short, tmp_path / "first", finished.parent)
    alone = replace(short, init=str(first), train=replace(short.train, trains="predictor"))
    assert readable(train(alone, tmp_path / "alone", finished.parent)) == [{}]
    monkeypatch.setattr("sgjepa.training.validation.split_targets", lambda split: None)
    assert readable(train(short, tmp_path / "nothing", finished.parent)) == [{}]


def test_worlds_that_are_trained_on_together_are_read_apart(run: Run, finished: Path, tmp_path: Path) -> None:
    """Two datasets, here the same one twice."""
    (tmp_path / "again").symlink_to(finished)
    (tmp_path / "square").symlink_to(finished)
    both = replace(run, data=("square", "again"), train=replace(run.train, epochs=1, validation=None))
    (found,) = readable(train(both, tmp_path / "run", tmp_path))
    assert set(found) == {f"readable.square.{name}" for name in PLANAR.names}


def test_a_resumed_run_warns_as_the_one_that_never_stopped(
    run: Run, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The validation at step 9 reads x and that at step 18 does not; the run stops between them, after step 14."""
    coming: list[float] = []
    monkeypatch.setattr(ProbeScores, "scores", lambda _: {"readable.x": coming.pop(0)})

    def warnings() -> list[str]:
        return [line for line in capsys.readouterr().out.splitlines() if "leaving" in line]

    coming += [0.05, 0.9]
    train(run, tmp_path / "whole", finished.parent)
    whole = warnings()
    assert whole == [
        "warning at step 18: x is leaving the latents: its probe error rose from 0.05 to 0.90; raise the weight of SIGReg"
    ]
    coming += [0.05]
    train_until(9 + 9 + 2 + 6, run, tmp_path / "halted", finished.parent)  # updates, calibration, validation, updates
    assert warnings() == []
    coming += [0.9]
    train(run, tmp_path / "halted", finished.parent)
    assert warnings() == whole
    assert not coming
