"""Which learning rate? Six rates with AdamW alone, the Transformer predictor and SG-JEPA's loss.

The paper sweeps 1e-5 to 5e-4 on the square and takes 5e-5. Other sizes take the same multiples of their recipe's own rate:
2e-4 to 1e-2 at mini size, around 1e-3, on Approach Ball. At paper size training stops after three epochs without a better
validation loss; at the others all rates have the same updates. The last weights are evaluated, where the paper takes those
of the best epoch.

The validation loss is no judge of a representation: a rate may lower it while probes read less. So both stand here.
"""

from __future__ import annotations

from dataclasses import replace

from sgjepa.evaluation.metrics import MAIN
from sgjepa.experiments import sweep
from sgjepa.experiments.answer import Evidence
from sgjepa.experiments.engine import WORLDS
from sgjepa.experiments.sweep import Column, Panel, Setting
from sgjepa.recipes.training import recipe

MULTIPLES = (0.2, 0.6, 1.0, 2.0, 4.0, 10.0)  # of the recipe's own rate: the paper's grid around 5e-5
PATIENCE = 3  # epochs, at paper size


def settings(size: str) -> list[Setting]:
    """The Transformer's recipe at each rate, all tensors with AdamW."""
    base = recipe(f"{WORLDS[size]}_transformer", size)
    train = replace(base.train, patience=PATIENCE) if size == "paper" else base.train
    arms = []
    for rate in (float(f"{multiple * base.optim.lr:.3g}") for multiple in MULTIPLES):
        optim = replace(base.optim, kind="adamw", lr=rate)
        run = replace(base, name=f"{base.name}_adamw_lr{rate:g}", optim=optim, train=train)
        arms.append(Setting(run, label=f"rate {rate:g}", values=(f"{rate:g}",), x=rate))
    return arms


def columns(evidence: Evidence) -> list[Column]:
    """Validation loss, probe errors and rollout errors."""
    rate, log, last = "learning rate", True, evidence.results.horizons
    loss = Panel("learning_rate_loss", "What training minimises", "best validation loss", rate, log)
    probes = Panel("learning_rate_probes", "What can be read from the latents", "probe NMSE on validation frames", rate, log)
    errors = Panel("learning_rate_errors", "What rollouts come to", "position error (m)", rate, log)
    return [
        Column("best validation loss", sweep.validation_loss, panel=loss, judged=True),
        Column("linear probe NMSE", sweep.linear_nmse, 4, probes, "linear probe", judged=True),
        Column("probe NMSE", sweep.probe_nmse, 4, probes, "the rollouts' probe"),
        Column("position error at h = 5 (m)", sweep.error(MAIN, min(5, last)), panel=errors, line="h = 5"),
        Column(f"position error at h = {last} (m)", sweep.error(MAIN, last), 3, errors, f"h = {last}", judged=True),
    ]


EXPERIMENT = sweep.sweep(
    name="learning_rate",
    question="Which learning rate, and does the validation loss tell?",
    claim="The lowest validation loss is not at the rate with the best probes; a moderate rate reads best.",
    settings=settings,
    heads=("rate",),
    columns=columns,
    caption="AdamW for all tensors, Transformer predictor.",
)
