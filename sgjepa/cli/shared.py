"""What several stages share: flags, where things lie, and what must be there before a stage starts."""

from __future__ import annotations

import importlib.util
import math
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from sgjepa.core import files
from sgjepa.core.errors import InputError

DATASETS = Path("datasets")
STDOUT = Path("-")


def recipe_flag(parser: ArgumentParser) -> None:
    """The recipe's name."""
    parser.add_argument(
        "recipe",
        help="WORLD_METHOD, such as square_gru or triangle_square_gru; methods: gru, ssm, transformer,\n"
        "lewm, dino, and more in docs/train.md",
    )


def size_flag(parser: ArgumentParser) -> None:
    """The two sizes of everything that is trained."""
    parser.add_argument("--size", default="mini", metavar="SIZE", help="mini (default, for two CPU cores) or paper")


def datasets_flag(parser: ArgumentParser) -> None:
    """The folder that holds datasets."""
    parser.add_argument(
        "--datasets", type=Path, default=DATASETS, metavar="DIR", help="where the datasets are (default: %(default)s)"
    )


def law_flag(parser: ArgumentParser, about: str) -> None:
    """`--law NAME=VALUES`, as often as there are laws."""
    parser.add_argument("--law", action="append", metavar="NAME=VALUES", help=about)


def law_values(texts: list[str], flag: str) -> dict[str, list[float]]:
    """The values that `law_flag` was given, by law."""
    return {name: values_of(name, text) for name, text in pairs(texts, flag).items()}


def values_of(name: str, text: str) -> list[float]:
    """A law's values, separated by commas."""
    from sgjepa import laws

    return [laws.check({name: number(value)})[name] for value in text.split(",")]


def number(text: str) -> float | str:
    """A finite number, or the text as it is, for the message that refuses it."""
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) else text


def pairs(texts: list[str], flag: str) -> dict[str, str]:
    """What a flag that may be repeated was given, each KEY=VALUE."""
    found: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key or not value:
            raise InputError(f"{flag} takes KEY=VALUE, got '{text}'")
        if key in found:
            raise InputError(f"{flag} {key} is given twice")
        found[key] = value
    return found


def json_flag(parser: ArgumentParser, about: str) -> None:
    """`--json FILE`; alone, or with "-", the JSON is all that goes to standard output."""
    parser.add_argument("--json", type=Path, nargs="?", const=STDOUT, metavar="FILE", help=about)


def print_or_write(place: Path | None, found: Any, text: str) -> None:
    """The text for a person, with the JSON in its file if one is named; or the JSON alone, for a pipe."""
    if place == STDOUT:
        sys.stdout.write(files.to_json(found))
        return
    print(text)
    if place is not None:
        files.write_json(place, found)


def evaluation_flags(parser: ArgumentParser) -> None:
    """A finished run, the dataset it is evaluated on, and the probe that reads its latents."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder that `sgjepa train` made")
    parser.add_argument(
        "--dataset", type=Path, metavar="DIR", help="another dataset than the run's own first (default: datasets/NAME)"
    )
    parser.add_argument("--transfer", action="store_true", help="the dataset may be of a world the run never saw")
    parser.add_argument("--probe", default="mlp", metavar="KIND", help="mlp (default) or linear")
    parser.add_argument("--window", type=int, metavar="N", help="frames that a probe sees (default: 4; 2 for approach_ball)")
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="of the probe (default: %(default)s)")


def dataset_of(options: Namespace) -> Any:
    """The dataset of `evaluation_flags`, after a check that the run may be evaluated on it."""
    from sgjepa.core import config, run_folder
    from sgjepa.data.store import open_dataset
    from sgjepa.training.run import Run

    folder = options.run_folder
    if not (folder / run_folder.CONFIG).is_file():
        raise InputError(f"{folder} is not a run (no {run_folder.CONFIG})")
    about = files.read_json(folder / run_folder.CONFIG)
    if options.dataset is None:
        run = config.from_dict(Run, about.get("config"))
        beside = folder.parent.parent / DATASETS / run.data[0]  # as the demo keeps them
        found = open_dataset(beside if beside.exists() else DATASETS / run.data[0])
    else:
        found = open_dataset(options.dataset)
    run_folder.check_data(folder, about, found.path.name, found.manifest.digest, found.settings.world, options.transfer)
    return found


def probe_config(options: Namespace, dataset: Any) -> Any:
    """The probe of `evaluation_flags`."""
    from sgjepa.data.readable import usual_window
    from sgjepa.evaluation.probe import ProbeConfig

    window = usual_window(dataset.settings.world) if options.window is None else options.window
    return ProbeConfig(kind=options.probe, window=window, seed=options.seed)


def prepare_for_torch() -> None:
    """Settings that torch reads when it starts, and one line if it is not installed."""
    from sgjepa.core import machine

    if importlib.util.find_spec("torch") is None:
        raise InputError("world models need torch: pip install 'sgjepa[train]'")
    machine.prepare()


def need_matplotlib() -> None:
    """One line if what draws the report is not installed; called before hours of training, not after."""
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("a report draws with matplotlib: pip install 'sgjepa[report]'")


def need_seeds(options: Namespace) -> None:
    """A study without a training answers nothing."""
    if options.seeds < 1:
        raise InputError(f"--seeds must be at least 1, got {options.seeds}")


def say_verdict(folder: Path) -> None:
    """The report's own sentences, on the terminal."""
    from sgjepa.report.write import ANSWER

    for line in (folder / ANSWER).read_text().splitlines():
        print(f"   {line}")
