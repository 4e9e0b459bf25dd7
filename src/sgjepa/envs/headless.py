"""MuJoCo, for every module of this room: imported at its first use, without touching an OpenGL library (render/opengl.py).

Files of worlds also declare what a world is, for datasets, results and reports that simulate nothing.
"""

from typing import Any

from sgjepa.envs.render import opengl


class _MuJoCo:
    """The module's names, each kept when it is first used."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(opengl.load_mujoco(), name)
        setattr(self, name, value)
        return value


mujoco: Any = _MuJoCo()
