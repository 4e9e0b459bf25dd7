"""One plan by CEM on the mini model: our planner against stable-worldmodel's CEMSolver with the same model, in one run.

300 candidates, 30 iterations, 30 elites, horizon 5, history 10, one episode; the goal is a picture. The peer gets the model
through the adapter below, as its users would write one: frames are encoded once into the dict that its solver hands back,
and every candidate is rolled out. Ours computes what the windows make of the shared past once for all candidates. The model
is not trained: that changes nothing about its speed. Ways take turns; CPU seconds are what other work changes least.

The peer is installed by hand, in an environment of its own. Without it ours is measured alone, and against our planner with
candidates that are rolled out one by one. torchvision's operators that are missing beside a CPU torch are declared here.

    pip install stable-worldmodel==0.1.1 opencv-python-headless
    python benchmarks/plan.py               # writes benchmarks/results/plan.json
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import record

from sgjepa.core import threads

SETTINGS = threads.prepare()

import gymnasium  # noqa: E402
import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from sgjepa.envs import get_env  # noqa: E402
from sgjepa.models.base import WorldModel  # noqa: E402
from sgjepa.models.candidate_rollouts import CandidateRollout, rollout_candidates_plain  # noqa: E402
from sgjepa.models.rollout import rollout  # noqa: E402
from sgjepa.planning import planner as planning  # noqa: E402
from sgjepa.planning.cem import Search  # noqa: E402
from sgjepa.planning.planner import Distance, Planner  # noqa: E402
from sgjepa.planning.receding_horizon import PlannerConfig  # noqa: E402
from sgjepa.recipes.training import recipe  # noqa: E402

PEER = "stable_worldmodel"
PREDICTORS = ("gru", "ssm", "transformer")
Way = Callable[[], object]


class Adapter:
    """What stable-worldmodel asks of a model: info (B, S, ...) and candidates (B, S, P, A) -> costs (B, S)."""

    def __init__(self, model: WorldModel, history: int):
        self.model, self.history = model, history

    def get_cost(self, info: dict[str, Any], candidates: Tensor) -> Tensor:
        if "z" not in info:
            info["z"] = self.model.encode(info["pixels"][:, 0])  # (B, T, D): the same for all candidates
            info["goal_z"] = self.model.encode(info["goal"][:, 0])
        count = candidates.shape[1]
        z = info["z"].repeat_interleave(count, dim=0)  # (B S, T, D)
        control = torch.cat([info["control"], candidates], dim=2).flatten(0, 1)  # (B S, T - 1 + P, A)
        c = self.model.condition(control, info["law"].flatten(0, 1))
        last = rollout(self.model, z, c, candidates.shape[2], self.history)[:, -1]
        return (last - info["goal_z"].repeat_interleave(count, dim=0)[:, 0]).square().mean(-1).view(-1, count)


def peers_way(model: WorldModel, history: int, world: Any, cfg: PlannerConfig, frames: Tensor) -> Way:
    """A solve of its CEMSolver from full histories."""
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for name in ("nms", "qnms"):  # torchvision does not import without them, and CPU builds of torch lack them
        with contextlib.suppress(RuntimeError):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
    peer = importlib.import_module(PEER)
    limit = np.broadcast_to(np.float32(world.control_limit), (1, len(world.control)))
    found = cfg.search
    solver = peer.solver.CEMSolver(
        Adapter(model, history), num_samples=found.candidates, n_steps=found.iterations, topk=found.elites
    )
    plan = peer.PlanConfig(horizon=cfg.horizon, receding_horizon=cfg.execute)
    solver.configure(action_space=gymnasium.spaces.Box(-limit, limit), n_envs=1, config=plan)

    def solve() -> object:
        info = {
            "pixels": frames[:, :history],
            "goal": frames[:, -1:],
            "control": torch.zeros(1, history - 1, len(world.control)),
            "law": torch.full((1, model.laws), 9.81),
        }
        with contextlib.redirect_stdout(io.StringIO()):  # it says how long it took
            return solver.solve(info)

    return solve


def our_way(model: WorldModel, history: int, world: Any, cfg: PlannerConfig, frames: Tensor) -> Way:
    """The next plan of a planner whose history is full."""
    goal = model.encode(frames[:, -1:])[:, 0]
    planner, law = Planner(model, history, world, Distance(model, goal), cfg), np.full((1, model.laws), 9.81, np.float32)
    planner.reset(law, [0])
    for _ in range(2 * cfg.horizon):  # two plans fill a history of ten
        planner.act({"frame": frames[:, 0].numpy()}, law)

    def plan() -> None:
        planner.act({"frame": frames[:, 0].numpy()}, law)

    def follow() -> None:
        for _ in range(cfg.execute - 1):
            planner.act({"frame": frames[:, 0].numpy()}, law)

    plan.follow = follow  # type: ignore[attr-defined]
    return plan


def one_by_one(plan: Way) -> Way:
    """The same with the plain rollout of every candidate."""

    def plainly(model: WorldModel, z: Tensor, past: Tensor, steps: int, history: int) -> CandidateRollout:
        return lambda c: rollout_candidates_plain(model, z, past, c, history)

    def slowly() -> None:
        with mock.patch.object(planning, "prepare_candidate_rollout", plainly):
            plan()

    slowly.follow = getattr(plan, "follow")  # type: ignore[attr-defined]  # noqa: B009
    return slowly


def compare(title: str, ways: dict[str, Way], rounds: int) -> dict[str, Any]:
    """Seconds by the clock and of the CPU of every way, and how many times longer than the first."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(rounds + 1):  # the first is not counted
        for name, way in ways.items():
            clock, cpu = time.perf_counter(), time.process_time()
            way()
            if turn:
                spent[name].append((time.perf_counter() - clock, time.process_time() - cpu))
            getattr(way, "follow", lambda: None)()
    result: dict[str, Any] = {}
    for i, unit in enumerate(("seconds", "cpu_seconds")):
        medians = {name: statistics.median(pair[i] for pair in found) for name, found in spent.items()}
        first = next(iter(medians.values()))
        result[unit] = {name: [pair[i] for pair in found] for name, found in spent.items()}
        result[f"{unit}_over_ours"] = {name: value / first for name, value in medians.items()}
        for name, value in medians.items():
            print(f"  {title:12s} {name:18s} {value:8.3f} {unit.replace('_', ' '):12s} ({value / first:.2f}x)")
    return result


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--world", default="square")
    parser.add_argument("--predictors", nargs="+", default=PREDICTORS, choices=PREDICTORS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--candidates", type=int, default=300)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--elites", type=int, default=30)
    parser.add_argument("--horizon", type=int, default=5)
    options = parser.parse_args()
    spec, there = get_env(options.world).env_spec, importlib.util.find_spec(PEER) is not None
    search = Search(candidates=options.candidates, iterations=options.iterations, elites=options.elites)
    cfg = PlannerConfig(horizon=options.horizon, execute=options.horizon, search=search)
    result: dict[str, Any] = {}
    for predictor in options.predictors:
        torch.manual_seed(0)
        run = recipe(f"{options.world}_{predictor}", "mini")
        model, side = run.model.build().eval(), run.model.encoder.image_size
        frames = torch.randint(0, 256, (1, run.history + 1, side, side, 3), dtype=torch.uint8)
        ours = our_way(model, run.history, spec, cfg, frames)
        ways = {"ours": ours, "ours, one by one": one_by_one(ours)}
        if there:
            ways[PEER] = peers_way(model, run.history, spec, cfg, frames)
        with torch.no_grad():
            result[predictor] = compare(predictor, ways, options.rounds)
    record.write(options.out, record.settings(options), {**result, "machine": SETTINGS, "torch": torch.__version__})


if __name__ == "__main__":
    main()
