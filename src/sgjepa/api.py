"""The library's front door. Everything here is reached as `sgjepa.NAME`, and imported when it is first asked for."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from sgjepa import envs, laws, zoo
from sgjepa.core import machine
from sgjepa.core.errors import InputError, one_line
from sgjepa.core.extras import need_torch
from sgjepa.data import episode as episodes
from sgjepa.data.episode import Act, Episode
from sgjepa.data.store import Dataset, training_samplers
from sgjepa.envs.base import Env
from sgjepa.envs.world import World
from sgjepa.laws import Law
from sgjepa.results.table import About, Results

if TYPE_CHECKING:
    from sgjepa.control.diffusion import DiffusionPolicy
    from sgjepa.control.policy import Policy
    from sgjepa.evaluation.loaded import Model
    from sgjepa.models.base import Config, PredictorConfig
    from sgjepa.training.run import Run

    Recipe: TypeAlias = Callable[[World, str], Run]

__all__ = [
    "Dataset",
    "Episode",
    "Results",
    "evaluate",
    "load",
    "make",
    "register_law",
    "register_model",
    "register_policy",
    "register_predictor",
    "register_world",
    "simulate",
    "train",
]


# --- use what is there -------------------------------------------------------------------------------------------------


def load(source: str | Path, device: str = "cpu") -> Model | DiffusionPolicy:
    """A finished model or policy: `zoo:NAME` for one that comes with the package, or the folder of a run or policy.

    A model knows its laws, history, probe, decoder and device, and imagines: see `sgjepa.evaluation.loaded.Model`.
    """
    need_torch()
    machine.prepare()
    name = str(source)
    folder = zoo.folder_of(name.removeprefix(zoo.PREFIX)) if name.startswith(zoo.PREFIX) else Path(source)
    if zoo.drives(folder):
        from sgjepa.control.diffusion import load_policy

        return load_policy(folder)
    from sgjepa.evaluation.loaded import load_model

    return load_model(folder).to(device)


def make(world: str, law: Mapping[str, float] | None = None, **options: Any) -> Env:
    """The Gymnasium environment of a world. law: what holds where `reset` is given none.

    options: of the constructor, such as `image_size`, `render_mode` and what the world itself offers.
    """
    kind = envs.find(world)
    try:
        return kind(law=law, **options)
    except TypeError as error:
        raise InputError(f"{world} takes {', '.join(_parameters(kind))}; {one_line(error)}") from error


def _parameters(kind: type[Env]) -> list[str]:
    """What the constructor of a world can be given."""
    names = {name: None for base in reversed(kind.__mro__) if issubclass(base, Env) for name in _named(base)}
    return [name for name in names if name not in ("self", "args", "kwargs", "named", "given")]


def _named(kind: type) -> list[str]:
    found = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
    return [one.name for one in found if one.kind is not inspect.Parameter.VAR_KEYWORD]


def simulate(
    world: str | Env,
    law: Mapping[str, float] | None = None,
    seed: int = 0,
    policy: str | Policy | Callable[[np.ndarray], Any] | Sequence[Any] | np.ndarray | None = None,
    **options: Any,
) -> Episode:
    """One episode of a world, or of an environment that `make` made.

    law: by name; what it does not name is as the environment has it. seed: of the beginning. policy: who drives: None for
    the world's own demonstrator; the name of a policy, such as "random" or "still"; what `load` returns for a policy; a
    function from a picture (H, W, 3) to a control (A,); or the controls themselves, (T, A) or (T - 1, A).
    """
    env = make(world, **options) if isinstance(world, str) else cast(Env, world.unwrapped)
    try:
        plan = "" if policy is None else env.world.to_succeed
        return episodes.simulate(env, seed, law or {}, plan, None if policy is None else _driver(policy, env, seed))
    finally:
        if isinstance(world, str):
            env.close()


def _driver(policy: Any, env: Env, seed: int) -> Act:
    """What drives an environment, as a function of a picture and its number."""
    from sgjepa.control.fleet import view_of
    from sgjepa.control.simple import simple

    drives = simple(policy, env.world) if isinstance(policy, str) else policy
    if hasattr(drives, "act") and hasattr(drives, "reset"):

        def act(frame: np.ndarray, t: int) -> np.ndarray:
            told = np.array([list(env.law.values())], np.float32)
            if t == 0:
                drives.reset(told, [seed])
            seen = view_of(env, drives.sees, frame)
            return _control(drives.act(seen[None], told)[0], env)

        return act
    if callable(drives):
        return lambda frame, t: _control(drives(frame), env)
    given = np.asarray(drives, np.float32)
    steps = env.world.frames
    if given.ndim != 2 or len(given) not in (steps - 1, steps):
        raise InputError(f"controls for {env.world.name} must be ({steps - 1}, {len(env.world.control)}), got {given.shape}")
    last = np.zeros_like(given[:1])
    rows = given if len(given) == steps else np.concatenate([given, last])
    return lambda frame, t: _control(rows[t], env)


def _control(given: Any, env: Env) -> np.ndarray:
    """One control, within the world's limits."""
    limit = env.action_space.high  # type: ignore[attr-defined]
    control = np.asarray(given, np.float32).reshape(-1)
    return np.clip(control, -limit, limit) if control.shape == limit.shape else control


# --- make something new ------------------------------------------------------------------------------------------------


def train(
    recipe: str | Run,
    data: Dataset | str | Path | Sequence[Dataset | str | Path],
    *,
    out: str | Path | None = None,
    size: str = "mini",
    seed: int = 0,
    updates: int | None = None,
    init: Model | str | Path | None = None,
    decoder: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> Model:
    """Train a world model, and return it; interrupted, the same call goes on where it was.

    recipe: a method, such as "sg_jepa", "lewm" or one you registered; a name such as "square_gru"; or a `Run`.
    data: a dataset, or several of one kind that are trained on together. out: the run's folder (default: runs/NAME).
    size: mini, small or paper. updates: instead of the recipe's own number. init: a model to start from.
    decoder: also train a picture decoder; the model is the same with and without. settings: fields of the config by their
    path, such as {"optim.lr": 1e-3, "train.batch": 32}.
    """
    need_torch()
    machine.prepare()
    from sgjepa.core import config
    from sgjepa.evaluation.loaded import load_model
    from sgjepa.recipes.training import METHODS, USUAL_METHOD, recipe_for
    from sgjepa.recipes.training import recipe as usual_recipe
    from sgjepa.training import loop
    from sgjepa.training.budget import with_updates
    from sgjepa.training.data import with_laws
    from sgjepa.training.run import Run

    given = [data] if isinstance(data, (Dataset, str, Path)) else list(data)
    opened = [one if isinstance(one, Dataset) else Dataset.open(one, verify=False) for one in given]
    if not opened:
        raise InputError("a training needs at least one dataset")
    first = opened[0]
    if isinstance(recipe, Run):
        run = recipe
    elif recipe in METHODS or recipe == USUAL_METHOD:
        run = recipe_for(first.settings.spec, first.settings.image_size, recipe, size)
    else:
        run = usual_recipe(recipe, size)
    parents = {one.path.absolute().parent for one in opened}
    datasets = parents.pop() if len(parents) == 1 else Path("/")
    names = tuple(str(one.path.absolute().relative_to(datasets)) for one in opened)
    start = init.folder if init is not None and hasattr(init, "folder") else None if init is None else _run_of(init)
    run = with_laws(replace(run, data=names, seed=seed, init=None if start is None else str(start)), datasets)
    run = replace(run, train=replace(run.train, decoder=decoder and run.model.foreign_encoder is None))
    if settings:
        run = config.override(run, settings)
    if updates is not None:
        run = with_updates(run, updates, datasets)
    folder = Path("runs") / f"{run.name}-{size}-seed{seed}" if out is None else Path(out)
    return load_model(loop.train(run, folder, datasets))


def _run_of(source: str | Path) -> Path:
    name = str(source)
    return zoo.folder_of(name.removeprefix(zoo.PREFIX)) if name.startswith(zoo.PREFIX) else Path(source)


def evaluate(
    model: Any,
    data: Dataset | str | Path,
    *,
    split: str = "test",
    context: int | None = None,
    steps: int | None = None,
    probe: str = "mlp",
    history: int | None = None,
    name: str | None = None,
    seed: int = 0,
) -> Results:
    """Forecast every held-out episode of a dataset, beside the baselines, and return the errors of every step.

    model: what `load` or `train` returned, the folder of a run, `zoo:NAME`, or any torch module with the four functions
    encode, condition, predict and features (sgjepa/models/base.py says their shapes). The model is given `context` true
    frames, 20 where episodes are long enough; its states are read by a probe that is fitted on the training episodes.
    split: "test", or "validation" for the training episodes that no training sees. history: H, for a module of your own.
    name, seed: what the results call it (default: its own name and the seed of its training).
    """
    need_torch()
    machine.prepare()
    from sgjepa.data.readable import usual_window
    from sgjepa.evaluation import evaluate as evaluation
    from sgjepa.evaluation.loaded import CONTEXT, Model, load_model
    from sgjepa.evaluation.probe import ProbeConfig

    if isinstance(model, (str, Path)):
        model = load_model(_run_of(model))
    dataset = data if isinstance(data, Dataset) else Dataset.open(data, verify=False)
    if split not in ("test", "validation"):
        raise InputError(f"split must be 'test' or 'validation', got '{split}'")
    window = min(usual_window(dataset.settings.spec, dataset.settings.image_size), dataset.test.frames - 1)
    kind = cast(Any, probe)
    if isinstance(model, Model):
        history, called, seed, module = model.history, model.label, model.run.seed, model.net
        if model.probe is not None and model.probe.config.kind == probe and dataset.settings.spec == model.world:
            window = model.probe.config.window
    else:
        _check_methods(model)
        called, module = type(model).__name__, model
        history = history or int(getattr(model, "history", 0)) or 1
    least = max(history, window)
    given = max(least, min(CONTEXT, dataset.test.frames // 2)) if context is None else context
    cfg = evaluation.ForecastConfig(context=given, steps=steps, probe=ProbeConfig(kind=kind, window=window))
    kept = model.probe if isinstance(model, Model) else None  # it is the same that would be fitted
    fitted = kept if kept and kept.config == cfg.probe and kept.data == dataset.train.digest else None
    found = evaluation.measure_module(module, history, dataset, cfg, split, name or called, fitted)
    drawn = training_samplers(dataset)
    about = About(
        laws={law: {"unit": laws.find(law).unit, "training": list(sampler.bounds)} for law, sampler in drawn.items()},
        notes={"dataset": dataset.path.name, "split": split, "context": given, "probe": f"{probe}, {window} frames"},
    )
    return Results.of(name or called, seed, found.errors, about)


def _check_methods(model: Any) -> None:
    missing = [method for method in ("encode", "condition", "predict", "features") if not hasattr(model, method)]
    if missing:
        raise InputError(
            f"a model to evaluate needs the methods encode, condition, predict and features; it lacks {missing[0]}"
        )


# --- add something of your own ------------------------------------------------------------------------------------------


def _caller() -> str:
    """The module that calls the function that asks."""
    return str(sys._getframe(2).f_globals.get("__name__", "__main__"))


def register_world(env: type[Env]) -> type[Env]:
    """Add a world: a class derived from `sgjepa.envs.base.Env`. It is then known by `env.world.name` to data, training,
    evaluation and every command, and to Gymnasium by its id. Also usable as a decorator."""
    envs.register(env, _caller())
    return env


def register_law(
    name: str,
    apply: Callable[[Any, float], None] | None = None,
    *,
    unit: str = "1",
    symbol: str = "",
    several: str = "",
    limit: float = float("inf"),
) -> Law:
    """Add a law: a physical parameter that differs between episodes.

    apply: sets a value in a `mujoco.MjModel`, in place; None for laws of recordings alone. limit: |value| beyond it is
    refused. symbol, several: how text calls a value and values of it.
    """
    law = Law(name, unit, apply or _only_recorded, limit, symbol, several)
    laws.LAWS.register(name, law, _caller())
    return law


def _only_recorded(model: Any, value: float) -> None:
    raise InputError("this law was registered without a function that applies it: it is for recordings alone")


def register_predictor(name: str, config: type[PredictorConfig], recipe: Recipe | None = None) -> type[PredictorConfig]:
    """Add a predictor: a frozen dataclass whose `build(latent, history)` returns a module z, c (B, t, D) -> (B, t, D).

    It is then trained as SG-JEPA with that predictor, by the method `name` in every world. recipe: (world, size) -> Run,
    instead of the recipe of the GRU with this predictor in its place.
    """
    need_torch()
    machine.prepare()
    from sgjepa.models.registry import PREDICTORS
    from sgjepa.recipes.training import METHODS, recipe_with

    caller = _caller()
    PREDICTORS.register(config.__name__, config, caller)
    METHODS.register(name, recipe or recipe_with(config, name), caller)
    return config


def register_model(name: str, config: type[Config], recipe: Recipe) -> type[Config]:
    """Add a world model: a frozen dataclass that follows `sgjepa.models.base.Config`. recipe: (world, size) -> Run."""
    need_torch()
    machine.prepare()
    from sgjepa.models.registry import MODELS
    from sgjepa.recipes.training import METHODS

    caller = _caller()
    MODELS.register(config.__name__, config, caller)
    METHODS.register(name, recipe, caller)
    return config


def register_policy(name: str, policy: Callable[[World], Policy]) -> Callable[[World], Policy]:
    """Add a policy that needs no training: a function of the world that returns an object with `reset` and `act`."""
    from sgjepa.control.simple import SIMPLE

    SIMPLE.register(name, policy, _caller())
    return policy
