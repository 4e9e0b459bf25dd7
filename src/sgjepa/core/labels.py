"""What methods are called in tables and figures."""

from __future__ import annotations

LABELS = {
    "gru": "SG-JEPA (GRU)",
    "ssm": "SG-JEPA (SSM)",
    "transformer": "SG-JEPA (Transformer)",
    "lewm": "LeWM",
    "dino": "DINO-WM",
    "dino_gru": "GRU on the mean patch",
}


def label_of(name: str, world: str, encoder: str | None) -> str:
    """How the paper calls the method of a run of that name."""
    method = LABELS.get(name.removeprefix(f"{world}_"), name)
    return f"{method}, {encoder}" if encoder else method
