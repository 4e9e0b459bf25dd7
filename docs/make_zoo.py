"""Put the best of some trainings into the zoo (sgjepa/zoo), with its card.

    python docs/make_zoo.py approach_ball_gru runs/approach_ball_gru-mini-seed* --datasets datasets

The best is the one whose rollouts err least on validation episodes. Its weights are rounded to half precision first; the
probe is fitted to what is left, and the card's scores are those of the rounded model.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from keep_results import told

from sgjepa import zoo
from sgjepa.core import files, machine, output, records, run_folder

machine.prepare()

from sgjepa.core.tables import Table, read_table  # noqa: E402
from sgjepa.data.store import Dataset, open_dataset  # noqa: E402
from sgjepa.evaluation.evaluate import evaluate, usual_forecast  # noqa: E402
from sgjepa.evaluation.probe import fit_probe, probe_folder  # noqa: E402
from sgjepa.evaluation.records import ProbeRecord  # noqa: E402
from sgjepa.training.checkpoint import read_config  # noqa: E402
from sgjepa.training.weights import load_tensors, save_tensors  # noqa: E402

MODELS = Path(zoo.__file__).parent / "models"
FIRST = 12
METRICS = ("position_l2", "velocity_l2", "angle_mae")


def main() -> None:
    """Choose, round, measure, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--datasets", type=Path, default=Path("datasets"))
    parser.add_argument("--about", required=True, help="one line for the list")
    options = parser.parse_args()
    dataset = open_dataset(options.datasets / read_config(options.runs[0]).data[0])
    found = {folder: validation_error(folder, dataset) for folder in options.runs}
    for folder, error in found.items():
        print(f"{folder}: {error:.4f} on validation episodes")
    best = min(found, key=found.__getitem__)
    others = ", ".join(f"{error:.3f}" for _, error in sorted(found.items()))
    chosen = f"the lowest mean position error on validation episodes of {len(found)} trainings (m): {others}"
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / options.name
        rounded_run(best, place)
        card = measured(place, dataset, options.about, chosen)
        target = MODELS / options.name
        shutil.rmtree(target, ignore_errors=True)
        keep(place, probe_folder(place, dataset, usual_forecast(dataset.settings).probe), target, card)
    print(f"{target}: {sum(path.stat().st_size for path in target.rglob('*')) / 1e6:.1f} MB")


def validation_error(folder: Path, dataset: Dataset) -> float:
    """Of the rollouts' positions, over all horizons (m)."""
    rows = read_table(evaluate(folder, dataset, usual_forecast(dataset.settings), "validation") / run_folder.EPISODES)
    return float(rows["position_l2"][rows["source"] == "predicted"].mean())


def rounded_run(source: Path, place: Path) -> None:
    """The run with weights in half precision."""
    place.mkdir()
    digests = {}
    for name in (run_folder.MODEL, run_folder.DECODER):
        halve(source / name, place / name)
        digests[name] = files.digest(place / name)
    there = run_folder.about(source)
    records.write(place / run_folder.CONFIG, replace(there, files=digests, provenance=told(there.provenance)))


def halve(source: Path, place: Path) -> None:
    """Weights in half precision; whole numbers stay."""
    save_tensors(
        place, {name: value.half() if value.is_floating_point() else value for name, value in load_tensors(source).items()}
    )


def measured(place: Path, dataset: Dataset, about: str, chosen: str) -> zoo.Card:
    """Fit the probe, round it too, and evaluate."""
    forecast = usual_forecast(dataset.settings)
    fit_probe(place, dataset, forecast.probe)
    probe = probe_folder(place, dataset, forecast.probe)
    record = records.read(ProbeRecord, probe / "probe.json", "")
    halve(probe / "probe.safetensors", probe / "probe.safetensors")
    (probe / output.MARKER).unlink()  # it tells the digests of before
    digests = {"probe.safetensors": files.digest(probe / "probe.safetensors")}
    records.write(probe / "probe.json", replace(record, files=digests, provenance=told(record.provenance)))
    rows = read_table(evaluate(place, dataset, forecast) / run_folder.EPISODES)
    run, there = read_config(place), run_folder.about(place)
    return zoo.Card(
        about=about,
        recipe=run.name,
        size=dataset.path.name.rpartition("-")[2],
        seed=run.seed,
        updates=run.train.epochs * (run.train.updates or 0),
        data=there.data,
        episodes=len(np.unique(rows["episode"])),
        scores=scores(rows, None),
        first=FIRST,
        of_first=scores(rows, FIRST),
        chosen=chosen,
        commit=files.provenance()["commit"],
    )


def scores(rows: Table, first: int | None) -> dict[str, float]:
    """Errors of the rollout: the mean over all horizons, and at the last."""
    kept = (rows["source"] == "predicted") & ((rows["episode"] < first) if first else True)
    last = rows["horizon"].max()
    found = {}
    for metric in METRICS:
        if metric in rows:
            found[f"{metric}, mean"] = float(rows[metric][kept].mean())
            found[f"{metric}, h = {last}"] = float(rows[metric][kept & (rows["horizon"] == last)].mean())
    return found


def keep(place: Path, probe: Path, target: Path, card: zoo.Card) -> None:
    """What a user needs, and the card last."""
    wanted = [place / name for name in (run_folder.CONFIG, run_folder.MODEL, run_folder.DECODER)]
    wanted += [probe / name for name in ("probe.json", "probe.safetensors")]
    digests = {}
    for path in wanted:
        name = path.relative_to(place)
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
        digests[name.as_posix()] = files.digest(path)
    records.write(target / zoo.CARD, replace(card, files=digests))


if __name__ == "__main__":
    main()
