"""Which training episodes did nothing learn from? Known of the very dataset that a model or a policy was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sgjepa.core import run_folder
from sgjepa.core.errors import InputError
from sgjepa.data.seeds import SPLIT_SEED
from sgjepa.data.store import Dataset


def check_run(folder: Path, split_seed: int, dataset: Dataset) -> None:
    """Refuse training episodes that a run may have learned from; of another world than its own it knows none."""
    about, world = run_folder.about(folder), dataset.settings.world
    if world in (about.worlds or (world,)):
        check(folder.resolve().name, about.data, split_seed, dataset)


def check(who: str, data: Mapping[str, str], split_seed: int, dataset: Dataset) -> None:
    """Refuse training episodes that `who` may have learned from. data: the digests of what it was trained on, by name."""
    if dataset.manifest.digest not in data.values() or split_seed != SPLIT_SEED:
        raise InputError(
            f"which training episodes of {dataset.path.resolve().name} were held out from {who} is not known: it was "
            f"trained on {', '.join(data)}; give that one, or take test episodes, without --held-out"
        )
