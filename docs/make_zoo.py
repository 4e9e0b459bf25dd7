"""Put the best of some trainings into the zoo (src/sgjepa/zoo), with its card.

    python docs/make_zoo.py approach_ball_gru runs/approach_ball_gru-mini-seed* --datasets datasets --about "..."
    python docs/make_zoo.py catcher_policy policies/arm_catcher_ball_gru-mini-seed0-mini-seed0 --about "..."

The best is, of those with a decoder, the one whose rollouts have the lowest error on validation episodes; of policies
(zoo_policy.py) the one with the lowest loss on held-out episodes. Its weights are rounded to half precision first; the
probe is fitted to the rounded model, and the card has the errors of that.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from sgjepa import zoo
from sgjepa.core import artifact, run_folder, threads
from sgjepa.core.provenance import provenance
from sgjepa.policies.files import is_policy

threads.prepare()

import rounding  # noqa: E402
import zoo_policy  # noqa: E402

from sgjepa.core.tables import Table, read_table  # noqa: E402
from sgjepa.data.store import Dataset, open_dataset  # noqa: E402
from sgjepa.evaluation.evaluate import default_forecast, evaluate  # noqa: E402
from sgjepa.evaluation.probes import fit_probe, probe_folder  # noqa: E402
from sgjepa.training.checkpoint import read_config  # noqa: E402

MODELS = Path(zoo.__file__).parent / "models"
SUBSET = 12  # test episodes that the tests of the zoo evaluate again
PROBE = "probe.safetensors"
METRICS = ("position_l2", "velocity_l2", "angle_deg", "rotation_turns")


def main() -> None:
    """Select, round, evaluate, and write to the zoo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument(
        "trainings", type=Path, nargs="+", metavar="RUN or POLICY", help="of one recipe, with different seeds"
    )
    parser.add_argument("--datasets", type=Path, default=Path("datasets"))
    parser.add_argument("--about", required=True, help="one line for the list")
    parser.add_argument("--tries", type=int, default=1, help="sampling seeds of a policy")
    parser.add_argument(
        "--blind",
        type=Path,
        nargs="*",
        default=[],
        help="trained policies that observe only the robot's pose, as a baseline",
    )
    parser.add_argument("--into", type=Path, default=MODELS, help="folder of the zoo")
    options = parser.parse_args()
    target = options.into / options.name
    if is_policy(options.trainings[0]):
        zoo_policy.add(options.trainings, target, options.datasets, options.about, options.tries, options.blind)
    else:
        add(options.trainings, target, options.datasets, options.about)
    print(f"{target}: {sum(path.stat().st_size for path in target.rglob('*')) / 1e6:.1f} MB")


def add(runs: list[Path], target: Path, datasets: Path, about: str) -> None:
    """Add the best of some runs."""
    dataset = open_dataset(datasets / read_config(runs[0]).data[0])
    errors = {folder: validation_error(folder, dataset) for folder in runs}
    for folder, error in errors.items():
        print(f"{folder}: {error:.4f} on validation episodes")
    decoding = [folder for folder in runs if (folder / run_folder.DECODER).is_file()]
    if not decoding:
        raise SystemExit("none has a decoder: train with --decoder")
    best = min(decoding, key=errors.__getitem__)
    others = ", ".join(f"{error:.3f}" for _, error in sorted(errors.items()))
    which = f"{len(runs)} trainings" + ("" if len(decoding) == len(runs) else f", {len(decoding)} of them with a decoder")
    selection = f"{errors[best]:.3f} m, the lowest mean position error on validation episodes; of {which}: {others}"
    with tempfile.TemporaryDirectory() as scratch:
        rounded = Path(scratch) / target.name
        rounding.round_run(best, rounded, (run_folder.MODEL, run_folder.DECODER))
        probe = fit_rounded_probe(rounded, dataset).relative_to(rounded)
        card = card_of(rounded, dataset, about, selection)
        names = [*rounding.RUN_FILES, run_folder.DECODER]
        names += [(probe / name).as_posix() for name in (artifact.RECORD, PROBE)]
        rounding.write_zoo(rounded, target, names, card)


def validation_error(folder: Path, dataset: Dataset) -> float:
    """The mean error of the rollouts' positions over all horizons, in m."""
    rows = read_table(evaluate(folder, dataset, default_forecast(dataset.settings), "validation") / run_folder.EPISODES)
    return float(rows["position_l2"][rows["source"] == "predicted"].mean())


def fit_rounded_probe(folder: Path, dataset: Dataset) -> Path:
    """Fit the usual probe of a run and round its weights; returns its folder."""
    cfg = default_forecast(dataset.settings).probe
    fit_probe(folder, dataset, cfg)
    probe = probe_folder(folder, dataset, cfg)
    record = artifact.read_json_record(probe)
    rounding.round_weights(probe / PROBE, probe / PROBE)
    rounding.write_record(probe, record, [PROBE])
    return probe


def card_of(folder: Path, dataset: Dataset, about: str, selection: str) -> zoo.ModelCard:
    """Evaluate a run with its probe on all test episodes."""
    rows = read_table(evaluate(folder, dataset, default_forecast(dataset.settings)) / run_folder.EPISODES)
    run = read_config(folder)
    return zoo.ModelCard(
        about=about,
        recipe=run.name,
        size=dataset.path.name.rpartition("-")[2],
        seed=run.seed,
        updates=run.train.epochs * (run.train.updates or 0),
        data=run_folder.about(folder).data,
        episodes=len(np.unique(rows["episode"])),
        errors=rollout_errors(rows, None),
        subset=SUBSET,
        subset_errors=rollout_errors(rows, SUBSET),
        selection=selection,
        commit=provenance()["commit"],
    )


def rollout_errors(rows: Table, first: int | None) -> dict[str, float]:
    """Errors of the rollouts of the first test episodes, or of all: the mean over all horizons, and at the last."""
    chosen = (rows["source"] == "predicted") & ((rows["episode"] < first) if first else True)
    last = rows["horizon"].max()
    errors = {}
    for metric in METRICS:
        if metric in rows:
            errors[f"{metric}, mean"] = float(rows[metric][chosen].mean())
            errors[f"{metric}, h = {last}"] = float(rows[metric][chosen & (rows["horizon"] == last)].mean())
    return errors


if __name__ == "__main__":
    main()
