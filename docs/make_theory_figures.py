"""The figures of docs/theory.md, made by `sgjepa.theory`: `python docs/make_theory_figures.py` (extra `report`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from sgjepa.theory import coverage, events, horizon, recursion
from sgjepa.theory.coverage import T_ballistic_power
from sgjepa.theory.linear import delta, norm

OUT = Path(__file__).parent / "images"
BLUE, ORANGE, GREEN, GREY, PALE = "#1f5fa8", "#d9691a", "#2a8a57", "#6b7280", "#e8edf4"
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "lines.linewidth": 2.2,
    "savefig.dpi": 130,
}


def law_coverage() -> Figure:
    """√L_law against gravity, for the paper's training laws."""
    mean, std, floor = 4.0, 0.5, 0.1
    g = np.linspace(-2.5, 12.5, 601)
    M = coverage.M_psi_of_moments(coverage.clipped_normal(mean, std, floor).raw)
    figure = Figure(figsize=(8.2, 3.9), layout="constrained")
    axes = figure.subplots()
    axes.set_yscale("log")
    axes.set_ylim(0.8, 400)
    axes.axvspan(-2, 10, color=PALE, lw=0, zorder=0)
    axes.text(-1.8, 280, "test gravities of the datasets, −2 to 10", color=GREY, va="center")
    density = np.exp(-(((g - mean) / std) ** 2) / 2)
    axes.fill_between(g, 0.8, 0.8 * (1 + 1.2 * density), color=GREY, alpha=0.45, lw=0)
    axes.annotate("training gravities", (4.6, 1.0), (5.5, 1.05), color=GREY, va="center")
    axes.plot(g, np.sqrt(coverage.L_law(coverage.quadratic(g), M)), color=ORANGE)
    axes.plot(g, np.sqrt(coverage.L_law(coverage.affine(g), M[:2, :2])), color=BLUE)
    axes.text(6.15, 70, "if gravity enters as 1, g, g²", color=ORANGE, ha="center")
    axes.text(6.3, 3.1, "if gravity enters as 1, g: free flight", color=BLUE)
    for gravity in (10.0, 12.0):
        factor = float(np.sqrt(coverage.affine_L_law(gravity, mean, std)))
        axes.plot(gravity, factor, "o", color=BLUE, ms=6)
        axes.annotate(f"{factor:.0f} times", (gravity, factor), (0, 8), textcoords="offset points", color=BLUE, ha="right")
    axes.set_xlim(-2.5, 12.5)
    axes.set_xlabel("gravity of the test, m/s²")
    axes.set_ylabel(r"$\sqrt{L_\mathrm{law}}$")
    axes.set_yticks([1, 10, 100], ["1", "10", "100"])
    axes.set_title("How many times its training average the one-step error may be, at most")
    return figure


def amplification() -> Figure:
    """Three predictors of one rotation with the same one-step error at every step, fed back."""
    eps, h = 0.05, 130
    turn = _rotation(0.3)
    fates = [
        ("a little too long", turn @ (np.eye(2) * (1 + eps)), ORANGE),
        ("a little turned", turn @ (np.eye(2) + eps * _rotation(np.pi / 2)), GREEN),
        ("a little too short", turn @ (np.eye(2) * (1 - eps)), BLUE),
    ]
    figure = Figure(figsize=(8.2, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.9])
    for name, A_hat, colour in fates:
        path = recursion.roll(np.eye(2), turn, A_hat, np.array([1.0, 0.0]), np.zeros((h, 2)))
        local = norm(delta(np.eye(2), turn, A_hat, path.phi[:-1]))
        turn_of = [ORANGE, GREEN, BLUE].index(colour)  # the three lie on top of each other: one dash each
        left.plot(np.arange(1, h + 1), local, color=colour, lw=3, ls=(3 * turn_of, (3, 6)))
        right.plot(np.arange(h + 1), norm(path.e), color=colour)
        place = {ORANGE: (26, 2.3), GREEN: (84, 2.0), BLUE: (62, 0.83)}[colour]
        right.text(*place, name, color=colour)
    left.set_ylim(0, 0.1)
    left.set_yticks([0, eps, 0.1])
    left.set_title("Teacher forcing: the same error")
    left.set_xlabel("step")
    left.set_ylabel("distance from the true latent")
    right.set_ylim(0, 2.45)
    right.set_xlim(0, h)
    right.axhline(eps, color=GREY, lw=1, ls=":")
    right.text(40, eps + 0.05, "one-step error", color=GREY)
    right.set_title("Free rollout: three fates")
    right.set_xlabel("horizon, steps")
    return figure


def _rotation(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def ranking_reversal() -> Figure:
    """The profiled two-step objective of the two representations against the discount."""
    gamma = np.linspace(0, 1, 201)
    P, F = ([horizon.profiled(modes, x)[0] for x in gamma] for modes in (horizon.P, horizon.F))
    one, two = (float(cost) for cost in horizon.relaxed_costs(horizon.P))
    upper = [float(horizon.cost(horizon.F, horizon.Fraction(2, 5), h)) for h in (1, 2)]
    change, promise = horizon.crossing(), float(horizon.sufficient_gamma())
    figure = Figure(figsize=(8.2, 3.9), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(0, change, color=BLUE, alpha=0.07, lw=0)
    axes.axvspan(change, 1, color=ORANGE, alpha=0.07, lw=0)
    axes.plot(gamma, P, color=BLUE)
    axes.plot(gamma, F, color=ORANGE)
    axes.plot(gamma, (one + gamma * two) / (1 + gamma), color=BLUE, lw=1.2, ls="--")
    axes.plot(gamma, (upper[0] + gamma * upper[1]) / (1 + gamma), color=ORANGE, lw=1.2, ls="--")
    axes.plot([change], [horizon.profiled(horizon.P, change)[0]], "o", color="black", ms=6, zorder=5)
    axes.axvline(promise, color=GREY, lw=1, ls=":")
    axes.axvline(0.95, color=GREY, lw=1, ls=":")
    axes.set_ylim(0.0385, 0.0525)
    axes.set_xlim(0, 1)
    axes.text(0.19, 0.0398, "prefers P", color=BLUE, ha="center", fontsize=12)
    axes.text(0.69, 0.0398, "prefers F", color=ORANGE, ha="center", fontsize=12)
    axes.text(0.8, 0.0491, "P: modes 0.4 and 0.8", color=BLUE, ha="right")
    axes.text(0.1, 0.0502, "F: modes 0.15 and 0.6", color=ORANGE, ha="left")
    axes.text(change - 0.01, 0.0519, f"change of mind, γ = {change:.3f}", ha="right", va="center")
    axes.annotate(
        "", (change, horizon.profiled(horizon.P, change)[0] + 2e-4), (change, 0.0516), arrowprops={"arrowstyle": "-"}
    )
    axes.text(promise + 0.01, 0.0519, f"proved from γ = 3600/9007 = {promise:.3f}", color=GREY, va="center")
    axes.text(0.945, 0.0430, "the paper trains\nwith γ = 0.95", color=GREY, ha="right", va="center")
    axes.set_xlabel("γ, the weight of the second step")
    axes.set_ylabel("loss with the best predictor")
    axes.set_title("One step prefers P, two steps prefer F; dashed: the bounds of the proof", pad=12)
    return figure


def hinge() -> Figure:
    """A body dropped from 1 m: flights by gravity, and the height at 0.5 s against gravity."""
    figure = Figure(figsize=(8.2, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.35], sharey=True)
    start, t = np.array([1.0, 0.0, 1.0]), np.linspace(0, 0.75, 151)
    for gravity, colour in [(2.0, "#9dbfe3"), (4.0, BLUE), (8.0, "black"), (12.0, ORANGE)]:
        heights = np.array([(T_ballistic_power(np.array(gravity), x, 1) @ start)[0] for x in t])
        left.plot(t, np.maximum(heights, 0), color=colour, zorder=4 if gravity == 8 else 3)
        left.plot(0.5, max(float((T_ballistic_power(np.array(gravity), 0.5, 1) @ start)[0]), 0), "o", color=colour, zorder=5)
        place = {2.0: (0.62, 0.7), 4.0: (0.62, 0.33), 8.0: (0.375, 0.49), 12.0: (0.11, 0.5)}[gravity]
        left.text(*place, f"g = {gravity:g}", color=colour)
    left.axvline(0.5, color=GREY, lw=1, ls=":")
    left.axhline(0, color=GREY, lw=1)
    left.set_ylim(-0.62, 1.08)
    left.set_xlabel("time, s")
    left.set_ylabel("height, m")
    left.set_title("Dropped from 1 m")

    g = np.linspace(-1, 13, 281)
    home = np.linspace(3, 5, 41)
    fit = np.linalg.lstsq(coverage.affine(home), events.clipped_height(home, 1.0, 1 / 8), rcond=None)[0]
    right.axvspan(3, 5, color=GREY, alpha=0.3, lw=0)
    right.text(4, -0.5, "training", color=GREY, ha="center")
    right.plot(g, coverage.affine(g) @ fit, color=ORANGE, ls="--", lw=1.8)
    right.plot(g, events.gravity_hinge(g, 1.0, 1 / 8), color=BLUE)
    right.plot(8, 0, "o", color="black", zorder=5)
    right.text(8.1, 0.22, "on the floor\nfrom $g_c = 8$ on")
    right.text(5.2, 0.62, r"truth: $b\,\max(g_c - g,\ 0)$", color=BLUE)
    right.text(9.2, -0.42, "affine fit", color=ORANGE, ha="center")
    right.axhline(0, color=GREY, lw=1, zorder=0)
    right.set_ylim(-0.62, 1.08)
    right.set_xlabel("gravity, m/s²")
    right.set_title("Height at 0.5 s: a hinge")
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "theory_coverage": law_coverage,
    "theory_amplification": amplification,
    "theory_reversal": ranking_reversal,
    "theory_hinge": hinge,
}


def main(out: Path = OUT) -> list[Path]:
    """Write every figure."""
    out.mkdir(exist_ok=True)
    paths = []
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "backend": "agg"}):
        for name, draw in FIGURES.items():
            paths.append(out / f"{name}.png")
            draw().savefig(paths[-1], metadata={"Software": None})
    return paths


if __name__ == "__main__":
    for path in main(*(Path(place) for place in sys.argv[1:])):
        print(path)
