"""README's figure of the ball's height: `python docs/make_height.py` draws it from docs/results/height_curves.csv.

    python docs/make_height.py --untold RUN --datasets datasets

measures anew first: two models of the zoo and RUN, the same recipe without the law, trained by
`sgjepa study factorial --size mini --seeds 1 --only approach_ball_gru_constant_rollout`. It writes

    docs/results/height_curves.csv     true and imagined height in four episodes, a row per frame
    docs/results/height_episodes.csv   root mean square error of the height in every test episode, h = 13 to 44

The four episodes are one throw under four gravities, simulated with seed 0; heights are read by each run's own probe.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

DOCS = Path(__file__).parent
CURVES, EPISODES = DOCS / "results" / "height_curves.csv", DOCS / "results" / "height_episodes.csv"
PICTURE = DOCS / "images" / "height.png"
GRAVITIES = {
    9.8: "9.8 m/s², as in training",
    14.0: "14 m/s², stronger",
    3.72: "3.7 m/s², as on Mars",
    1.63: "1.6 m/s², as on the Moon",
}
SG_JEPA, LEWM, UNTOLD = "SG-JEPA", "LeWM", "SG-JEPA, not told gravity"
CONSTANT, SIMULATOR = "constant position", "simulator from SG-JEPA's probe"  # what the models are measured against
ZOO = {SG_JEPA: "zoo:approach_ball_sg_jepa", LEWM: "zoo:approach_ball_lewm"}
SEED, CONTEXT, FRAMES, LATE = 0, 20, 64, 13  # LATE: the first horizon of the error: before it little has happened
# Okabe and Ito's colours, told apart by the colour-blind too
COLOURS = {SG_JEPA: "#0072B2", LEWM: "#D55E00", UNTOLD: "#009E73"}
INK, GREY, PALE = "#24292f", "#6b7280", "#c5cad1"
STYLE = {
    "font.size": 10,
    "text.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": PALE,
    "axes.titlesize": 10.5,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "lines.linewidth": 2,
    "savefig.dpi": 185,
}


def draw() -> Figure:
    """A row per model, a column per gravity: the true height and the imagined one, with its error at late frames."""
    with CURVES.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    cells = figure.subplots(len(COLOURS), len(GRAVITIES), sharex=True, sharey=True)
    for column, (gravity, title) in enumerate(GRAVITIES.items()):
        mine = [row for row in rows if float(row["gravity"]) == gravity]
        frame, truth = (np.array([float(row[name]) for row in mine]) for name in ("frame", "truth"))
        cells[0, column].set_title(title, loc="left")
        cells[-1, column].set_xlabel("frame", color=GREY, labelpad=2)
        for row, (model, colour) in enumerate(COLOURS.items()):
            imagined = np.array([float(one[model]) for one in mine])
            _cell(cells[row, column], frame, truth, imagined, colour)
    for row, (model, colour) in enumerate(COLOURS.items()):
        cells[row, 0].set_ylabel(model.replace(", ", ",\n"), color=colour, fontweight="bold")
    cells[0, 0].text(0.02, 0.98, "height", color=GREY, va="top", transform=cells[0, 0].transAxes)
    cells[0, -1].text(0.99, 0.03, "truth", color=GREY, ha="right", transform=cells[0, -1].transAxes)
    return figure


def _cell(axes: Axes, frame: np.ndarray, truth: np.ndarray, imagined: np.ndarray, colour: str) -> None:
    axes.plot(frame, truth, color=PALE, lw=5, solid_capstyle="round")
    axes.plot(frame, imagined, color=colour)
    late = frame >= CONTEXT + LATE - 1
    error = np.sqrt(np.square(imagined - truth)[late].mean())
    axes.text(0.99, 0.98, f"off by {error:.2f} m", color=colour, ha="right", va="top", transform=axes.transAxes)
    axes.set_xlim(19, 64)
    axes.set_xticks([20, 30, 40, 50, 60])
    axes.set_ylim(0, 0.5)
    axes.set_yticks([0, 0.2, 0.4], ["0", "0.2 m", "0.4 m"])


def measure(untold: Path, datasets: Path) -> None:
    """Both files, from the zoo and the run that is not told gravity."""
    from sgjepa.core import threads

    threads.prepare()
    from sgjepa import zoo

    runs = {name: zoo.folder_to_work_in(address) for name, address in ZOO.items()} | {UNTOLD: untold}
    _write(CURVES, curves(runs))
    _write(EPISODES, episodes(runs, datasets))


def curves(runs: Mapping[str, Path]) -> Iterable[Mapping[str, object]]:
    """One throw under each gravity; 20 true frames, then the models go on alone."""
    import torch

    from sgjepa.data import episode
    from sgjepa.envs import get_env
    from sgjepa.evaluation.forecast import imagine
    from sgjepa.evaluation.probes import open_probe
    from sgjepa.training import checkpoint

    env = get_env("approach_ball")(image_size=64)
    for gravity in GRAVITIES:
        made = episode.simulate(env, seed=SEED, law={"gravity": gravity})
        heights: dict[str, np.ndarray] = {}
        for name, folder in runs.items():
            run, model = checkpoint.load_run(folder)
            fitted = open_probe(folder, model, env.env_spec)
            with torch.no_grad():
                z = model.encode(torch.from_numpy(made.frames)[None])
                c = model.condition(torch.from_numpy(made.control)[None], torch.tensor([[gravity]]))
                states, _ = imagine(model, fitted, z[:, :CONTEXT], c, FRAMES - CONTEXT, run.history)
            heights[name] = states[0, 1:, fitted.targets.names.index("z")]
            heights["truth"] = fitted.targets.of(made.state)[CONTEXT:, fitted.targets.names.index("z")]
        for step in range(FRAMES - CONTEXT):
            read = {name: f"{heights[name][step]:.4f}" for name in ("truth", *runs)}
            yield {"gravity": gravity, "frame": CONTEXT + step, **read}


def episodes(runs: Mapping[str, Path], datasets: Path) -> Iterable[Mapping[str, object]]:
    """All test episodes: the errors of the models and of two references, and the spread of the truth."""
    from sgjepa.core.tables import read_table
    from sgjepa.data.store import open_dataset
    from sgjepa.evaluation.evaluate import default_forecast, evaluate

    dataset = open_dataset(datasets / "approach_ball-mini")
    errors: dict[str, np.ndarray] = {}
    truth = np.empty(0)
    for name, folder in runs.items():
        states = read_table(evaluate(folder, dataset, default_forecast(dataset.settings)) / "states.parquet")
        late = states["horizon"] >= LATE
        truth = states["recorded.z"][late].astype(float).reshape(dataset.test.episodes, -1)
        sources = {name: "predicted", CONSTANT: "stay"} | ({SIMULATOR: "simulator"} if name == SG_JEPA else {})
        for label, source in sources.items():
            read = states[f"{source}.z"][late].astype(float).reshape(truth.shape)
            errors[label] = np.sqrt(np.square(read - truth).mean(axis=1))
    for number, (gravity,) in enumerate(dataset.test.law.tolist()):
        of_all = {label: f"{errors[label][number]:.5f}" for label in (*runs, CONSTANT, SIMULATOR)}
        about = {"height_mean": f"{truth[number].mean():.5f}", "height_std": f"{truth[number].std():.5f}"}
        yield {"episode": number, "gravity": f"{gravity:g}", **of_all, **about}


def _write(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    found = list(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    print(path)


def main(out: Path = PICTURE) -> Path:
    """Write the figure."""
    drawn = io.BytesIO()
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "backend": "agg"}):
        draw().savefig(drawn)
    Image.open(drawn).convert("RGB").quantize(64).save(out, optimize=True)  # a quarter of the bytes
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--untold", type=Path, metavar="RUN", help="the run that is not told gravity: measure anew")
    parser.add_argument("--datasets", type=Path, default=Path("datasets"), metavar="DIR")
    options = parser.parse_args()
    if options.untold:
        measure(options.untold, options.datasets)
    print(main())
