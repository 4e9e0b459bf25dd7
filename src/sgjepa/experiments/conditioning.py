"""Is the Transformer only told the law badly? Five ways to condition it, and the GRU, all of one size.

AdaLN in every block with a gate of 0, 0.1 or 1 at first, the condition joined to the latent once before the first block, or
in both halves of every block; the MLPs' widths keep the number of parameters (recipes `transformer_*`). Everything else is
SG-JEPA's recipe; the square at paper size, Approach Ball at mini size.

Judged by the excess NMSE, averaged over all horizons: what the rollout adds to the error of the probe on true latents. The
share of the gap is how much of the distance from the usual Transformer (gate 0) to the GRU another way does away with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sgjepa.core.stats import bootstrap, bootstrap_ratio
from sgjepa.evaluation.metrics import MAIN
from sgjepa.experiments import sweep
from sgjepa.experiments.answer import Evidence
from sgjepa.experiments.engine import WORLDS
from sgjepa.experiments.sweep import Column, Measured, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Block, Data
from sgjepa.report.figures import by_horizon
from sgjepa.report.words import compare, fixed
from sgjepa.report.words import measured as named
from sgjepa.results.claims import WORSE, Claims, verdict
from sgjepa.training.profile import outline, parameters

WAYS = {
    "gru": "GRU",
    "transformer": "AdaLN, gate 0",
    "transformer_adaln_0.1": "AdaLN, gate 0.1",
    "transformer_adaln_1": "AdaLN, gate 1",
    "transformer_input_concat": "joined once",
    "transformer_block_concat": "joined in every block",
}
EXCESS = "excess_nmse"  # at the last horizon: the mean over all of them


def settings(size: str) -> list[Setting]:
    """The recipes themselves."""
    runs = {label: recipe(f"{WORLDS[size]}_{way}", size) for way, label in WAYS.items()}
    return [
        Setting(run, label=way if way == "GRU" else f"Transformer, {way}", values=(way,), x=float(x))
        for x, (way, run) in enumerate(runs.items())
    ]


def millions(evidence: Evidence, arm: str) -> np.ndarray:
    """Parameters of the predictor."""
    (run,) = (one.run for one in evidence.arms if isinstance(one, Setting) and one.name == evidence.results.name(arm))
    return np.array([parameters(outline(run))["predictor"] / 1e6])


def columns(evidence: Evidence) -> list[Column]:
    """Size, excess, and what rollouts come to."""
    last = evidence.results.horizons
    return [
        Column("parameters (M)", millions, 2),
        Column("excess NMSE over all horizons", sweep.error(EXCESS, last), judged=True),
        Column(f"position error at h = {last} (m)", sweep.error(MAIN, last)),
    ]


def closed(evidence: Evidence, measured: Measured) -> tuple[Sequence[str], Sequence[Block | None], Claims]:
    """The share of the gap to the GRU that the best way closes, and every Transformer against the GRU law by law."""
    results, last = evidence.results, evidence.results.horizons
    arms = {setting.values[0]: arm for arm, (setting, _) in measured.items()}
    curves = {arm: results.curve(arm, EXCESS) for arm in results.arms}
    blocks: list[Block | None] = [by_horizon("conditioning_excess", "Excess", named(EXCESS), curves, results.steps)]
    gru, usual = arms.get("GRU"), arms.get("AdaLN, gate 0")
    if gru is None or usual is None:
        return ("GRU and the usual Transformer are both needed to tell.",), blocks, ()
    others = [arm for arm in arms.values() if arm != gru]
    best = min(others, key=lambda arm: results.mean(arm, EXCESS, [last])[last].mean)
    gap = results.gap(usual, gru, EXCESS)
    decides = results.decides(usual, gru)
    words = [f"{compare(usual, gru, gap, EXCESS, decides)}."]
    if verdict(gap) != WORSE:
        words += ["There is no significant gap between the usual Transformer and the GRU to close."] if decides else []
    elif best != usual and len({len(results.seeds(arm)) for arm in (best, usual, gru)}) == 1:
        mine, theirs, ours = (results.values(arm, EXCESS)[:, :, [last - 1]] for arm in (best, usual, gru))
        share = bootstrap_ratio(theirs - mine, theirs - ours)[0].percent()
        ends = f"{fixed(share.low, 0)} to {fixed(share.high, 0)}"
        words.append(f"{best}, the best on these very episodes, closes {fixed(share.mean, 0)} % of the gap ({ends}).")
    return words, [*blocks, Data("conditioning_by_law", by_law(evidence, gru, others))], ()


def by_law(evidence: Evidence, gru: str, others: Sequence[str]) -> list[dict[str, str | float]]:
    """Every Transformer minus the GRU at each value of the first law."""
    results = evidence.results
    records: list[dict[str, str | float]] = []
    for law in results.axes[:1]:
        for arm in (arm for arm in others if len(results.seeds(arm)) == len(results.seeds(gru))):
            decides = results.decides(arm, gru)
            gaps = (results.values(arm, EXCESS) - results.values(gru, EXCESS))[:, :, -1:]
            for value in law.values:
                one = bootstrap(gaps[:, results.where(**{law.name: value})])[0]
                numbers = {"difference": one.mean, "low": one.low, "high": one.high, "episodes": one.count}
                records.append({"predictor": arm, law.name: value, **numbers, "verdict": verdict(one) if decides else ""})
    return records


EXPERIMENT = sweep.sweep(
    name="conditioning",
    question="Is the Transformer only told the law badly?",
    claim="No way of conditioning the Transformer closes the gap to the GRU.",
    settings=settings,
    heads=("predictor",),
    columns=columns,
    caption="Predictors of one size with SG-JEPA's loss.",
    more=closed,
    seeds=sweep.THRICE,
)
