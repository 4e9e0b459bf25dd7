"""Arm Paddle Ball: scene, environment, demonstrator."""

from sgjepa.envs.arms.paddle.environment import ArmPaddleBall

__all__ = ["ArmPaddleBall"]
