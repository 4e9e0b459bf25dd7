"""Runs for tests of the viewer: tiny, but trained, with a decoder and a probe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_train import RUN

from sgjepa.data.store import open_dataset
from sgjepa.evaluation.probes import ProbeConfig, fit_probe
from sgjepa.models.predictors.transformer import Transformer
from sgjepa.training.loop import train
from sgjepa.training.losses import OneStepLoss


@pytest.fixture(scope="session")
def viewed(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """SG-JEPA and LeWM in the world square."""
    folder = tmp_path_factory.mktemp("viewed")
    gru = replace(RUN, name="square_gru", train=replace(RUN.train, epochs=1, updates=4, decoder=True, decoder_width=16))
    predictor = Transformer(depth=1, heads=2, head_dim=8, mlp=16)
    loss = OneStepLoss(windows="dense", flatten=True, sigreg=0.05)
    lewm = replace(gru, name="square_lewm", model=replace(gru.model, predictor=predictor), loss=loss)
    runs = [train(run, folder / f"{run.name}-tiny", finished.parent) for run in (gru, lewm)]
    for run in runs:
        fit_probe(run, open_dataset(finished), ProbeConfig(window=4, hidden=(16,), epochs=1, windows=300))
    return runs
