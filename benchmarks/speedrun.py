"""Speedrun: CPU seconds of one core until SG-JEPA imagines a bouncing ball as well as a fixed level.

World: Approach Ball at mini size. A candidate is a run, made from today's recipe; its schedule is fixed before it starts.
Its time is the process's CPU time from the first line of `train` to the finished weights, with one thread: decoding,
validations and checkpoints count, the dataset does not. It has reached the level when the medians over its seeds are at most
LEVEL: the position error of the rollouts on the validation episodes, over all 44 horizons and at the last one.

Beside the seconds stands the speed of the machine, a product of 512 x 512 matrices in the same process: seconds of machines
are compared by their product with it. docs/speedrun.md has the table and says how to enter.

    python benchmarks/speedrun.py first                    # five seeds, one after the other
    python benchmarks/speedrun.py first --seeds 1 --table  # one seed; then the table of all that was ever run

Finished seeds are kept in runs/speedrun; one that was killed starts anew, because its seconds are lost.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import record

from sgjepa.core import files
from sgjepa.core.errors import InputError
from sgjepa.training.config import Run

LEVEL = {"mean": 0.0682, "last": 0.1256}  # metres; medians of `first`, rounded up
DATA = "approach_ball-mini"
Candidate = Callable[[Run], Run]


def first(run: Run) -> Run:
    """The recipe when the speedrun began: 675 updates of 21 stretches, 24 frames each, three windows of each."""
    return run


CANDIDATES: dict[str, Candidate] = {"first": first}


def candidate(name: str, seed: int) -> Run:
    """The run of a candidate."""
    from sgjepa.recipes.training import recipe

    if name not in CANDIDATES:
        raise InputError(f"unknown candidate '{name}'; there are {', '.join(CANDIDATES)}")
    return replace(CANDIDATES[name](recipe("approach_ball_gru", "mini")), name=f"speedrun_{name}", seed=seed)


def matrix_speed() -> float:
    """GFLOP/s of one thread, products of 512 x 512 matrices in float32."""
    import torch

    a = torch.randn(512, 512)
    times = []
    for _ in range(40):
        start = time.process_time()
        a @ a
        times.append(time.process_time() - start)
    return 2 * 512**3 / statistics.median(times) / 1e9


def measure_seed(name: str, seed: int, folder: Path, datasets: Path) -> dict[str, Any]:
    """Train one seed in this process, which must have one thread, and score it on the validation episodes."""
    import torch

    from sgjepa.data.store import open_dataset
    from sgjepa.evaluation.evaluate import default_forecast, measure
    from sgjepa.training import checkpoint
    from sgjepa.training.world_model import train

    torch.set_num_threads(1)
    run, speed = candidate(name, seed), matrix_speed()
    start = time.process_time()
    train(run, folder, datasets)
    seconds = time.process_time() - start
    trained, model = checkpoint.load_run(folder)
    data = open_dataset(datasets / DATA)
    measured = measure(folder, trained, model, data, default_forecast(data.settings), "validation").errors
    result: dict[str, Any] = {"seconds": seconds, "matrix_gflops": statistics.mean((speed, matrix_speed()))}
    for source in ("predicted", "true", "stay"):
        rows = measured["source"] == source
        error, last = measured["position_l2"][rows], measured["horizon"][rows] == measured["horizon"].max()
        result[source] = {"mean": float(error.mean()), "last": float(error[last].mean())}
    rows = (measured["source"] == "predicted") & (measured["horizon"] >= 13)
    result["height_rms"] = float((measured["along_l2"][rows] ** 2).mean() ** 0.5)
    return result


def run_seed(name: str, seed: int, work: Path, datasets: Path) -> None:
    """One seed in a process of its own, unless it is finished."""
    folder = work / f"{name}-seed{seed}"
    result = folder.with_suffix(".json")
    if result.is_file():
        return
    shutil.rmtree(folder, ignore_errors=True)
    arguments = [sys.executable, __file__, name, "--only-seed", str(seed), "--work", str(work), "--datasets", str(datasets)]
    subprocess.run(arguments, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)


def summary(name: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the seeds of a candidate, and whether they are at the level."""
    medians = {part: statistics.median(one["predicted"][part] for one in results) for part in LEVEL}
    return {
        "candidate": name,
        "date": time.strftime("%Y-%m-%d"),
        "what": (CANDIDATES[name].__doc__ or "").strip().rstrip("."),
        "seeds": len(results),
        "seconds": statistics.median(one["seconds"] for one in results),
        "matrix_gflops": statistics.median(one["matrix_gflops"] for one in results),
        **medians,
        "height_rms": statistics.median(one["height_rms"] for one in results),
        "reached": all(medians[part] <= level for part, level in LEVEL.items()),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The candidates, fastest first."""
    lines = ["| candidate | seeds | CPU seconds | GFLOP/s | error, all horizons (m) | at h = 44 (m) | height (m) | level |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in sorted(rows, key=lambda one: one["seconds"]):
        numbers = f"{row['seconds']:.0f} | {row['matrix_gflops']:.0f} | {row['mean']:.3f} | {row['last']:.3f}"
        reached = "reached" if row["reached"] else "missed"
        lines.append(f"| {row['candidate']} | {row['seeds']} | {numbers} | {row['height_rms']:.3f} | {reached} |")
    return "\n".join(lines)


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("name", nargs="?", default="first", help=f"the candidate: {', '.join(CANDIDATES)}")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--work", type=Path, default=Path("runs/speedrun"), help="where trainings go")
    parser.add_argument("--datasets", type=Path, default=Path("datasets"))
    parser.add_argument("--only-seed", type=int, help="train this seed in this process")
    parser.add_argument("--table", action="store_true", help="print the table of all candidates that were run")
    options = parser.parse_args()
    if options.only_seed is not None:
        folder = options.work / f"{options.name}-seed{options.only_seed}"
        result = measure_seed(options.name, options.only_seed, folder, options.datasets)
        files.write_json(folder.with_suffix(".json"), result)
        return
    from sgjepa.data.collect import collect
    from sgjepa.recipes.datasets import dataset

    collect(dataset("approach_ball", "mini"), options.datasets / DATA)  # nothing, if it is there
    options.work.mkdir(parents=True, exist_ok=True)
    for seed in range(options.seeds):
        run_seed(options.name, seed, options.work, options.datasets)
    results = [json.loads((options.work / f"{options.name}-seed{seed}.json").read_text()) for seed in range(options.seeds)]
    kept = json.loads(options.out.read_text())["candidates"] if options.out.is_file() else {}
    kept[options.name] = {"summary": summary(options.name, results), "seeds": results}
    record.write(options.out, record.settings(options, "work", "datasets", "only_seed", "table"), {"candidates": kept})
    print(table([entry["summary"] for entry in (kept.values() if options.table else [kept[options.name]])]))


if __name__ == "__main__":
    main()
