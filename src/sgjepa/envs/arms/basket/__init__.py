"""Franka Paddle-to-Basket: scene, environment, demonstrator."""

from sgjepa.envs.arms.basket.environment import FrankaPaddleToBasket

__all__ = ["FrankaPaddleToBasket"]
