"""`sgjepa plan`: runs plan in their world, and what they come to on one page."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sgjepa.cli import control, shared
from sgjepa.core.errors import InputError

ABOUT = "let runs plan towards goals in the simulator and compare them on one page; interrupted, the same command goes on"
EXAMPLE = "sgjepa plan runs/reacher_gru-mini-seed0 --cases 50"
OUT = Path("plans")
LATENTS = "latent_errors.csv"


def flags(parser: ArgumentParser) -> None:
    """What it takes."""
    parser.add_argument(
        "runs", nargs="+", type=shared.run, metavar="RUN", help="folder that `sgjepa train` made, or zoo:NAME"
    )
    shared.dataset_flags(parser)
    parser.add_argument(
        "--cases", type=int, default=50, metavar="N", help="how many, from the test episodes (default: %(default)s)"
    )
    control.held_out_flag(parser)
    parser.add_argument("--offset", type=int, metavar="N", help="frames from a start to its goal (default: 5)")
    parser.add_argument("--budget", type=int, metavar="N", help="controls to get there (default: twice the offset)")
    parser.add_argument("--search", metavar="WAY", help="cem (default), icem or mppi")
    parser.add_argument(
        "--candidates", type=int, metavar="N", help="plans tried in an iteration (default: 300; without goals 64)"
    )
    parser.add_argument(
        "--iterations", type=int, metavar="N", help="rounds of search for a plan (default: 30; without goals 6)"
    )
    parser.add_argument(
        "--elites",
        type=int,
        metavar="N",
        help="best candidates, that the next iteration starts from (default: 30; without goals 8)",
    )
    parser.add_argument("--horizon", type=int, metavar="P", help="controls of a plan (default: 5; without goals 16)")
    parser.add_argument(
        "--execute", type=int, metavar="E", help="controls of it that are carried out (default: 5; without goals 4)"
    )
    parser.add_argument(
        "--within",
        type=float,
        metavar="S",
        help="no controls beyond S standard deviations of those that the model has seen (default: 0, any)",
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="tries at every case (default: 1)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes that simulate (default: one per core)")
    parser.add_argument("--no-simulator", action="store_true", help="leave out the ceiling, a search in the true simulator")
    parser.add_argument(
        "--out",
        type=Path,
        default=OUT,
        metavar="DIR",
        help="where the page goes, with the trials of what runs are compared with (default: %(default)s)",
    )


def run(options: Namespace) -> None:
    """Every run and the references, then the page."""
    control.check(options, options.runs)
    shared.prepare_for_torch()
    from sgjepa.core import artifact
    from sgjepa.evaluation.latent_errors import latent_errors
    from sgjepa.planning.load import planned, usual
    from sgjepa.policies.evaluate import MADE_BY, REFERENCES, beginnings

    first, *others = options.runs
    dataset = shared.dataset_of(_alone(options, first))
    for folder in others:  # all plan in the first one's world, on its episodes
        shared.check_run(Path(folder), dataset, options.transfer)
    spec = dataset.env_spec
    cfg = _planner(options, usual(spec))
    cfg.check(spec)
    if not spec.goal:
        _refuse_goals(options, spec.name)
    cases = _cases(options) if spec.goal else None
    episodes = None if spec.goal else options.cases
    begun = beginnings(dataset, episodes, cases, options.held_out)  # before the work
    artifact.check_output(options.out, MADE_BY, (REFERENCES,))
    subjects = [planned(folder, dataset, cfg, cases, options.held_out) for folder in options.runs]
    astray = [latent_errors(folder, dataset, held_out=options.held_out) for folder in options.runs] if spec.goal else []
    latents = {subject.driver.weights: found for subject, found in zip(subjects, astray, strict=False)}
    control.try_all([*subjects, *_references(options, dataset, cfg)], dataset, options, begun, latents)
    if spec.goal:
        _say_latents(options, astray)


def _refuse_goals(options: Namespace, world: str) -> None:
    """In a world without goals."""
    asked = {"--offset": options.offset is not None, "--budget": options.budget is not None}
    for flag, given in (asked | {"--no-simulator": options.no_simulator}).items():
        if given:
            raise InputError(f"{flag} is for worlds with goals, and {world} has none; leave it out")


def _say_latents(options: Namespace, astray: Sequence[Any]) -> None:
    """How far imagined latents go astray on held-out clips: the paper's other columns, beside success."""
    from sgjepa.core import artifact
    from sgjepa.core.tables import to_csv

    rows = []
    for folder, found in zip(options.runs, astray, strict=True):
        rows.append({"run": folder.name, **found.row()})
        last, mean, still = found.at(found.steps), found.mean(), found.unchanged[:, -1].mean()
        shares = [100 * one / found.variance for one in (last.mean, still)]
        print(f"{folder.name}: latent error after {found.steps} predictions {last.mean:.3g}", end=" ")
        print(f"({last.low:.3g} to {last.high:.3g}), {shares[0]:.3g} % of the variance;")
        print(f"   if nothing changed {shares[1]:.3g} %; mean of 1 to {found.steps} {mean.mean:.3g}, {found.clips} clips")
    artifact.add_output(options.out, LATENTS, to_csv(rows).encode())
    print(options.out / LATENTS)


def _alone(options: Namespace, folder: Path) -> Namespace:
    """As if one run were given."""
    return Namespace(**{**vars(options), "run_folder": folder})


def _planner(options: Namespace, ordinary: Any) -> Any:
    """The usual planner with what was asked for."""
    asked = {"way": options.search, **{name: getattr(options, name) for name in ("candidates", "iterations", "elites")}}
    changed = replace(ordinary.search, **{key: value for key, value in asked.items() if value is not None})
    lengths = {name: getattr(options, name) for name in ("horizon", "execute", "within")}
    given = {key: value for key, value in lengths.items() if value is not None}
    if "horizon" in given and "execute" not in given:  # a shorter plan is carried out to its end
        given["execute"] = max(1, min(given["horizon"], ordinary.execute))
    return replace(ordinary, search=changed, **given)


def _cases(options: Namespace) -> Any:
    from sgjepa.policies.goal_tasks import Cases

    offset = Cases().offset if options.offset is None else options.offset
    return Cases(options.cases, offset, 2 * offset if options.budget is None else options.budget)


def _references(options: Namespace, dataset: Any, cfg: Any) -> list[Any]:
    """The floor, and the ceiling: a planner with the true simulator where there is a goal, else the demonstrator."""
    from sgjepa.planning.load import simulated
    from sgjepa.policies.evaluate import untrained

    if not dataset.env_spec.goal:
        return [untrained(name, dataset, options.out) for name in ("random", "still", "expert")]
    ceiling = [] if options.no_simulator else [simulated(dataset, options.out, cfg)]
    return [untrained("random", dataset, options.out), *ceiling]
