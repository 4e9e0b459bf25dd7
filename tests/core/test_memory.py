"""Paper-size memory: the whole batch of 64 clips of 25 frames must train on an ordinary machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

STEP = """
import resource, torch
from sgjepa.training import losses
from sgjepa.training.optim import Hybrid
from sgjepa.recipes.training import recipe

run = recipe("square_gru", "paper")
model = run.model.build()
optimiser = Hybrid(model, run.optim)
generator = torch.Generator().manual_seed(0)
frames = torch.randint(0, 256, (64, 25, 128, 128, 3), dtype=torch.uint8, generator=generator)
z = model.encode(frames, chunk=25)
c = model.condition(torch.zeros(64, 25, 2), torch.full((64, 1), 4.0))
total, _ = losses.compute(run.loss, model, z, c, generator, history=run.history)
total.backward()
optimiser.clip_gradients()
optimiser.step()
print(float(total), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


@pytest.mark.slow
def test_a_paper_size_batch_trains_in_12_gigabytes() -> None:
    done = subprocess.run([sys.executable, "-c", STEP], capture_output=True, text=True, check=True)
    loss, gigabytes = map(float, done.stdout.split())
    assert loss > 0
    assert gigabytes < 12
