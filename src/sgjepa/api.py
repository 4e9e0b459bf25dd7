"""The library's public interface. Every function is available as `sgjepa.NAME`, and imported at its first use."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from sgjepa import envs, laws, zoo
from sgjepa.core import threads
from sgjepa.core.errors import InputError, need_torch, one_line
from sgjepa.data import episode as episodes
from sgjepa.data.episode import Act, Episode
from sgjepa.data.store import Dataset, training_samplers
from sgjepa.envs.base import Env
from sgjepa.envs.spec import EnvSpec
from sgjepa.evaluation.records import LawRecord
from sgjepa.laws import Law
from sgjepa.results.selection import About
from sgjepa.results.table import Results

if TYPE_CHECKING:
    from sgjepa.evaluation.model import Model
    from sgjepa.models.base import Config, PredictorConfig
    from sgjepa.planning.cem import Searches
    from sgjepa.policies.base import Policy
    from sgjepa.policies.learned import LearnedPolicy, PolicyConfig
    from sgjepa.training.config import Run

    Recipe: TypeAlias = Callable[[EnvSpec, str], Run]
    PolicyRecipe: TypeAlias = Callable[[str, str], PolicyConfig]

__all__ = [
    "Dataset",
    "Episode",
    "Results",
    "evaluate",
    "load",
    "make",
    "register_law",
    "register_learned_policy",
    "register_model",
    "register_planner",
    "register_policy",
    "register_predictor",
    "register_world",
    "simulate",
    "train",
]


# --- use what exists ---------------------------------------------------------------------------------------------------


def load(source: str | Path, device: str = "cpu") -> Model | LearnedPolicy:
    """Open a trained world model, or a trained policy.

    source: `zoo:NAME` for a model of the package (`sgjepa zoo` lists them), or the folder of a run or policy.
    device: the torch device of a model, such as "cpu" or "cuda".

    A world model is returned as a `Model`; a policy as an object that `simulate` takes as its `policy`. Nothing is written.

        import sgjepa

        model = sgjepa.load("zoo:approach_ball_sg_jepa")
        print(model.laws, model.history, model.image_size)
    """
    need_torch()
    threads.prepare()
    name = str(source)
    if name in zoo.names() and not Path(source).exists():
        raise InputError(f"{name} comes with the package: load('{zoo.PREFIX}{name}')")
    folder = zoo.folder_to_read(name)
    from sgjepa.policies.files import is_policy

    if is_policy(folder):
        from sgjepa.policies.learned import load_policy

        return load_policy(folder)
    from sgjepa.evaluation.model import load_model

    return load_model(folder).to(device)


def make(world: str, law: Mapping[str, float] | None = None, **options: Any) -> Env:
    """The Gymnasium environment of a world.

    world: its name, such as "square" or "approach_ball".
    law: default values by name for `reset`, such as {"gravity": 3.7} in m/s²; positive pulls down.
    options: options of the environment, such as `image_size` in pixels, `render_mode` and the world's own.

        env = sgjepa.make("approach_ball", law={"gravity": 3.7}, image_size=64)
        frame, info = env.reset(seed=0)  # (64, 64, 3) uint8
    """
    kind = envs.get_env(world)
    try:
        return kind(law=law, **options)
    except TypeError as error:
        raise InputError(f"{world} takes {', '.join(_parameters(kind))}; {one_line(error)}") from error


def _parameters(kind: type[Env]) -> list[str]:
    """The names of the options of a world's constructor."""
    names = {name: None for base in reversed(kind.__mro__) if issubclass(base, Env) for name in _arguments(base)}
    return [name for name in names if name not in ("self", "args", "kwargs")]


def _arguments(kind: type) -> list[str]:
    parameters = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
    return [parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]


def simulate(
    world: str | Env,
    law: Mapping[str, float] | None = None,
    seed: int = 0,
    policy: str | Policy | Callable[[np.ndarray], Any] | Sequence[Any] | np.ndarray | None = None,
    **options: Any,
) -> Episode:
    """Run one episode in the simulator.

    world: the name of a world, or an environment that `make` made.
    law: values by name; laws that it does not name are as in the environment.
    seed: fixes how the episode begins.
    policy: None for the world's scripted expert; a name: "random", "still" or one that you registered; a policy that
        `load` returned; a function from a picture (H, W, 3) to a control (A,); or the controls themselves, (T, A) or
        (T - 1, A), T being the episode's frames.
    options: options of the environment, as `make` takes them, if `world` is a name.

        episode = sgjepa.simulate("approach_ball", law={"gravity": 16.0}, seed=3, image_size=64)
        print(episode.frames.shape, episode.states["z"][:3])
    """
    env = make(world, **options) if isinstance(world, str) else cast(Env, world.unwrapped)
    try:
        plan = "" if policy is None else env.env_spec.success_plan
        return episodes.simulate(env, seed, law or {}, plan, None if policy is None else _driver(policy, env, seed))
    finally:
        if isinstance(world, str):
            env.close()


def _driver(policy: Any, env: Env, seed: int) -> Act:
    """A policy, or controls, as a function from a picture and its number to the control."""
    from sgjepa.policies.scripted import simple
    from sgjepa.policies.vector_env import observe, stack

    drives = simple(policy, env.env_spec) if isinstance(policy, str) else policy
    if hasattr(drives, "act") and hasattr(drives, "reset"):

        def act(frame: np.ndarray, t: int) -> np.ndarray:
            law = np.array([list(env.law.values())], np.float32)
            if t == 0:
                drives.reset(law, [seed])
            observation = stack([observe(env, drives.observes, frame)])
            return _control(drives.act(observation, law)[0], env)

        return act
    if callable(drives):
        return lambda frame, t: _control(drives(frame), env)
    controls = np.asarray(drives, np.float32)
    steps = env.env_spec.frames
    if controls.ndim != 2 or len(controls) not in (steps - 1, steps):
        raise InputError(
            f"controls for {env.env_spec.name} must be ({steps - 1}, {len(env.env_spec.control)}), got {controls.shape}"
        )
    last = np.zeros_like(controls[:1])
    rows = controls if len(controls) == steps else np.concatenate([controls, last])
    return lambda frame, t: _control(rows[t], env)


def _control(values: Any, env: Env) -> np.ndarray:
    """One control, within the world's limits."""
    limit = env.action_space.high  # type: ignore[attr-defined]
    control = np.asarray(values, np.float32).reshape(-1)
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
    """Train a world model, and return it. After an interruption the same call resumes it.

    recipe: a method, such as "sg_jepa", "lewm" or one you registered; a recipe of the command line, such as "square_gru";
        or a `sgjepa.training.config.Run`.
    data: a dataset or its folder, or several to train on together.
    out: the run's folder (default: runs/NAME-SIZE-seedSEED). It keeps weights, measurements and settings.
    size: "mini" takes minutes on two CPU cores, "small" half an hour; "paper" is for GPUs.
    seed: the seed of the initial weights and of the order of the data.
    updates: the number of updates of the weights (default: the recipe's).
    init: a model, a run's folder or `zoo:NAME` to start from, instead of random weights.
    decoder: also train a picture decoder, to look at predictions; the model is the same with and without.
    settings: fields of the run's config by their path, such as {"optim.lr": 1e-3, "train.batch": 20}.

        mine = sgjepa.train("sg_jepa", "datasets/square-mini", updates=2, out="runs/mine")  # two updates, as a trial
    """
    need_torch()
    threads.prepare()
    from sgjepa.core import config
    from sgjepa.evaluation.model import load_model
    from sgjepa.recipes.training import DEFAULT_METHOD, METHODS, recipe_for
    from sgjepa.recipes.training import recipe as usual_recipe
    from sgjepa.training import world_model
    from sgjepa.training.config import Run
    from sgjepa.training.data import with_laws, with_updates

    sources = [data] if isinstance(data, (Dataset, str, Path)) else list(data)
    opened = [item if isinstance(item, Dataset) else Dataset.open(item, verify=False) for item in sources]
    if not opened:
        raise InputError("a training needs at least one dataset")
    first = opened[0]
    if isinstance(recipe, Run):
        run = recipe
    elif recipe in METHODS or recipe == DEFAULT_METHOD:
        run = recipe_for(first.env_spec, first.settings.image_size, recipe, size)
    else:
        run = usual_recipe(recipe, size)
    parents = {dataset.path.absolute().parent for dataset in opened}
    datasets = parents.pop() if len(parents) == 1 else Path("/")
    names = tuple(str(dataset.path.absolute().relative_to(datasets)) for dataset in opened)
    start = (
        init.folder
        if init is not None and hasattr(init, "folder")
        else None
        if init is None
        else zoo.folder_to_read(str(init))
    )
    run = with_laws(replace(run, data=names, seed=seed, init=None if start is None else str(start)), datasets)
    run = replace(run, train=replace(run.train, decoder=decoder and run.model.foreign_encoder is None))
    if settings:
        run = config.override(run, settings)
    if updates is not None:
        run = with_updates(run, updates, datasets)
    folder = Path("runs") / f"{run.name}-{size}-seed{seed}" if out is None else Path(out)
    return load_model(world_model.train(run, folder, datasets))


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
    """Forecast every held-out episode of a dataset, and return the errors of every step, beside those of baselines.

    The model sees the first true frames of each episode and predicts the rest, given the true controls and law. A probe,
    fitted on the training episodes, reads physical states from the predictions; they are compared with the true ones.

    model: a model of `load` or `train`, the folder of a run, `zoo:NAME`, or any torch module with the four functions
        `encode`, `condition`, `predict` and `features`, whose shapes are in [Add a model](add_a_model.md).
    data: a dataset or its folder.
    split: "test", or "validation" for the held-out episodes of the training split.
    context: the number of true frames (default: 20, or half of an episode that is shorter than 40 frames).
    steps: the number of forecast steps (default: to the end of the episode).
    probe: "mlp", the paper's small network, or "linear".
    history: H, the number of latents that a prediction sees, for a module of your own.
    name: its name in the results (default: its method).
    seed: the seed of its training, for a module of your own; a `Model` knows it.

        results = sgjepa.evaluate(mine, "datasets/square-mini", probe="linear", name="mine")
    """
    need_torch()
    threads.prepare()
    from sgjepa.data.probe_targets import default_probe_window
    from sgjepa.evaluation import evaluate as evaluation
    from sgjepa.evaluation.model import CONTEXT, Model, load_model
    from sgjepa.evaluation.probes import ProbeConfig

    if isinstance(model, (str, Path)):
        model = load_model(zoo.folder_to_read(str(model)))
    dataset = data if isinstance(data, Dataset) else Dataset.open(data, verify=False)
    if split not in ("test", "validation"):
        raise InputError(f"split must be 'test' or 'validation', got '{split}'")
    window = min(default_probe_window(dataset.env_spec, dataset.settings.image_size), dataset.test.frames - 1)
    kind = cast(Any, probe)
    if isinstance(model, Model):
        history, called, seed, module = model.history, model.label, model.run.seed, model.net
        if model.probe is not None and model.probe.config.kind == probe and dataset.env_spec == model.env_spec:
            window = model.probe.config.window
    else:
        _check_methods(model)
        called, module = type(model).__name__, model
        history = history or int(getattr(model, "history", 0)) or 1
    shortest = max(history, window)
    frames = max(shortest, min(CONTEXT, dataset.test.frames // 2)) if context is None else context
    cfg = evaluation.ForecastConfig(context=frames, steps=steps, probe=ProbeConfig(kind=kind, window=window))
    previous = model.probe if isinstance(model, Model) else None  # identical to the one that would be fitted
    fitted = previous if previous and previous.config == cfg.probe and previous.data == dataset.train.digest else None
    measured = evaluation.measure_module(module, history, dataset, cfg, split, name or called, fitted)
    drawn = training_samplers(dataset)
    about = About(
        laws={law: LawRecord(laws.get_law(law).unit, sampler) for law, sampler in drawn.items()},
        units=_units(dataset.env_spec, tuple(drawn)),
        notes={"context": frames, "probe": f"{probe}, {window} frames"},
        world=dataset.settings.world,
        dataset=dataset.path.name,
        split=split,
    )
    return Results.of(name or called, seed, measured.errors, about)


def _units(world: EnvSpec, names: Sequence[str]) -> dict[str, str]:
    """The units of position and velocity errors, under these laws; "" if none is declared, or several are mixed."""
    if world.probed is None:
        return {}
    moved = laws.coordinates_moved_by(names)
    pairs = [*zip(world.probed.position, world.probed.velocity or world.probed.position, strict=True)]
    along = [pair for pair in pairs if pair[0] in moved]
    measured: dict[str, Sequence[str]] = {"position_l2": world.probed.position, "velocity_l2": world.probed.velocity}
    if along:
        measured |= {"along_l2": [position for position, _ in along], "velocity_along_l2": [speed for _, speed in along]}
        measured |= {"across_l2": [position for position, _ in pairs if position not in moved]}
    units = {quantity.name: quantity.unit for quantity in world.state}
    names_units = {metric: {units[name] for name in coordinates} for metric, coordinates in measured.items()}
    return {metric: several.pop() if len(several) == 1 else "" for metric, several in names_units.items()}


def _check_methods(model: Any) -> None:
    missing = [method for method in ("encode", "condition", "predict", "features") if not hasattr(model, method)]
    if missing:
        raise InputError(
            f"a model to evaluate needs the methods encode, condition, predict and features; it lacks {missing[0]}"
        )


# --- add something of your own ------------------------------------------------------------------------------------------


def _caller() -> str:
    """The name of the module that calls a `register_*` function."""
    return str(sys._getframe(2).f_globals.get("__name__", "__main__"))


def register_world(env: type[Env]) -> type[Env]:
    """Add a world, also as a decorator, for datasets, training, evaluation and Gymnasium.

    env: a class derived from `sgjepa.envs.base.Env`; its `env_spec` has the name and the Gymnasium id
        ([Add an environment](add_an_environment.md)).

    Returns the class unchanged.
    """
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
    moves: Sequence[str] = (),
) -> Law:
    """Add a law: a physical parameter that holds for an episode and differs between episodes ([Add a law](add_a_law.md)).

    name: its name in dictionaries of laws and in datasets, such as "viscosity".
    apply: a function that sets a value in a `mujoco.MjModel`, in place; None for a law that only recordings have.
    unit: the unit of its values, such as "Pa s"; "1" for a pure number.
    symbol: the symbol of a value in text.
    several: the plural noun for its values in text, such as "gravities".
    limit: values with a greater absolute value are refused.
    moves: the position coordinates that it accelerates, by their names in a state, such as ["z"]. Evaluations then measure
        the error along the law and across it.
    """
    law = Law(name, unit, apply or _only_recorded, limit, symbol, plural=several, moves=tuple(moves))
    laws.LAWS.register(name, law, _caller())
    return law


def _only_recorded(model: Any, value: float) -> None:
    raise InputError("this law was registered without a function that applies it: it is for recordings alone")


def register_predictor(name: str, config: type[PredictorConfig], recipe: Recipe | None = None) -> type[PredictorConfig]:
    """Add a predictor of latents, and a method that trains SG-JEPA with it ([Add a model](add_a_model.md)).

    name: the name of the method for `train` and the commands.
    config: a frozen dataclass with the predictor's settings, whose `build(latent, history)` returns a torch module from
        latents z and conditions c, (B, t, D) each, to the next latents (B, t, D).
    recipe: a function of world and size that returns a `Run` (default: the GRU's recipe with this predictor).
    """
    need_torch()
    threads.prepare()
    from sgjepa.models.base import PREDICTORS
    from sgjepa.recipes.training import METHODS, recipe_with

    caller = _caller()
    PREDICTORS.register(config.__name__, config, caller)
    METHODS.register(name, recipe or recipe_with(config, name), caller)
    return config


def register_model(name: str, config: type[Config], recipe: Recipe) -> type[Config]:
    """Add a world model, and a method that trains it ([Add a model](add_a_model.md)).

    name: the name of the method for `train` and the commands.
    config: a frozen dataclass with its settings that follows `sgjepa.models.base.Config`: `build()` returns the model.
    recipe: a function of world and size that returns a `Run` with that config.
    """
    need_torch()
    threads.prepare()
    from sgjepa.models.base import MODELS
    from sgjepa.recipes.training import METHODS

    caller = _caller()
    MODELS.register(config.__name__, config, caller)
    METHODS.register(name, recipe, caller)
    return config


def register_policy(name: str, policy: Callable[[EnvSpec], Policy]) -> Callable[[EnvSpec], Policy]:
    """Add a policy that needs no training, for `simulate` and `sgjepa evaluate-policy`.

    name: the name of the policy.
    policy: a function from the world's description to an object with the methods `reset` and `act` of
        `sgjepa.policies.base.Policy`.
    """
    from sgjepa.policies.scripted import SIMPLE

    SIMPLE.register(name, policy, _caller())
    return policy


def register_learned_policy(name: str, config: type[PolicyConfig], recipe: PolicyRecipe) -> type[PolicyConfig]:
    """Add a kind of policy that learns from demonstrations; `sgjepa train-policy RUN --kind NAME` then trains it.

    name: the name of the kind.
    config: a frozen dataclass with its settings that follows `sgjepa.policies.learned.PolicyConfig`: it builds and trains
        the network and plans controls.
    recipe: a function of size and world that returns such settings.
    """
    need_torch()
    threads.prepare()
    from sgjepa.policies.learned import LEARNED
    from sgjepa.recipes.policies import POLICIES

    caller = _caller()
    LEARNED.register(config.__name__, config, caller)
    POLICIES.register(name, recipe, caller)
    return config


def register_planner(name: str, search: Searches) -> Searches:
    """Add a search for plans; `sgjepa evaluate-policy RUN --search NAME` then plans with it.

    name: the name of the search.
    search: a function of a `Search` with its settings, a cost of plans (E, N, P, A) -> (E, N), initial plans (E, P, A),
        the controls' limits (A,), E random generators and the number of actions in a control. It returns the best plans
        (E, P, A) and their costs (E,), as `sgjepa.planning.cem.search` does.
    """
    need_torch()
    threads.prepare()
    from sgjepa.planning.cem import PLANNERS

    PLANNERS.register(name, search, _caller())
    return search
