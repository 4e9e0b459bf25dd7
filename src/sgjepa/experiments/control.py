"""Does a representation carry the dynamics that a policy needs? Diffusion policies on frozen features, in closed loop.

All policies are equal except in their observations: data, windows, network, updates, sampler, executed steps and test
episodes are the same. References: the demonstrator (upper bound), no motion and random controls (lower bounds); a policy on
the true state, which measures the cost of a representation; and one on proprioception only, which measures success without
seeing the object. One policy has no law: it separates the effect of the features from that of the law.

A seed is a whole pipeline: the world model and the policy on it have the same seed. Features of a pretrained encoder do not
depend on the world model: one of a single update serves the policies of all seeds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sgjepa.core import threads
from sgjepa.core.stats import Interval
from sgjepa.envs import ENVS
from sgjepa.experiments.answer import Answer, Evidence, main_table
from sgjepa.experiments.arms import Arm, Policy, Reference, Training
from sgjepa.experiments.engine import Experiment
from sgjepa.policies.files import POSE, STATE
from sgjepa.recipes.policies import policy
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Cell, Data, Number
from sgjepa.report.closed_loop import measure_records
from sgjepa.report.figures import against_setting
from sgjepa.report.words import fixed, join, with_sign
from sgjepa.results.claims import MIN_TRAININGS, Claims, measure, side_of
from sgjepa.results.paper_numbers import ablation
from sgjepa.results.selection import REGIONS
from sgjepa.results.table import Results
from sgjepa.results.trials import SUCCESS, WITH_POSE, WITHOUT_LAW

METHODS = ("gru", "lewm", "dino")  # whose features are compared
MORE = {"paper": ("ssm",)}  # further methods of the paper
REFERENCES = ("expert", "still", "random")
TRIES = {"paper": 5}  # sampling seeds per training; with several trainings one is enough
SG_JEPA = "SG-JEPA (GRU)"
ROW = ("trainings", "all (%)", "in distribution (%)", "out of distribution (%)")


def worlds(size: str) -> list[str]:
    """The worlds of a size with a task and laws."""
    declared = {name: env.env_spec for name, env in ENVS.items() if env.env_spec.has_task and env.env_spec.nominal_law}
    return [name for name, spec in declared.items() if spec.defaults and size in spec.defaults.sizes]


def policy_arm(world: str, size: str, sees: str, **how: Any) -> Policy:
    """The policy of a size in a world. sees: its observations, for the name. how: other fields of the arm."""
    return Policy(f"{world}_{sees}", policy(size, world), f"{world}-{size}", tries=TRIES.get(size, 1), **how)


def without_pictures(world: str, size: str) -> list[Policy]:
    """The policies on proprioception only, and on the true state."""
    return [policy_arm(world, size, POSE, robot=True), policy_arm(world, size, STATE)]


def model(world: str, method: str, size: str) -> Training:
    """The world model whose features are compared; with a pretrained encoder a single update is enough."""
    run = recipe(f"{world}_{method}", size)
    train = replace(run.train, decoder=False)
    return Training(replace(run, train=replace(train, epochs=1, updates=1) if run.model.foreign_encoder else train))


def arms(size: str) -> list[Arm]:
    """In every world the references, a policy on each method's features, and policies without pictures.

    The policy without the law is on SG-JEPA's features.
    """
    compared: list[Arm] = []
    for world in worlds(size):
        compared += references(world, size)
        for method in (*METHODS, *MORE.get(size, ())):
            own = policy_arm(world, size, method, model=model(world, method, size))
            compared.append(own)
            if method == "gru":
                blind = replace(own, name=f"{own.name}_nolaw", config=replace(own.config, law=False))
                compared += [blind, *without_pictures(world, size)]
    return compared


def references(world: str, size: str) -> list[Reference]:
    """The reference policies of a world."""
    return [Reference(kind, f"{world}-{size}", TRIES.get(size, 1)) for kind in REFERENCES]


def summary(evidence: Evidence, subject: str = SG_JEPA) -> Answer:
    """Success by world and policy, in and out of distribution, and paired differences.

    subject: the policy that the others are compared with. The paper has none with proprioception or without the law.
    """
    records: list[dict[str, Any]] = []
    rows: list[tuple[Cell, ...]] = []
    words: list[str] = []
    claims: Claims = ()
    paper = ablation("control")["success"]
    curves: dict[str, list[tuple[float, Interval]]] = {}
    names = {float(x): world.replace("_", "\n") for x, world in enumerate(evidence.by_world)}
    for x, (world, results) in zip(names, evidence.by_world.items(), strict=True):
        records += [{"world": world, **record} for record in measure_records(results)]
        for arm in results.arms:
            method, *changes = arm.split(", ")
            published = None if {WITH_POSE, WITHOUT_LAW} & set(changes) else paper.get(f"{world} {method}")
            rows.append((*row_of(results, arm), "" if published is None else str(published)))
            curves.setdefault(arm, []).append((x, success_of(results, arm).percent()))
        words += _sentences(results, subject)
        claims += _claims(results)
    caption = (
        "Success on the test episodes, over episodes and, where there are several, trainings. The paper's numbers are there "
        "for scale: of its own size, scenes and launches."
    )
    figure = against_setting("control_success", "On all test episodes", "", "success (%)", curves, names=names)
    table = main_table(("world", "policy", *ROW, "paper, all (%)"), rows, caption)
    return Answer("Success in closed loop", words, [figure, table, Data("control", records)], claims)


def success_of(results: Results, arm: str, region: str = "all") -> Interval:
    """An arm's success rate, as a share."""
    return results.estimate(arm, results.about.measures[0], region).interval


def row_of(results: Results, arm: str) -> tuple[Cell, ...]:
    """World, policy and the columns ROW of a table."""
    shares = {region: Number(success_of(results, arm, region), 1, scale=100, note="") for region in results.regions}
    trainings = "" if results.driven(arm).baseline else str(len(results.driven(arm).trainings))
    return (results.world.replace("_", " "), arm, trainings, *(shares.get(region) for region in REGIONS))


def _sentences(results: Results, subject: str) -> list[str]:
    """A sentence that compares SG-JEPA's policy with the others, over all episodes."""
    others = [arm for arm in results.arms if arm != subject and not results.driven(arm).baseline]
    if subject not in results.arms or not others:
        return []
    often = {1: "more often than", -1: "less often than", 0: "not significantly more often than"}
    parts = []
    for other in others:
        gap = results.gap(subject, other, SUCCESS)
        parts.append(f"{often[side_of(gap)]} the policy on {other} ({in_points(results, gap, subject, other)})")
    besides = f"{more}," if (more := subject.removeprefix(SG_JEPA)) else ""  # its further observations
    world = results.world.replace("_", " ").capitalize()
    return [f"{world}: on SG-JEPA's features a policy{besides} succeeds {join(parts)}."]


def _claims(results: Results) -> Claims:
    """Claims on SG-JEPA's policy minus those on other features, over all episodes, in points."""
    paper = ablation("control")["success"]
    claims: Claims = ()
    for label in ("LeWM", "DINO-WM"):
        other = next((arm for arm in results.arms if arm.startswith(label)), None)
        if SG_JEPA not in results.arms or other is None:
            continue
        a, b = (paper.get(f"{results.world} {name}") for name in (SG_JEPA, label))
        claims += measure(
            "control",
            results.world.replace("_", " "),
            f"success on SG-JEPA's features minus on {label}'s",
            results.gap(SG_JEPA, other, SUCCESS).percent(),
            "above",
            trainings_of(results, SG_JEPA, other),
            unit="points",
            paper=f"{with_sign(a - b, 1)} points" if a is not None and b is not None else "",
        )
    return claims


def trainings_of(results: Results, *arms: str) -> int:
    """The smallest number of trainings of some arms."""
    return min(len(results.driven(arm).trainings) for arm in arms)


def in_points(results: Results, gap: Interval, first: str, second: str) -> str:
    """A difference between two policies in words, with a note if they have too few trainings."""
    trainings = trainings_of(results, first, second)
    few = f", {threads.counted(trainings, 'training')} each: not decided" if trainings < MIN_TRAININGS else ""
    mean, low, high = (100 * end for end in (gap.mean, gap.low, gap.high))
    return f"{with_sign(mean, 1)} points, {fixed(low, 1)} to {fixed(high, 1)}{few}"


EXPERIMENT = Experiment(
    name="control",
    question="Does a representation carry the dynamics that a policy needs?",
    claim="On SG-JEPA's features a policy succeeds more often than on DINO-WM's and LeWM's, and across gravities.",
    arms=arms,
    analyse=summary,
    worlds=True,
)
