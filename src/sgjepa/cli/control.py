"""`sgjepa control`: policies drive the simulator, and what they come to on one page."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sgjepa import zoo
from sgjepa.cli import shared
from sgjepa.core.errors import InputError

ABOUT = "let policies drive a world's test episodes and compare them on one page; interrupted, the same command goes on"
EXAMPLE = "sgjepa control expert still random --dataset datasets/arm_catcher_ball-mini"
OUT = Path("control")


def flags(parser: ArgumentParser) -> None:
    """What it takes."""
    parser.add_argument(
        "policies",
        nargs="+",
        metavar="POLICY",
        help="folders that `sgjepa policy` made, or zoo:NAME; or runs, which plan; or expert, still, random: the "
        "demonstrator, no motion, any motion",
    )
    parser.add_argument(
        "--dataset",
        type=Path,
        metavar="DIR",
        help="the dataset whose test episodes are driven (default: a policy's own)",
    )
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="K", help="tries at every episode, for policies with chance (default: 1)"
    )
    parser.add_argument("--episodes", type=int, metavar="N", help="only the first N test episodes (default: all)")
    held_out_flag(parser)
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes that simulate (default: one per core); nothing depends on it"
    )
    parser.add_argument(
        "--execute",
        type=int,
        metavar="E",
        help="controls of a plan that are carried out (default: 8; of the paddle 4)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=OUT,
        metavar="DIR",
        help="where the page goes, with the trials of expert, still and random (default: %(default)s)",
    )


def run(options: Namespace) -> None:
    """Every policy with every sampling seed, then the page."""
    options.policies = [str(zoo.resolve(name, policies=True)) for name in options.policies]
    check(options, options.policies)
    from sgjepa.core import artifact
    from sgjepa.policies.evaluate import MADE_BY, REFERENCES, beginnings
    from sgjepa.policies.scripted import SIMPLE

    if any(name not in SIMPLE for name in options.policies):
        shared.prepare_for_torch()
    elif options.execute is not None:
        raise InputError(f"--execute is for policies that plan, not for {', '.join(options.policies)}")
    artifact.check_output(options.out, MADE_BY, (REFERENCES,))  # before the work
    dataset = _dataset(options)
    subjects = [_subject(name, dataset, options) for name in options.policies]
    try_all(subjects, dataset, options, beginnings(dataset, options.episodes, held_out=options.held_out))


def held_out_flag(parser: ArgumentParser) -> None:
    """Other episodes than those of the test split."""
    parser.add_argument(
        "--held-out",
        action="store_true",
        help="drive training episodes that nothing learned from, instead of test episodes: to choose settings by",
    )


def check(options: Namespace, players: Sequence[Any]) -> None:
    """Refuse, before anything heavy is imported, what no trial can be made of."""
    shared.need_seeds(options)
    if options.workers is not None and options.workers < 1:
        raise InputError(f"--workers must be at least 1, got {options.workers}")
    for player in players:
        if players.count(player) > 1:
            raise InputError(f"{player} is given twice")
    shared.need_matplotlib()


def try_all(subjects: Sequence[Any], dataset: Any, options: Namespace, begun: Any, latents: Any = None) -> None:
    """Every subject, those that leave something to chance with every seed; write their page, and say what stands there.

    latents: of runs, their errors on held-out clips, for the page.
    """
    from sgjepa.core import threads
    from sgjepa.policies.evaluate import MADE_BY, REFERENCES, trial
    from sgjepa.report.control import sentences, write_control
    from sgjepa.results.control import gather_trials

    places = [
        trial(subject, dataset, seed, begun, options.workers or threads.cores())
        for subject in subjects
        for seed in range(options.seeds if subject.policy.by_chance else 1)
    ]
    played = gather_trials(places)
    page = write_control(played, options.out, MADE_BY, (REFERENCES,), latents)
    for player in played.players:
        print(f"{player.label}")
        for sentence in sentences(played, player):
            print(f"   {sentence}")
    for place in places:
        print(f"every episode: {place}")
    print(page)


def _dataset(options: Namespace) -> Any:
    """The one that was named, or the first trained policy's own."""
    from sgjepa.core import run_folder
    from sgjepa.data.store import open_dataset
    from sgjepa.envs import find
    from sgjepa.policies.files import read_policy
    from sgjepa.policies.scripted import SIMPLE

    if options.dataset is not None:
        return open_dataset(options.dataset)
    folders = [Path(name) for name in options.policies if name not in SIMPLE]
    if not folders:
        raise InputError(f"{', '.join(options.policies)} can drive any world: say which with --dataset DATASET")
    _require_folder(folders[0])
    if not _is_run(folders[0]):
        data = read_policy(folders[0]).settings.data
    else:
        from sgjepa.planning.load import usual

        about = run_folder.about(folders[0])
        for world in about.worlds:  # before anybody makes a dataset in vain
            usual(find(world).env_spec)
        data = about.data
    return open_dataset(shared.beside(folders[0], next(iter(data))))


def _subject(name: str, dataset: Any, options: Namespace) -> Any:
    from sgjepa.policies.evaluate import untrained
    from sgjepa.policies.scripted import SIMPLE

    if name in SIMPLE:
        return untrained(name, dataset, options.out)
    from sgjepa.planning.load import planned
    from sgjepa.policies.evaluate import trained

    _require_folder(Path(name))
    if not _is_run(Path(name)):
        return trained(Path(name), dataset, options.execute, held_out=options.held_out)
    if options.execute is not None:
        raise InputError("--execute is for policies that `sgjepa policy` made; for a run, use `sgjepa plan`")
    shared.check_run(Path(name), dataset)
    return planned(Path(name), dataset, held_out=options.held_out)


def _is_run(folder: Path) -> bool:
    from sgjepa.core.run_folder import is_run

    return is_run(folder)


def _require_folder(folder: Path) -> None:
    from sgjepa.policies.scripted import SIMPLE

    if not folder.is_dir():
        raise InputError(
            f"there is no policy '{folder}': give a folder that `sgjepa policy` made, a run, or {', '.join(SIMPLE)}"
        )
