"""Errors by horizon, until experiments call report/forecast.py themselves."""

from __future__ import annotations

from sgjepa.report.blocks import Figure
from sgjepa.report.forecast_figures import horizon_figures
from sgjepa.results.gather import Results


def error_by_horizon(results: Results, metric: str) -> list[Figure]:
    """A panel for each region."""
    return horizon_figures(results.as_table, metric)
