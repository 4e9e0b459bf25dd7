"""Rollouts and the selective scan at paper size, each against its plain way, in one run.

rollout   44 steps from 20 latents for 200 episodes with the GRU predictor: all at once, against one episode at a time
scan      one SSM layer, 1024 channels of 16 numbers over 20 steps: ours against the reference loop, forward and backward

Medians over interleaved rounds; the slow rollout is timed on some of the episodes.

    python benchmarks/rollout.py               # writes benchmarks/results/rollout.json
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import record

from sgjepa.core import threads

SETTINGS = threads.prepare()

import torch  # noqa: E402

from sgjepa.models.predictors.ssm import scan, scan_reference  # noqa: E402
from sgjepa.models.rollout import rollout  # noqa: E402
from sgjepa.recipes.training import recipe  # noqa: E402


def rollout_ways(episodes: int, steps: int, single: int) -> dict[str, tuple[Callable[[], object], int]]:
    """Each way, and the number of episodes it rolls out."""
    run = recipe("square_gru", "paper")
    model = run.model.build().eval()
    z, c = torch.randn(episodes, 20, 256), torch.randn(episodes, 20 + steps - 1, 256)

    @torch.no_grad()
    def batched() -> None:
        rollout(model, z, c, steps, run.history)

    @torch.no_grad()
    def one_at_a_time() -> None:
        for i in range(single):
            rollout(model, z[i : i + 1], c[i : i + 1], steps, run.history)

    return {"batched": (batched, episodes), "one at a time": (one_at_a_time, single)}


def scan_ways(batch: int) -> dict[str, tuple[Callable[[], object], int]]:
    """Forward and backward of one layer's scan on a batch of windows of 20 frames."""
    inner, state, frames = 1024, 16, 20
    delta = torch.rand(batch, frames, inner).requires_grad_()
    x = torch.randn(batch, frames, inner).requires_grad_()
    rates = (-torch.arange(1.0, state + 1).repeat(inner, 1)).requires_grad_()
    inputs, outputs = (torch.randn(batch, frames, state).requires_grad_() for _ in range(2))

    def run(way: Callable[..., torch.Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.backward(way(delta, x, rates, inputs, outputs).sum())

    return {"ours": (run(scan), batch), "reference loop": (run(scan_reference), batch)}


def compare(title: str, ways: dict[str, tuple[Callable[[], object], int]], rounds: int) -> dict[str, Any]:
    """Items per second of every way, and how many times faster the first is."""
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):  # interleaved: a slow moment of the machine hits all ways
        for name, (work, items) in ways.items():
            start = time.perf_counter()
            work()
            speeds[name].append(items / (time.perf_counter() - start))
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    best = next(iter(medians.values()))
    print(f"\n{title}, {rounds} rounds, median items/s; (x) is how many times the first is faster")
    for name, value in medians.items():
        print(f"  {name:16s} {value:9.2f}  ({best / value:.2f}x)")
    return {"per_second": speeds, "median": medians, "ratio": {name: best / value for name, value in medians.items()}}


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--single", type=int, default=10, help="episodes rolled out one at a time")
    parser.add_argument("--episodes", type=int, default=200, help="rolled out at once")
    parser.add_argument("--steps", type=int, default=44)
    parser.add_argument("--windows", type=int, nargs="+", default=[8, 64], help="batches for the scan")
    options = parser.parse_args()
    single = min(options.single, options.episodes)
    torch.manual_seed(0)
    result: dict[str, Any] = {
        "rollout": compare(
            f"rollout of {options.steps} steps, episodes",
            rollout_ways(options.episodes, options.steps, single),
            options.rounds,
        ),
        **{f"scan_{n}": compare(f"scan, {n} windows", scan_ways(n), 5 * options.rounds) for n in options.windows},
    }
    record.write(options.out, record.settings(options), {**result, "machine": SETTINGS, "torch": torch.__version__})


if __name__ == "__main__":
    main()
