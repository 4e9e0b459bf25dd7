"""How often the demonstrators succeed, by gravity: the ceiling that policies are compared with.

For each world: planned successes and planned failures at gravities drawn as in training ("train") and at every test gravity
(of each failure a quarter as many). A row has the share that came out as planned with its 95 % Wilson interval, what the
episodes came to, and how far the tool strayed from its commands (the worst frame of each episode until it succeeded; also
the fastest joint, as a share of the published speed). Written after every row: the same command goes on with a run that was
stopped, and begins anew if the commit or the settings are other ones. Rows of worlds that are not asked for stay.

    python benchmarks/experts.py --workers 2                      # all worlds; writes benchmarks/results/experts.json
    python benchmarks/experts.py --worlds arm_paddle_ball --episodes 10 --train 40 --out trial.json
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import record

from sgjepa.core import files
from sgjepa.core.progress import progress
from sgjepa.core.provenance import provenance
from sgjepa.core.stats import wilson
from sgjepa.data.config import episode_law, episode_seed
from sgjepa.envs import ENVS
from sgjepa.envs.arm_world import ArmWorld
from sgjepa.laws import Grid
from sgjepa.recipes.datasets import dataset

WORLDS = [name for name, env in ENVS.items() if issubclass(env, ArmWorld)]
SEED = 1  # not the datasets' own: other launches


@dataclass(frozen=True)
class Cell:
    """One row: a gravity or the training gravities, and a plan."""

    world: str
    gravity: str  # "train", or the value
    plan: str
    gravities: tuple[float, ...]  # of each episode
    seeds: tuple[int, ...]

    @property
    def name(self) -> tuple[str, str, str]:
        return self.world, self.gravity, self.plan


@dataclass(frozen=True)
class Played:
    """One episode: what it came to, and the worst of the arm's motion."""

    as_planned: bool
    outcome: str
    metres: float  # of the tool from where it was told to be
    degrees: float
    speed: float  # of a joint, over the published one


def cells(world: str, train: int, episodes: int) -> list[Cell]:
    """Training gravities first, with planned successes and planned failures, then every test gravity."""
    recipe = dataset(world, "paper")
    grid = recipe.test.laws["gravity"]
    assert isinstance(grid, Grid)
    success, *others = dict.fromkeys(ENVS[world].env_spec.expert_plans)
    drawn = tuple(episode_law(recipe.train.laws, SEED, "train", i)["gravity"] for i in range(train))
    seeds = tuple(episode_seed(SEED, "train", i) for i in range(train))
    few = max(train // 4, 1)
    found = [Cell(world, "train", success, drawn, seeds)]
    found += [Cell(world, "train", plan, drawn[:few], seeds[:few]) for plan in others]
    for g in grid.values:
        for plan in (success, *others):
            count = episodes if plan == success else max(episodes // 4, 1)
            found.append(
                Cell(world, f"{g:g}", plan, (g,) * count, tuple(episode_seed(SEED, "test", i) for i in range(count)))
            )
    return found


@cache
def make(world: str) -> ArmWorld:
    """One environment for all rows of a process."""
    env = ENVS[world](image_size=8)
    assert isinstance(env, ArmWorld)
    env._frame = lambda: np.zeros((8, 8, 3), np.uint8)  # type: ignore[method-assign]  # nobody looks
    return env


def play(env: ArmWorld, seed: int, gravity: float, plan: str) -> Played:
    """An episode under the demonstrator."""
    env.reset(seed=seed, options={"law": {"gravity": gravity}, "plan": plan})
    worst, fastest, joints = np.zeros(2), 0.0, len(env.robot.joints)
    for _ in range(env.env_spec.frames - 1):
        env.step(env.expert())
        if not env.success():
            worst = np.maximum(worst, env.tracking_error())
            speeds = env.records()["arm"][joints : 2 * joints]
            fastest = max(fastest, float((np.abs(speeds) / env.arm.fastest).max()))
    labels = env.labels()
    outcome = labels.get("outcome") or labels["failure"]
    # a world whose outcomes include its plans must come to the very one; else a planned failure is one if it fails
    named = "failure" in labels and plan != env.env_spec.expert_plans[0]
    as_planned = outcome == plan if named else env.success() == (plan == env.env_spec.expert_plans[0])
    return Played(as_planned, outcome, float(worst[0]), math.degrees(worst[1]), fastest)


def measure(cell: Cell) -> dict[str, Any]:
    """The row of a cell."""
    env = make(cell.world)
    played = [play(env, seed, g, cell.plan) for seed, g in zip(cell.seeds, cell.gravities, strict=True)]
    good = sum(p.as_planned for p in played)
    low, high = wilson(good, len(played))
    return {
        "world": cell.world,
        "gravity": cell.gravity,
        "plan": cell.plan,
        "episodes": len(played),
        "as_planned": good,
        "share": round(good / len(played), 4),
        "interval": [round(low, 4), round(high, 4)],
        "outcomes": dict(Counter(p.outcome for p in played).most_common()),
        "tracking_mm": _spread([p.metres * 1e3 for p in played]),
        "tracking_deg": _spread([p.degrees for p in played]),
        "joint_speed": _spread([p.speed for p in played]),
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": round(float(np.median(values)), 2), "max": round(max(values), 2)}


def measured(todo: list[Cell], workers: int) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Each cell with its row, as soon as it is there."""
    if workers <= 1:
        yield from ((cell, measure(cell)) for cell in todo)
        return
    # spawn: an OpenGL context does not survive a fork
    with ProcessPoolExecutor(min(workers, max(len(todo), 1)), mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(measure, cell): cell for cell in todo}
        yield from ((futures[future], future.result()) for future in as_completed(futures))


def begun(out: Path, worlds: list[str], settings: dict[str, int], commit: str | None) -> list[dict[str, Any]]:
    """The rows of earlier runs to keep: of these worlds those of the same code and settings, of others all."""
    if not out.exists():
        return []
    found = files.read_json(out)
    # edited code ("+") is not known to be the same code
    same = found.get("settings") == settings and commit is not None and not commit.endswith("+")
    return [row for row in found["rows"] if row["world"] not in worlds or (same and row["commit"] == commit)]


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--worlds", nargs="+", default=WORLDS, choices=WORLDS)
    parser.add_argument("--train", type=int, default=100, help="episodes at training gravities; a quarter for each failure")
    parser.add_argument("--episodes", type=int, default=20, help="episodes at each test gravity; a quarter for each failure")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    options = parser.parse_args()
    settings = {"train": options.train, "episodes": options.episodes, "seed": SEED}
    origin = provenance()
    commit = origin["commit"]
    kept = begun(options.out, options.worlds, settings, commit)
    rows = {(row["world"], row["gravity"], row["plan"]): row for row in kept}
    every = [cell for world in WORLDS for cell in cells(world, options.train, options.episodes)]
    todo = [cell for cell in every if cell.world in options.worlds and cell.name not in rows]
    todo.sort(key=lambda cell: cell.gravity != "train")  # the goals first
    with progress(len(rows) + len(todo), len(rows), "experts", " rows") as bar:
        for cell, row in measured(todo, options.workers):
            rows[cell.name] = {**row, "commit": commit}
            ordered = [rows[cell.name] for cell in every if cell.name in rows]
            files.write_json(options.out, {"settings": settings, "provenance": origin, "rows": ordered})
            worst = f"{row['tracking_mm']['max']} mm, {row['tracking_deg']['max']} deg"
            bar.write(f"{' '.join(cell.name)}: {row['as_planned']}/{row['episodes']}, {worst}")
            bar.update()


if __name__ == "__main__":
    main()
