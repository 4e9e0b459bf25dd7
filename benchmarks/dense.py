"""Dense windows against the paper's independent clips: seconds to the same rollout loss, in one run.

Both train the square GRU on the same few episodes with the same optimiser. The clip run takes stretches of H + K frames; the
dense run takes whole episodes, of which every frame is encoded once and serves several windows. Updates see as many frames.
The question: when does the dense run reach the loss with which the clip run ends?

The model at the end of every epoch is judged, on all windows of all validation episodes, for both in the same way.
A rollout loss is small also when the latents are: before SIGReg has spread them, an untrained model beats a trained one. So
what counts is the loss over the latents' variance; the ratio by the bare loss is given beside it. Seconds are those of the
updates alone; validation and checkpoints do not count.

    python benchmarks/dense.py                                  # writes benchmarks/results/dense.json
    python benchmarks/dense.py --size paper --episodes 8000     # for a GPU
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import record

from sgjepa.core import run_folder, threads

SETTINGS = threads.prepare()

import torch  # noqa: E402

from sgjepa.core import config  # noqa: E402
from sgjepa.data.collect import collect  # noqa: E402
from sgjepa.data.store import open_dataset, split_episodes  # noqa: E402
from sgjepa.data.windows import Clips  # noqa: E402
from sgjepa.models.weights import load_weights  # noqa: E402
from sgjepa.recipes.datasets import dataset  # noqa: E402
from sgjepa.recipes.training import recipe  # noqa: E402
from sgjepa.training import checkpoint, losses  # noqa: E402
from sgjepa.training.config import Run  # noqa: E402
from sgjepa.training.data import encode, to_device  # noqa: E402
from sgjepa.training.learner import Learner  # noqa: E402
from sgjepa.training.losses import RolloutLoss  # noqa: E402
from sgjepa.training.world_model import train  # noqa: E402

EPISODE = 64  # frames


def plans(options: argparse.Namespace) -> dict[str, Run]:
    """The two runs; each saves at the end of an epoch, when BatchNorm's statistics are fresh."""
    base = recipe("square_gru", options.size)
    assert isinstance(base.loss, RolloutLoss)
    clip = base.history + base.loss.steps
    frames = options.frames or base.train.batch * base.train.frames
    episodes = len(split_episodes(options.episodes, seed=base.split_seed)[0])

    def plan(name: str, length: int, epochs: int, drawn: int | None) -> Run:
        batch = max(1, frames // length)  # as many frames per update
        updates = episodes * (EPISODE - length + 1) // batch
        if updates == 0:
            raise SystemExit(f"{options.episodes} episodes are fewer than one batch of {batch}; raise --episodes")
        shape = {"frames": length, "batch": batch, "updates": None, "drawn": drawn, "save_every": updates, "validation": 1}
        kind = "clip" if name == "clip" else "dense"
        return replace(
            base, name=name, loss=replace(base.loss, windows=kind), train=replace(base.train, epochs=epochs, **shape)
        )

    return {
        "clip": plan("clip", clip, options.clip_epochs, None),
        "dense": plan("dense", EPISODE, options.dense_epochs, options.drawn),
    }


def seconds_of_updates(folder: Path, run: Run) -> dict[int, float]:
    """By step, the time that the updates up to it took."""
    total, found = 0.0, {}
    for row in run_folder.read(folder):
        if row["split"] == "train":
            total += run.train.batch * run.train.frames / row["frames_per_second"]
            found[row["step"]] = total
    return found


@torch.no_grad()
def judge(run: Run, place: Path, data: Clips) -> dict[str, float]:
    """The rollout loss of a checkpoint on all windows of the validation episodes, and over the variance of their latents."""
    learner = Learner(run)
    load_weights(place / checkpoint.LEARNER, learner)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = learner.to(device).eval().model
    every = replace(run.loss, windows="dense", sigreg=0.0)
    total, latents = 0.0, []
    for number in range(len(data)):
        z, c = encode(model, to_device(data.batch([number]), device), None)
        _, parts = losses.compute(every, model, z, c, torch.Generator(device), history=run.history)
        total += float(parts["rollout"])
        latents.append(z[0])
    rollout, variance = total / len(data), float(torch.cat(latents).var(dim=0).mean())
    return {"rollout": rollout, "variance": variance, "relative": rollout / variance}


def curve(run: Run, folder: Path, data: Clips) -> list[dict[str, Any]]:
    seconds = seconds_of_updates(folder, run)
    found = []
    for place in sorted((folder / "checkpoints").glob("step-*")):
        step = int(place.name.removeprefix("step-"))
        judged = judge(run, place, data)
        found.append({"step": step, "seconds": seconds[step], **judged})
        shown = f"{judged['relative']:.4f} of the variance, rollout loss {judged['rollout']:.4f}"
        print(f"{run.name}: {shown} after {step} updates, {seconds[step]:.0f} s", flush=True)
    return found


def ratio(found: dict[str, list[dict[str, Any]]], measure: str) -> float | None:
    """How many times sooner the dense run is where the clip run ends; None if it never is."""
    goal = found["clip"][-1]
    reached = next((row for row in found["dense"] if row[measure] <= goal[measure]), None)
    return goal["seconds"] / reached["seconds"] if reached else None


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--size", default="mini", choices=("mini", "paper"), help="of model and pictures")
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--clip-epochs", type=int, default=1)
    parser.add_argument("--dense-epochs", type=int, default=12)
    parser.add_argument("--drawn", type=int, default=8, help="windows of each episode that a dense update trains on")
    parser.add_argument("--frames", type=int, help="of an update (default: the recipe's)")
    options = parser.parse_args()
    runs = plans(options)
    checkpoint.KEPT = 10**6  # every epoch's
    folder = Path(tempfile.mkdtemp())
    settings = dataset("square", options.size)
    few = replace(
        settings, train=replace(settings.train, episodes=options.episodes), test=replace(settings.test, episodes=25)
    )
    found = {}
    try:
        split = open_dataset(collect(few, folder / f"square-{options.size}")).train
        validation = Clips(split, split_episodes(split.episodes, seed=runs["clip"].split_seed)[1], EPISODE)
        for name, run in runs.items():
            found[name] = curve(run, train(run, folder / name, folder), validation)
    finally:
        shutil.rmtree(folder)
    ratios = {measure: ratio(found, measure) for measure in ("relative", "rollout")}
    for measure, value in ratios.items():
        print(f"ratio by {measure}: " + (f"{value:.1f}x" if value else "not reached: give the dense run more epochs"))
    about = {"runs": {name: config.to_dict(run) for name, run in runs.items()}, "machine": SETTINGS}
    result = {"curves": found, "ratio": ratios["relative"], "ratios": ratios, **about}
    record.write(options.out, record.settings(options), result)


if __name__ == "__main__":
    main()
