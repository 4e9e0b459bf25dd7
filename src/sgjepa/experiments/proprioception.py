"""Which features help a policy that knows where its arm is? The arms of `control`, with the robot's own state beside them.

Controls move the arm from where it is, so a policy on features alone has to see the arm as well as what flies. A robot knows
its own state without looking: what a representation then has to show is the rest of the world. World models are those of
`control`: give both the same --runs.
"""

from __future__ import annotations

from sgjepa.experiments.arms import Arm
from sgjepa.experiments.control import METHODS, MORE, OURS, model, policy_arm, references, summary, without_pictures, worlds
from sgjepa.experiments.engine import Experiment
from sgjepa.results.trials import WITH_POSE


def arms(size: str) -> list[Arm]:
    """In every world the references, a policy on each method's features and the robot's state, and those without."""
    compared: list[Arm] = []
    for world in worlds(size):
        compared += references(world, size)
        for method in (*METHODS, *MORE.get(size, ())):
            compared.append(policy_arm(world, size, f"{method}_pose", model=model(world, method, size), robot=True))
            compared += without_pictures(world, size) if method == "gru" else []
    return compared


EXPERIMENT = Experiment(
    name="proprioception",
    question="Which features help a policy that knows where its arm is?",
    claim="No claim of the paper's: its policies see frozen features alone.",
    arms=arms,
    analyse=lambda evidence: summary(evidence, f"{OURS}, {WITH_POSE}"),
    worlds=True,
)
