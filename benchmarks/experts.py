"""How often the demonstrators succeed, by gravity: the ceiling that policies are compared with.

For each world: planned successes at gravities drawn as in training ("train") and at every test gravity, the share that
succeeds with its 95 % Wilson interval, how often planned failures succeed after all, and how far the tool strays from its
commands (the worst frame of each episode, up to the first success). Written after every cell: a run that is stopped has
what it had.

    python benchmarks/experts.py                                  # all worlds; writes benchmarks/results/experts.json
    python benchmarks/experts.py --worlds arm_paddle_ball --episodes 10 --train 40
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa import files
from sgjepa.data.settings import episode_law, episode_seed
from sgjepa.envs import ENVS
from sgjepa.envs.arm_world import ArmWorld
from sgjepa.laws import Grid
from sgjepa.recipes.datasets import dataset

RESULTS = Path(__file__).parent / "results" / "experts.json"
WORLDS = [name for name, env in ENVS.items() if issubclass(env, ArmWorld)]


def wilson(successes: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share, right also at 0 and 1."""
    share, spread = successes / n, z * z / n
    middle, half = share + spread / 2, z * math.sqrt(share * (1 - share) / n + spread / (4 * n))
    return (middle - half) / (1 + spread), (middle + half) / (1 + spread)


def play(env: ArmWorld, seed: int, gravity: float, plan: str) -> tuple[bool, float, float]:
    """Success, and the tool's worst error in m and degrees while it was not yet achieved."""
    env.reset(seed=seed, options={"law": {"gravity": gravity}, "plan": plan})
    worst = np.zeros(2)
    for _ in range(env.world.frames - 1):
        env.step(env.expert())
        if not env.success():
            worst = np.maximum(worst, env.tracking_error())
    return env.success(), float(worst[0]), math.degrees(worst[1])


def cell(env: ArmWorld, where: str, gravities: list[float], seeds: list[int], plan: str) -> dict[str, Any]:
    """One row: a gravity, or the training gravities."""
    played = [play(env, seed, g, plan) for seed, g in zip(seeds, gravities, strict=True)]
    good = sum(success for success, *_ in played)
    low, high = wilson(good, len(played))
    metres, degrees = np.array([errors for _, *errors in played]).T
    return {
        "world": env.world.name,
        "gravity": where,
        "plan": plan,
        "episodes": len(played),
        "successes": good,
        "share": round(good / len(played), 4),
        "interval": [round(low, 4), round(high, 4)],
        "tracking_mm": {"median": round(float(np.median(metres)) * 1e3, 2), "max": round(float(metres.max()) * 1e3, 2)},
        "tracking_deg": {"median": round(float(np.median(degrees)), 2), "max": round(float(degrees.max()), 2)},
    }


def cells(world: str, train: int, episodes: int) -> list[tuple[str, list[float], list[int], str]]:
    """Training gravities first, with planned successes and planned failures, then every test gravity."""
    recipe = dataset(world, "paper")
    grid = recipe.test.laws["gravity"]
    assert isinstance(grid, Grid)
    success, *others = dict.fromkeys(ENVS[world].world.plans)
    drawn = [episode_law(recipe.train.laws, 1, "train", i)["gravity"] for i in range(train)]
    seeds = [episode_seed(1, "train", i) for i in range(train)]
    few = max(train // 4, 1)
    rows = [("train", drawn, seeds, success), *(("train", drawn[:few], seeds[:few], plan) for plan in others)]
    tests = [episode_seed(1, "test", i) for i in range(episodes)]
    return rows + [(f"{g:g}", [g] * episodes, tests, success) for g in grid.values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--worlds", nargs="+", default=WORLDS, choices=WORLDS)
    parser.add_argument("--train", type=int, default=100, help="episodes at training gravities")
    parser.add_argument("--episodes", type=int, default=20, help="episodes at each test gravity")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for world in args.worlds:
        env = ENVS[world](image_size=8)
        assert isinstance(env, ArmWorld)
        env._frame = lambda: np.zeros((8, 8, 3), np.uint8)  # type: ignore[method-assign]  # nobody looks
        for where, gravities, seeds, plan in cells(world, args.train, args.episodes):
            rows.append(cell(env, where, gravities, seeds, plan))
            files.write_json(args.out, {"rows": rows})
            print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
