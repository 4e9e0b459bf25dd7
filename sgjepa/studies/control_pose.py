"""Do features differ once a policy knows where its arm is? The study of control, with the robot's own pose beside them.

Controls move the arm from where it is, so a policy on features alone has to see the arm as well as what flies. A robot knows
its pose without looking: what a representation then has to show is the rest of the world. The policy on the pose alone says
what is reached blindly. World models are those of `control`: give both the same --runs.
"""

from __future__ import annotations

from pathlib import Path

from sgjepa.results.control import TOLD_POSE
from sgjepa.studies.asked import Asked
from sgjepa.studies.chains import Chain
from sgjepa.studies.control import ControlStudy, pupil
from sgjepa.studies.control_findings import OURS
from sgjepa.studies.school import Pupil


class PoseStudy(ControlStudy):
    """As `ControlStudy`, with other policies."""

    def pupils(self, chain: Chain, eye: Path, asked: Asked) -> list[Pupil]:
        """The one that is told its pose; with SG-JEPA's come the one on that alone and the one on the true state."""
        made = [pupil(chain, asked, eye, pose=True)]
        if chain.name.endswith("_gru"):
            made += [pupil(chain, asked, None, pose=True), pupil(chain, asked, None)]
        return made


STUDY = PoseStudy(
    "control_pose",
    "Which features help a policy that knows where its arm is?",
    "No claim of the paper's: its policies see frozen features alone.",
    f"{OURS}, {TOLD_POSE}",
)
