"""Where the milliseconds of a frame go in the worlds with a task, and what fewer points or facets would save and cost.

CPU time of the parts of a step at the mini size, under the demonstrator. Then the whole picture with 1 x 1 to 4 x 4 points
for what moves: its time, and its PSNR against the 4 x 4 of every dataset and against 16 x 16, over all pixels and over those
that ever change. Then the same with fewer facets of curved surfaces, in turn, against 60 x 40.

    python benchmarks/frame.py                              # writes benchmarks/results/frame.json
    python benchmarks/frame.py --worlds franka_basket --steps 20 --out trial.json
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import mujoco
import numpy as np
import record

from sgjepa.envs import ENVS
from sgjepa.envs.render import layered_renderer, opengl
from sgjepa.envs.world3d import Spatial

WORLDS = [name for name, env in ENVS.items() if env.env_spec.has_task and issubclass(env, Spatial)]
SIDE, FINE = 64, 16
FINEST, FACETS = (60, 40), ((28, 16), (28, 10), (28, 8), (20, 12), (16, 8), (12, 6))  # around and along
# part: what is timed, and where it is looked up
PARTS: dict[str, tuple[Any, str]] = {
    "simulate": (Spatial, "advance"),
    "picture": (Spatial, "_frame"),
    "OpenGL: scene": (mujoco, "mjv_updateScene"),
    "OpenGL: draw": (mujoco, "mjr_render"),
    "OpenGL: read back": (mujoco, "mjr_readPixels"),
    "OpenGL: let go": (opengl, "release"),
    "shadows": (layered_renderer.LayeredPainter, "_darken"),
    "lay over the backdrop": (layered_renderer, "_lay"),
    "average to pixels": (layered_renderer, "reduce"),
}


def timed(work: Callable[..., Any], name: str, spent: dict[str, float]) -> Callable[..., Any]:
    def run(*given: Any, **named: Any) -> Any:
        began = time.thread_time()
        try:
            return work(*given, **named)
        finally:
            spent[name] += time.thread_time() - began

    return run


def anatomy(world: str, steps: int) -> dict[str, float]:
    """Milliseconds of CPU time per step, by part."""
    env = begun(world)
    env.picture_of(env)  # the backdrop is drawn once for an environment
    spent: dict[str, float] = defaultdict(float)
    with ExitStack() as stack:
        for name, (place, attribute) in PARTS.items():
            work = timed(getattr(place, attribute), name, spent)
            stack.enter_context(patch.object(place, attribute, work))
        for _ in range(steps):
            env.step(env.expert())
    env.close()
    return {name: 1000 * spent[name] / steps for name in PARTS}


def begun(world: str) -> Any:
    env = ENVS[world](image_size=SIDE)
    env.begin(seed=1, options={"plan": env.env_spec.success_plan})
    return env


def film(
    world: str, steps: int, samples: int = layered_renderer.SAMPLES, facets: tuple[int, int] | None = None
) -> tuple[np.ndarray, float]:
    """Frames (T, H, W, 3) float, and milliseconds of CPU time per picture. facets: the world's own if None."""
    with patch.object(layered_renderer, "SAMPLES", samples):
        env = begun(world)
        if facets:
            env.model.vis.quality.numslices, env.model.vis.quality.numstacks = facets  # read when the painter starts
        frames, spent = [env.picture_of(env)], 0.0
        for _ in range(steps):
            env.advance(env.expert())
            began = time.thread_time()
            frames.append(env.picture_of(env))
            spent += time.thread_time() - began
        env.close()
    return np.stack(frames).astype(float), 1000 * spent / steps


def psnr(one: np.ndarray, other: np.ndarray, where: np.ndarray) -> float | None:
    """In dB over the pixels of a mask (T, H, W); None if they are equal."""
    error = float(((one - other) ** 2)[where].mean())
    return 10 * float(np.log10(255**2 / error)) if error else None


def samples(world: str, steps: int) -> list[dict[str, Any]]:
    """A row for each number of points."""
    fine, usual = film(world, steps, FINE)[0], film(world, steps)[0]
    everywhere = np.ones(fine.shape[:3], bool)
    changing = np.broadcast_to((np.abs(fine - fine[:1]).max(axis=-1) > 2).any(axis=0), everywhere.shape)
    found = []
    for count in range(1, layered_renderer.SAMPLES + 1):
        frames, spent = min((film(world, steps, count) for _ in range(3)), key=lambda pair: pair[1])
        row: dict[str, Any] = {"points": f"{count} x {count}", "ms": spent}
        for name, other in ((f"{layered_renderer.SAMPLES} x {layered_renderer.SAMPLES}", usual), (f"{FINE} x {FINE}", fine)):
            row |= {f"psnr to {name}": psnr(frames, other, everywhere)}
            row |= {f"psnr to {name} where it changes": psnr(frames, other, changing)}
        found.append(row)
    return found


def facets(world: str, steps: int) -> list[dict[str, Any]]:
    """A row for each fineness of curved surfaces; they take turns."""
    fine = film(world, steps, facets=FINEST)[0]
    everywhere = np.ones(fine.shape[:3], bool)
    films = [{kind: film(world, steps, facets=kind) for kind in FACETS} for _ in range(3)]
    times = {kind: float(np.median([one[kind][1] for one in films])) for kind in FACETS}
    return [
        {
            "facets": f"{kind[0]} x {kind[1]}",
            "ms": times[kind],
            f"times as fast as {FACETS[0][0]} x {FACETS[0][1]}": times[FACETS[0]] / times[kind],
            f"psnr to {FINEST[0]} x {FINEST[1]}": psnr(films[0][kind][0], fine, everywhere),
        }
        for kind in FACETS
    ]


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--worlds", nargs="+", default=WORLDS, choices=WORLDS, metavar="WORLD")
    parser.add_argument("--steps", type=int, default=63)
    options = parser.parse_args()
    result: dict[str, Any] = {"ms_per_step": {}, "samples": {}, "facets": {}}
    for world in options.worlds:
        result["ms_per_step"][world] = anatomy(world, options.steps)
        result["samples"][world] = samples(world, options.steps)
        result["facets"][world] = facets(world, options.steps)
        print(f"\n{world}, {SIDE} px, CPU ms per step")
        for name, spent in result["ms_per_step"][world].items():
            print(f"  {name:24s} {spent:6.2f}")
        for row in result["samples"][world] + result["facets"][world]:
            print(
                "  "
                + ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else str(value) for key, value in row.items())
            )
    record.write(options.out, record.settings(options), result)


if __name__ == "__main__":
    main()
