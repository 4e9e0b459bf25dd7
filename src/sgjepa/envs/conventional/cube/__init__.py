"""OGBench's cube: scene, hand, environment, demonstrator."""

from sgjepa.envs.conventional.cube.environment import Cube as Cube
