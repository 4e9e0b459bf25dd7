"""The planar worlds: one rigid body in a box."""

from sgjepa.envs.planar.environment import House, Pentagon, Planar, RightTriangle, Square

__all__ = ["House", "Pentagon", "Planar", "RightTriangle", "Square"]
