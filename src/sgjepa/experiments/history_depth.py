"""How many frames, how deep a predictor? H x depth with the GRU, at a common horizon.

The paper crosses H = 5, 10, 20, 30 with depth 2, 3, 4 on the square, for 10 epochs, and takes 20 and 3. Mini and small
recipes have H = 10 and depth 2 and stretches of 24 frames, 5 of them predicted: there H = 3, 5, 10, 15 meets depth 1, 2, 3,
on Approach Ball at mini size, with the recipe's own updates. All are judged at the same frames: every evaluation is given
20 true frames (30 at paper size, so that H = 30 fits) of which each model sees its last H.

The probe on true latents is the control: an error that is there already was not made by the rollout.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sgjepa.experiments import sweep
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.experiments.sweep import Column, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.sweep_figures import against_setting
from sgjepa.report.words import compare
from sgjepa.results.compare import Method, paired
from sgjepa.results.gather import MAIN

HISTORIES = {"paper": (5, 10, 20, 30), "mini": (3, 5, 10, 15), "small": (3, 5, 10, 15)}
DEPTHS = {"paper": (2, 3, 4), "mini": (1, 2, 3), "small": (1, 2, 3)}
EPOCHS = 10  # at paper size
CONTEXT = {"paper": 30}  # true frames that an evaluation is given
HORIZON = 32
METRICS = {MAIN: "position error (m)", "angle_deg": "orientation error (°)", "rotation_turns": "rotation error (turns)"}
TABLE = "tables/history_depth.csv"


def points(size: str) -> list[Setting]:
    """The GRU's recipe with each history and depth."""
    base = recipe(f"{WORLDS[size]}_gru", size)
    found = []
    for history in HISTORIES[size]:
        for depth in DEPTHS[size]:
            model: Any = base.model
            model = replace(model, history=history, predictor=replace(model.predictor, depth=depth))
            frames = base.train.frames if base.loss.windows == "dense" else history + base.loss.steps
            train = replace(base.train, frames=frames, epochs=EPOCHS if size == "paper" else base.train.epochs)
            run = replace(base, name=f"{base.name}_h{history}_depth{depth}", model=model, train=train)
            found.append(Setting(run, label=f"H = {history}, depth {depth}", values=(str(history), str(depth)), x=history))
    return found


def analyse(done: Done) -> Finding:
    """The report's section: which history at each depth, and is its error in the rollout or in the latents already?"""
    found = list(sweep.there(done, points, list(WORLDS)).values())
    horizon = min(HORIZON, done.results.last)
    metrics = {metric: name for metric, name in METRICS.items() if metric in done.results.metrics}
    columns = [Column(name, sweep.error(metric, horizon)) for metric, name in metrics.items()]
    columns += [Column(f"{name}, true latents", sweep.error(metric, horizon, "true")) for metric, name in metrics.items()]
    head, rows, text = sweep.table("history_depth", ("H", "depth"), columns, found)
    depths = sorted({point.values[1] for point, _ in found}, key=int)
    words = [sweep.least([method for _, method in found], MAIN, horizon)]
    for depth in depths:
        some = [(point, method) for point, method in found if point.values[1] == depth]
        words += _longest(depth, some, horizon)
    pictures = [
        picture
        for metric, name in metrics.items()
        for picture in against_setting(
            f"history_depth_{metric}",
            f"At h = {horizon}",
            "history H (frames)",
            name,
            {
                f"depth {depth}{', true latents' if source == 'true' else ''}": [
                    (point.x, method.at(metric, [horizon], source)[horizon])
                    for point, method in found
                    if point.values[1] == depth
                ]
                for source in ("predicted", "true")
                for depth in depths
            },
        )
    ]
    title = "How many frames, how deep a predictor?"
    about = sweep.caption(
        "history_depth", f"Every history and depth at h = {horizon}, rollouts and the probe on true latents."
    )
    shown = f"Error at h = {horizon} against the history, for each depth; also the probe's own on true latents."
    return Finding(title, (*words, *sweep.once(done)), about, head, rows, {TABLE: text}, tuple(pictures), shown)


def _longest(depth: str, found: list[tuple[Setting, Method]], horizon: int) -> list[str]:
    """The longest history against the next shorter one."""
    if len(found) < 2:
        return []
    (_, shorter), (_, longest) = sorted(found, key=lambda pair: pair[0].x)[-2:]
    difference = paired(longest, shorter, MAIN, [horizon])[horizon]
    return [f"At depth {depth}, {compare(longest.label, shorter.label, difference)}."]


EXPERIMENT = Experiment(
    name="history_depth",
    question="How many frames should a prediction see, and how deep a predictor?",
    claim="Twenty frames are best at every depth, and a deeper predictor than three gains little.",
    arms=points,
    analyse=analyse,
    seeds=dict.fromkeys(WORLDS, 1),
    context=CONTEXT,
)
