"""How many frames, how deep a predictor? H x depth with the GRU, at a common horizon.

The paper crosses H = 5, 10, 20, 30 with depth 2, 3, 4 on the square, for 10 epochs, and takes 20 and 3. Mini and small
recipes have H = 10 and depth 2 and stretches of 24 frames, 5 of them predicted: there H = 3, 5, 10, 15 meets depth 1, 2, 3,
on Approach Ball at mini size, with the recipe's own updates. All are judged at the same frames: every evaluation is given
20 true frames (30 at paper size, so that H = 30 fits) of which each model sees its last H.

The probe on true latents is the control: an error that is there already was not made by the rollout.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from sgjepa.evaluation.metrics import MAIN
from sgjepa.experiments.answer import Evidence
from sgjepa.experiments.engine import WORLDS
from sgjepa.experiments.sweep import Column, Panel, Setting, error, sweep
from sgjepa.recipes.training import recipe

HISTORIES = {"paper": (5, 10, 20, 30), "mini": (3, 5, 10, 15), "small": (3, 5, 10, 15)}
DEPTHS = {"paper": (2, 3, 4), "mini": (1, 2, 3), "small": (1, 2, 3)}
EPOCHS = 10  # at paper size
HORIZON = 32
METRICS = {MAIN: "position error (m)", "angle_deg": "orientation error (°)", "rotation_turns": "rotation error (turns)"}


def settings(size: str) -> list[Setting]:
    """The GRU's recipe with each history and depth."""
    base = recipe(f"{WORLDS[size]}_gru", size)
    arms = []
    for history, depth in product(HISTORIES[size], DEPTHS[size]):
        model: Any = base.model
        model = replace(model, history=history, predictor=replace(model.predictor, depth=depth))
        frames = base.train.frames if base.loss.windows == "dense" else history + base.loss.steps
        train = replace(base.train, frames=frames, epochs=EPOCHS if size == "paper" else base.train.epochs)
        run = replace(base, name=f"{base.name}_h{history}_depth{depth}", model=model, train=train)
        label, values = f"H = {history}, depth {depth}", (str(history), str(depth))
        arms.append(Setting(run, label=label, values=values, x=history, line=f"depth {depth}"))
    return arms


def columns(evidence: Evidence) -> list[Column]:
    """Each error of the rollout, and of the probe on true latents."""
    h, measured = min(HORIZON, evidence.results.horizons), []
    for source, suffix in ((None, ""), ("true", "true latents")):
        for metric, name in METRICS.items():
            if metric in evidence.results.metrics:
                panel = Panel(f"history_depth_{metric}", f"At h = {h}", name, "history H (frames)")
                head, judged = ", ".join(part for part in (name, suffix) if part), (metric, source) == (MAIN, None)
                measured.append(Column(head, error(metric, h, source), panel=panel, line=suffix, judged=judged))
    return measured


EXPERIMENT = sweep(
    name="history_depth",
    question="How many frames should a prediction see, and how deep a predictor?",
    claim="Twenty frames are best at every depth, and a deeper predictor than three gains little.",
    settings=settings,
    heads=("H", "depth"),
    columns=columns,
    caption=f"Every history and depth at h = {HORIZON}, rollouts and the probe on true latents.",
    context={"paper": 30},
)
