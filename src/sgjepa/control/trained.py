"""A trained policy from its folder, to be put to trial."""

from __future__ import annotations

from pathlib import Path

from sgjepa.control.diffusion import DiffusionPolicy, load_policy
from sgjepa.control.held_out import check, check_run
from sgjepa.control.policy_record import WEIGHTS
from sgjepa.control.records import TRIALS, Driver
from sgjepa.control.siblings import family
from sgjepa.control.tasks import task_of
from sgjepa.control.trial import Subject
from sgjepa.core import run_folder
from sgjepa.data.store import Dataset
from sgjepa.training.checkpoint import read_config

# of a policy's settings: what trainings that belong together may differ in, or what changes nothing in them
_INCIDENTAL = ("seed", "type", "validation", "log_every", "validate_every", "save_every")


def trained(folder: Path, dataset: Dataset, execute: int | None = None, *, held_out: bool = False) -> Subject:
    """The finished policy in a folder; its trials go there. execute: E, as its task says if None.

    held_out: it is to drive training episodes that it did not learn from.
    """
    policy = load_policy(folder, execute)
    policy.check(dataset)
    if held_out:
        _check_held_out(folder, policy, dataset)
    usual = task_of(dataset.settings.world).execute
    return Subject(
        driver=driver_of(folder, policy),
        policy=policy,
        folder=folder / TRIALS,
        how={"execute": policy.execute, "sampler": policy.diffusion.sampler, "steps": policy.diffusion.sampled},
        differs="" if policy.execute == usual else f"execute{policy.execute}",
    )


def _check_held_out(folder: Path, policy: DiffusionPolicy, dataset: Dataset) -> None:
    """Of the policy, and of the run that it sees through."""
    there, source = policy.record.settings, policy.record.settings.source
    check("the policy", there.data, source.split_seed, dataset)
    if source.run:
        check_run(folder / source.run, source.split_seed, dataset)


def driver_of(folder: Path, policy: DiffusionPolicy) -> Driver:
    """Who drives, as its trials remember it."""
    there = policy.record.settings
    shared = {key: value for key, value in there.config.items() if key not in _INCIDENTAL}
    source = folder / there.source.run if there.source.run else None
    run, continued = (None, ()) if source is None else (read_config(source), run_folder.about(source).continued)
    shared |= {**family(there.source.name, run, continued), "data": dict(there.data)}
    shared |= {"encoder": policy.encoder} if policy.encoder else {}
    shared |= {"pose": True} if there.source.pose else {}
    shared |= {} if there.source.blur is None else {"blur": there.source.blur}
    return Driver(folder.resolve().name, there.source.name, int(there.config["seed"]), shared, policy.record.files[WEIGHTS])
