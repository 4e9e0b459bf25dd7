"""Suggestions for flags of other programs and for names of the wrong kind: one line that says what to type.

FLAGS holds flags that a command does not have. `suggest_name` recognises names of the wrong kind, such as a recipe where a
run's folder belongs: worlds, recipes and models are those of their registries; existing folders in runs/ and datasets/ are
named first.
"""

from __future__ import annotations

import contextlib
import difflib
import shlex
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sgjepa import zoo
from sgjepa.core.artifact import RECORD
from sgjepa.core.errors import InputError, MachineError

RUNS, DATASETS, POLICIES = Path("runs"), Path("datasets"), Path("policies")
_SHOWN = 3  # folders that a line names


@dataclass(frozen=True)
class Suggestion:
    """A suggestion. type: the flags to type, with {value} for the given value; may be empty. why: a further explanation."""

    type: str = ""
    why: str = ""

    def words(self, value: str | None) -> str:
        """The suggestion as part of one line."""
        typed = f"type: {self.type.format(value='VALUE' if value is None else value)}" if self.type else ""
        return "; ".join(part for part in (typed, self.why.format(value=value or "N")) if part)


def _all(names: str, wish: Suggestion) -> dict[str, Suggestion]:
    return dict.fromkeys(names.split(), wish)


_DEVICE = "--gpu --gpus --cuda --device --cpu"
_SETTINGS = {
    **_all("--lr --learning-rate --rate", Suggestion("--set optim.lr={value}", "of Muon's matrices it is optim.lr_matrix")),
    **_all("--batch --batch-size --bs", Suggestion("--set train.batch={value}")),
    **_all("--wd --weight-decay", Suggestion("--set optim.weight_decay={value}")),
    **_all("--optim --optimizer --optimiser", Suggestion("--set optim.kind={value}", "kinds are muon and adamw")),
    **_all("--clip --grad-clip", Suggestion("--set optim.clip={value}")),
    **_all("--warmup", Suggestion("--set optim.warmup={value}", "a fraction of all updates")),
    **_all("--dropout", Suggestion("--set model.predictor.dropout={value}")),
    **_all("--history", Suggestion("--set model.history={value}")),
    **_all("--sigreg", Suggestion("--set loss.sigreg={value}")),
    **_all("--patience", Suggestion("--set train.patience={value}", "epochs without a better validation loss")),
    **_all("--steps --max-steps --num-steps --iterations --iters", Suggestion("--updates {value}")),
}
_TRAINS_WHERE = Suggestion(why="it runs on the GPU where torch sees one, else on the CPU (`sgjepa doctor` says which)")
_ON_CPU = _all(_DEVICE, Suggestion(why="it runs on the CPU; a GPU is used for training"))
_SIDE_BY_SIDE = _all("--jobs --num-workers --processes --threads", Suggestion("--workers {value}"))
_OUT = _all("--output --output-dir --outdir --out-dir --save-dir --dir", Suggestion("--out {value}"))
_LAWS_OF_DATA = Suggestion(why="a dataset says which laws hold: sgjepa data WORLD --law gravity={value} --out datasets/NAME")
_TESTED_ON = Suggestion("--dataset datasets/NAME", "made by: sgjepa data WORLD --law gravity={value} --out datasets/NAME")
FLAGS: dict[str, dict[str, Suggestion]] = {
    "train": {
        **_SETTINGS,
        **_OUT,
        **_all(_DEVICE, _TRAINS_WHERE),
        **_all(
            "--workers --num-workers --processes --nproc",
            Suggestion(why="one process trains; for several: torchrun --nproc-per-node {value} -m sgjepa train RECIPE"),
        ),
        **_all("--num-epochs --n-epochs --max-epochs", Suggestion("--epochs {value}")),
        **_all("--resume --continue --restart", Suggestion(why="the same command goes on where it was")),
        **_all("--gravity --law", _LAWS_OF_DATA),
        **_all("--world --env", Suggestion(why="the world is part of the recipe: sgjepa train WORLD_gru")),
        **_all(
            "--model --method --predictor", Suggestion(why="the method is part of the recipe: sgjepa train WORLD_METHOD")
        ),
    },
    "study": {
        **_SETTINGS,
        **_SIDE_BY_SIDE,
        **_OUT,
        **_all(_DEVICE, _TRAINS_WHERE),
        **_all("--epochs", Suggestion("--set train.epochs={value}")),
        **_all("--world --env --cells", Suggestion("--only '{value}_*'", "patterns of the cells' names")),
    },
    "data": {
        **_SIDE_BY_SIDE,
        **_OUT,
        **_all("--episodes --num-episodes", Suggestion("--train-episodes {value}", "and --test-episodes for the test")),
        **_all("--resolution --img-size --pixels --width --height", Suggestion("--image-size {value}")),
        **_all("--world", Suggestion(why="the world is the first word: sgjepa data {value}")),
        **_all(_DEVICE, Suggestion(why="worlds are drawn by the OpenGL that `sgjepa doctor` names")),
    },
    "train-policy": {
        **_OUT,
        **_all(_DEVICE, _TRAINS_WHERE),
        **_all(
            "--lr --learning-rate --batch --batch-size --epochs",
            Suggestion(why="a policy has the settings of its size, mini or paper; its length is --updates"),
        ),
        **_all("--steps --max-steps --iterations", Suggestion("--updates {value}")),
    },
    "demo": {
        **_SIDE_BY_SIDE,
        **_OUT,
        **_all(_DEVICE, _TRAINS_WHERE),
        **_all("--size --updates --epochs", Suggestion(why="its length is --quick, the usual one, or --long")),
    },
    "evaluate": {
        **_ON_CPU,
        **_all("--gravity --law", _TESTED_ON),
        **_all("--history", Suggestion("--context {value}")),
        **_all("--kind", Suggestion("--probe {value}")),
    },
    "view": {
        **_all("--gravity", Suggestion(why="gravity is moved on the page, with the hand")),
        **_all("--host", Suggestion(why="the page is for this machine; from another one: ssh -L 8765:127.0.0.1:8765 HOST")),
        **_all("--out --output", Suggestion("--export {value}")),
        **_ON_CPU,
    },
    "preview": {**_all("--mp4", Suggestion("--video mp4")), **_OUT},
    "evaluate-policy": {
        **_SIDE_BY_SIDE,
        **_OUT,
        **_all("--gravity --law", _TESTED_ON),
        **_all("--cases --trials", Suggestion("--episodes {value}")),
    },
    "report": _OUT,
}


def describe_unknown_flags(command: str, extra: Sequence[str], words: Sequence[str], known_flags: Sequence[str]) -> str:
    """The message for unknown arguments of a command. words: all of its arguments. known: the flags it has."""
    flags = [word.partition("=")[0] for word in extra if word.startswith("-")]
    if not flags:
        return f"unrecognized arguments: {' '.join(extra)}"
    return "; ".join(_flag(command, flag, _value(flag, words), known_flags) for flag in dict.fromkeys(flags))


def _flag(command: str, flag: str, value: str | None, known: Sequence[str]) -> str:
    wish = FLAGS.get(command, {}).get(flag.lower().replace("_", "-")) or _law(command, flag)
    if wish is not None:
        words = wish.words(value)
        return f"{command} has no {flag}{'; ' if words.startswith('type') else ': '}{words}"
    near = difflib.get_close_matches(flag, known, n=1)
    return f"{command} has no {flag}" + (f" (did you mean {near[0]}?)" if near else "")


def _value(flag: str, words: Sequence[str]) -> str | None:
    """The value that follows the flag on the command line."""
    for index, word in enumerate(words):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag and index + 1 < len(words) and not words[index + 1].startswith("--"):
            return words[index + 1]
    return None


def _law(command: str, flag: str) -> Suggestion | None:
    """The suggestion for a law's name used as a flag of `sgjepa data`."""
    if command != "data":
        return None
    from sgjepa import laws

    name = flag.lstrip("-").replace("-", "_")
    if name not in laws.LAWS:
        return None
    return Suggestion(
        f"--law {name}={{value}} for the test, --train-law {name}={{value}}:0.5 for training", "mean and deviation"
    )


# --- names of the wrong kind ---------------------------------------------------------------------------------------


def suggest_name(error: BaseException, options: Namespace | None) -> BaseException:
    """The error, or one that says what to type if a given name is of another kind, such as a world instead of a run."""
    if options is None or not isinstance(error, InputError) or isinstance(error, MachineError):
        return error
    command = str(getattr(options, "command", ""))
    with contextlib.suppress(ImportError):  # an extra is not installed, and with it a registry is not there
        for name, (flag, advice) in _ARGUMENTS.items():
            value = getattr(options, name, None)
            for word in value if isinstance(value, list) else [] if value is None else [value]:
                if name == "data" and (command != "train" or (Path(options.datasets) / str(word)).exists()):
                    continue  # a report's is the name of an evaluation
                first = not flag or (name == "dataset" and command in _FIRST_WORD)
                if suggestion := advice(str(word), command, f"sgjepa {command} " if first else f"{flag} "):
                    return InputError(f"{suggestion} (see `sgjepa {command} --help`)")
    return error


def _run(text: str, command: str, use: str) -> str:
    """The suggestion for a word in place of a run's folder."""
    word = _word(text, RUNS)
    if suggestion := _made(word, use, RUNS):
        return suggestion
    if word in zoo.names() and (not zoo.is_policy(word) or command in ("evaluate-policy", "view")):
        return f"{word} comes with the package; type: {use}{zoo.PREFIX}{word}"
    return _untrained(word, f"{use}{RUNS / _first_run(word)}", command)


def _policy(text: str, command: str, use: str) -> str:
    """The suggestion for a word in place of a policy's folder, or a run's."""
    word = _word(text, POLICIES) or _word(text, RUNS)
    return _made(word, use, POLICIES) or _run(text, command, use)


def _dataset(text: str, command: str, use: str) -> str:
    """The suggestion for a word in place of a dataset's folder."""
    word = _word(text, DATASETS)
    if suggestion := _made(word, use, DATASETS):
        return suggestion
    if (name := text.removeprefix(zoo.PREFIX)) in zoo.names():
        kind = "policy" if zoo.is_policy(name) else "model"
        return f"{text} is a {kind} of the zoo, not a dataset; to look at it, type: sgjepa view {zoo.PREFIX}{name}"
    return _unmade(word, lambda name: f"{use}{DATASETS / name}")


def _name_of_data(text: str, command: str, use: str) -> str:
    """The suggestion for a word in place of the name of a dataset's folder."""
    return _unmade(_word(text, DATASETS), lambda name: f"{use}{name}")


def _recipe(text: str, command: str, use: str) -> str:
    """The suggestion for a word in place of a recipe."""
    from sgjepa.recipes.training import METHODS, recipes, worlds

    if text in recipes():
        return ""
    if text in zoo.names():
        return f"{text} is trained already; type: sgjepa evaluate {zoo.PREFIX}{text}, or start a recipe from it with --init"
    world, dash, size = Path(text).name.rpartition("-")
    if text in worlds():
        return f"{text} is a world; did you mean {text}_gru? type: {use}{text}_gru (methods: {', '.join(METHODS)})"
    if dash and f"{world}_gru" in recipes():
        return f"{text} is a dataset; type: {use}{world}_gru --size {size}"
    return ""


def _world(text: str, command: str, use: str) -> str:
    """The suggestion for a word in place of a world."""
    return _unmade(_word(text, DATASETS), None)


_ARGUMENTS: dict[str, tuple[str, Callable[[str, str, str], str]]] = {  # by the parser's names; "" is a positional argument
    "run_folder": ("", _run),
    "runs": ("", _run),
    "policies": ("", _policy),
    "init": ("--init", _run),
    "recipe": ("", _recipe),
    "world": ("", _world),
    "dataset": ("--dataset", _dataset),
    "data": ("--data", _name_of_data),
}
_FIRST_WORD = ("preview", "coverage")  # their dataset is a positional argument


def _word(text: str, folder: Path) -> str:
    """The name of a path that does not exist, in the current folder or the given default one; else empty."""
    path = Path(text)
    return path.name if path.parent in (Path(), folder) and not path.exists() else ""


def _first_run(recipe: str) -> str:
    return f"{recipe}-mini-seed0"


def _made(word: str, use: str, folder: Path) -> str:
    """The suggestion of existing folders whose name is the word or begins with it."""
    if not word:
        return ""
    folders = sorted(path.parent for pattern in (word, f"{word}-*") for path in folder.glob(f"{pattern}/{RECORD}"))
    typed = " or ".join(f"{use}{shlex.quote(str(path))}" for path in folders[:_SHOWN])
    return f"{word} is not a folder; type: {typed}" if typed else ""


def _untrained(word: str, then: str, command: str) -> str:
    """The commands that lead from a recipe or a world to a run."""
    from sgjepa.recipes.training import recipes, worlds

    recipe = f"{word}_gru" if word in worlds() else word
    if recipe not in recipes():
        return ""
    then = then.replace(_first_run(word), _first_run(recipe))
    made = [
        f"sgjepa data {world} --size mini" for world in recipes()[recipe][0] if not (DATASETS / f"{world}-mini").exists()
    ]
    between = {
        "report": [f"sgjepa evaluate {RUNS / _first_run(recipe)}"],
        "evaluate-policy": [f"sgjepa train-policy {RUNS / _first_run(recipe)}"],
    }.get(command, [])
    last = f"sgjepa evaluate-policy {POLICIES / _first_run(recipe)}-mini-seed0" if command == "evaluate-policy" else then
    kind = "a world" if word in worlds() else "a recipe"
    typed = ", then ".join([*made, f"sgjepa train {recipe}", *between, last])
    return f"{word} is {kind}, and nothing is trained by it here; type: {typed}"


def _unmade(word: str, then: Callable[[str], str] | None) -> str:
    """The commands that make the dataset of a world or recipe. then: the command that follows, by the dataset's name."""
    from sgjepa.envs import ENVS
    from sgjepa.recipes.datasets import SIZES
    from sgjepa.recipes.training import recipes

    world, _, size = word.rpartition("-")
    if word in recipes():
        worlds, size, kind = recipes()[word][0], "mini", "a recipe"
    elif word in ENVS and then is not None:
        worlds, size, kind = (word,), "mini", "a world"
    elif world in ENVS and size in SIZES:
        worlds, kind = (world,), "a dataset's name"
    else:
        return ""
    made = [f"sgjepa data {name} --size {size}" for name in worlds]
    typed = ", then ".join([*made, *([then(f"{worlds[0]}-{size}")] if then else [])])
    return f"{word} is {kind}; type: {typed}"
