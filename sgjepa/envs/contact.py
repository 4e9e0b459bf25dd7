"""How the planar bodies meet the walls.

`elastic`, ours. A convex body in a box touches the walls with its vertices only, so each vertex meets each wall plane as
one frictionless point contact. At low impedance MuJoCo's contact is a true spring, whose force depends on the depth alone:
it has a potential, so energy is kept also when two vertices touch at once (at MuJoCo's usual impedance the force depends
on the effective mass, which changes with the pose and with every other contact). RK4 makes free flight exact, and the
step grows to whatever the clearance to the walls allows: fine steps are paid only at a bounce. docs/log.md has the sweep.

`reference`, the authors': box walls 0.4 m thick, stiffness 1000, MuJoCo's default impedance, 320 Hz. Soft: bodies sink
0.2 to 0.6 m into the walls, energy drifts by several J/kg, fast triangles escape.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Contact:
    """Parameters of the wall contacts and of the time stepping they need."""

    stiffness: float  # spring constant for unit mass, 1/s^2
    impedance: tuple[float, float]  # MuJoCo's solimp d_min, d_max
    timestep: float  # s; the finest step when adaptive, else the only one
    integrator: str  # RK4, implicitfast or Euler
    adaptive: bool
    vertices: bool  # vertices against planes; otherwise solids against box walls
    depth: float  # m; a state given from outside may reach this far into a wall


CONTACTS = {
    "elastic": Contact(1e6, (0.01, 0.01), 5e-5, "RK4", adaptive=True, vertices=True, depth=0.02),
    "reference": Contact(1e3, (0.9, 0.95), 1 / 320, "implicitfast", adaptive=False, vertices=False, depth=1.0),
}
