"""Former names of what results/evaluations.py holds."""

from sgjepa.results.evaluations import Evaluation, evaluated, load_evaluation, load_evaluations, needed
from sgjepa.results.table import REGIONS

__all__ = ["REGIONS", "Evaluation", "evaluated", "load_evaluation", "load_evaluations", "needed"]
