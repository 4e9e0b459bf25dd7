"""Arm Catcher Ball: scene, environment, demonstrator."""

from sgjepa.envs.arms.catcher.environment import ArmCatcherBall

__all__ = ["ArmCatcherBall"]
