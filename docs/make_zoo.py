"""Put the best of some trainings into the zoo (src/sgjepa/zoo), with its card.

    python docs/make_zoo.py approach_ball_gru runs/approach_ball_gru-mini-seed* --datasets datasets --about "..."
    python docs/make_zoo.py catcher_policy policies/arm_catcher_ball_gru-mini-seed0-mini-seed0 --about "..."

The best is, of those with a decoder, the one whose rollouts err least on validation episodes; of policies (zoo_policy.py)
the one with the lowest loss on held-out episodes. Its weights are rounded to half precision first; the probe is fitted to
what is left, and the card's scores are those of the rounded model.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
from keep_results import told

from sgjepa import zoo
from sgjepa.core import artifact, run_folder, threads
from sgjepa.policies.files import is_policy

threads.prepare()

import rounding  # noqa: E402
import zoo_policy  # noqa: E402

from sgjepa.core.tables import Table, read_table  # noqa: E402
from sgjepa.data.store import Dataset, open_dataset  # noqa: E402
from sgjepa.evaluation.evaluate import evaluate, usual_forecast  # noqa: E402
from sgjepa.evaluation.probes import fit_probe, probe_folder  # noqa: E402
from sgjepa.training.checkpoint import read_config  # noqa: E402

MODELS = Path(zoo.__file__).parent / "models"
FIRST = 12
METRICS = ("position_l2", "velocity_l2", "angle_deg", "rotation_turns")


def main() -> None:
    """Choose, round, measure, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("trainings", type=Path, nargs="+", metavar="RUN or POLICY", help="of one recipe, with other seeds")
    parser.add_argument("--datasets", type=Path, default=Path("datasets"))
    parser.add_argument("--about", required=True, help="one line for the list")
    parser.add_argument("--tries", type=int, default=1, help="of a policy at every test episode")
    parser.add_argument("--blind", type=Path, nargs="*", default=[], help="of a policy: others that see only the arm's pose")
    parser.add_argument("--into", type=Path, default=MODELS, help="where the zoo is")
    options = parser.parse_args()
    target = options.into / options.name
    if is_policy(options.trainings[0]):
        zoo_policy.add(options.trainings, target, options.datasets, options.about, options.tries, options.blind)
    else:
        add(options.trainings, target, options.datasets, options.about)
    print(f"{target}: {sum(path.stat().st_size for path in target.rglob('*')) / 1e6:.1f} MB")


def add(runs: list[Path], target: Path, datasets: Path, about: str) -> None:
    """The best of some runs."""
    dataset = open_dataset(datasets / read_config(runs[0]).data[0])
    found = {folder: validation_error(folder, dataset) for folder in runs}
    for folder, error in found.items():
        print(f"{folder}: {error:.4f} on validation episodes")
    drawn = [folder for folder in found if (folder / run_folder.DECODER).is_file()]
    if not drawn:
        raise SystemExit("none has a decoder: train with --decoder")
    best = min(drawn, key=found.__getitem__)
    others = ", ".join(f"{error:.3f}" for _, error in sorted(found.items()))
    which = f"{len(found)} trainings" + ("" if len(drawn) == len(found) else f", {len(drawn)} of them with a decoder")
    chosen = f"{found[best]:.3f} m, the lowest mean position error on validation episodes; of {which}: {others}"
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / target.name
        rounding.run(best, place, (run_folder.MODEL, run_folder.DECODER))
        card = measured(place, dataset, about, chosen)
        shutil.rmtree(target, ignore_errors=True)
        probe = probe_folder(place, dataset, usual_forecast(dataset.settings).probe)
        wanted = [run_folder.CONFIG, run_folder.MODEL, run_folder.DECODER]
        wanted += [(probe / name).relative_to(place).as_posix() for name in (artifact.RECORD, "probe.safetensors")]
        rounding.keep(place, target, wanted, card)


def validation_error(folder: Path, dataset: Dataset) -> float:
    """Of the rollouts' positions, over all horizons (m)."""
    rows = read_table(evaluate(folder, dataset, usual_forecast(dataset.settings), "validation") / run_folder.EPISODES)
    return float(rows["position_l2"][rows["source"] == "predicted"].mean())


def measured(place: Path, dataset: Dataset, about: str, chosen: str) -> zoo.Card:
    """Fit the probe, round it too, and evaluate."""
    forecast = usual_forecast(dataset.settings)
    fit_probe(place, dataset, forecast.probe)
    probe = probe_folder(place, dataset, forecast.probe)
    record = artifact.read_json_record(probe)
    rounding.halve(probe / "probe.safetensors", probe / "probe.safetensors")
    digests = {"probe.safetensors": artifact.file_digest(probe / "probe.safetensors")}
    provenance = told(record["provenance"])
    artifact.write_json(probe / artifact.RECORD, record | {"files": digests, "provenance": provenance})
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
        commit=artifact.provenance()["commit"],
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


if __name__ == "__main__":
    main()
