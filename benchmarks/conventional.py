"""Pictures and frames of the conventional benchmarks: ours against the benchmark's own, in one run, in CPU time.

The plain way is dm_control's and OGBench's own environment with its own renderer; and the same renderer with shadows and
multisampling off. A frame is five of its control steps and a picture.

    python benchmarks/conventional.py          # writes benchmarks/results/conventional.json
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import record

from sgjepa.envs import ENVS
from sgjepa.envs.benchmarks import BLOCK

WORLDS = ("reacher", "cube")


def seconds(work: Callable[[], Any], times: int) -> float:
    """CPU seconds of one call, after one that is not counted."""
    work()
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


def ours(world: str, size: int, times: int) -> tuple[float, float]:
    """Seconds of a picture, and of a frame."""
    env = ENVS[world](image_size=size)
    control = np.zeros((1, len(env.env_spec.control)))
    env.begin(0)

    def frame() -> None:
        if env.t == env.env_spec.frames - 1:
            env.begin(0)
        env.step(control[0])

    found = seconds(env._frame, 4 * times), seconds(frame, 4 * times)
    env.close()
    return found


def reacher(size: int, times: int, bare: bool) -> tuple[float, float]:
    """dm_control's own."""
    from dm_control import suite

    env = suite.load("reacher", "hard", task_kwargs={"random": 0})
    env.reset()
    if bare:
        env.physics.model.vis.quality.offsamples = env.physics.model.vis.quality.shadowsize = 0
    flags = {"shadow": False, "reflection": False} if bare else {}

    def picture() -> None:
        env.physics.render(size, size, camera_id="fixed", render_flag_overrides=flags)

    def frame() -> None:
        for _ in range(BLOCK):
            env.step(np.zeros(2))
        picture()

    return seconds(picture, times), seconds(frame, times)


def cube(size: int, times: int, bare: bool) -> tuple[float, float]:
    """OGBench's own, with its camera for pictures."""
    from ogbench.manipspace.envs.cube_env import CubeEnv

    env = CubeEnv("single", width=size, height=size, visualize_info=False, mode="data_collection")
    env.reset(seed=0)
    if bare:
        env.model.vis.quality.offsamples = env.model.vis.quality.shadowsize = 0

    def unlit(scene: Any) -> None:
        scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0

    def picture() -> None:
        env.render(camera="front_pixels", scene_callback=unlit if bare else None)

    def frame() -> None:
        for _ in range(BLOCK):
            env.step(np.zeros(5))
        picture()

    found = seconds(picture, times), seconds(frame, times)
    env._renderer._gl_context.make_current()
    env._renderer.close()
    return found


THEIRS = {"reacher": reacher, "cube": cube}


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=5, help="pictures of theirs in a round; ours four times as many")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 224])
    options = parser.parse_args()
    rows = []
    for world in WORLDS:
        for size in options.sizes:
            found: dict[str, list[tuple[float, float]]] = {"theirs": [], "theirs, bare": [], "ours": []}
            for _ in range(options.rounds):  # interleaved: a slow moment of the machine hits all ways
                found["theirs"].append(THEIRS[world](size, options.times, bare=False))
                found["theirs, bare"].append(THEIRS[world](size, options.times, bare=True))
                found["ours"].append(ours(world, size, options.times))
            for column, what in enumerate(("picture", "frame")):
                middle = {way: statistics.median(pair[column] for pair in pairs) for way, pairs in found.items()}
                ratio = {way: value / middle["ours"] for way, value in middle.items()}
                rows.append(
                    {"world": world, "pixels": size, "what": what, "seconds": middle, "times as long as ours": ratio}
                )
                text = ", ".join(f"{way} {1000 * value:.1f} ms ({ratio[way]:.1f}x)" for way, value in middle.items())
                print(f"{world:8s} {size:4d} px  {what:8s} {text}", flush=True)
    record.write(options.out, record.settings(options), {"rows": rows})


if __name__ == "__main__":
    main()
