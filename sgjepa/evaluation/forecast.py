"""Long-horizon prediction: true frames, then the model alone, read by a probe (paper, "Downstream evaluation").

frames   0 ........ 19 | 20 ............ 63        context 20: prediction h is frame 19 + h for every model
latents  encoded       | fed back, with the true controls and law

Sources, all on the same episodes:
  predicted   the rollout
  true        encoded true frames: the probe's floor
  one_step    each prediction from true latents (teacher forced)
  stay        the true state at the last context frame, for ever
  constant_velocity   the probed state there, moving on without a force
  simulator   the probed state there, in the simulator with the true law: what a perfect model could get from this probe
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sgjepa.core import config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.core.tables import Table, join, write_table
from sgjepa.data.config import make_env
from sgjepa.data.episode import reset_options
from sgjepa.data.seeds import episode_plan, episode_seed
from sgjepa.data.store import Dataset, Split, split_episodes, training_law
from sgjepa.envs.base import Env
from sgjepa.evaluation.coverage import coverage_curve
from sgjepa.evaluation.probe import Fitted, ProbeConfig, fit_to, stack
from sgjepa.evaluation.strips import write_strips
from sgjepa.evaluation.targets import ANGLE, Targets
from sgjepa.models.dino import DinoWM
from sgjepa.models.jepa import WorldModel
from sgjepa.models.rollout import rollout
from sgjepa.training import checkpoint
from sgjepa.training.encoded import encoded
from sgjepa.training.monitor import effective_rank
from sgjepa.training.run import Run

SOURCES = ("predicted", "true", "one_step", "stay", "constant_velocity", "simulator")
_MEANING = 1  # raise it when the rows come to mean something else: evaluations made before are then done anew
_TOKENS = 40_000  # latents rolled out at a time: 200 episodes and more for vectors, a few for patch grids


@dataclass(frozen=True)
class PredictConfig:
    """context: true frames given. steps: predictions, up to the episode's end if None."""

    context: int = 20
    steps: int | None = None
    probe: ProbeConfig = field(default_factory=ProbeConfig)


def predict(folder: Path, dataset: Dataset, cfg: PredictConfig, split: str = "test") -> Path:
    """Evaluate the finished run in `folder`; writes `folder/predict/<dataset>-<split>` and returns it. Done before: kept."""
    run, model = checkpoint.load_run(folder)
    place = folder / run_folder.EVALUATIONS / f"{dataset.path.name}-{split}"
    settings = {
        "config": config.to_dict(cfg),
        "model": files.digest(folder / run_folder.MODEL),
        "data": (dataset.test if split == "test" else dataset.train).digest,
        "split": split,
        "meaning": _MEANING,
    }
    if run_folder.kept(place / run_folder.EVALUATION, settings):
        return place
    table, scores = evaluate(folder, run, model, dataset, cfg, split)
    place.mkdir(parents=True, exist_ok=True)
    for old in place.iterdir():  # of other settings; killed from here on, nothing half remains that looks whole
        old.unlink()
    write_table(place / run_folder.EPISODES, table)
    about = {
        "run": folder.name,
        "name": run.name,
        "seed": run.seed,
        "encoder": model.name if isinstance(model, DinoWM) else None,
        "world": dataset.settings.world,
        "law": dataset.test.laws[0],
        "unit": dataset.test.about["laws"][dataset.test.laws[0]],
        "training_law": training_law(dataset),
        "coverage": _coverage(dataset),
        "settings": settings,
        "scores": scores,
        "provenance": files.provenance(),
    }
    if isinstance(model, WorldModel) and split == "test":
        write_strips(folder, place, run, model, dataset, cfg.context)
    files.write_json(place / run_folder.EVALUATION, about)
    return place


def _coverage(dataset: Dataset) -> dict[str, list[float]] | None:
    """L_law of each test value: how far outside the training laws it lies; None if these never vary."""
    values = np.unique(dataset.test.law[:, 0]).astype(np.float64)
    try:
        found = coverage_curve(dataset.train.law[:, 0], values)
    except InputError:
        return None
    return {"law": values.tolist(), "L_law": found.tolist()}


def evaluate(
    folder: Path, run: Run, model: WorldModel | DinoWM, dataset: Dataset, cfg: PredictConfig, split: str
) -> tuple[Table, dict[str, Any]]:
    """The table of errors, and scores of the run. split: "test", or the training split's "validation" episodes."""
    part, numbers = _episodes(run, dataset, split)
    steps = part.frames - cfg.context if cfg.steps is None else cfg.steps
    if steps < 1 or cfg.context + steps > part.frames or cfg.context < max(run.history, cfg.probe.window):
        raise InputError(
            f"{cfg.context} context frames and {steps} predictions do not fit: an episode has {part.frames} frames, "
            f"the model sees {run.history}, the probe {cfg.probe.window}"
        )
    fitted = fit_to(folder, run, model, dataset, cfg.probe)
    latents = encoded(folder, model, dataset, "test" if split == "test" else "train")
    truth = fitted.targets.of(part.state[numbers].astype(np.float64))  # (N, T, Y)
    tables, final, moved = [], [], 0
    with progress(len(numbers), 0, f"predict {folder.name}", " episodes") as bar:
        for rows in blocks(numbers, latents, cfg.context + steps):
            z = torch.from_numpy(np.array(latents[numbers[rows]], dtype=np.float32))
            law, control = part.law[numbers[rows]], part.control[numbers[rows]]
            found = forecast(model, fitted, z, control, law, cfg.context, steps, run.history)
            seen = found["true"][0][:, 0]  # the probed state at the last context frame
            y = {name: states[:, 1:] for name, (states, _) in found.items()}
            y |= references(fitted.targets, seen, truth[rows], cfg.context, steps)
            y["simulator"], shifted = simulate(dataset, split, numbers[rows], fitted.targets, seen, truth[rows], cfg, steps)
            moved += shifted
            wanted = truth[rows, cfg.context : cfg.context + steps]
            for source, states in y.items():
                errors = fitted.targets.errors(states, wanted, fitted.std)
                latent_error = found[source][1] if source in found else None
                if latent_error is not None:
                    errors["latent_mse"] = latent_error
                tables.append(_long(source, numbers[rows], law, part.laws, errors))
            final.append(model.features(z[:, cfg.context - 1 : cfg.context])[:, 0])
            bar.update(len(rows))
    table = _with_excess(join(tables))
    scores = {
        "effective_rank": effective_rank(torch.cat(final)[:2000]),
        "probe": fitted.scores,
        "episodes": len(numbers),
        "horizons": steps,
        "simulator_starts_moved": moved,  # out of a wall, towards the true state
    }
    return table, scores


@torch.no_grad()
def forecast(
    model: WorldModel | DinoWM,
    fitted: Fitted,
    z: Tensor,
    control: np.ndarray,
    law: np.ndarray,
    context: int,
    steps: int,
    history: int,
) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """Probed states (B, 1 + steps, Y), the last context frame first, and the latents' errors (B, steps), for each source.

    z (B, T, ...): true latents; the rollout is given z[:, :context] alone.
    """
    c = model.condition(torch.tensor(control), torch.tensor(law))
    predicted, rolled = imagine(model, fitted, z[:, :context], c, steps, history)
    true = z[:, : context + steps]
    # (B * steps, H, ...): every window of true latents that ends before a predicted frame
    ends = range(context, context + steps)
    stepped = torch.cat([model.predict(z[:, t - history : t], c[:, t - history : t])[:, -1:] for t in ends], dim=1)
    features = model.features(true[:, context - fitted.config.window :])
    found: dict[str, tuple[np.ndarray, np.ndarray | None]] = {
        "predicted": (predicted, _latent_error(rolled, true, context)),
        "true": (fitted.read(features), None),
    }
    # the newest frame of each probe window is the prediction, the older ones are true
    windows = stack(features, fitted.config.window).clone()  # windows overlap: without it, so would what is written
    newest = model.features(stepped)
    windows[:, 1:, -newest.shape[2] :] = newest
    found["one_step"] = (fitted.read_windows(windows), _latent_error(stepped, true[:, context:], 0))
    return found


@torch.no_grad()
def imagine(
    model: WorldModel | DinoWM, fitted: Fitted, z: Tensor, c: Tensor, steps: int, history: int
) -> tuple[np.ndarray, Tensor]:
    """The rollout from true latents z (B, context, ...): probed states (B, 1 + steps, Y), the last of the context first,
    and all latents, (B, context + steps, ...)."""
    rolled = rollout(model, z, c, steps, history)
    return fitted.read(model.features(rolled[:, z.shape[1] - fitted.config.window :])), rolled


def blocks(numbers: np.ndarray, latents: np.ndarray, frames: int) -> list[np.ndarray]:
    """Places in `numbers` that are rolled out together: as many episodes as memory is meant to hold."""
    grid = int(np.prod(latents.shape[2:-1], dtype=int))  # tokens a frame
    return np.array_split(np.arange(len(numbers)), -(-len(numbers) * grid * frames // _TOKENS))


def references(targets: Targets, seen: np.ndarray, truth: np.ndarray, context: int, steps: int) -> dict[str, np.ndarray]:
    """States (B, steps, Y) that need no learned dynamics. seen (B, Y): probed at the last context frame."""
    stay = np.repeat(truth[:, context - 1 : context], steps, axis=1)
    place, motion = len(targets.position), len(targets.position) + len(targets.velocity)
    stay[..., place:motion] = 0.0
    moving = np.repeat(seen[:, None], steps, axis=1)
    seconds = np.arange(1, steps + 1)[:, None] * targets.frame_dt
    moving[..., :place] += seconds * seen[:, None, place:motion]
    if targets.turns:
        stay[..., -1] = 0.0
        phase = targets.symmetry * (targets.angle(seen)[:, None] + seconds[:, 0] * seen[:, None, -1])
        moving[..., -3], moving[..., -2] = np.sin(phase), np.cos(phase)
    return {"stay": stay, "constant_velocity": moving}


def simulate(
    dataset: Dataset,
    split: str,
    numbers: np.ndarray,
    targets: Targets,
    seen: np.ndarray,
    truth: np.ndarray,
    cfg: PredictConfig,
    steps: int,
) -> tuple[np.ndarray, int]:
    """The simulator from the probed state on, with the true law and controls: (B, steps, Y); and how many starts were moved.

    Where more moves than is probed, such as an arm, the episode is played up to there, and only the probed body is put
    elsewhere. A probed state may lie inside a wall: it is then moved towards the true one, by tenths of the way.
    """
    part = dataset.test if split == "test" else dataset.train
    env = make_env(replace(dataset.settings, image_size=8))  # pictures are not needed
    moved, out = 0, []
    for row, number in enumerate(numbers.tolist()):
        plan = episode_plan(env.world.plans, dataset.settings.seed, part.name, number)
        law = dict(zip(part.laws, part.law[number].tolist(), strict=True))
        env.reset(seed=episode_seed(dataset.settings.seed, part.name, number), options=reset_options(law, plan))
        if env.world.records:
            for control in part.control[number, : cfg.context - 1]:
                env.step(control)
        moved += _put(env, targets, seen[row], truth[row, cfg.context - 1])
        states = []
        for t in range(cfg.context - 1, cfg.context - 1 + steps):
            env.step(part.control[number, t])
            states.append(env.state())
        out.append(targets.of(np.stack(states)))
    env.close()
    return np.stack(out), moved


def _put(env: Env, targets: Targets, seen: np.ndarray, true: np.ndarray) -> bool:
    """Go on from the probed state, or from the nearest mixture with the true one that is possible; True if it was moved."""
    guess, truth = targets.to_state(seen), targets.to_state(true)
    for tenth in range(11):
        state = {name: float(guess[name] + tenth / 10 * (truth[name] - guess[name])) for name in guess}
        if tenth == 10 and ANGLE in state:
            state[ANGLE] = float(truth[ANGLE])
        try:
            env.put(state)
        except InputError:
            continue
        return tenth > 0
    raise InputError(f"{env.world.name}: the simulator refuses the recorded state {truth}")


def _episodes(run: Run, dataset: Dataset, split: str) -> tuple[Split, np.ndarray]:
    if split == "test":
        return dataset.test, np.arange(dataset.test.episodes)
    return dataset.train, split_episodes(dataset.train.episodes, seed=run.split_seed)[1]


def _latent_error(predicted: Tensor, true: Tensor, first: int) -> np.ndarray:
    error: np.ndarray = (predicted[:, first:] - true[:, first:]).square().flatten(2).mean(dim=2).double().numpy()
    return error


def _long(source: str, numbers: np.ndarray, law: np.ndarray, names: tuple[str, ...], errors: dict[str, np.ndarray]) -> Table:
    """Errors (B, h) as columns of B * h rows."""
    count, steps = next(iter(errors.values())).shape
    table: Table = {
        "source": np.full(count * steps, source),
        "episode": np.repeat(numbers.astype(np.int32), steps),
        "horizon": np.tile(np.arange(1, steps + 1, dtype=np.int16), count),
    }
    for i, name in enumerate(names):
        table[f"law.{name}"] = np.repeat(law[:, i].astype(np.float64), steps)
    return table | {name: values.ravel() for name, values in errors.items()}


def _with_excess(table: Table) -> Table:
    """Add the excess error: NMSE minus the probe's own on true latents, averaged over the horizons up to this one."""
    floor = table["nmse"][table["source"] == "true"]
    excess = np.full(len(table["nmse"]), np.nan)
    horizon = table["horizon"][table["source"] == "true"]
    steps = int(horizon.max())
    for source in ("predicted", "one_step", "true"):
        rows = table["source"] == source
        gap = (table["nmse"][rows] - floor).reshape(-1, steps)
        excess[rows] = (np.cumsum(gap, axis=1) / np.arange(1, steps + 1)).ravel()
    return {**table, "excess_nmse": excess}
