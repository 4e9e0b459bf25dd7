"""Semigroup-JEPA: world models that stay right when predictions are fed back and the law of physics changes.

    import sgjepa

    model = sgjepa.load("zoo:approach_ball_sg_jepa")
    episode = sgjepa.simulate("approach_ball", law={"gravity": 16.0}, seed=3, image_size=model.image_size)
    model.imagine(episode).plot("z")

Use: `load`, `make`, `simulate`, `Dataset`, `train`, `evaluate`, `Results`. Extend: `register_world`, `register_law`,
`register_model`, `register_predictor`, `register_policy`, `register_learned_policy`,
`register_planner`. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sgjepa.api import (
        Dataset,
        Episode,
        Results,
        evaluate,
        load,
        make,
        register_law,
        register_learned_policy,
        register_model,
        register_planner,
        register_policy,
        register_predictor,
        register_world,
        simulate,
        train,
    )

__all__ = [
    "Dataset",
    "Episode",
    "Results",
    "__version__",
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sgjepa' has no attribute '{name}'; it has {', '.join(__all__)}")
    attribute = getattr(importlib.import_module("sgjepa.api"), name)
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    return sorted(__all__)


class _Later(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An import hook that registers the package's Gymnasium ids when Gymnasium is imported."""

    def __init__(self) -> None:
        self._loader: importlib.abc.Loader | None = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec) if self._loader else None

    def exec_module(self, module: ModuleType) -> None:
        assert self._loader is not None
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _register_ids()


def _register_ids() -> None:
    importlib.import_module("sgjepa.envs").register_ids()


if "gymnasium" in sys.modules:
    _register_ids()
else:
    sys.meta_path.insert(0, _Later())
