"""Planners from finished runs, ready for trials: towards goal pictures, or to intercept a target."""

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
from sgjepa.planning.interception import interception_cost
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

# a goal is as far away as a plan is long, so the whole plan is executed
TO_GOALS = PlannerConfig(horizon=5, execute=5)
# a flying ball needs longer plans, and more often; a second of flight takes some seconds of search
TO_INTERCEPT = PlannerConfig(horizon=16, execute=4, search=Search(candidates=64, iterations=6, elites=8))


def default_planner_config(spec: EnvSpec) -> PlannerConfig:
    """The default planner settings in a world; an InputError if it has no task that can be planned."""
    if not spec.has_task:
        raise InputError(f"nothing can be planned in {spec.name}: it has no task to succeed in")
    if not (spec.goal or spec.interception):
        raise InputError(
            f"{spec.name} has no goal to reach (EnvSpec.goal) and no interception task (EnvSpec.interception); "
            "train a policy for it instead: `sgjepa train-policy RUN`"
        )
    return TO_GOALS if spec.goal else TO_INTERCEPT


class ToGoals(Planner):
    """A planner towards goal pictures. lead: true frames up to the start that it observes, from the dataset."""

    def __init__(
        self, model: WorldModel, history: int, dataset: Dataset, cfg: PlannerConfig, lead: int, held_out: bool = False
    ):
        super().__init__(model, history, dataset.env_spec, None, cfg)
        self._dataset, self._split, self._lead = dataset, unseen(dataset, held_out)[0], lead

    def aim(self, starts: Sequence[Start]) -> None:
        goals = goal_pictures(self._dataset.settings, starts)
        self._cost = Distance(self._model, self._latents(goals[:, None])[:, 0])
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
    """The finished run in a folder as a planner; its trials go there. cfg: the world's default if None.

    cases: needed in a world with goals. held_out: the cases come from training episodes that the run did not learn from.
    """
    spec = dataset.env_spec
    default = default_planner_config(spec)
    cfg = cfg or default
    run, model = checkpoint.load_run(folder)
    check_fits(model, dataset.train, f"the model in {folder}")  # before anything is fitted
    if held_out:
        check_run(folder, run.split_seed, dataset)
    model = model.to(device())
    planner: Planner
    if spec.goal:
        if cases is None:
            raise InputError(f"{spec.name} has goals to reach: let {folder} plan with `sgjepa evaluate-policy`")
        planner, cost = ToGoals(model, run.history, dataset, cfg, cases.lead, held_out), "goal picture"
    else:
        interception = interception_cost(folder, run, model, dataset)
        planner = Planner(model, run.history, spec, interception, cfg, lookback=interception.window)
        cost = "probed distance"
    how = {"search": cfg.search.way, **_plan_settings(cfg), "price": cost}
    return Subject(_driver(folder, run), planner, folder / TRIALS, how, _differs(cfg, default))


def simulated(dataset: Dataset, out: Path, cfg: PlannerConfig) -> Subject:
    """The oracle planner with the true simulator; its trials go below `out`. cfg: only horizon and execute are used."""
    default = default_planner_config(dataset.env_spec)
    own = PlannerConfig(cfg.horizon, cfg.execute, search=SEARCH)
    how = {"search": SEARCH.way, **_plan_settings(own), "price": "true distance"}
    differs = _differs(own, PlannerConfig(default.horizon, default.execute, search=SEARCH))
    policy = TrueSimulator(dataset.settings, own)
    return Subject(Driver(SIMULATOR, SIMULATOR), policy, out / REFERENCES / SIMULATOR, how, differs)


def _driver(folder: Path, run: Run) -> Driver:
    name = folder.resolve().name
    about = run_folder.about(folder)
    shared = {**family(name, run, about.continued), "data": dict(about.data), "plans": True}
    return Driver(name, name, run.seed, shared, files.file_digest(folder / run_folder.MODEL))


def _plan_settings(cfg: PlannerConfig) -> dict[str, int | float]:
    """All settings that decide a plan, except the kind of search."""
    search = {key: value for key, value in asdict(cfg.search).items() if key != "way"}
    near = {"within": cfg.within} if cfg.within else {}
    return {"horizon": cfg.horizon, "execute": cfg.execute, **near, **search}


def _differs(cfg: PlannerConfig, default: PlannerConfig) -> str:
    settings, defaults = _plan_settings(cfg), _plan_settings(default)
    names = [name for name in {**defaults, **settings} if settings.get(name) != defaults.get(name)]
    changed = [f"{name}{settings.get(name, 0):g}" for name in names]
    return "-".join(([cfg.search.way] if cfg.search.way != default.search.way else []) + changed)
