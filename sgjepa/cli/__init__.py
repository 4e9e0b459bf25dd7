"""The command line: one subcommand a stage, in the order one uses them."""

from __future__ import annotations

import argparse
import importlib.util
import io
import math
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from sgjepa import __version__
from sgjepa.core.errors import InputError, one_line

OUT = Path("datasets")
RUNS = Path("runs")
DEMO = Path("demo")
_WORLDS = "square, right_triangle, pentagon, house, approach_ball, arm_catcher_ball,\narm_paddle_ball or franka_basket"
_RECIPE = """WORLD_METHOD, such as square_gru or triangle_square_gru; methods: gru, ssm, transformer,
lewm, dino, and more in docs/train.md"""
REPORT = Path("report")


class _Parser(argparse.ArgumentParser):
    """One line for a wrong argument, and where to read more."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"sgjepa: error: {one_line(message)} (see `{self.prog} --help`)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for bad input, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        options.run(options)
    except InputError as error:
        return _fail(str(error))
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stdout = None
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        return _fail(one_line(error.strerror or error) + place + "; mend it and run the same command again")
    except KeyboardInterrupt:
        print("\nsgjepa: stopped; run the same command again to go on", file=sys.stderr)
        return 130
    return 0


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _fail(message: str) -> int:
    print(f"sgjepa: error: {message}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="sgjepa",
        description="World models under changing laws of physics. The stages, in the order one uses them:",
        epilog="example: sgjepa data square --size mini && sgjepa preview datasets/square-mini",
    )
    parser.add_argument("--version", action="version", version=f"sgjepa {__version__}")
    stages = parser.add_subparsers(title="stages", metavar="STAGE", required=True)

    def stage(name: str, about: str, example: str, run: Callable[[Any], None]) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = stages.add_parser(
            name, help=about, description=about, epilog=f"example: {example}", formatter_class=argparse.RawTextHelpFormatter
        )
        added.set_defaults(run=run)
        return added

    doctor = stage("doctor", "what this machine has and what is missing", "sgjepa doctor --json doctor.json", _doctor)
    doctor.add_argument("--json", type=Path, metavar="FILE", help="also write the report as JSON")
    doctor.add_argument("--fix", action="store_true", help="install the OpenGL library if it is missing and we may")

    demo = stage(
        "demo",
        "the paper's question in about 15 minutes: data, SG-JEPA and its baselines, evaluation, a page to read",
        "sgjepa demo --quick",
        _demo,
    )
    length = demo.add_mutually_exclusive_group()
    length.add_argument(
        "--quick", action="store_true", help="about 3 minutes: a fifth of the data, 40 updates; the page says how many"
    )
    length.add_argument("--long", action="store_true", help="the whole mini recipe, about twice the time")
    demo.add_argument("--seeds", type=int, default=1, metavar="N", help="trainings of each method (default: %(default)s)")
    demo.add_argument(
        "--methods",
        nargs="+",
        metavar="NAME",
        help="methods of the square's recipes, such as gru ssm lewm (default: gru lewm dino)",
    )
    demo.add_argument("--out", type=Path, default=DEMO, metavar="DIR", help="where everything goes (default: %(default)s)")
    demo.add_argument("--workers", type=int, metavar="N", help="processes (default: one a core)")

    data = stage(
        "data",
        "make the train and test split of a world's dataset; interrupted, the same command goes on",
        "sgjepa data square --size mini",
        _data,
    )
    data.add_argument("world", help=_WORLDS)
    data.add_argument(
        "--size",
        default="mini",
        metavar="SIZE",
        help="mini (64 px; 2,500 episodes in the plane, 1,250 in space) or\n"
        "paper (128 px, 13,000; 256 px, 9,600; Franka 13,000)",
    )
    data.add_argument("--out", type=Path, metavar="DIR", help="the dataset's folder (default: datasets/WORLD-SIZE)")
    data.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: one a core); the bytes do not depend on it"
    )
    data.add_argument("--seed", type=int, metavar="N", help="default: 0")
    data.add_argument("--train-episodes", type=int, metavar="N", help="instead of the size's own number")
    data.add_argument("--test-episodes", type=int, metavar="N", help="instead of the size's own number")
    data.add_argument("--image-size", type=int, metavar="PX", help="instead of the size's own")
    data.add_argument("--codec", metavar="NAME", help="lz4 (lossless, default) or jpeg (quality 95, 4:4:4)")
    data.add_argument(
        "--law",
        action="append",
        metavar="NAME=VALUES",
        help="test values instead of the size's own grid, such as gravity=-2,0,4,10;\nrepeat for several laws",
    )
    data.add_argument(
        "--env",
        action="append",
        metavar="KEY=VALUE",
        help="option of the world, such as contact=reference or renderer=mujoco;\nrepeat for several",
    )

    preview = stage(
        "preview",
        "write a contact sheet (PNG) and a short video of a dataset",
        "sgjepa preview datasets/square-mini",
        _preview,
    )
    preview.add_argument("dataset", type=Path, help="folder that `sgjepa data` made")
    preview.add_argument("--out", type=Path, metavar="DIR", help="where the pictures go (default: DATASET/preview)")
    preview.add_argument("--video", default="webp", metavar="FORMAT", help="webp (default) or mp4 (needs the extra `video`)")
    preview.add_argument("--rows", type=int, default=5, metavar="N", help="how many laws to show (default: %(default)s)")

    coverage = stage(
        "coverage",
        "say how far outside a dataset's training gravities another gravity lies (the paper's L_law)",
        "sgjepa coverage datasets/square-mini --gravity 12",
        _coverage,
    )
    coverage.add_argument("dataset", type=Path, help="folder that `sgjepa data` made")
    coverage.add_argument(
        "--gravity",
        type=float,
        nargs="+",
        metavar="G",
        help="m/s^2, one or several (default: the dataset's test gravities)",
    )
    coverage.add_argument(
        "--basis", default="affine", metavar="NAME", help="affine: (1, g), exact for free flight (default); or quadratic"
    )
    coverage.add_argument("--json", type=Path, metavar="FILE", help="where the numbers go (default: DATASET/coverage.json)")

    describe = stage(
        "describe",
        "show what a recipe would train: config, layers, parameters, arithmetic, time on this machine",
        "sgjepa describe square_gru --size paper",
        _describe,
    )
    describe.add_argument("recipe", help=_RECIPE)
    describe.add_argument("--size", default="mini", metavar="SIZE", help="mini (default) or paper")
    describe.add_argument("--json", type=Path, metavar="FILE", help="also write the description as JSON")

    train = stage(
        "train",
        "train a world model; interrupted, the same command goes on",
        "sgjepa train square_gru --size mini",
        _train,
    )
    train.add_argument("recipe", help=_RECIPE)
    train.add_argument("--size", default="mini", metavar="SIZE", help="mini (default, for two CPU cores) or paper")
    train.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    train.add_argument("--out", type=Path, metavar="DIR", help="the run's folder (default: runs/RECIPE-SIZE-seedN)")
    train.add_argument(
        "--datasets", type=Path, default=OUT, metavar="DIR", help="where the datasets are (default: %(default)s)"
    )
    train.add_argument(
        "--data",
        action="append",
        metavar="NAME",
        help="a dataset's folder in --datasets, instead of the recipe's own; repeat to train on several together",
    )
    train.add_argument("--init", type=Path, metavar="RUN", help="a run whose weights to start from; it must be finished")
    train.add_argument("--epochs", type=int, metavar="N", help="instead of the recipe's own")
    train.add_argument(
        "--chunk", type=int, metavar="N", help="frames encoded at a time, for less memory; the result is the same"
    )

    probe = stage(
        "probe",
        "fit a probe that reads the physical state from a finished run's latents",
        "sgjepa probe runs/square_gru-mini-seed0",
        _probe,
    )
    predict = stage(
        "predict",
        "evaluate a finished run: roll it out on test episodes and measure the errors; fits its probe if need be",
        "sgjepa predict runs/square_gru-mini-seed0",
        _predict,
    )
    for added in (probe, predict):
        added.add_argument("run_folder", type=Path, metavar="RUN", help="folder that `sgjepa train` made")
        added.add_argument(
            "--dataset", type=Path, metavar="DIR", help="another dataset than the run's own first (default: datasets/NAME)"
        )
        added.add_argument("--transfer", action="store_true", help="the dataset may be of a world the run never saw")
        added.add_argument("--probe", default="mlp", metavar="KIND", help="mlp (default) or linear")
        added.add_argument("--window", type=int, metavar="N", help="frames a probe sees (default: 4; 2 for approach_ball)")
        added.add_argument("--seed", type=int, default=42, metavar="N", help="of the probe (default: %(default)s)")
    predict.add_argument("--context", type=int, default=20, metavar="N", help="true frames given (default: %(default)s)")
    predict.add_argument("--counterfactual", action="store_true", help="also tell the model other laws than the true one")

    report = stage(
        "report",
        "compare evaluated runs on one page, with figures (PNG, SVG) and tables (CSV)",
        "sgjepa report runs/square_gru-mini-seed0 runs/square_lewm-mini-seed0",
        _report,
    )
    report.add_argument("runs", type=Path, nargs="*", metavar="RUN", help="folders that `sgjepa predict` has evaluated")
    report.add_argument("--out", type=Path, default=REPORT, metavar="DIR", help="where the page goes (default: %(default)s)")
    report.add_argument(
        "--baseline",
        metavar="LABEL",
        help="the method that others are compared with, such as LeWM\n(default: LeWM, DINO-WM or the first)",
    )
    report.add_argument(
        "--data", metavar="NAME", help="which evaluation, such as square-mini-test, if the runs have several"
    )

    study = stage(
        "study",
        "answer one question of the paper: train and evaluate what it compares, then a report",
        "sgjepa study factorial --size mini --seeds 3",
        _study,
    )
    study.add_argument("study", nargs="?", metavar="STUDY", help="which question; without it, all are listed")
    study.add_argument("--size", default="mini", metavar="SIZE", help="mini (default, for two CPU cores) or paper")
    study.add_argument(
        "--seeds", type=int, metavar="N", help="trainings of each cell (default: the study's own, 3 at mini size)"
    )
    study.add_argument("--updates", type=int, metavar="N", help="of each training, instead of the recipe's own")
    study.add_argument(
        "--datasets", type=Path, default=OUT, metavar="DIR", help="where the datasets are (default: %(default)s)"
    )
    study.add_argument("--out", type=Path, metavar="DIR", help="runs and report (default: studies/STUDY-SIZE)")
    return parser


# Each stage imports what it needs: `sgjepa --help` and a wrong argument answer at once.


def _doctor(options: Any) -> None:
    from sgjepa.cli import doctor
    from sgjepa.core import files

    if options.fix:
        doctor.install_opengl()
    found = doctor.examine()
    print(doctor.as_text(found))
    if options.json:
        files.write_json(options.json, found)


def _demo(options: Any) -> None:
    _prepare_for_torch()
    _need_matplotlib()
    from sgjepa.studies import demo
    from sgjepa.studies.study import run_study

    if options.seeds < 1:
        raise InputError(f"--seeds must be at least 1, got {options.seeds}")
    length = "quick" if options.quick else "long" if options.long else "short"
    methods = tuple(dict.fromkeys(options.methods or demo.METHODS))
    demo.study(methods).cells(length)  # a wrong method is found before any work
    print("1. Data: a square in a box, kicked once; narrow gravity for training, 25 gravities from -2 to 10 for the test.")
    _say_made(demo.make_data(options.out, length, options.workers), [options.out / "preview" / "contact_sheet.png"])
    missing = demo.without_weights() if options.methods is None else None
    if missing is not None:
        print(f"   DINO-WM is left out: {missing}")
        methods = tuple(method for method in methods if method != "dino")
    print(f"2. {len(methods) * options.seeds} trainings ({', '.join(methods)}), equal data and updates, each evaluated.")
    print(f"   runs and logs: {options.out / 'runs'}", flush=True)
    page = run_study(
        demo.study(methods),
        length,
        options.out,
        options.out / "datasets",
        seeds=options.seeds,
        workers=options.workers,
        page=f"report-{length}",
        note=demo.shortened(length),
    )
    print(f"3. What it says, with intervals and pictures: {page}")
    _say_verdict(page.parent)


def _data(options: Any) -> None:
    from sgjepa.data.collect import collect
    from sgjepa.data.store import open_dataset
    from sgjepa.recipes.datasets import dataset

    settings = dataset(options.world, options.size)
    if options.train_episodes is not None:
        settings = replace(settings, train=replace(settings.train, episodes=options.train_episodes))
    if options.test_episodes is not None:
        settings = replace(settings, test=replace(settings.test, episodes=options.test_episodes))
    if options.law:
        settings = replace(settings, test=replace(settings.test, laws={**settings.test.laws, **_grids(options.law)}))
    changes = {"seed": options.seed, "image_size": options.image_size, "codec": options.codec}
    changes["env"] = _pairs(options.env, "--env") if options.env else None
    settings = replace(settings, **{key: value for key, value in changes.items() if value is not None})
    out = options.out or OUT / f"{options.world}-{options.size}"
    there = out.exists()
    made = open_dataset(collect(settings, out, options.workers))
    if there:
        print(f"{out} was there already; every file is as it was written")
    _say_made(made, [])


def _grids(texts: list[str]) -> dict[str, Any]:
    from sgjepa import laws

    grids: dict[str, Any] = {}
    for name, values in _pairs(texts, "--law").items():
        numbers = [laws.check({name: _number(value)})[name] for value in values.split(",")]
        grids[name] = laws.Grid(tuple(numbers))
    return grids


def _number(text: str) -> float | str:
    """A finite number, or the text as it is, for the message that refuses it."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _pairs(texts: list[str], flag: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key or not value:
            raise InputError(f"{flag} takes KEY=VALUE, got '{text}'")
        if key in pairs:
            raise InputError(f"{flag} {key} is given twice")
        pairs[key] = value
    return pairs


def _say_made(dataset: Any, pictures: list[Path]) -> None:
    """The summary. All of it is in the dataset's manifest.json too."""
    manifest = dataset.manifest
    size = sum(part.bytes for part in manifest.parts.values())
    counts = ", ".join(f"{part.episodes} {name}" for name, part in manifest.parts.items())
    speed = f", made at {manifest.frames_per_second:,.0f} frames/s" if manifest.frames_per_second else ""
    print(f"{dataset.path}: {counts} episodes, {manifest.frames} frames, {size / 1e6:.1f} MB{speed}")
    for name, part in manifest.parts.items():
        for law, found in part.laws.items():
            spread = f"mean {found.mean:.3f}, std {found.std:.3f}, {found.min:g} to {found.max:g}"
            print(f"  {name:5s} {law}  {_bars(found.counts)}  {spread} {dataset.train.about['laws'][law]}")
        if part.labels:
            words = (f"{label} {_counts(counts)}" for label, counts in part.labels.items())
            print(f"  {name:5s} success {part.successes}; {'; '.join(words)}")
    for path in pictures:
        print(f"  {path}")


def _counts(words: dict[str, int]) -> str:
    return ", ".join(f"{word} {count}" for word, count in words.items())


def _bars(counts: Sequence[int]) -> str:
    """A histogram as one line of text."""
    top = max(counts)
    return "".join("▁▂▃▄▅▆▇█"[min(7, 8 * count // (top + 1))] if count else " " for count in counts)


def _preview(options: Any) -> None:
    from sgjepa.data.preview import preview
    from sgjepa.data.store import open_dataset

    for path in preview(
        open_dataset(options.dataset), options.out or options.dataset / "preview", options.video, options.rows
    ):
        print(path)


def _coverage(options: Any) -> None:
    from sgjepa.core import files
    from sgjepa.data.store import open_dataset
    from sgjepa.evaluation.coverage import as_text, examine

    found = examine(open_dataset(options.dataset), {"gravity": options.gravity} if options.gravity else None, options.basis)
    out = options.json or options.dataset / "coverage.json"  # beside the preview; the data's digests do not cover it
    files.write_json(out, found)
    print(as_text(found))
    print(out)


def _describe(options: Any) -> None:
    _prepare_for_torch()
    from sgjepa.core import files
    from sgjepa.recipes.datasets import named
    from sgjepa.recipes.training import recipe
    from sgjepa.training.describe import as_text, describe

    run = recipe(options.recipe, options.size)
    found = describe(run, named(run.data))
    print(as_text(found))
    if options.json:
        files.write_json(options.json, found)


def _train(options: Any) -> None:
    _prepare_for_torch()
    from sgjepa.core import files, run_folder
    from sgjepa.recipes.training import recipe
    from sgjepa.training import parallel
    from sgjepa.training.loop import train

    init = None if options.init is None else str(options.init)
    run = replace(recipe(options.recipe, options.size), seed=options.seed, init=init)
    if options.data:
        run = replace(run, data=tuple(options.data))
    changes = {"epochs": options.epochs, "chunk": options.chunk}
    run = replace(run, train=replace(run.train, **{key: value for key, value in changes.items() if value is not None}))
    out = options.out or RUNS / f"{options.recipe}-{options.size}-seed{options.seed}"
    try:
        folder = train(run, out, options.datasets)
        first = parallel.rank(parallel.start()) == 0
    finally:
        parallel.stop()
    if first:
        measured = [row for row in run_folder.read(folder) if row.get("split") == "validation"]
        print(f"{folder}: the model is model.safetensors, every measurement a line of {run_folder.ROWS}")
        if frozen := files.read_json(folder / run_folder.CONFIG).get("frozen_encoder"):
            print(f"  frozen encoder: {frozen}")
        for row in measured[-1:]:
            shown = (f"{name} {value:.4g}" for name, value in row.items() if isinstance(value, float))
            print(f"  validation at step {row['step']}: {', '.join(shown)}")


def _probe(options: Any) -> None:
    _prepare_for_torch()
    from sgjepa.evaluation.probe import fit_probe

    dataset = _dataset_of(options)
    fitted = fit_probe(options.run_folder, dataset, _probe_config(options, dataset))
    print(f"{options.run_folder / 'probes'}: validation NMSE {fitted.scores['validation_nmse']:.4f}")
    for name, value in fitted.scores["validation_nmse_by_target"].items():
        print(f"  {name:12s} {value:.4f}")


def _predict(options: Any) -> None:
    _prepare_for_torch()
    from sgjepa.evaluation.counterfactual import CounterfactualConfig, counterfactual
    from sgjepa.evaluation.evaluate import ForecastConfig, evaluate
    from sgjepa.results.compare import methods
    from sgjepa.results.load import load_evaluations
    from sgjepa.results.summary import write_summary

    dataset = _dataset_of(options)
    settings = ForecastConfig(context=options.context, probe=_probe_config(options, dataset))
    place = evaluate(options.run_folder, dataset, settings)
    if options.counterfactual:
        counterfactual(options.run_folder, dataset, CounterfactualConfig(forecast=settings))
    (found,) = (one for one in load_evaluations(options.run_folder) if one.folder == place)
    for line in write_summary(methods([found])[0], place):
        print(line)
    print(f"next: sgjepa report {options.run_folder}")


def _dataset_of(options: Any) -> Any:
    from sgjepa.core import config, files, run_folder
    from sgjepa.data.store import open_dataset
    from sgjepa.training.run import Run

    folder = options.run_folder
    if not (folder / run_folder.CONFIG).is_file():
        raise InputError(f"{folder} is not a run (no {run_folder.CONFIG})")
    about = files.read_json(folder / run_folder.CONFIG)
    if options.dataset is None:
        run = config.from_dict(Run, about.get("config"))
        beside = folder.parent.parent / OUT / run.data[0]  # as the demo keeps them
        found = open_dataset(beside if beside.exists() else OUT / run.data[0])
    else:
        found = open_dataset(options.dataset)
    run_folder.check_data(folder, about, found.path.name, found.manifest.digest, found.settings.world, options.transfer)
    return found


def _probe_config(options: Any, dataset: Any) -> Any:
    from sgjepa.evaluation.probe import ProbeConfig, usual_window

    window = usual_window(dataset.settings.world) if options.window is None else options.window
    return ProbeConfig(kind=options.probe, window=window, seed=options.seed)


def _study(options: Any) -> None:
    _prepare_for_torch()
    _need_matplotlib()
    from sgjepa.studies import find, listing
    from sgjepa.studies.study import run_study

    if options.study is None:
        print(listing())
        return
    study = find(options.study)
    out = options.out or Path("studies") / f"{options.study}-{options.size}"
    page = run_study(study, options.size, out, options.datasets, seeds=options.seeds, updates=options.updates)
    print(page)
    _say_verdict(page.parent)


def _say_verdict(folder: Path) -> None:
    from sgjepa.report.write import ANSWER

    for line in (folder / ANSWER).read_text().splitlines():
        print(f"   {line}")


def _need_matplotlib() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("a report draws with matplotlib: pip install 'sgjepa[report]'")


def _report(options: Any) -> None:
    _need_matplotlib()
    from sgjepa.report.write import report

    print(report(options.runs, options.out, options.baseline, options.data))


def _prepare_for_torch() -> None:
    """Settings that torch reads when it starts, and one line if it is not installed."""
    from sgjepa.core import machine

    if importlib.util.find_spec("torch") is None:
        raise InputError("world models need torch: pip install 'sgjepa[train]'")
    machine.prepare()


if __name__ == "__main__":
    sys.exit(main())
