"""Which world models belong together: trainings of one recipe with other seeds."""

from __future__ import annotations

import re
from typing import Any

from sgjepa.training.run import Run


def family(name: str, run: Run | None = None) -> dict[str, Any]:
    """What they share: their folder's name but for the seed, and how long they were trained. run: None if there is none."""
    length = {} if run is None else {"trained": {"epochs": run.train.epochs, "updates": run.train.updates}}
    return {"source": re.sub(r"-seed\d+$", "", name), **length}
