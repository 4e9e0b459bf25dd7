"""Which world models belong together: trainings of one recipe with other seeds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sgjepa.core.records import Continued
from sgjepa.training.run import Run


def family(name: str, run: Run | None = None, continued: Sequence[Continued] = ()) -> dict[str, Any]:
    """What they share: their folder's name but for the seed, and how long they were trained. run: None if there is none.

    continued: the shorter lengths that it was finished with before.
    """
    length: dict[str, Any] = {} if run is None else {"trained": {"epochs": run.train.epochs, "updates": run.train.updates}}
    length |= {"continued": [leg.step for leg in continued]} if continued else {}
    return {"source": re.sub(r"-seed\d+$", "", name), **length}
