"""Where the benchmarks' own model files lie. Only the files are used: nothing of those packages is imported."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from sgjepa.core.errors import MachineError

PACKAGES = {"reacher": "dm_control", "cube": "ogbench"}  # by world


def installed(world: str) -> bool:
    """Whether what a world is made from is there; worlds that need nothing more say yes."""
    return world not in PACKAGES or find_spec(PACKAGES[world]) is not None


def folder(world: str) -> Path:
    """The folder of the package that a world's model comes from."""
    found = find_spec(PACKAGES[world])
    if found is None or found.origin is None:
        raise MachineError(f"{world} needs the model files of {PACKAGES[world]}: sgjepa doctor --fix conventional")
    return Path(found.origin).parent
