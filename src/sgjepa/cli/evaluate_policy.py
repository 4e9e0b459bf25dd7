"""`sgjepa evaluate-policy`: scripted, learned and planned policies in closed loop, compared on one page."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sgjepa import zoo
from sgjepa.cli import arguments
from sgjepa.core.errors import InputError

ABOUT = "run policies in closed loop on test episodes and compare them on one page; interrupted, the same command goes on"
EXAMPLE = "sgjepa evaluate-policy expert still random --dataset datasets/arm_catcher_ball-mini"
OUT = Path("policy-report")
LATENTS = "latent_errors.csv"
CASES = 50  # the default number of episodes of a planner towards goals
SIMULATOR = "simulator"  # the name of the planner that searches in the true simulator
# the options of planners: name, type, unit in the help, and help
_PLANNER: tuple[tuple[str, type, str, str], ...] = (
    ("offset", int, "N", "frames from a start to its goal (default: 5)"),
    ("budget", int, "N", "controls to reach the goal (default: twice the offset)"),
    ("search", str, "NAME", "cem (default), icem or mppi"),
    ("candidates", int, "N", "plans tried in an iteration (default: 300; without goals 64)"),
    ("iterations", int, "N", "rounds of search for a plan (default: 30; without goals 6)"),
    ("elites", int, "N", "best candidates, from which the next iteration starts (default: 30; without goals 8)"),
    ("horizon", int, "P", "controls of a plan (default: 5; without goals 16)"),
    ("within", float, "S", "no controls beyond S standard deviations of those the model has seen (default: 0, any)"),
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "policies",
        nargs="+",
        metavar="POLICY",
        help="folders that `sgjepa train-policy` made, or zoo:NAME; runs, which plan in their latents; "
        "expert, still, random: scripted expert, zero motion, uniform random controls; "
        "simulator: the planner in the true simulator",
    )
    arguments.add_dataset(parser)
    parser.add_argument(
        "--episodes",
        type=int,
        metavar="N",
        help=f"the first N test episodes (default: all); of planners towards goals, N cases (default: {CASES})",
    )
    parser.add_argument(
        "--held-out",
        action="store_true",
        help="training episodes that nothing was trained on, instead of test episodes: to choose settings by",
    )
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="K", help="repeats per episode for stochastic policies (default: 1)"
    )
    parser.add_argument(
        "--execute",
        type=int,
        metavar="E",
        help="controls of a plan that are executed before the next plan (default: of a learned policy 8, of the paddle's 4; "
        "of a planner 5, without goals 4)",
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="simulation processes (default: one per core); does not affect results"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=OUT,
        metavar="DIR",
        help="folder of the page, and of the trials of scripted policies (default: %(default)s)",
    )
    planner = parser.add_argument_group("planners (runs, simulator)")
    for name, kind, unit, about in _PLANNER:
        planner.add_argument(f"--{name}", type=kind, metavar=unit, help=about)


def run(options: Namespace) -> None:
    """Evaluate every policy with every seed, then write the page."""
    options.policies = [str(zoo.folder_to_work_in(name, policies=True)) for name in options.policies]
    _check(options)
    from sgjepa.core import artifact
    from sgjepa.policies.evaluate import MADE_BY, beginnings
    from sgjepa.policies.scripted import SIMPLE

    if any(name not in SIMPLE for name in options.policies):
        arguments.prepare_for_torch()
    runs = [Path(name) for name in options.policies if _is_run(Path(name))]
    planners = len(runs) + (SIMULATOR in options.policies)
    dataset = _dataset(options)
    spec = dataset.env_spec
    planner = _planner(options, spec) if planners else None
    _refuse_unused(options, bool(planners), spec)
    cases = _cases(options) if planners and spec.goal else None
    starts = beginnings(dataset, None if cases else options.episodes, cases, options.held_out)  # before the work
    artifact.require_free(options.out, MADE_BY)
    subjects = [_subject(name, dataset, options, planner, cases) for name in options.policies]
    latents = _latent_errors(runs, dataset, options) if cases else {}
    _evaluate(subjects, dataset, options, starts, latents)


def _check(options: Namespace) -> None:
    """Refuse wrong options before heavy imports."""
    arguments.require_seeds(options)
    if options.workers is not None and options.workers < 1:
        raise InputError(f"--workers must be at least 1, got {options.workers}")
    for name in options.policies:
        if options.policies.count(name) > 1:
            raise InputError(f"{name} is given twice")
    arguments.require_matplotlib()


def _is_run(folder: Path) -> bool:
    from sgjepa.core.run_folder import is_run

    return is_run(folder)


def _dataset(options: Namespace) -> Any:
    """The dataset of `--dataset`, or that of the first run or learned policy."""
    from sgjepa.core import run_folder
    from sgjepa.data.store import open_dataset
    from sgjepa.envs import get_env
    from sgjepa.planning.load import default_planner_config
    from sgjepa.policies.files import read_policy
    from sgjepa.policies.scripted import SIMPLE

    folders = [Path(name) for name in options.policies if name not in SIMPLE and name != SIMULATOR]
    for folder in folders:
        if not folder.is_dir():
            raise InputError(
                f"there is no policy '{folder}': give a folder that `sgjepa train-policy` made, a run, "
                f"or {', '.join(SIMPLE)} or {SIMULATOR}"
            )
    runs = [folder for folder in folders if _is_run(folder)]
    if options.dataset is not None:
        dataset = open_dataset(options.dataset)
    elif not folders:
        raise InputError(f"{', '.join(options.policies)} can act in any world: name one with --dataset DATASET")
    elif _is_run(folders[0]):
        about = run_folder.about(folders[0])
        for world in about.worlds:  # before a dataset is made in vain
            default_planner_config(get_env(world).env_spec)
        name = next(iter(about.data))
        dataset = open_dataset(options.datasets / name if options.datasets else arguments.dataset_beside(folders[0], name))
    else:
        name = next(iter(read_policy(folders[0]).settings.data))
        dataset = open_dataset(options.datasets / name if options.datasets else arguments.dataset_beside(folders[0], name))
    for folder in runs:
        arguments.check_run(folder, dataset, options.transfer)
    return dataset


def _planner(options: Namespace, spec: Any) -> Any:
    """The default planner of a world with the options' changes."""
    from sgjepa.planning.load import default_planner_config

    default = default_planner_config(spec)
    search = {name: getattr(options, name) for name in ("candidates", "iterations", "elites")} | {"way": options.search}
    lengths = {name: getattr(options, name) for name in ("horizon", "execute", "within")}
    changed_lengths = {name: value for name, value in lengths.items() if value is not None}
    if "horizon" in changed_lengths and "execute" not in changed_lengths:  # a shorter plan is executed to its end
        changed_lengths["execute"] = max(1, min(changed_lengths["horizon"], default.execute))
    changed = replace(default.search, **{name: value for name, value in search.items() if value is not None})
    planner = replace(default, search=changed, **changed_lengths)
    planner.check(spec)
    return planner


def _refuse_unused(options: Namespace, plans: bool, spec: Any) -> None:
    """Refuse options that would have no effect."""
    flags = [f"--{name}" for name, *_ in _PLANNER if getattr(options, name) is not None]
    if flags and not plans:
        raise InputError(f"{flags[0]} is for planners: give a run, or {SIMULATOR}")
    goals = [f"--{name}" for name in ("offset", "budget") if getattr(options, name) is not None]
    if goals and not spec.goal:
        raise InputError(f"{goals[0]} is for worlds with goals, and {spec.name} has none; leave it out")
    from sgjepa.policies.scripted import SIMPLE

    if options.execute is not None and all(name in SIMPLE for name in options.policies):
        raise InputError(f"--execute is for policies that plan, not for {', '.join(options.policies)}")


def _cases(options: Namespace) -> Any:
    from sgjepa.policies.goal_tasks import Cases

    count = CASES if options.episodes is None else options.episodes
    offset = Cases().offset if options.offset is None else options.offset
    return Cases(count, offset, 2 * offset if options.budget is None else options.budget)


def _subject(name: str, dataset: Any, options: Namespace, planner: Any, cases: Any) -> Any:
    """A policy with the folder of its trials."""
    from sgjepa.planning.load import planned, simulated
    from sgjepa.policies.evaluate import trained, untrained
    from sgjepa.policies.scripted import SIMPLE

    if name in SIMPLE:
        return untrained(name, dataset, options.out)
    if name == SIMULATOR:
        return simulated(dataset, options.out, planner)
    if _is_run(Path(name)):
        return planned(Path(name), dataset, planner, cases, options.held_out)
    return trained(Path(name), dataset, options.execute, held_out=options.held_out)


def _latent_errors(runs: Sequence[Path], dataset: Any, options: Namespace) -> dict[str, Any]:
    """The errors of each run's latents on held-out clips, by the digest of its weights."""
    from sgjepa.core import files
    from sgjepa.core.run_folder import MODEL
    from sgjepa.evaluation.latent_errors import latent_errors

    return {files.file_digest(folder / MODEL): latent_errors(folder, dataset, held_out=options.held_out) for folder in runs}


def _evaluate(subjects: Sequence[Any], dataset: Any, options: Namespace, starts: Any, latents: dict[str, Any]) -> None:
    """Run every trial, those of stochastic policies with every seed; write the page and print its numbers."""
    from sgjepa.core import threads
    from sgjepa.policies.evaluate import MADE_BY, trial
    from sgjepa.report.closed_loop import closed_loop_page, success_sentence
    from sgjepa.report.films import films_of
    from sgjepa.report.page import write_page
    from sgjepa.results.table import Results

    folders = [
        trial(subject, dataset, seed, starts, options.workers or threads.cores())
        for subject in subjects
        for seed in range(options.seeds if subject.policy.by_chance else 1)
    ]
    results = Results.of_trials(folders)
    page = write_page(closed_loop_page(results, dataset.env_spec, films_of(results), latents), options.out, MADE_BY)
    for arm in results.arms:
        print(success_sentence(results, arm))
    for folder in folders:
        print(f"every episode: {folder}")
    print(page)
    if latents:
        _print_latent_errors(options, {subject.driver.name: subject.driver.weights for subject in subjects}, latents)


def _print_latent_errors(options: Namespace, weights: dict[str, str], latents: dict[str, Any]) -> None:
    """Print and write the errors of predicted latents on held-out clips: the paper's columns next to success."""
    from sgjepa.core import artifact
    from sgjepa.core.tables import to_csv

    rows = []
    for name, errors in ((name, latents[digest]) for name, digest in weights.items() if digest in latents):
        rows.append({"run": name, **errors.row()})
        last, mean, unchanged = errors.at(errors.steps), errors.mean(), errors.unchanged[:, -1].mean()
        shares = [100 * value / errors.variance for value in (last.mean, unchanged)]
        print(f"{name}: latent error after {errors.steps} predictions {last.mean:.3g}", end=" ")
        print(f"({last.low:.3g} to {last.high:.3g}), {shares[0]:.3g} % of the variance;")
        print(f"   if nothing changed {shares[1]:.3g} %; mean of 1 to {errors.steps} {mean.mean:.3g}, {errors.clips} clips")
    artifact.add(options.out, LATENTS, to_csv(rows).encode())
    print(options.out / LATENTS)
