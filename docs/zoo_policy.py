"""Put a diffusion policy into the zoo, with the run that it sees through; called by make_zoo.py.

Both are rounded to half precision. The policy's record then names the digest of the rounded weights that it will see
through, so the check that ties it to them holds for the copy too; its success is measured anew, with what was rounded.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import rounding
from keep_results import told

from sgjepa import zoo
from sgjepa.core import artifact, run_folder, threads
from sgjepa.core.errors import InputError
from sgjepa.data.store import open_dataset
from sgjepa.policies.evaluate import trained, trial
from sgjepa.policies.files import RECORD, WEIGHTS, read_policy
from sgjepa.policies.learned import load_policy
from sgjepa.results.success import opening_in, success_in
from sgjepa.results.trials import own_trials

RUN = "run"  # in the policy's folder


def add(policies: Sequence[Path], target: Path, datasets: Path, about: str, tries: int, blind: Sequence[Path] = ()) -> None:
    """Choose, round, let it drive, keep. blind: trainings of a policy that sees only its pose, each put to trial."""
    losses = {folder: _loss(folder) for folder in policies}
    best = min(losses, key=losses.__getitem__)
    others = ", ".join(f"{loss:.4f}" for loss in losses.values())
    chosen = (
        f"the lowest loss on held-out episodes of {len(losses)} trainings: {others}" if len(losses) > 1 else "the only one"
    )
    dataset = open_dataset(datasets / next(iter(read_policy(best).settings.data)))
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / target.name
        rounded = _rounded(best, place)
        subject = trained(place, dataset)
        trials = [trial(subject, dataset, sampling, processes=threads.cores()) for sampling in range(tries)]
        there = read_policy(place).settings
        card = zoo.PolicyCard(
            about=about,
            world=there.world,
            sees=there.source.name,
            law=there.config["law"],
            pose=there.source.pose,
            seed=there.config["seed"],
            updates=there.config["updates"],
            data=there.data,
            success=success_in(trials),
            opening=opening_in(trials, dict(zip(there.laws, read_policy(place).scaling.law.mean, strict=True))),
            blind=success_in([trial for folder in blind for trial in _trials(folder)]) if blind else None,
            chosen=chosen,
            rounded=rounded,
            commit=artifact.provenance()["commit"],
        )
        run = [f"{RUN}/{run_folder.CONFIG}", f"{RUN}/{run_folder.MODEL}"] if there.source.run else []
        shutil.rmtree(target, ignore_errors=True)
        rounding.keep(place, target, [RECORD, WEIGHTS, *run], card)


def _trials(folder: Path) -> list[Path]:
    return own_trials(folder, read_policy(folder).files[WEIGHTS])


def _loss(folder: Path) -> float:
    scores = read_policy(folder).scores
    if scores is None:
        raise InputError(f"{folder} has no finished policy; run its `sgjepa train-policy` command again first")
    return float("inf") if scores.validation_loss is None else scores.validation_loss


def _rounded(folder: Path, place: Path) -> artifact.Digests:
    """The policy in half precision with its run, in `place`; returns the digests of what it was rounded from."""
    record = load_policy(folder).record  # after a check that its weights and its run are those that were trained
    source, before = record.settings.source, {WEIGHTS: artifact.file_digest(folder / WEIGHTS)}
    place.mkdir()
    if source.run:
        rounding.run(folder / source.run, place / RUN, [run_folder.MODEL])
        before[f"{RUN}/{run_folder.MODEL}"] = source.model
        source = replace(source, run=RUN, model=artifact.file_digest(place / RUN / run_folder.MODEL))
    rounding.halve(folder / WEIGHTS, place / WEIGHTS)
    settings = replace(record.settings, source=source)
    digests = {WEIGHTS: artifact.file_digest(place / WEIGHTS)}
    artifact.write_record(place, replace(record, settings=settings, files=digests, provenance=told(record.provenance)))
    return before
