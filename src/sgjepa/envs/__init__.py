"""The worlds, by their command-line names. Importing this registers their Gymnasium ids."""

from sgjepa.envs.render import gl

gl.load_mujoco()  # before anything below imports it

from typing import Any, cast  # noqa: E402

import gymnasium  # noqa: E402

from sgjepa.core.errors import unknown  # noqa: E402
from sgjepa.envs import approach_ball, planar  # noqa: E402
from sgjepa.envs.arms import basket, catcher, paddle  # noqa: E402
from sgjepa.envs.base import Env  # noqa: E402
from sgjepa.envs.conventional import cube, reacher  # noqa: E402

ENVS: dict[str, type[Env]] = {
    "square": planar.Square,
    "right_triangle": planar.RightTriangle,
    "pentagon": planar.Pentagon,
    "house": planar.House,
    "approach_ball": approach_ball.ApproachBall,
    "arm_catcher_ball": catcher.ArmCatcherBall,
    "arm_paddle_ball": paddle.ArmPaddleBall,
    "franka_basket": basket.FrankaPaddleToBasket,
    "reacher": reacher.Reacher,
    "cube": cube.Cube,
}

for _env in ENVS.values():
    gymnasium.register(
        _env.world.gym_id,
        entry_point=cast(Any, _env),
        max_episode_steps=_env.world.frames - 1,  # for wrappers that know the time; the environment ends there itself
        disable_env_checker=True,  # the environment says more about wrong calls than these wrappers do
        order_enforce=False,
    )


def find(name: str) -> type[Env]:
    """The environment class of a command-line name."""
    if name not in ENVS:
        raise unknown("world", name, ENVS)
    return ENVS[name]
