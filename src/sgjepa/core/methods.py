"""Names, colours and markers of methods: the same in every table, every figure and in the viewer."""

from __future__ import annotations

from collections.abc import Sequence

LABELS = {
    "gru": "SG-JEPA (GRU)",
    "ssm": "SG-JEPA (SSM)",
    "transformer": "SG-JEPA (Transformer)",
    "lewm": "LeWM",
    "dino": "DINO-WM",
    "dino_gru": "GRU on the mean patch",
}


def label_of(name: str, world: str, encoder: str | None) -> str:
    """The paper's name for the method of a run."""
    method = LABELS.get(name.removeprefix(f"{world}_"), name)
    return f"{method}, {encoder}" if encoder else method


GREY = "#6b6f76"  # of what learns nothing
# Okabe and Ito's colours, which people with any common colour vision can tell apart; a marker says the same without colour
_STYLES = {
    "SG-JEPA (GRU)": ("#0072B2", "o"),
    "SG-JEPA (SSM)": ("#009E73", "s"),
    "SG-JEPA (Transformer)": ("#56B4E9", "^"),
    "LeWM": ("#D55E00", "D"),
    "DINO-WM": ("#CC79A7", "v"),
    "true state": ("#000000", "X"),  # of policies, as is the next
    "arm's pose only": ("#8C6D31", "<"),
}
_MORE = [("#E69F00", "P"), ("#5E4FA2", ">"), ("#7F7F7F", "*"), ("#66A61E", "p"), ("#A6761D", "h"), ("#1B9E77", "d")]


def styles(labels: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each method; those of the paper's methods are fixed."""
    looks: dict[str, tuple[str, str]] = {}
    spare = iter(_MORE * len(labels))
    for label in labels:
        style = _STYLES.get(label) or next((s for name, s in _STYLES.items() if label.startswith(f"{name},")), None)
        looks[label] = style if style and style not in looks.values() else next(spare)
    return looks
