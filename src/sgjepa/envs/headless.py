"""MuJoCo, for every module of this room: imported without touching an OpenGL library (render/gl.py)."""

from sgjepa.envs.render import opengl

opengl.load_mujoco()

import mujoco  # noqa: E402

__all__ = ["mujoco"]
