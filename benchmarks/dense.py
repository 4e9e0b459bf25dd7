"""Dense windows against the paper's independent clips: seconds to the same validation rollout loss, in one run.

Both train the mini square GRU on the same few episodes with the same optimiser. The clip run takes one epoch of stretches of
H + K frames; the dense run takes whole episodes, of which every frame is encoded once and serves several windows. Updates
see as many frames. The question: when does the dense run reach the loss with which the clip run ends?

    python benchmarks/dense.py               # writes benchmarks/results/dense.json
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from sgjepa import files, rows
from sgjepa.data.collect import collect
from sgjepa.losses import RolloutLoss
from sgjepa.recipes.datasets import dataset
from sgjepa.recipes.worlds import recipe
from sgjepa.run import Run
from sgjepa.train import train


def plans(epochs: int, windows: int) -> dict[str, Run]:
    dense = recipe("square_gru", "mini")
    assert isinstance(dense.loss, RolloutLoss)
    frames = dense.history + dense.loss.steps
    batch = dense.train.batch * dense.train.frames // frames  # as many frames an update
    clip = replace(
        dense,
        name="clip",
        loss=replace(dense.loss, windows="clip"),
        train=replace(dense.train, frames=frames, batch=batch, drawn=None, epochs=1, validation=8),
    )
    return {"clip": clip, "dense": replace(dense, name="dense", train=replace(dense.train, epochs=epochs, drawn=windows))}


def curve(folder: Path) -> list[dict[str, Any]]:
    return [row for row in rows.read(folder) if row["split"] == "validation"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--dense-epochs", type=int, default=12)
    parser.add_argument("--windows", type=int, default=16, help="windows of each episode that a dense update trains on")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    mini = dataset("square", "mini")
    few = replace(mini, train=replace(mini.train, episodes=options.episodes), test=replace(mini.test, episodes=25))
    try:
        collect(few, folder / "square-mini")
        runs = plans(options.dense_epochs, options.windows)
        found = {name: curve(train(run, folder / name, folder)) for name, run in runs.items()}
    finally:
        shutil.rmtree(folder)
    goal = found["clip"][-1]["rollout"]
    reached = next((row for row in found["dense"] if row["rollout"] <= goal), None)
    print(f"clip:  validation rollout loss {goal:.4f} after {found['clip'][-1]['seconds']:.0f} s")
    for row in found["dense"]:
        print(f"dense: {row['rollout']:.4f} after {row['seconds']:.0f} s")
    ratio = found["clip"][-1]["seconds"] / reached["seconds"] if reached else None
    print(f"ratio: {ratio:.1f}x" if ratio else "the dense run did not reach it: give it more epochs")
    out = Path(__file__).parent / "results" / "dense.json"
    out.parent.mkdir(exist_ok=True)
    files.write_json(out, {"curves": found, "goal": goal, "ratio": ratio, "provenance": files.provenance()})
    print(f"written to {out}")


if __name__ == "__main__":
    main()
