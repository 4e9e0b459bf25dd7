"""Policies, and the closed loop in which they drive a world."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """`as_cost` when it is asked for: most of what is here needs no torch."""
    if name == "as_cost":
        from sgjepa.control.cost import as_cost

        return as_cost
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
