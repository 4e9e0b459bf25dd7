"""Do features differ once a policy knows where its arm is? The study of control, with the robot's own pose beside them.

Controls move the arm from where it is, so a policy on features alone has to see the arm as well as what flies. A robot knows
its pose without looking: what a representation then has to show is the rest of the world. World models are those of
`control`: give both the same --runs.
"""

from __future__ import annotations

from sgjepa.experiments.control import ControlStudy

STUDY = ControlStudy(
    "control_pose",
    "Which features help a policy that knows where its arm is?",
    "No claim of the paper's: its policies see frozen features alone.",
    pose=True,
)
