"""Steps per second in the closed loop: many episodes side by side in processes, against one at a time with batches of one.

The policy is the mini diffusion policy on frames of the mini SG-JEPA encoder, neither of them trained: that changes nothing
about their speed. "alone, block of 1" also takes away what makes an episode's controls independent of the others: networks
see 32 rows at a time, those that are missing filled up. The ways take turns in one run; those that drive alone have some of
the round's episodes, evenly chosen: under other laws a ball comes sooner, and episodes are shorter. Measured by the clock,
and in CPU seconds of all processes, which other work on the machine changes little.

    python benchmarks/closed_loop.py                        # writes benchmarks/results/closed_loop.json
    python benchmarks/closed_loop.py --world franka_basket --episodes 32 --alone 2 --rounds 1
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import record

from sgjepa.core import config, run_folder, threads
from sgjepa.core.provenance import provenance

threads.prepare()  # before torch starts

from sgjepa.core.run_folder import RunRecord  # noqa: E402
from sgjepa.data.collect import collect  # noqa: E402
from sgjepa.data.config import DatasetConfig  # noqa: E402
from sgjepa.data.store import open_dataset  # noqa: E402
from sgjepa.envs import ENVS, get_env  # noqa: E402
from sgjepa.policies import features  # noqa: E402
from sgjepa.policies.closed_loop import WAVE, drive  # noqa: E402
from sgjepa.policies.goal_tasks import starts  # noqa: E402
from sgjepa.policies.learned import LearnedPolicy, load_policy, train_policy  # noqa: E402
from sgjepa.policies.vector_env import Fleet  # noqa: E402
from sgjepa.recipes.datasets import dataset  # noqa: E402
from sgjepa.recipes.policies import policy  # noqa: E402
from sgjepa.recipes.training import recipe  # noqa: E402
from sgjepa.training import checkpoint  # noqa: E402

WORLDS = [name for name, env in ENVS.items() if env.env_spec.has_task]
WAYS = ("alone", "alone, block of 1", "side by side")


def untrained(world: str, place: Path) -> tuple[LearnedPolicy, DatasetConfig]:
    """The policy, and the settings of the dataset whose test episodes it drives."""
    settings = dataset(world, "mini")
    few = replace(settings, train=replace(settings.train, episodes=10), test=replace(settings.test, episodes=1))
    made = open_dataset(collect(few, place / f"{world}-mini"))
    run = recipe(f"{world}_gru", "mini")
    folder = place / "run"
    folder.mkdir()
    about = RunRecord(config.to_dict(run), {made.path.name: made.manifest.digest}, provenance(), (world,))
    checkpoint.finish(folder, about, {run_folder.MODEL: run.model.build()})
    cfg = replace(policy("mini", world), updates=1, validation=1)
    seen = features.open_features(folder, get_env(world).env_spec)
    return load_policy(train_policy(cfg, seen, made, place / "policy")), settings


def cpu_seconds() -> float:
    """Of this process and its workers."""
    here = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (here, *here.children(recursive=True)))


def measure(
    driver: LearnedPolicy, settings: DatasetConfig, episodes: int, alone: int, rounds: int, workers: int
) -> dict[str, list[tuple[float, float]]]:
    """Steps per second and per CPU second of each way, in each round."""
    speeds: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    with Fleet(settings, driver.observes, 1) as one, Fleet(settings, driver.observes, workers) as many:

        def run(fleet: Fleet, numbers: range, wave: int) -> tuple[float, float]:
            begun = starts(settings, "test", numbers)
            began, spent, steps = time.perf_counter(), cpu_seconds(), 0
            for first in range(0, len(numbers), wave):
                steps += int(
                    drive(driver, fleet, settings.env_spec, "test", begun[first : first + wave], 0).rows["steps"].sum()
                )
            return steps / (time.perf_counter() - began), steps / (cpu_seconds() - spent)

        def in_blocks_of_one(work: Callable[[], tuple[float, float]]) -> tuple[float, float]:
            usual, features.ROWS = features.ROWS, 1
            try:
                return work()
            finally:
                features.ROWS = usual

        run(one, range(1), 1)  # first pictures, first calls of the networks
        run(many, range(2 * workers), WAVE)
        for turn in range(rounds):
            all_ = range(turn * episodes, (turn + 1) * episodes)
            few = all_[:: max(episodes // alone, 1)]
            speeds["alone"].append(run(one, few, 1))
            speeds["alone, block of 1"].append(in_blocks_of_one(lambda few=few: run(one, few, 1)))  # type: ignore[misc]
            speeds["side by side"].append(run(many, all_, WAVE))
    return speeds


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--world", default="arm_catcher_ball", choices=WORLDS)
    parser.add_argument("--episodes", type=int, default=WAVE, help="side by side in a round")
    parser.add_argument("--alone", type=int, default=4, help="one at a time in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=threads.cores())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        driver, settings = untrained(options.world, Path(folder))
        speeds = measure(driver, settings, options.episodes, options.alone, options.rounds, options.workers)
    result = {}
    print(f"\n{options.world}, {options.workers} processes, median of {options.rounds} rounds; side by side over each way")
    for i, unit in enumerate(("second", "cpu_second")):
        medians = {way: statistics.median(pair[i] for pair in found) for way, found in speeds.items()}
        ratio = {way: medians["side by side"] / value for way, value in medians.items()}
        for way, value in medians.items():
            print(f"  {way:20s} {value:7.1f} steps per {unit.replace('_', ' '):10s} {ratio[way]:6.2f}x")
        result[f"steps_per_{unit}"] = {way: [pair[i] for pair in found] for way, found in speeds.items()}
        result[f"side_by_side_over_per_{unit}"] = ratio
    record.write(options.out, record.settings(options), result)


if __name__ == "__main__":
    main()
