"""Films of trials: episodes replayed from their recorded controls in a grid, as an animated WebP.

It is the only module of this package that simulates; tables and figures do not import it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sgjepa.core.tables import Table
from sgjepa.data.config import make_env
from sgjepa.data.preview import encode_webp, film_frames, law_text
from sgjepa.envs import get_env
from sgjepa.policies.files import ControlRecord, read_controls
from sgjepa.policies.goal_tasks import from_columns, goal_pictures
from sgjepa.results.table import Results
from sgjepa.results.trials import Trial

SIDE = 128  # pixels of a tile
_EACH = 2  # episodes of a kind


def films_of(results: Results) -> dict[str, tuple[bytes, str]]:
    """A film of the first trial of every arm, with its description."""
    return {arm: _film(results.driven(arm).first) for arm in results.arms}


def _film(trial: Trial) -> tuple[bytes, str]:
    """A film of some episodes of a trial, with its description: random ones, equal for all policies, the best, the worst."""
    about, table = trial.about, trial.table
    spec = get_env(about.played.world).env_spec
    order = _worst_first(about, table)
    drawn = sorted(np.random.default_rng(0).permutation(len(order))[:_EACH].tolist())
    kinds = {"drawn": drawn, "best": order[::-1][:_EACH].tolist(), "worst": order[:_EACH].tolist()}
    tiles = [(kind, row) for kind, rows in kinds.items() for row in rows]
    numbers = [int(table["episode"][row]) for _, row in tiles]
    distinct = sorted(set(numbers))  # a random one may be the best, too
    frames = replay(about, table, read_controls(trial.folder), distinct, SIDE)
    frames = frames[[distinct.index(number) for number in numbers]]
    labels = []
    for kind, row in tiles:
        values = [float(table[f"law.{name}"][row]) for name in about.laws]
        law = law_text(list(about.laws), values, {name: law.unit for name, law in about.laws.items()})
        outcome = "success" if table["success"][row] > 0 else str(table[spec.outcome_label][row]).replace("_", " ")
        labels.append("\n".join([f"{kind}: episode {table['episode'][row]}", *([law] if law else []), outcome]))
    if about.settings.cases:
        begun = from_columns(table, about.played, about.settings.split, numbers)
        goals = goal_pictures(about.played, begun, SIDE)[:, None].repeat(frames.shape[1], axis=1)
        frames = np.stack([frames, goals], axis=1).reshape(-1, *frames.shape[1:])
        labels = [text for label in labels for text in (label, "its goal")]
    return encode_webp(film_frames(frames, labels, spec.fps), spec.fps), "; ".join(
        label.replace("\n", ", ") for label in labels
    )


def replay(about: ControlRecord, rows: Table, controls: Table, numbers: list[int], side: int) -> np.ndarray:
    """Frames of the numbered episodes, (R, T, side, side, 3) uint8; after the decision the last frame is repeated."""
    env = make_env(replace(about.played, image_size=side))
    names = [f"control.{quantity.name}" for quantity in env.env_spec.control]
    length = about.settings.cases.budget + 1 if about.settings.cases else env.env_spec.frames
    films = []
    for start in from_columns(rows, about.played, about.settings.split, numbers):
        taken = np.stack([controls[name][controls["episode"] == start.number] for name in names], axis=1)
        frames = [env.reset(seed=start.seed, options=start.options(env.env_spec))[0]]
        frames += [env.step(control)[0] for control in taken]
        films.append(np.stack(frames + frames[-1:] * (length - len(frames))))
    env.close()
    return np.stack(films)


def _worst_first(about: ControlRecord, table: Table) -> np.ndarray:
    """Row indices from the worst to the best episode by the measures in order, ties by number."""
    measures = about.measures
    keys = [measure.better * np.nan_to_num(table[measure.name], nan=-measure.better * 1e9) for measure in measures]
    return np.lexsort([table["episode"], *reversed(keys)])
