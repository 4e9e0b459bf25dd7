"""Which weight of SIGReg and residual step does a model that plans in Reacher want? The grid of `hyperparameters`, there.

What a ball wants spreads its latents over far more directions than an arm of two links has.
"""

from __future__ import annotations

from dataclasses import replace

from sgjepa.experiments import hyperparameters
from sgjepa.experiments.arms import Training
from sgjepa.experiments.hyperparameters import GRID

WORLD = "reacher"
CHOICES = [choice for choice in GRID if choice.method == "gru" and not choice.dropout]

EXPERIMENT = replace(
    hyperparameters.EXPERIMENT,
    name="hyperparameters_reacher",
    question="Which weight of SIGReg and residual step does a model that plans in Reacher want? (validation episodes)",
    arms=lambda size: [Training(choice.run(size, WORLD), label=choice.label) for choice in CHOICES],
)
