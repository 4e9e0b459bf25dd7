"""Errors of the latents on clips: every clip of every episode, and nothing but the model's own rollout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.datasets import small

from sgjepa.core.errors import InputError
from sgjepa.data.collect import collect
from sgjepa.data.store import open_dataset, split_episodes
from sgjepa.evaluation.latent_errors import LatentErrors, errors_of_clips, latent_errors
from sgjepa.models.rollout import rollout
from sgjepa.recipes.training import recipe
from sgjepa.training import checkpoint
from sgjepa.training.latent_cache import latents_of
from sgjepa.training.world_model import train

torch.set_num_threads(1)
H, K = 10, 5


@pytest.mark.opengl
@pytest.mark.parametrize("world", ["reacher"])
def test_a_benchmark_goes_from_data_to_latent_errors(world: str, tmp_path: Path) -> None:
    """Without laws, with 10 controls a frame; the errors are those of the plain rollout of each clip by itself."""
    base = small(world)
    settings = replace(
        base, image_size=64, train=replace(base.train, episodes=10), test=replace(base.test, episodes=3), codec="lz4"
    )
    data = open_dataset(collect(settings, tmp_path / "data" / world, workers=1))
    assert data.test.law.shape == (3, 0)
    assert data.test.control.shape == (3, 64, 10)
    assert data.test.record("goal").shape == (3, 64, 2)
    run = recipe(f"{world}_gru", "mini")
    assert (run.history, run.loss.steps) == (H, K)
    short = replace(run.train, epochs=1, updates=2, batch=2, drawn=1, validation=1, decoder=False)
    folder = train(replace(run, data=(world,), train=short), tmp_path / "run", tmp_path / "data")
    found = latent_errors(folder, data)
    assert found.errors.shape == (3, K)
    assert found.clips == 3 * (64 - H - K + 1)
    _, model = checkpoint.load_run(folder)
    z = torch.from_numpy(np.array(latents_of(model, data.test, folder)))
    c = model.condition(torch.tensor(data.test.control), torch.tensor(data.test.law))
    plain = []
    with torch.no_grad():
        for t in range(64 - H - K + 1):
            clip = z[1:2, t : t + H + K]
            predicted = rollout(model, clip[:, :H], c[1:2, t : t + H + K], K, H)[:, H:]
            plain.append((predicted - clip[:, H:]).square().mean(dim=2)[0])
    here = z[1]
    still = [(here[t + H - 1] - here[t + H : t + H + K]).square().mean(dim=1) for t in range(64 - H - K + 1)]
    np.testing.assert_allclose(found.unchanged[1], torch.stack(still).mean(dim=0).numpy(), rtol=1e-4)
    assert found.variance == pytest.approx(z.flatten(0, 1).var(dim=0, correction=0).mean().item(), rel=1e-4)
    np.testing.assert_allclose(found.errors[1], torch.stack(plain).mean(dim=0).numpy(), rtol=1e-4)
    apart = latent_errors(folder, data, held_out=True)
    assert apart.clips == len(split_episodes(10)[1]) * (64 - H - K + 1)
    with pytest.raises(InputError, match="clips of 10 frames and 55 predictions do not fit into 64"):
        errors_of_clips(model, data.test, z.numpy(), range(3), H, 55)


def test_the_last_step_and_the_mean_over_steps_are_of_episodes() -> None:
    found = np.array([[1.0, 3.0], [2.0, 6.0], [0.0, 0.0]])
    errors = LatentErrors(found, 2 * found, variance=4.0, clips=30)
    assert errors.at(1).mean == pytest.approx(1.0)
    assert errors.at(2).mean == pytest.approx(3.0)
    assert errors.mean().mean == pytest.approx(2.0)
    assert 0 <= errors.at(2).low < 3 < errors.at(2).high <= 6
    assert errors.at(2).count == 3
    row = errors.row()
    assert (row["k1"], row["k2"], row["unchanged_k1"], row["unchanged_k2"]) == pytest.approx((1, 3, 2, 6))
