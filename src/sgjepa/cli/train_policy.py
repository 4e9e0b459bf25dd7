"""`sgjepa train-policy`: train a policy on the features of a run's model, or on the true state."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from sgjepa.cli import arguments
from sgjepa.core.errors import InputError

ABOUT = "train a diffusion policy on a finished run's features, or on the true state; interrupted, the same command goes on"
EXAMPLE = "sgjepa train-policy runs/arm_catcher_ball_gru-mini-seed0 --size mini"
POLICIES = Path("policies")
STATE, POSE = Path("state"), Path("pose")
WITHOUT_RUN = (STATE, POSE)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "run_folder",
        type=arguments.run_argument,
        metavar="RUN",
        help="folder that `sgjepa train` made, or zoo:NAME; or `state`: train on the true state of --dataset; or `pose`: on "
        "the robot's own pose only",
    )
    arguments.add_dataset(parser)
    parser.add_argument(
        "--size", default="mini", metavar="SIZE", help="mini (default, 4 to 8 minutes on one core) or paper (for a GPU)"
    )
    parser.add_argument("--kind", default="diffusion", metavar="NAME", help="kind of policy (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    parser.add_argument("--updates", type=int, metavar="N", help="override the size's default")
    parser.add_argument("--save-every", type=int, metavar="N", help="updates between checkpoints (default: the size's)")
    parser.add_argument("--pose", action="store_true", help="also observe the robot's own pose, besides the run's features")
    parser.add_argument(
        "--blur",
        type=float,
        metavar="M",
        help="with `state`: observe only the ball's position, with normal errors of M metres (standard deviation) in each "
        "direction, and the robot's own pose; no velocities",
    )
    parser.add_argument("--no-law", action="store_true", help="do not give the policy the law")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="its folder (default: policies/RUN-SIZE-seedN; -pose, -blurM and -nolaw are added if these options are used)",
    )


def run(options: Namespace) -> None:
    """Train the policy, or resume it; prints its folder and its held-out loss."""
    arguments.prepare_for_torch()
    from sgjepa.policies.features import open_features
    from sgjepa.policies.learned import train_policy
    from sgjepa.policies.tasks import task_of
    from sgjepa.recipes.policies import policy

    values = {"updates": options.updates, "save_every": options.save_every}
    changes: dict[str, Any] = {key: value for key, value in values.items() if value is not None}
    seen, pose = _looks_at(options)
    dataset = _dataset(options)
    spec = dataset.env_spec
    task_of(spec.name)
    if spec.goal and (seen or pose):
        raise InputError(
            f"{spec.name} has goals, which its pictures do not show, so features do not contain them; "
            "let the run plan (`sgjepa evaluate-policy RUN`), or train on `state`, which contains the goal"
        )
    default = policy(options.size, spec.name, options.kind)
    settings = replace(default, seed=options.seed, law=not options.no_law, **changes)
    features = open_features(seen, spec, pose, options.blur)
    folder = train_policy(settings, features, dataset, options.out or _default_folder(options, dataset))
    _say_trained(folder)
    arguments.print_next("evaluate-policy", folder, *(["--dataset", options.dataset] if options.dataset else []))


def _looks_at(options: Namespace) -> tuple[Path | None, bool]:
    """The run, if there is one, and whether the robot's pose is an input; without a run: whether it is the only one."""
    if options.blur is not None and options.run_folder != STATE:
        raise InputError(f"--blur goes with `state`, whose places it shows; leave it out with {options.run_folder}")
    if options.run_folder not in WITHOUT_RUN:
        return options.run_folder, options.pose
    if options.pose:
        raise InputError("--pose goes with a RUN: `state` sees the pose already, and `pose` nothing else; leave it out")
    return None, options.run_folder == POSE


def _dataset(options: Namespace) -> Any:
    from sgjepa.training.data import open_existing

    if options.run_folder not in WITHOUT_RUN:
        return arguments.open_dataset_for(options)
    if options.dataset is None:
        raise InputError(
            f"a policy that sees the {options.run_folder} alone has no run, and so no dataset: say which with --dataset DIR"
        )
    return open_existing(options.dataset, verify=True)


def _default_folder(options: Namespace, dataset: Any) -> Path:
    without_run = options.run_folder in WITHOUT_RUN
    name = f"{dataset.settings.world}_{options.run_folder}" if without_run else options.run_folder.resolve().name
    blur = "" if options.blur is None else f"-blur{options.blur:g}"
    ways = f"{'-pose' if options.pose else ''}{blur}{'-nolaw' if options.no_law else ''}"
    kind = "" if options.kind == "diffusion" else f"-{options.kind}"
    return POLICIES / f"{name}{kind}-{options.size}{ways}-seed{options.seed}"


def _say_trained(folder: Path) -> None:
    from sgjepa.core.run_folder import ROWS
    from sgjepa.policies.files import WEIGHTS, read_policy
    from sgjepa.report.words import count

    record = read_policy(folder)
    print(f"{folder}: the policy is {WEIGHTS}, every measurement a line of {ROWS}")
    print(f"  learned from {record.counts.windows} windows of {record.counts.episodes} successful episodes")
    if record.scores is not None and record.scores.validation_loss is not None:
        held_out = count(record.counts.held_out_episodes, "held-out episode")
        print(f"  loss on {held_out}: {record.scores.validation_loss:.4g}")
