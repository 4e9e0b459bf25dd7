"""The claims of the paper that studies measure, one by one, with its numbers. What our results say: results/verdicts.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """paper: its numbers, as it gives them. study: the one that measures it.

    asks: what the paper has it of, as our results name it; what none of them names was not run. Empty: of one thing.
    """

    id: str
    statement: str
    paper: str
    study: str
    asks: tuple[str, ...] = ()

    def missing(self, found: Iterable[str]) -> list[str]:
        """What the paper has it of and none of our results, as they are named, is about."""
        there = list(found)
        return [one for one in self.asks if not any(one in name for name in there)]


_ALL = (
    Claim(
        "below_lewm",
        "SG-JEPA (GRU) is closer to the truth than LeWM over a long rollout.",
        "position at h = 44: 1.034 against 2.074 m (square), 2.529 against 2.625 m (right triangle), "
        "0.076 against 0.123 m (Approach Ball)",
        "predictors",
        ("approach ball", "square", "right triangle"),
    ),
    Claim(
        "below_dino",
        "SG-JEPA (GRU) is closer to the truth than DINO-WM over a long rollout.",
        "position at h = 44: 1.034 against 2.006 m (square), 2.529 against 2.764 m (right triangle), "
        "0.076 against 0.115 m (Approach Ball), 0.114 against 0.119 m (Arm Paddle)",
        "predictors",
        ("approach ball", "square", "right triangle", "arm paddle ball"),
    ),
    Claim(
        "control",
        "On SG-JEPA's features a policy succeeds more often than on DINO-WM's and LeWM's.",
        "success on DINO-WM's and on SG-JEPA's: 9.5 and 23.3 % (catcher), 27.4 and 30.5 % (basket; in one of its five "
        "rollouts 27.6 and 30.4, on LeWM's 28.8), 17.7 and 23.8 % (paddle)",
        "control",
        ("arm catcher ball", "arm paddle ball", "franka basket"),
    ),
    Claim(
        "planning",
        "Planned with a GRU or an SSM, conventional tasks succeed as often as with the Transformer.",
        "success with GRU, SSM and Transformer: 98, 98 and 100 % (Reacher), 70, 68 and 68 % (Cube)",
        "planning",
        ("reacher", "cube"),
    ),
    Claim(
        "law_and_rollout",
        "Giving the law and training through a rollout help more together than each by itself.",
        "not in the paper; an independent replication, one training: interaction −1.355 m at h = 44 (square)",
        "factorial",
    ),
    Claim(
        "true_law",
        "The error is least when the model is told the true law.",
        "the minimum lies at the true law for g = 2, 4 and 6, with GRU and Transformer (square)",
        "counterfactual",
        ("SG-JEPA (GRU)", "SG-JEPA (Transformer)"),
    ),
    Claim(
        "encoder",
        "The gain follows the encoder that was trained with the GRU, whichever predictor is fitted to it.",
        "excess NMSE 1.376 against 1.555 with a fresh GRU, 1.269 against 1.453 with a fresh Transformer: 12 % less (square)",
        "crossover",
        ("fresh GRU", "fresh Transformer"),
    ),
    Claim(
        "local_gap",
        "Before anything is fed back, a fresh predictor errs less on SG-JEPA's features than on DINO's.",
        "about 32 % less at g ≤ 2 or g ≥ 6 (square, transitions without a collision)",
        "local_gap",
    ),
    Claim(
        "rollout_gap",
        "Feeding predictions back makes a small local gap a large one.",
        "gap to DINO in the squared error: below 0.06 one step at a time, near 0.38 around h = 20 when fed back (square)",
        "local_gap",
    ),
    Claim(
        "short_history",
        "A short history costs the encoder that was trained with the Transformer more.",
        "penalty of 4 instead of 20 latents, Transformer's encoder minus GRU's: 0.089 over h = 1..44, and only 0.015 over "
        "h = 1..5 (square)",
        "history",
    ),
    Claim(
        "mixed",
        "Post-training on a few new laws mixed with source episodes gains more than on the new laws alone.",
        "14.05 against 6.85 %, mean of four methods and two shapes; SG-JEPA (GRU): 13.60 against 5.39 % (square)",
        "post_training",
        ("SG-JEPA (GRU)", "SG-JEPA (SSM)", "LeWM", "DINO-WM"),
    ),
    Claim(
        "translation",
        "Translation transfers to a new shape better than rotation.",
        "error of triangle + square over that of the house itself, at h = 44, g from 2.5 to 5.5: position 1.56, velocity "
        "1.97, rotation 4.25 with the smaller encoder, 1.40, 1.70, 3.36 with the larger",
        "shapes",
        ("house, usual encoder,", "house, encoder twice as wide,"),
    ),
    Claim(
        "muon",
        "Muon with AdamW reaches a lower validation loss than AdamW alone.",
        "14.9 % lower with the GRU, 21.9 % with the SSM, 17.3 % with the Transformer (square)",
        "optimiser",
        (", GRU", ", SSM", ", Transformer"),
    ),
    Claim(
        "five_steps",
        "A rollout of K = 5 steps is enough to train on.",
        "NMSE at h = 32 with H = 20, K = 5 against K = 10: 0.185 against 0.182, in less memory (Approach Ball)",
        "history_rollout",
    ),
    Claim(
        "twenty_frames",
        "The recipe's history (H = 20 in the paper) is enough.",
        "NMSE at h = 32, H = 20 and K = 5 against the best of H = 30, K = 10: 0.185 against 0.236 (Approach Ball)",
        "history_rollout",
    ),
    Claim(
        "rank",
        "The effective rank of the latents grows with the weight of SIGReg, up to the chosen one.",
        "higher at 0.72, the chosen weight, than at smaller ones (a figure), and than at 1.44: 138.0 against 131.0 (square)",
        "sigreg",
    ),
)
CLAIMS = {claim.id: claim for claim in _ALL}
