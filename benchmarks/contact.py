"""Wall contacts: what stiffness, impedance, integrator and time stepping cost, and how well they keep energy.

For each setting: relative change of mechanical energy over an episode (median, 95th percentile), the deepest penetration,
and CPU milliseconds of simulation per episode. The first line is what the worlds use.

    python benchmarks/contact.py               # writes benchmarks/results/contact.json
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import record

from sgjepa.envs import ENVS
from sgjepa.envs.planar_contact import CONTACTS, Contact

OURS = CONTACTS["elastic"]
SWEEP: dict[str, Contact] = {
    "ours": OURS,
    "impedance 0.1": replace(OURS, impedance=(0.1, 0.1)),
    "impedance 0.5": replace(OURS, impedance=(0.5, 0.5)),
    "impedance 0.95": replace(OURS, impedance=(0.95, 0.95)),
    "stiffness 1e4": replace(OURS, stiffness=1e4),
    "stiffness 1e5": replace(OURS, stiffness=1e5),
    "stiffness 1e7": replace(OURS, stiffness=1e7),
    "finest step 4e-4": replace(OURS, timestep=4e-4),
    "finest step 2e-4": replace(OURS, timestep=2e-4),
    "finest step 1e-4": replace(OURS, timestep=1e-4),
    "Euler, adaptive": replace(OURS, integrator="EULER"),
    "fixed steps of 1.95e-4, RK4": replace(OURS, adaptive=False, timestep=1 / 16 / 320),
    "fixed steps of 4.9e-5, Euler": replace(OURS, adaptive=False, timestep=1 / 16 / 1280, integrator="EULER"),
    "box walls, else as ours": replace(OURS, vertices=False, depth=1.0),
    "reference": CONTACTS["reference"],
    "reference, stiffness 1e5": replace(CONTACTS["reference"], stiffness=1e5),
    "reference, stiffness 6e4, RK4": replace(CONTACTS["reference"], stiffness=6e4, integrator="RK4"),
}


def bootstrap(changes: list[float], percentile: float, draws: int = 2000) -> list[float]:
    """95 % interval of a percentile, by resampling episodes."""
    rng = np.random.default_rng(0)
    again = np.percentile(rng.choice(changes, (draws, len(changes))), percentile, axis=1)
    return np.percentile(again, [2.5, 97.5]).tolist()


def measure(world: str, contact: Contact, gravity: float, episodes: int) -> dict[str, Any]:
    env = ENVS[world](image_size=8, contact=contact)  # type: ignore[call-arg]
    changes, depths, seconds = [], [], 0.0
    for seed in range(episodes):
        env.reset(seed=seed, options={"law": {"gravity": gravity}})
        control, mass, depth = env.expert().astype(float), env.phys()[1], 0.0
        start = env.energy() + (control**2).sum() / (2 * mass)
        for _ in range(63):
            began = time.process_time()
            env._advance(control)
            seconds += time.process_time() - began
            control = np.zeros(2)
            depth = max(depth, -env.clearance())
        changes.append(abs(env.energy() / start - 1))
        depths.append(depth)
    return {
        "median_change": float(np.median(changes)),
        "median_interval": bootstrap(changes, 50),
        "p95_change": float(np.percentile(changes, 95)),
        "p95_interval": bootstrap(changes, 95),
        "deepest_m": float(np.max(depths)),
        "cpu_ms_per_episode": 1e3 * seconds / episodes,
    }


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--worlds", nargs="+", default=["square", "right_triangle"])
    parser.add_argument("--gravities", nargs="+", type=float, default=[4.0, 10.0])
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--settings", nargs="+", default=list(SWEEP), choices=list(SWEEP), metavar="NAME")
    options = parser.parse_args()
    rows = []
    print(f"{'setting':30s} {'world':15s} {'g':>4s}  {'median':>8s} {'p95':>8s} {'deepest':>8s} {'CPU/episode':>11s}")
    for name, contact in ((name, SWEEP[name]) for name in options.settings):
        count = options.episodes if contact.adaptive or contact.timestep > 1e-3 else max(options.episodes // 10, 5)
        for world in options.worlds:
            for gravity in options.gravities:
                found = measure(world, contact, gravity, count)
                rows.append({"setting": name, "world": world, "gravity": gravity, "episodes": count, **found})
                print(
                    f"{name:30s} {world:15s} {gravity:4g}  {found['median_change']:8.3%} {found['p95_change']:8.3%} "
                    f"{found['deepest_m']:6.3f} m {found['cpu_ms_per_episode']:8.1f} ms",
                    flush=True,
                )
    record.write(options.out, record.settings(options), {"rows": rows})


if __name__ == "__main__":
    main()
