"""Summary of one method with intervals, as a CSV file and as text."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from sgjepa.core import artifact
from sgjepa.core.run_folder import EPISODES, SUMMARY
from sgjepa.core.tables import to_csv
from sgjepa.evaluation.metrics import METRICS
from sgjepa.results.selection import HORIZONS, REGIONS
from sgjepa.results.table import Results


def write_summary(results: Results, folder: Path) -> list[str]:
    """Write `summary.csv`, a mean with its interval for every source, metric, region and horizon; returns lines to print.

    results: of one evaluation, which lies in `folder`.
    """
    (arm,), metrics = results.arms, [name for name in METRICS if name in results.metrics]
    regions = [region for region in REGIONS if results.count(region)]
    records = []
    for source in sorted(results.sources):
        for metric in metrics:
            for region in regions:
                means = results.curve(arm, metric, source, region)
                if np.isfinite(means[-1].mean):
                    head = {"source": source, "metric": metric, "unit": METRICS[metric].unit, "region": region}
                    records += [{**head, "horizon": h, **asdict(mean)} for h, mean in enumerate(means, start=1)]
    artifact.add(folder, SUMMARY, to_csv(records).encode())
    horizons = [h for h in HORIZONS if h <= results.horizons]
    lines = [f"{arm}: error at horizon {' / '.join(map(str, horizons))}, mean and 95 % interval at the last"]
    for metric in metrics:
        for region in regions:
            means = results.curve(arm, metric, None, region)
            last = means[horizons[-1] - 1]
            values = " / ".join(f"{means[h - 1].mean:.3f}" for h in horizons)
            where = f"{region} ({last.count} episodes)"
            lines.append(f"  {metric:15s} {where:20s} {values} ({last.low:.3f} to {last.high:.3f}) {METRICS[metric].unit}")
    return [f"{folder}:", *lines, f"every number: {folder / SUMMARY}; every episode: {folder / EPISODES}"]
