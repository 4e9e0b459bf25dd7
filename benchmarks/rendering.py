"""Frames of a 3-D world, drawing only: ours against the plain way, in one run, in frames per second of CPU time.

The plain way is the reference's: a new MuJoCo renderer for each episode, 512 x 512 pixels with shadow maps and
multisampling, averaged down to the frame. It is timed at the reference's quality and at MuJoCo's defaults.

    python benchmarks/rendering.py             # writes benchmarks/results/rendering.json, under the world's name
    python benchmarks/rendering.py --world franka_basket
    python benchmarks/rendering.py --sweep     # what each of MuJoCo's settings costs: results/rendering_sweep.json
    MUJOCO_GL=osmesa python benchmarks/rendering.py --sweep
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import record

from sgjepa.core import files
from sgjepa.core.provenance import provenance
from sgjepa.envs import ENVS
from sgjepa.envs.render.gl_renderer import reduce
from sgjepa.envs.world3d import CAMERA, Spatial

WORLDS = [name for name, env in ENVS.items() if issubclass(env, Spatial)]
FINE = 512
REFERENCE, DEFAULT = (8, 8192), (4, 4096)  # multisampling, side of the shadow map


class Movie:
    """One recorded episode of the world, to be drawn again in different ways."""

    def __init__(self, world: str, size: int):
        env = ENVS[world](image_size=size)
        assert isinstance(env, Spatial)
        self.env, self.size = env, size
        env.reset(seed=1)
        self.states = [(env.data.qpos.copy(), env.data.qvel.copy())]
        for _ in range(63):
            env.step(env.expert())
            self.states.append((env.data.qpos.copy(), env.data.qvel.copy()))

    def play(self, draw: Callable[[], np.ndarray], frames: int) -> float:
        """Frames per second of CPU time, over the first so many frames of the episode."""
        spent = 0.0
        for qpos, qvel in self.states[:: len(self.states) // frames][:frames]:
            self.env.data.qpos[:], self.env.data.qvel[:] = qpos, qvel
            mujoco.mj_forward(self.env.model, self.env.data)
            began = time.process_time()
            draw()
            spent += time.process_time() - began
        return frames / spent

    def ours(self, frames: int) -> float:
        return self.play(self.env._frame, frames)

    def plain(self, frames: int, side: int, offsamples: int, shadow: int, fresh: bool = True) -> float:
        """MuJoCo's renderer; `fresh` counts the making of it, as for an episode of `frames`."""
        model = self.env.model
        model.vis.global_.offwidth = model.vis.global_.offheight = side
        model.vis.quality.offsamples, model.vis.quality.shadowsize = offsamples, shadow
        model.light_castshadow[0] = shadow > 0
        began = time.process_time()
        renderer = mujoco.Renderer(model, side, side)
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = shadow > 0

        def draw() -> np.ndarray:
            renderer.update_scene(self.env.data, camera=CAMERA)
            return reduce(renderer.render(), side // self.size)

        draw()
        made = time.process_time() - began
        speed = self.play(draw, frames)
        renderer._gl_context.make_current()
        renderer.close()
        model.vis.quality.offsamples, model.light_castshadow[0] = 0, 0
        # a whole episode of 64 frames pays for the renderer once, however few of them were drawn here
        return 64 / (64 / speed + made) if fresh else speed


def compare(world: str, rounds: int) -> dict[str, dict[str, list[float]]]:
    speeds: dict[str, dict[str, list[float]]] = {}
    movies = {size: Movie(world, size) for size in (64, 256)}
    for size, movie in movies.items():
        speeds[str(size)] = {"plain, reference quality": [], "plain, MuJoCo's defaults": [], "ours": []}
        movie.ours(4)  # the backdrop is drawn once for an environment
    for _ in range(rounds):  # interleaved: a slow moment of the machine hits all ways
        for size, movie in movies.items():
            found = speeds[str(size)]
            found["plain, reference quality"].append(movie.plain(8, FINE, *REFERENCE))
            found["plain, MuJoCo's defaults"].append(movie.plain(8, FINE, *DEFAULT))
            found["ours"].append(movie.ours(64))
    return speeds


def sweep(world: str, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Kept renderers, each with one setting changed from the barest."""
    settings = {"bare": (1, 0, 0)}
    settings |= {f"supersampling {s}": (s, 0, 0) for s in (2, 4)}
    settings |= {f"offsamples {n}": (1, n, 0) for n in (4, 8)}
    settings |= {f"shadow map {n}": (1, 0, n) for n in (512, 1024, 4096, 8192)}
    settings |= {"supersampling 2, shadow map 1024": (2, 0, 1024), "offsamples 4, shadow map 4096": (1, 4, 4096)}
    settings |= {"supersampling 2, offsamples 8, shadow map 8192": (2, 8, 8192)}
    speeds: dict[str, dict[str, list[float]]] = {}
    for size in (64, 128, 256):
        movie = Movie(world, size)
        found = speeds[str(size)] = {name: [] for name in ["ours, in layers", *settings]}
        movie.ours(4)
        for _ in range(rounds):
            found["ours, in layers"].append(movie.ours(64))
            for name, (fine, offsamples, shadow) in settings.items():
                frames = 4 if shadow > 2000 else 16
                found[name].append(movie.plain(frames, size * fine, offsamples, shadow, fresh=False))
        movie.env.close()
    return speeds


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--world", default="approach_ball", choices=WORLDS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sweep", action="store_true")
    parser.set_defaults(out=None)  # its name depends on the backend; other worlds' results in it stay
    options = parser.parse_args()
    speeds = (sweep if options.sweep else compare)(options.world, options.rounds)
    medians = {size: {name: statistics.median(v) for name, v in found.items()} for size, found in speeds.items()}
    backend = os.environ["MUJOCO_GL"]
    print(f"\n{options.world}, {backend}, {options.rounds} rounds, median frames per CPU second and ratio to the first row")
    for size, found in medians.items():
        first = next(iter(found.values()))
        for name, value in found.items():
            print(f"  {size:>4} px  {name:48s} {value:8.1f}  {value / first:7.2f}x")
    ratio = {size: {n: v / next(iter(f.values())) for n, v in f.items()} for size, f in medians.items()}
    result = {
        "backend": backend,
        "rounds": options.rounds,
        "frames_per_cpu_second": speeds,
        "median": medians,
        "ratio": ratio,
    }
    name = "rendering" + ("_sweep" if options.sweep else "") + ("" if backend == "egl" else f"_{backend}")
    out = options.out or Path(__file__).parent / "results" / f"{name}.json"
    others = files.read_json(out) if out.exists() else {}
    files.write_json(out, {**others, options.world: {**result, "provenance": provenance()}})
    print(f"written to {out}")


if __name__ == "__main__":
    main()
