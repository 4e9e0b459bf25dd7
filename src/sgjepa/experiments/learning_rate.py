"""Which learning rate? Six rates with AdamW alone, the Transformer predictor and SG-JEPA's loss.

The paper sweeps 1e-5 to 5e-4 on the square and takes 5e-5. Other sizes take the same multiples of their recipe's own rate:
2e-4 to 1e-2 at mini size, around 1e-3, on Approach Ball. At paper size training stops after three epochs without a better
validation loss; at the others all rates have the same updates. The last weights are evaluated, where the paper takes those
of the best epoch.

The validation loss is no judge of a representation: a rate may lower it while probes read less. So both stand here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sgjepa.core.stats import Interval
from sgjepa.experiments import sweep
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.experiments.sweep import Column, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.sweep_figures import against_setting
from sgjepa.results.compare import Method
from sgjepa.results.gather import MAIN

MULTIPLES = (0.2, 0.6, 1.0, 2.0, 4.0, 10.0)  # of the recipe's own rate: the paper's grid around 5e-5
PATIENCE = 3  # epochs, at paper size
TABLE = "tables/learning_rate.csv"


def points(size: str) -> list[Setting]:
    """The Transformer's recipe at each rate, all tensors with AdamW."""
    base = recipe(f"{WORLDS[size]}_transformer", size)
    train = replace(base.train, patience=PATIENCE) if size == "paper" else base.train
    found = []
    for multiple in MULTIPLES:
        rate = float(f"{multiple * base.optim.lr:.3g}")
        optim = replace(base.optim, kind="adamw", lr=rate)
        run = replace(base, name=f"{base.name}_adamw_lr{rate:g}", optim=optim, train=train)
        found.append(Setting(run, label=f"rate {rate:g}", values=(f"{rate:g}",), x=rate))
    return found


def analyse(done: Done) -> Finding:
    """The report's section."""
    return finding(done, sweep.linear_probes(done))


def finding(done: Done, linear: Mapping[str, Sequence[float]]) -> Finding:
    """What objective, probes and rollouts say about each rate. linear: the linear probes' errors, by cell."""
    found = list(sweep.there(done, points, list(WORLDS)).values())
    last = done.results.last

    def of_linear(method: Method) -> Interval:
        return sweep.over_trainings(linear[method.name])

    columns = [
        Column("best validation loss", sweep.validation_loss),
        Column("linear probe NMSE", of_linear, 4),
        Column("probe NMSE", sweep.probe_nmse, 4),
        Column("position error at h = 5 (m)", sweep.error(MAIN, min(5, last))),
        Column(f"position error at h = {last} (m)", sweep.error(MAIN, last)),
    ]
    by_loss = {method.label: sweep.validation_losses(method) for _, method in found}
    by_probe = {method.label: linear[method.name] for _, method in found}
    agree = len({min(by, key=lambda name: np.mean(by[name])) for by in (by_loss, by_probe)}) == 1
    words = (
        sweep.lowest(by_loss, "validation loss"),
        sweep.lowest(by_probe, "linear-probe NMSE", 4),
        "Loss and probe choose the same rate." if agree else "Loss and probe choose different rates.",
        sweep.least([method for _, method in found], MAIN, last),
        *sweep.once(done),
    )
    head, rows, text = sweep.table("learning_rate", ("rate",), columns, found)
    pictures = [
        *against_setting(
            "learning_rate_loss",
            "What training minimises",
            "learning rate",
            "best validation loss",
            {"validation loss": [(point.x, sweep.validation_loss(method)) for point, method in found]},
            log=True,
        ),
        *against_setting(
            "learning_rate_probes",
            "What can be read from the latents",
            "learning rate",
            "probe NMSE on validation frames",
            {
                "linear probe": [(point.x, of_linear(method)) for point, method in found],
                "the rollouts' probe": [(point.x, sweep.probe_nmse(method)) for point, method in found],
            },
            log=True,
        ),
        *against_setting(
            "learning_rate_errors",
            "What rollouts come to",
            "learning rate",
            "position error (m)",
            {
                f"h = {h}": [(point.x, method.at(MAIN, [h])[h]) for point, method in found]
                for h in dict.fromkeys((min(5, last), last))
            },
            log=True,
        ),
    ]
    title, about = "Which learning rate?", sweep.caption("learning_rate", "AdamW for all tensors, Transformer predictor.")
    shown = "Each rate's training, the probes on its latents, and its rollouts on the test episodes."
    return Finding(title, words, about, head, rows, {TABLE: text}, tuple(pictures), shown)


EXPERIMENT = Experiment(
    name="learning_rate",
    question="Which learning rate, and does the validation loss tell?",
    claim="The lowest validation loss is not at the rate with the best probes; a moderate rate reads best.",
    arms=points,
    analyse=analyse,
    seeds=dict.fromkeys(WORLDS, 1),
)
