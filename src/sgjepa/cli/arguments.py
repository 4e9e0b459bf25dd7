"""Arguments that several commands share, how their values are read, and what must be installed before a command starts."""

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
    """The recipe's name."""
    parser.add_argument(
        "recipe",
        help="WORLD_METHOD, such as square_gru or triangle_square_gru; methods: gru, ssm, transformer, "
        "lewm, dino, and more in docs/train.md",
    )


def add_size(parser: ArgumentParser) -> None:
    """The sizes of everything that is trained."""
    parser.add_argument(
        "--size",
        default="mini",
        metavar="SIZE",
        help="mini (default, minutes on two CPU cores), small (half an hour on one; planar worlds and approach_ball) or "
        "paper (for GPUs)",
    )


def add_datasets(parser: ArgumentParser) -> None:
    """The folder that holds datasets."""
    parser.add_argument(
        "--datasets", type=Path, default=DATASETS, metavar="DIR", help="where the datasets are (default: %(default)s)"
    )


def add_law(parser: ArgumentParser, about: str) -> None:
    """`--law NAME=VALUES`, as often as there are laws."""
    parser.add_argument("--law", action="append", metavar="NAME=VALUES", help=about)


def parse_laws(texts: list[str], flag: str) -> dict[str, list[float]]:
    """The values that `law_flag` was given, by law."""
    return {name: parse_values(name, text) for name, text in parse_pairs(texts, flag).items()}


def parse_values(name: str, text: str) -> list[float]:
    """A law's values, separated by commas."""
    from sgjepa import laws

    return [laws.check({name: parse_number(value)})[name] for value in text.split(",")]


def parse_number(text: str) -> float | str:
    """A finite number, or the text as it is, for the message that refuses it."""
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) else text


def parse_pairs(texts: list[str], flag: str) -> dict[str, str]:
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


def add_set(parser: ArgumentParser, of: str) -> None:
    """`--set PLACE=VALUE`, as often as there are settings. of: what is trained with them."""
    parser.add_argument(
        "--set",
        action="append",
        metavar="PLACE=VALUE",
        help=f"a setting of {of} instead of the recipe's own, such as optim.lr=1e-3 or train.batch=32; repeat for several "
        "(`sgjepa describe RECIPE` shows all)",
    )


def parse_settings(options: Namespace, flags: dict[str, str]) -> dict[str, str]:
    """What `set_flag` was given, by place. flags: places that have a flag of their own, and what to say then."""
    found = parse_pairs(options.set or [], "--set")
    for place in found:
        if place in flags:
            raise InputError(f"--set {place}: {flags[place]}")
    return found


def add_json(parser: ArgumentParser, about: str) -> None:
    """`--json FILE`; alone, or with "-", the JSON is all that goes to standard output."""
    parser.add_argument("--json", type=Path, nargs="?", const=STDOUT, metavar="FILE", help=about)


def check_json(place: Path | None) -> None:
    """Refuse a file that could not be written, before the work and not after it."""
    if place is None or place == STDOUT or _is_device(place):
        return
    if place.is_dir():
        raise InputError(f"--json {place} is a folder; name a file in it")
    if place.is_symlink():
        raise InputError(f"--json {place} is a link; name a file")
    if not place.parent.is_dir():
        raise InputError(f"--json {place}: the folder {place.parent} does not exist")
    trial = files.temporary(place)
    trial.touch()
    trial.unlink()


def print_or_write(place: Path | None, found: Any, text: str) -> None:
    """The text for a person, with the JSON in its file if one is named; or the JSON alone, for a pipe."""
    if place == STDOUT:
        sys.stdout.write(files.to_json(found))
        return
    if place is not None and place.exists() and not _is_device(place):
        _require_ours(place, found)
    print(text)
    if place is not None and _is_device(place):
        place.write_text(files.to_json(found), encoding="utf-8")
    elif place is not None:
        files.write_json(place, found)


def _is_device(place: Path) -> bool:
    """/dev/null, /dev/stdout, a pipe: to write a new file and rename it would put a file in their place."""
    return place.exists() and (place.absolute().parent in _STREAMS or not (place.is_file() or place.is_dir()))


def _require_ours(place: Path, found: Any) -> None:
    """Refuse to write over a file that is not what the same command wrote before: it has the same keys."""
    there = files.read_json(place) if place.is_file() and place.suffix == ".json" else None
    if not isinstance(there, dict) or not (there.keys() <= found.keys() or found.keys() <= there.keys()):
        raise InputError(f"{place} exists and holds something else; choose another FILE or move it away")


def run_argument(text: str) -> Path:
    """A RUN on the command line: its folder, or a model that comes with the package, by `zoo:NAME`."""
    from sgjepa import zoo

    try:
        return zoo.folder_to_work_in(text)
    except InputError as error:
        raise ArgumentTypeError(str(error)) from error


def add_dataset(parser: ArgumentParser) -> None:
    """The dataset that a finished run is used on."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--dataset",
        type=Path,
        metavar="DIR",
        help="the dataset to use (default: the first that the run was trained on; needed where there is no run)",
    )
    place.add_argument(
        "--datasets",
        type=Path,
        metavar="DIR",
        help="where the run's own dataset is (default: the folder datasets that lies beside the run's own folder, or here)",
    )
    parser.add_argument("--transfer", action="store_true", help="the dataset may be of a world the run never saw")


def open_dataset_for(options: Namespace) -> Any:
    """The dataset of `dataset_flags`, after a check that the run may be used on it."""
    from sgjepa.data.store import open_dataset
    from sgjepa.training.checkpoint import read_config

    folder = options.run_folder
    if options.dataset is None:
        name = read_config(folder).data[0]
        found = open_dataset(options.datasets / name if options.datasets else dataset_beside(folder, name))
    else:
        found = open_dataset(options.dataset)
    check_run(folder, found, options.transfer)
    return found


def check_run(folder: Path, dataset: Any, transfer: bool | None = None) -> None:
    """Refuse a dataset that a run was not trained for. transfer: another world may be; None: there is no such flag."""
    from sgjepa.core import run_folder

    about, digest = run_folder.about(folder), dataset.manifest.digest
    run_folder.check_data(folder, about, dataset.path, digest, dataset.settings.world, transfer)


def dataset_beside(folder: Path, name: str) -> Path:
    """Where the dataset of that name is: in `datasets` next to the folder's own folder, as the demo keeps them, or here."""
    near = folder.parent.parent / DATASETS / name
    return near if near.exists() else DATASETS / name


def print_next(*command: object) -> None:
    """The command that usually follows, on the last line."""
    print(f"next: {shlex.join(['sgjepa', *map(str, command)])}")


def probe_config(options: Namespace, dataset: Any) -> Any:
    """The probe of `evaluation_flags`."""
    from sgjepa.data.probe_targets import default_probe_window
    from sgjepa.evaluation.probes import ProbeConfig

    settings = dataset.settings
    window = default_probe_window(settings.env_spec, settings.image_size) if options.window is None else options.window
    return ProbeConfig(kind=options.probe, window=window, seed=options.seed)


def prepare_for_torch() -> None:
    """Settings that torch reads when it starts, and one line if it is not installed."""
    from sgjepa.core import threads

    if importlib.util.find_spec("torch") is None:
        raise MachineError("world models need torch: pip install 'sgjepa[train]'")
    threads.prepare()


def require_matplotlib() -> None:
    """One line if what draws the report is not installed; called before hours of training, not after."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MachineError("a report draws with matplotlib: pip install 'sgjepa[report]'")


def require_seeds(options: Namespace) -> None:
    """A study without a training answers nothing."""
    if options.seeds < 1:
        raise InputError(f"--seeds must be at least 1, got {options.seeds}")


def print_answer(folder: Path) -> None:
    """The report's own sentences, on the terminal."""
    from sgjepa.report.page import ANSWER

    for line in (folder / ANSWER).read_text(encoding="utf-8").splitlines():
        print(f"   {line}")
