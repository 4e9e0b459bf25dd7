"""A policy for tests of the viewer and of the zoo: tiny, on the frames of a model, with a trial beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from conftest import small
from test_control import TINY
from test_train import RUN

from sgjepa.core import artifact, config, run_folder
from sgjepa.core.artifact import RunRecord
from sgjepa.data.collect import collect
from sgjepa.data.store import Dataset, open_dataset
from sgjepa.envs import find
from sgjepa.policies.evaluate import trained, trial
from sgjepa.policies.features import open_features
from sgjepa.policies.train_diffusion import train_policy
from sgjepa.training import checkpoint

CATCHER = "arm_catcher_ball"


@dataclass(frozen=True)
class Driven:
    """All that belongs to it: place/datasets, place/runs, place/policies."""

    place: Path
    dataset: Dataset
    run: Path
    policy: Path
    trial: Path


@pytest.fixture(scope="session")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Driven:
    """Its model was never trained, and the policy hardly: nothing depends on how well it does."""
    place = tmp_path_factory.mktemp("driven")
    settings = small(CATCHER, seed=1)
    few = replace(settings, train=replace(settings.train, episodes=4), test=replace(settings.test, episodes=12))
    dataset = open_dataset(collect(few, place / "datasets" / "caught", workers=1))
    torch.manual_seed(0)
    made = replace(RUN, data=(dataset.path.name,), model=replace(RUN.model, controls=3))
    run = place / "runs" / f"{CATCHER}_gru-tiny-seed0"
    run.mkdir(parents=True)
    data = {dataset.path.name: dataset.manifest.digest}
    about = RunRecord(config.to_dict(made), data, artifact.provenance(), (CATCHER,))
    checkpoint.finish(run, about, {run_folder.MODEL: made.model.build()})
    (place / "policies").mkdir()
    policy = train_policy(TINY, open_features(run, find(CATCHER).world), dataset, place / "policies" / "tiny")
    return Driven(place, dataset, run, policy, trial(trained(policy, dataset), dataset, 0))
