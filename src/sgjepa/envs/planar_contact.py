"""Lossless contacts of planar bodies with walls, and the time steps that they need.

`elastic`, the default: a convex body in a box touches the walls with its vertices only, so each vertex meets each wall plane
as one frictionless point contact. At low impedance MuJoCo's contact is a true spring, whose force depends on the depth
alone: it has a potential, so energy is kept also when two vertices touch at once (at MuJoCo's usual impedance the force
depends on the effective mass, which changes with the pose and with every other contact). RK4 makes free flight exact, and
the step grows to whatever the clearance to the walls allows: fine steps are paid only at a bounce. docs/log.md has the
sweep.

`reference`, the authors': box walls 0.4 m thick, stiffness 1000, MuJoCo's default impedance, 320 Hz. Soft: bodies sink
0.2 to 0.6 m into the walls, energy drifts by several J/kg, fast triangles escape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sgjepa.envs.headless import mujoco

TOUCH = 1e-5  # m; a long step ends this far from the wall, so that its last RK4 stage does not feel the contact


@dataclass(frozen=True)
class Contact:
    """Parameters of the wall contacts and of the time stepping they need."""

    stiffness: float  # spring constant for unit mass, 1/s^2
    impedance: tuple[float, float]  # MuJoCo's solimp d_min, d_max
    timestep: float  # s; the finest step when adaptive, else the only one
    integrator: str  # RK4, IMPLICITFAST or EULER, as MuJoCo's mjtIntegrator has them
    adaptive: bool
    vertices: bool  # vertices against planes; otherwise solids against box walls
    depth: float  # m; a state set by a caller may reach this far into a wall

    @property
    def mujoco_integrator(self) -> Any:
        return getattr(mujoco.mjtIntegrator, f"mjINT_{self.integrator}")

    @property
    def softness(self) -> dict[str, Any]:
        """The solref and solimp of the contacts, as MuJoCo's geoms and pairs take them."""
        return {"solref": [-self.stiffness, 0], "solimp": [*self.impedance, 0.001, 0.5, 2]}


CONTACTS = {
    "elastic": Contact(1e6, (0.01, 0.01), 5e-5, "RK4", adaptive=True, vertices=True, depth=0.02),
    "reference": Contact(1e3, (0.9, 0.95), 1 / 320, "IMPLICITFAST", adaptive=False, vertices=False, depth=1.0),
}
# one smooth sphere against planes
BALL_CONTACTS = {
    "elastic": Contact(4e6, (0.01, 0.01), 2e-5, "RK4", adaptive=True, vertices=False, depth=0.01),
    "reference": Contact(6e4, (0.9, 0.95), 1 / 320, "IMPLICITFAST", adaptive=False, vertices=False, depth=0.03),
}


def advance(model: Any, data: Any, seconds: float, contact: Contact, free_time: Callable[[], float]) -> None:
    """Simulate `seconds`. free_time: returns the time from now on in which nothing can touch a wall"""
    if contact.adaptive:
        while seconds > 1e-12:
            step = min(max(free_time(), contact.timestep), seconds)
            model.opt.timestep = step
            mujoco.mj_step(model, data)
            seconds -= step
    else:
        mujoco.mj_step(model, data, round(seconds / contact.timestep))
    mujoco.mj_forward(model, data)  # mj_step leaves derived quantities one step behind the state
