"""Which world models belong together: trainings of one recipe with other seeds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sgjepa.core import run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.run_folder import Continued
from sgjepa.data.config import SPLIT_SEED
from sgjepa.data.store import Dataset
from sgjepa.training.config import Run


def family(name: str, run: Run | None = None, continued: Sequence[Continued] = ()) -> dict[str, Any]:
    """What they share: their folder's name but for the seed, and how long they were trained. run: None if there is none.

    continued: the shorter lengths that it was finished with before.
    """
    length: dict[str, Any] = {} if run is None else {"trained": {"epochs": run.train.epochs, "updates": run.train.updates}}
    length |= {"continued": [leg.step for leg in continued]} if continued else {}
    return {"source": re.sub(r"-seed\d+$", "", name), **length}


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
