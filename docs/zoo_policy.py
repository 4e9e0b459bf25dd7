"""Put a diffusion policy into the zoo, with the run that it observes through; called by make_zoo.py.

Both are rounded to half precision. The policy's record then names the digest of the rounded weights that it observes
through, so the check that ties it to them holds for the copy too; its success is measured anew, with what was rounded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import rounding

from sgjepa import zoo
from sgjepa.core import artifact, config, files, run_folder, threads
from sgjepa.core.errors import InputError
from sgjepa.core.provenance import provenance
from sgjepa.data.store import open_dataset
from sgjepa.policies.evaluate import trained, trial
from sgjepa.policies.files import RECORD, WEIGHTS, read_policy
from sgjepa.policies.learned import load_policy
from sgjepa.results.success import opening_in, success_in
from sgjepa.results.trials import own_trials

RUN = "run"  # in the policy's folder


def add(policies: Sequence[Path], target: Path, datasets: Path, about: str, tries: int, blind: Sequence[Path] = ()) -> None:
    """Select, round, evaluate, and write to the zoo. blind: policies that observe only their pose, each with trials."""
    losses = {folder: _loss(folder) for folder in policies}
    best = min(losses, key=losses.__getitem__)
    others = ", ".join(f"{loss:.4f}" for loss in losses.values())
    selection = (
        f"the lowest loss on held-out episodes of {len(losses)} trainings: {others}" if len(losses) > 1 else "the only one"
    )
    dataset = open_dataset(datasets / next(iter(read_policy(best).settings.data)))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / target.name
        full_precision = _round_policy(best, folder)
        subject = trained(folder, dataset)
        trials = [trial(subject, dataset, sampling, processes=threads.cores()) for sampling in range(tries)]
        policy = read_policy(folder)
        settings, mean = policy.settings, dict(zip(policy.settings.laws, policy.scaling.law.mean, strict=True))
        card = zoo.PolicyCard(
            about=about,
            world=settings.world,
            source=settings.source.name,
            conditioned=settings.config["law"],
            pose=settings.source.pose,
            seed=settings.config["seed"],
            updates=settings.config["updates"],
            data=settings.data,
            success=success_in(trials),
            opening=opening_in(trials, mean),
            blind_success=success_in(
                [kept for other in blind for kept in own_trials(other, read_policy(other).files[WEIGHTS])]
            )
            if blind
            else None,
            selection=selection,
            full_precision=full_precision,
            commit=provenance()["commit"],
        )
        run = [f"{RUN}/{name}" for name in rounding.RUN_FILES] if settings.source.run else []
        rounding.write_zoo(folder, target, [RECORD, WEIGHTS, *run], card)


def _loss(folder: Path) -> float:
    scores = read_policy(folder).scores
    if scores is None:
        raise InputError(f"{folder} has no finished policy; run its `sgjepa train-policy` command again first")
    return float("inf") if scores.validation_loss is None else scores.validation_loss


def _round_policy(source: Path, target: Path) -> files.Digests:
    """Write the policy in half precision, with its run; returns the digests of what it was rounded from."""
    policy = load_policy(source).record  # after a check that its weights and its run are those that were trained
    features, full_precision = policy.settings.source, {WEIGHTS: files.file_digest(source / WEIGHTS)}
    target.mkdir()
    if features.run:
        rounding.round_run(source / features.run, target / RUN, [run_folder.MODEL])
        full_precision[f"{RUN}/{run_folder.MODEL}"] = features.model
        features = replace(features, run=RUN, model=files.file_digest(target / RUN / run_folder.MODEL))
    rounding.round_weights(source / WEIGHTS, target / WEIGHTS)
    settings = config.to_dict(replace(policy.settings, source=features))
    rounding.write_record(target, artifact.read_json_record(source) | {"settings": settings}, [WEIGHTS])
    return full_precision
