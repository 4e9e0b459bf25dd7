"""What only some installations have: one line that names the extra, before the work and not after it."""

from __future__ import annotations

import importlib.util

from sgjepa.core.errors import MachineError


def need_torch() -> None:
    """World models are trained and run with torch."""
    if importlib.util.find_spec("torch") is None:
        raise MachineError("world models need torch: pip install 'sgjepa[train]'")


def need_matplotlib() -> None:
    """Figures are drawn with matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MachineError("figures are drawn with matplotlib: pip install 'sgjepa[report]'")
