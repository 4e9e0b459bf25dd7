"""One method's numbers with intervals, as a CSV file and as lines to print."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from sgjepa.core import artifact
from sgjepa.core.run_folder import EPISODES, SUMMARY
from sgjepa.core.tables import to_csv
from sgjepa.evaluation.metrics import METRICS
from sgjepa.results.compare import Method
from sgjepa.results.table import HORIZONS, REGIONS


def write_summary(method: Method, place: Path) -> list[str]:
    """Write `summary.csv`, a mean with its interval for every source, metric, region and horizon; returns lines to print."""
    metrics = [name for name in METRICS if name in method.first.table]
    regions = [region for region in REGIONS if method.first.region(region).any()]
    records = []
    for source in np.unique(method.first.table["source"].astype(str)).tolist():
        for metric in metrics:
            for region in regions:
                found = method.by_horizon(metric, source, region)
                if np.isfinite(found[-1].mean):
                    head = {"source": source, "metric": metric, "unit": METRICS[metric].unit, "region": region}
                    records += [{**head, "horizon": h, **asdict(one)} for h, one in enumerate(found, start=1)]
    artifact.add(place, SUMMARY, to_csv(records).encode())
    shown = [h for h in HORIZONS if h <= method.first.horizons]
    lines = [f"{method.label}: error at horizon {' / '.join(map(str, shown))}, mean and 95 % interval at the last"]
    for metric in metrics:
        for region in regions:
            found = method.by_horizon(metric, region=region)
            last = found[shown[-1] - 1]
            values = " / ".join(f"{found[h - 1].mean:.3f}" for h in shown)
            where = f"{region} ({last.count} episodes)"
            lines.append(f"  {metric:15s} {where:20s} {values} ({last.low:.3f} to {last.high:.3f}) {METRICS[metric].unit}")
    return [f"{place}:", *lines, f"every number: {place / SUMMARY}; every episode: {place / EPISODES}"]
