"""Studies: one file per question of the paper. The file's name is the command: `sgjepa study factorial`."""

from __future__ import annotations

from sgjepa.core.errors import unknown
from sgjepa.studies import factorial, linear_surrogate, predictors, tuning
from sgjepa.studies.study import Study

_ALL = (factorial.STUDY, predictors.STUDY, linear_surrogate.STUDY, tuning.STUDY)
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}


def find(name: str) -> Study:
    """The study of that name."""
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    return STUDIES[name]


def listing() -> str:
    """One line per study."""
    width = max(map(len, STUDIES))
    return "\n".join(f"{name:{width}s}  {study.question}" for name, study in STUDIES.items())
