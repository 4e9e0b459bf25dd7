"""Baselines of a forecast: constant position, constant velocity, and the simulator from the probed state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.data.config import episode_plan, episode_seed, make_env
from sgjepa.data.episode import reset_options
from sgjepa.data.probe_targets import Targets
from sgjepa.data.store import Dataset, Split
from sgjepa.envs.base import Env


def references(targets: Targets, start: np.ndarray, truth: np.ndarray, context: int, steps: int) -> dict[str, np.ndarray]:
    """Baseline states (B, steps, Y) without learned dynamics. start (B, Y): the probed state at the last context frame."""
    stay = np.repeat(truth[:, context - 1 : context], steps, axis=1)
    position_end, velocity_end = len(targets.position), len(targets.position) + len(targets.velocity)
    stay[..., position_end:velocity_end] = 0.0
    moving = np.repeat(start[:, None], steps, axis=1)
    seconds = np.arange(1, steps + 1)[:, None] * targets.frame_dt
    if targets.velocity:
        moving[..., :position_end] += seconds * start[:, None, position_end:velocity_end]
    if targets.turns:
        stay[..., -1] = 0.0
        phase = targets.symmetry * (targets.angle(start)[:, None] + seconds[:, 0] * start[:, None, -1])
        moving[..., -3], moving[..., -2] = np.sin(phase), np.cos(phase)
    return {"stay": stay, "constant_velocity": moving}


def simulate(
    dataset: Dataset,
    part: Split,
    numbers: np.ndarray,
    targets: Targets,
    start: np.ndarray,
    truth: np.ndarray,
    context: int,
    steps: int,
) -> tuple[np.ndarray, int]:
    """Simulate from the probed state with the true law and controls: states (B, steps, Y), and how many starts were moved.

    In a world with an arm the episode is replayed up to the start, and only the probed body is moved. A probed state that
    lies inside a wall is moved towards the true state, by tenths of the way.
    """
    env = make_env(replace(dataset.settings, image_size=8))  # pictures are not needed
    moved, out = 0, []
    for row, number in enumerate(numbers.tolist()):
        plan = episode_plan(env.env_spec.expert_plans, dataset.settings.seed, part.name, number)
        law = dict(zip(part.laws, part.law[number].tolist(), strict=True))
        env.reset(seed=episode_seed(dataset.settings.seed, part.name, number), options=reset_options(law, plan))
        if env.env_spec.records:
            for control in part.control[number, : context - 1]:
                env.step(control)
        moved += _put(env, targets, start[row], truth[row, context - 1])
        states = []
        for t in range(context - 1, context - 1 + steps):
            env.step(part.control[number, t])
            states.append(env.state())
        out.append(targets.of(np.stack(states)))
    env.close()
    return np.stack(out), moved


def _put(env: Env, targets: Targets, start: np.ndarray, true: np.ndarray) -> bool:
    """Set the environment to the probed state, or the nearest feasible mixture with the true one; True if it was moved."""
    guess, truth = targets.to_state(start), targets.to_state(true)
    for tenth in range(11):
        state = {name: float(guess[name] + tenth / 10 * (truth[name] - guess[name])) for name in guess}
        if tenth == 10 and targets.turns:  # symmetric orientations cannot be interpolated
            state[targets.angle_name] = float(truth[targets.angle_name])
        try:
            env.put(state)
        except InputError:
            continue
        return tenth > 0
    raise InputError(f"{env.env_spec.name}: the simulator refuses the recorded state {truth}")
