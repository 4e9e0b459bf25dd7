"""A finished run that plans, to be put to trial: towards the picture of a goal, or to bring together what should meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from sgjepa.core import files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.data.store import Dataset, unseen
from sgjepa.envs.spec import EnvSpec
from sgjepa.models.base import WorldModel
from sgjepa.planning.cem import Search
from sgjepa.planning.interception import meeting
from sgjepa.planning.oracle import SEARCH, TrueSimulator
from sgjepa.planning.planner import Distance, Planner
from sgjepa.planning.receding_horizon import PlannerConfig
from sgjepa.policies.evaluate import REFERENCES, Subject, check_run, family
from sgjepa.policies.features import device
from sgjepa.policies.files import SIMULATOR, TRIALS, Driver
from sgjepa.policies.goal_tasks import Cases, Start, goal_pictures
from sgjepa.training import checkpoint
from sgjepa.training.config import Run
from sgjepa.training.latent_cache import check_fits

# a goal as far away as a plan is long: the plan is carried out to its end
TO_GOALS = PlannerConfig(horizon=5, execute=5)
# a flying ball has to be met: longer plans, more often; a second of flight costs some seconds of search
TO_MEET = PlannerConfig(horizon=16, execute=4, search=Search(candidates=64, iterations=6, elites=8))


def usual(spec: EnvSpec) -> PlannerConfig:
    """How to plan in a world; an InputError if it has nothing to plan for."""
    if not spec.has_task:
        raise InputError(f"nothing can be planned in {spec.name}: it has no task to succeed in")
    if not (spec.goal or spec.interception):
        raise InputError(
            f"{spec.name} has no goal to reach (EnvSpec.goal), nor a task that brings two things together; "
            "train a policy for it instead: `sgjepa train-policy RUN`"
        )
    return TO_GOALS if spec.goal else TO_MEET


class ToGoals(Planner):
    """Plans towards pictures of goals. Before the first frame it is shown what the dataset has before it."""

    def __init__(
        self, model: WorldModel, history: int, dataset: Dataset, cfg: PlannerConfig, lead: int, held_out: bool = False
    ):
        super().__init__(model, history, dataset.env_spec, None, cfg)
        self._dataset, self._split, self._lead = dataset, unseen(dataset, held_out)[0], lead

    def aim(self, starts: Sequence[Start]) -> None:
        goals = goal_pictures(self._dataset.settings, starts)
        self._price = Distance(self._model, self._latents(goals[:, None])[:, 0])
        before = np.array([start.frame for start in starts])[:, None] - np.arange(self._lead - 1, 0, -1)  # (N, lead - 1)
        numbers = np.array([start.number for start in starts])
        rows = np.arange(len(starts))[:, None]
        self.remember(self._split.pixels(numbers)[rows, before], self._split.control[numbers[:, None], before])


def planned(
    folder: Path,
    dataset: Dataset,
    cfg: PlannerConfig | None = None,
    cases: Cases | None = None,
    held_out: bool = False,
) -> Subject:
    """The finished run in a folder as a planner; its trials go there. cfg: as is usual in its world if None.

    cases: needed in a world with goals. held_out: they are of training episodes that it did not learn from.
    """
    spec = dataset.env_spec
    ordinary = usual(spec)
    cfg = cfg or ordinary
    run, model = checkpoint.load_run(folder)
    check_fits(model, dataset.train, f"the model in {folder}")  # before anything is fitted
    if held_out:
        check_run(folder, run.split_seed, dataset)
    model = model.to(device())
    planner: Planner
    if spec.goal:
        if cases is None:
            raise InputError(f"{spec.name} has goals to reach: let {folder} plan with `sgjepa evaluate-policy`")
        planner, price = ToGoals(model, run.history, dataset, cfg, cases.lead, held_out), "goal picture"
    else:
        meets = meeting(folder, run, model, dataset)
        planner, price = Planner(model, run.history, spec, meets, cfg, lookback=meets.window), "probed distance"
    how = {"search": cfg.search.way, **_named(cfg), "price": price}
    return Subject(_driver(folder, run), planner, folder / TRIALS, how, _differs(cfg, ordinary))


def simulated(dataset: Dataset, out: Path, cfg: PlannerConfig) -> Subject:
    """The ceiling of planning; its trials go below `out`. cfg: horizon and execute; its search is its own."""
    ordinary = usual(dataset.env_spec)
    own = PlannerConfig(cfg.horizon, cfg.execute, search=SEARCH)
    how = {"search": SEARCH.way, **_named(own), "price": "true distance"}
    differs = _differs(own, PlannerConfig(ordinary.horizon, ordinary.execute, search=SEARCH))
    policy = TrueSimulator(dataset.settings, own)
    return Subject(Driver(SIMULATOR, SIMULATOR), policy, out / REFERENCES / SIMULATOR, how, differs)


def _driver(folder: Path, run: Run) -> Driver:
    name = folder.resolve().name
    about = run_folder.about(folder)
    shared = {**family(name, run, about.continued), "data": dict(about.data), "plans": True}
    return Driver(name, name, run.seed, shared, files.file_digest(folder / run_folder.MODEL))


def _named(cfg: PlannerConfig) -> dict[str, int | float]:
    """What decides a plan, without the kind of search."""
    search = {key: value for key, value in asdict(cfg.search).items() if key != "way"}
    near = {"within": cfg.within} if cfg.within else {}
    return {"horizon": cfg.horizon, "execute": cfg.execute, **near, **search}


def _differs(cfg: PlannerConfig, ordinary: PlannerConfig) -> str:
    mine, theirs = _named(cfg), _named(ordinary)
    changed = [f"{key}{mine.get(key, 0):g}" for key in {**theirs, **mine} if mine.get(key) != theirs.get(key)]
    return "-".join(([cfg.search.way] if cfg.search.way != ordinary.search.way else []) + changed)
