"""Arguments that several commands share, the parsing of their values, and checks of packages that a command needs."""

from __future__ import annotations

import importlib.util
import math
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from sgjepa.core import files
from sgjepa.core.errors import InputError, MachineError

DATASETS = Path("datasets")
STDOUT = Path("-")
_STREAMS = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))  # /dev/stdout may lead to an ordinary file


def add_recipe(parser: ArgumentParser) -> None:
    """Add the recipe's name."""
    parser.add_argument(
        "recipe",
        help="WORLD_METHOD, such as square_gru; docs/train.md has a table of both, and a wrong name is answered with all",
    )


def add_size(parser: ArgumentParser) -> None:
    """Add `--size`, the size of a recipe."""
    parser.add_argument(
        "--size",
        default="mini",
        metavar="SIZE",
        help="mini (default, minutes on two CPU cores), small (half an hour on one; planar worlds and approach_ball) or "
        "paper (for GPUs)",
    )


def add_datasets(parser: ArgumentParser) -> None:
    """Add `--datasets`, the folder that holds datasets."""
    parser.add_argument(
        "--datasets", type=Path, default=DATASETS, metavar="DIR", help="where the datasets are (default: %(default)s)"
    )


def add_law(parser: ArgumentParser, about: str) -> None:
    """Add `--law NAME=VALUES`, which may be repeated."""
    parser.add_argument("--law", action="append", metavar="NAME=VALUES", help=about)


def parse_laws(texts: list[str], flag: str) -> dict[str, list[float]]:
    """The values of a repeated `--law` flag, by law."""
    return {name: parse_values(name, text) for name, text in parse_pairs(texts, flag).items()}


def parse_values(name: str, text: str) -> list[float]:
    """Parse a law's values, separated by commas."""
    from sgjepa import laws

    return [laws.check({name: parse_number(value)})[name] for value in text.split(",")]


def parse_number(text: str) -> float | str:
    """A finite number, or the unchanged text, for the message that refuses it."""
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) else text


def parse_pairs(texts: list[str], flag: str) -> dict[str, str]:
    """Parse the values of a repeated flag, each KEY=VALUE."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key or not value:
            raise InputError(f"{flag} takes KEY=VALUE, got '{text}'")
        if key in pairs:
            raise InputError(f"{flag} {key} is given twice")
        pairs[key] = value
    return pairs


def add_set(parser: ArgumentParser, of: str) -> None:
    """Add `--set PATH=VALUE`, which may be repeated. of: the trained object, for the help."""
    parser.add_argument(
        "--set",
        action="append",
        metavar="PATH=VALUE",
        help=f"a setting of {of} instead of the recipe's own, such as optim.lr=1e-3 or train.batch=32; repeat for several "
        "(`sgjepa describe RECIPE` shows all)",
    )


def parse_settings(options: Namespace, flags: dict[str, str]) -> dict[str, str]:
    """The values of `--set` by dotted path. flags: errors by path for settings that have a flag of their own."""
    settings = parse_pairs(options.set or [], "--set")
    for path in settings:
        if path in flags:
            raise InputError(f"--set {path}: {flags[path]}")
    return settings


def add_json(parser: ArgumentParser, about: str) -> None:
    """Add `--json FILE`; without FILE, or with "-", only the JSON goes to standard output."""
    parser.add_argument("--json", type=Path, nargs="?", const=STDOUT, metavar="FILE", help=about)


def check_json(path: Path | None) -> None:
    """Refuse a file that could not be written, before the work starts."""
    if path is None or path == STDOUT or _is_device(path):
        return
    if path.is_dir():
        raise InputError(f"--json {path} is a folder; name a file in it")
    if path.is_symlink():
        raise InputError(f"--json {path} is a link; name a file")
    if not path.parent.is_dir():
        raise InputError(f"--json {path}: the folder {path.parent} does not exist")
    trial = files.temporary(path)
    trial.touch()
    trial.unlink()


def print_or_write(path: Path | None, value: Any, text: str) -> None:
    """Print the text, and write the JSON to its file if one is named; or print only the JSON, for a pipe."""
    if path == STDOUT:
        sys.stdout.write(files.to_json(value))
        return
    if path is not None and path.exists() and not _is_device(path):
        _require_same_kind(path, value)
    print(text)
    if path is not None and _is_device(path):
        path.write_text(files.to_json(value), encoding="utf-8")
    elif path is not None:
        files.write_json(path, value)


def _is_device(path: Path) -> bool:
    """Whether a path is a device or pipe, such as /dev/null, which an atomic rename would replace by a file."""
    return path.exists() and (path.absolute().parent in _STREAMS or not (path.is_file() or path.is_dir()))


def _require_same_kind(path: Path, value: Any) -> None:
    """Refuse to overwrite a file that another command wrote, by its keys."""
    existing = files.read_json(path) if path.is_file() and path.suffix == ".json" else None
    if not isinstance(existing, dict) or not (existing.keys() <= value.keys() or value.keys() <= existing.keys()):
        raise InputError(f"{path} exists and holds something else; choose another FILE or move it away")


def run_argument(text: str) -> Path:
    """The folder of a RUN on the command line; `zoo:NAME` is a model of the package."""
    from sgjepa import zoo

    try:
        return zoo.folder_to_work_in(text)
    except InputError as error:
        raise ArgumentTypeError(str(error)) from error


def add_dataset(parser: ArgumentParser) -> None:
    """Add the flags of the dataset that a finished run is used on."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--dataset",
        type=Path,
        metavar="DIR",
        help="the dataset to use (default: the first that the run was trained on; needed where there is no run)",
    )
    group.add_argument(
        "--datasets",
        type=Path,
        metavar="DIR",
        help="folder of the run's own dataset (default: `datasets` next to the folder of runs, or in the current folder)",
    )
    parser.add_argument("--transfer", action="store_true", help="the dataset may be of a world the run never saw")


def open_dataset_for(options: Namespace) -> Any:
    """Open the dataset of the flags of `add_dataset`, after a check that the run may be used on it."""
    from sgjepa.data.store import open_dataset
    from sgjepa.training.checkpoint import read_config

    folder = options.run_folder
    if options.dataset is None:
        name = read_config(folder).data[0]
        dataset = open_dataset(options.datasets / name if options.datasets else dataset_beside(folder, name))
    else:
        dataset = open_dataset(options.dataset)
    check_run(folder, dataset, options.transfer)
    return dataset


def check_run(folder: Path, dataset: Any, transfer: bool | None = None) -> None:
    """Refuse a dataset that a run was not trained for. transfer: allow another world; None: the command has no such flag."""
    from sgjepa.core import run_folder

    about, digest = run_folder.about(folder), dataset.manifest.digest
    run_folder.check_data(folder, about, dataset.path, digest, dataset.settings.world, transfer)


def dataset_beside(folder: Path, name: str) -> Path:
    """The folder of a run's dataset: in `datasets` next to the folder of runs, as in the demo, or in the current folder."""
    near = folder.parent.parent / DATASETS / name
    return near if near.exists() else DATASETS / name


def print_next(*command: object) -> None:
    """Print the command that usually follows."""
    print(f"next: {shlex.join(['sgjepa', *map(str, command)])}")


def probe_config(options: Namespace, dataset: Any) -> Any:
    """The probe of the command's flags."""
    from sgjepa.data.probe_targets import default_probe_window
    from sgjepa.evaluation.probes import ProbeConfig

    settings = dataset.settings
    window = default_probe_window(settings.env_spec, settings.image_size) if options.window is None else options.window
    return ProbeConfig(kind=options.probe, window=window, seed=options.seed)


def prepare_for_torch() -> None:
    """Set the environment that torch reads at its import; an InputError if it is not installed."""
    from sgjepa.core import threads

    if importlib.util.find_spec("torch") is None:
        raise MachineError("world models need torch: pip install 'sgjepa[train]'")
    threads.prepare()


def require_matplotlib() -> None:
    """Refuse to start without the package that draws the report, before hours of training."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MachineError("a report draws with matplotlib: pip install 'sgjepa[report]'")


def require_seeds(options: Namespace) -> None:
    """Refuse a study without trainings."""
    if options.seeds < 1:
        raise InputError(f"--seeds must be at least 1, got {options.seeds}")


def print_answer(folder: Path) -> None:
    """Print the report's answer."""
    from sgjepa.report.page import ANSWER

    for line in (folder / ANSWER).read_text(encoding="utf-8").splitlines():
        print(f"   {line}")
