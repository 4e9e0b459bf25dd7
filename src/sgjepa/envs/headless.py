"""MuJoCo for all modules of `envs`: imported at its first use, without touching an OpenGL library (render/opengl.py).

The modules of worlds also declare specifications, for datasets, results and reports that simulate nothing.
"""

from typing import Any

from sgjepa.envs.render import opengl


class _MuJoCo:
    """A lazy proxy of the module, whose attributes are cached at their first use."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(opengl.load_mujoco(), name)
        setattr(self, name, value)
        return value


mujoco: Any = _MuJoCo()
