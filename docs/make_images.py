"""The pictures in the README, made by the project: `python docs/make_images.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sgjepa.data import episode, preview
from sgjepa.envs import ENVS

OUT = Path(__file__).parent / "images"
ARMS = ("arm_catcher_ball", "arm_paddle_ball", "franka_basket")
CONVENTIONAL = ("reacher", "cube")
BALL = (0.62, 9.8, 20.0)  # Pluto, Earth, and the strongest pull of the test set
SHOWN = {"square": -2.0, "right_triangle": 1.0, "pentagon": 4.0, "house": 10.0}


def main() -> None:
    """One episode of each planar world, Approach Ball under three gravities, the arms at work, and the benchmarks."""
    planar()
    ball()
    arms()
    conventional()


def planar() -> None:
    """One episode of each planar world, each under another gravity."""
    frames, labels = [], []
    for world, gravity in SHOWN.items():
        frames.append(episode.simulate(ENVS[world](), seed=7, law={"gravity": gravity}).frames)
        labels.append(f"{world.replace('_', ' ')}\ng = {gravity:g} m/s^2")
    save("worlds.png", frames, labels)


def ball() -> None:
    """Approach Ball under low, training and high gravity."""
    env = ENVS["approach_ball"](image_size=128)
    frames = [episode.simulate(env, seed=3, law={"gravity": gravity}).frames for gravity in BALL]
    save("approach_ball.png", frames, [f"approach ball\ng = {gravity:g} m/s^2" for gravity in BALL])
    env.close()


def arms() -> None:
    """A demonstration of each arm world at its mean training gravity."""
    frames, labels = [], []
    for world in ARMS:
        gravity = ENVS[world].env_spec.nominal_law["gravity"]
        env = ENVS[world](image_size=128)
        plan = env.env_spec.expert_plans[0] if env.env_spec.expert_plans else ""
        frames.append(episode.simulate(env, seed=5, law={"gravity": gravity}, plan=plan).frames)
        labels.append(f"{world.removesuffix('_ball').replace('_', ' ')}\ng = {gravity:g} m/s^2")
        env.close()
    save("arms.png", frames, labels)


def conventional() -> None:
    """A demonstration in each of the conventional benchmarks."""
    frames = []
    for world in CONVENTIONAL:
        env = ENVS[world](image_size=128)
        frames.append(episode.simulate(env, seed=1, law={}, plan=env.env_spec.expert_plans[-1]).frames)
        env.close()
    save("conventional.png", frames, list(CONVENTIONAL))


def save(name: str, frames: list[np.ndarray], labels: list[str]) -> None:
    """A contact sheet in the folder of images."""
    OUT.mkdir(exist_ok=True)
    preview.contact_sheet(np.stack(frames), labels, "").save(OUT / name, optimize=True)
    print(OUT / name)


if __name__ == "__main__":
    main()
