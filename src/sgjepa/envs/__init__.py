"""The worlds, by their command-line names. A world is imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sgjepa.core.registry import Registry

if TYPE_CHECKING:
    from sgjepa.envs.base import Env

# the module and name of the class by world, and its Gymnasium id
_WORLDS = {
    "square": ("sgjepa.envs.planar:Square", "sgjepa/Square-v0"),
    "right_triangle": ("sgjepa.envs.planar:RightTriangle", "sgjepa/RightTriangle-v0"),
    "pentagon": ("sgjepa.envs.planar:Pentagon", "sgjepa/Pentagon-v0"),
    "house": ("sgjepa.envs.planar:House", "sgjepa/House-v0"),
    "approach_ball": ("sgjepa.envs.approach_ball:ApproachBall", "sgjepa/ApproachBall-v0"),
    "arm_catcher_ball": ("sgjepa.envs.arm_catcher:ArmCatcherBall", "sgjepa/ArmCatcherBall-v0"),
    "arm_paddle_ball": ("sgjepa.envs.arm_paddle:ArmPaddleBall", "sgjepa/ArmPaddleBall-v0"),
    "franka_basket": ("sgjepa.envs.franka_basket:FrankaPaddleToBasket", "sgjepa/FrankaPaddleToBasket-v0"),
    "reacher": ("sgjepa.envs.reacher:Reacher", "sgjepa/Reacher-v0"),
    "cube": ("sgjepa.envs.cube:Cube", "sgjepa/Cube-v0"),
}
_STEPS = 63  # steps of an episode of each world, for wrappers that limit time; the environment ends by itself

ENVS: Registry[type[Env]] = Registry("world", {name: where for name, (where, _) in _WORLDS.items()})


def get_env(name: str) -> type[Env]:
    """The environment class of a command-line name."""
    return ENVS.lookup(name)


def register_ids() -> None:
    """Register the ids of the package's worlds with Gymnasium; no world is imported."""
    for where, gym_id in _WORLDS.values():
        _register_id(gym_id, where, _STEPS)


def register(env: type[Env], module: str) -> None:
    """Add a world from outside the package, under its own name and id. module: the one that registers it at its import"""
    ENVS.register(env.env_spec.name, env, module)
    _register_id(env.env_spec.gym_id, env, env.env_spec.frames - 1)


def _register_id(gym_id: str, entry: type[Env] | str, steps: int) -> None:
    import gymnasium

    # the environment says more about wrong calls than Gymnasium's checking wrappers do
    how: dict[str, Any] = {"max_episode_steps": steps, "disable_env_checker": True, "order_enforce": False}
    if gym_id not in gymnasium.registry or gymnasium.registry[gym_id].entry_point != entry:
        gymnasium.register(gym_id, entry_point=cast(Any, entry), **how)
