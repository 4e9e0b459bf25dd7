"""The figures about policies: success against a law, and films of episodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.patches import Patch

from sgjepa.core.methods import GREY, styles
from sgjepa.core.plotting import TRAINING, line
from sgjepa.data.preview import film_of, law_text, webp_of
from sgjepa.envs import find
from sgjepa.policies.evaluate import replay
from sgjepa.policies.files import read_controls
from sgjepa.policies.goal_tasks import from_columns, goal_pictures
from sgjepa.report.law_figures import name_of, shade
from sgjepa.report.panels import Picture, legend, panel
from sgjepa.results.control import SUCCESS, Played, Player
from sgjepa.results.gather import Axis

_DASHES = {"expert": "--", "simulator": "--", "random": "-.", "still": ":"}  # of the policies that learn nothing
_SIDE = 128  # pixels of a film's tile
_EACH = 2  # episodes of a kind in a film


@dataclass(frozen=True)
class Film:
    """Episodes side by side, an animated WebP. alt: what it shows, in words."""

    label: str
    alt: str
    webp: bytes


def colours(played: Played) -> dict[str, str]:
    """Of each policy; grey for those that learn nothing."""
    look = styles([player.label for player in played.players if not player.reference])
    return {player.label: GREY if player.reference else look[player.label][0] for player in played.players}


def success_by_law(played: Played, law: Axis) -> list[Picture]:
    """With the density of the training laws behind it; over whatever the other laws are."""
    found: list[Picture] = []
    success = played.about.measures[0]
    learned = [player for player in played.players if not player.reference]
    look = styles([player.label for player in learned])
    alt = f"Success in per cent by {law.name}; the training {law.several} are shaded"
    with panel(found, f"success_by_{law.name}", alt, size=(6.4, 4.2)) as axis:
        values = np.array(law.values)
        pad = 0.03 * (values[-1] - values[0])
        low, high = values[0] - pad, values[-1] + pad
        shade(axis, law, low, high, 104)
        for player in played.players:
            found_ = [player.estimate(success, played.at(law.name, value)).interval for value in law.values]
            shown = [one.percent() for one in found_]
            if player.reference:
                means = [one.mean for one in shown]
                dash = _DASHES.get(player.reference, "--")
                axis.plot(values, means, color=GREY, linewidth=1.4, linestyle=dash, label=player.label)
            else:
                colour, marker = look[player.label]
                line(axis, values, shown, colour, player.label, marker, 1)
        axis.set(title="Success", xlabel=name_of(law), ylabel="episodes (%)", ylim=(-2, 104), xlim=(low, high))
        patch = Patch(color=TRAINING, alpha=0.55, label=f"training {law.several}")
        legend(axis, [*axis.get_legend_handles_labels()[0], patch])
    return found


def film(played: Played, player: Player) -> Film:
    """Some episodes by chance, the same for all policies, then its best and its worst, from its first training."""
    trial = player.first
    about, fps = trial.about, find(played.world).env_spec.fps
    order = _worst_first(player)
    kinds = {
        "drawn": _drawn(len(order)),
        "best": order[::-1][:_EACH].tolist(),
        "worst": order[:_EACH].tolist(),
    }
    shown = [(kind, row) for kind, rows in kinds.items() for row in rows]
    numbers = [int(trial.episodes[row]) for _, row in shown]
    once = sorted(set(numbers))  # one that was drawn may be the best, too
    frames = replay(about, trial.table, read_controls(trial.folder), once, _SIDE)
    frames = frames[[once.index(number) for number in numbers]]
    units = {name: law.unit for name, law in about.laws.items()}
    labels = []
    for kind, row in shown:
        law = law_text(list(about.laws), trial.law[row].tolist(), units)
        labels.append("\n".join([f"{kind}: episode {trial.episodes[row]}", *([law] if law else []), _outcome(player, row)]))
    if about.settings.cases:
        begun = from_columns(trial.table, about.played, about.settings.split, numbers)
        goals = goal_pictures(about.played, begun, _SIDE)[:, None].repeat(frames.shape[1], axis=1)
        frames = np.stack([frames, goals], axis=1).reshape(-1, *frames.shape[1:])
        labels = [words for label in labels for words in (label, "its goal")]
    webp = webp_of(film_of(frames, labels, fps), fps)
    alt = f"Episodes driven by {player.label}: {'; '.join(label.replace(chr(10), ', ') for label in labels)}"
    return Film(player.label, alt, webp)


def _drawn(count: int) -> list[int]:
    return sorted(np.random.default_rng(0).permutation(count)[:_EACH].tolist())


def _worst_first(player: Player) -> np.ndarray:
    """Rows of the first trial by its measures in the order of their weight; episodes that come to the same by number."""
    trial = player.first
    keys = [one.better * np.nan_to_num(trial.table[one.name], nan=-one.better * 1e9) for one in trial.about.measures]
    return np.lexsort([trial.episodes, *reversed(keys)])


def _outcome(player: Player, row: int) -> str:
    """In a word or two."""
    trial = player.first
    if trial.table[SUCCESS][row] > 0:
        return "success"
    return str(trial.table[find(trial.about.played.world).env_spec.outcome_label][row]).replace("_", " ")
