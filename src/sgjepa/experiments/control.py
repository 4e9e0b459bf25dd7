"""Does a representation carry the dynamics that a policy needs? Diffusion policies on frozen features, in closed loop.

All policies are equal in everything but what they see: data, windows, network, updates, sampler, executed steps, test
episodes. References: the demonstrator above, holding still and random controls below; the policy that sees the true state,
which says what a representation costs; and the one that knows the robot's own state alone, which says what is reached
blindly. One policy is not told the law: is the difference in the features, or there?

A seed is a whole pipeline: the world model with that seed, and the policy on it with the same. Features of a foreign encoder
are the same whatever its world model has learned: one of a single update serves the policies of all seeds.
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
MORE = {"paper": ("ssm",)}  # which the paper has too
REFERENCES = ("expert", "still", "random")
TRIES = {"paper": 5}  # sampling seeds of each training; where there are several trainings, one of its own is enough
OURS = "SG-JEPA (GRU)"
ROW = ("trainings", "all (%)", "in distribution (%)", "out of distribution (%)")


def worlds(size: str) -> list[str]:
    """Those with a task under laws that have the size."""
    declared = {name: env.env_spec for name, env in ENVS.items() if env.env_spec.has_task and env.env_spec.nominal_law}
    return [name for name, spec in declared.items() if spec.defaults and size in spec.defaults.sizes]


def policy_arm(world: str, size: str, sees: str, **how: Any) -> Policy:
    """The size's policy in a world. sees: the end of its name. how: other fields of the arm."""
    return Policy(f"{world}_{sees}", policy(size, world), f"{world}-{size}", tries=TRIES.get(size, 1), **how)


def without_pictures(world: str, size: str) -> list[Policy]:
    """The policies on the robot's own state alone, and on the true state."""
    return [policy_arm(world, size, POSE, robot=True), policy_arm(world, size, STATE)]


def model(world: str, method: str, size: str) -> Training:
    """The world model whose features are compared; on a foreign encoder nothing is learned that a policy would see."""
    run = recipe(f"{world}_{method}", size)
    train = replace(run.train, decoder=False)
    return Training(replace(run, train=replace(train, epochs=1, updates=1) if run.model.foreign_encoder else train))


def arms(size: str) -> list[Arm]:
    """In every world the references and a policy on each method's features; with SG-JEPA's those that stand for all.

    Whether the law or the features make the difference is asked of SG-JEPA's.
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
    """What learns nothing."""
    return [Reference(kind, f"{world}-{size}", TRIES.get(size, 1)) for kind in REFERENCES]


def summary(evidence: Evidence, ours: str = OURS) -> Answer:
    """Success by world and policy, in and out of distribution, and what the differences on the same episodes say.

    ours: the policy that the others are compared with. The paper has none with proprioception or without the law.
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
            theirs = None if {WITH_POSE, WITHOUT_LAW} & set(changes) else paper.get(f"{world} {method}")
            rows.append((*row_of(results, arm), "" if theirs is None else str(theirs)))
            curves.setdefault(arm, []).append((x, success_of(results, arm).percent()))
        words += _said(results, ours)
        claims += _claims(results)
    caption = (
        "Success on the test episodes, over episodes and, where there are several, trainings. The paper's numbers are there "
        "for scale: of its own size, scenes and launches."
    )
    figure = against_setting("control_success", "On all test episodes", "", "success (%)", curves, names=names)
    table = main_table(("world", "policy", *ROW, "paper, all (%)"), rows, caption)
    return Answer("Success in closed loop", words, [figure, table, Data("control", records)], claims)


def success_of(results: Results, arm: str, region: str = "all") -> Interval:
    """How often an arm succeeds, as a share."""
    return results.estimate(arm, results.about.measures[0], region).interval


def row_of(results: Results, arm: str) -> tuple[Cell, ...]:
    """World, policy and ROW of a table."""
    shares = {region: Number(success_of(results, arm, region), 1, scale=100, note="") for region in results.regions}
    trainings = "" if results.driven(arm).baseline else str(len(results.driven(arm).trainings))
    return (results.world.replace("_", " "), arm, trainings, *(shares.get(region) for region in REGIONS))


def _said(results: Results, ours: str) -> list[str]:
    """SG-JEPA's policy against the others, over all episodes."""
    others = [arm for arm in results.arms if arm != ours and not results.driven(arm).baseline]
    if ours not in results.arms or not others:
        return []
    often = {1: "more often than", -1: "less often than", 0: "not significantly more often than"}
    parts = []
    for other in others:
        gap = results.gap(ours, other, SUCCESS)
        parts.append(f"{often[side_of(gap)]} the policy on {other} ({in_points(results, gap, ours, other)})")
    besides = f"{more}," if (more := ours.removeprefix(OURS)) else ""  # what it is told besides
    world = results.world.replace("_", " ").capitalize()
    return [f"{world}: on SG-JEPA's features a policy{besides} succeeds {join(parts)}."]


def _claims(results: Results) -> Claims:
    """SG-JEPA's policy against those on the features of the others, over all episodes, in points."""
    paper = ablation("control")["success"]
    claims: Claims = ()
    for label in ("LeWM", "DINO-WM"):
        other = next((arm for arm in results.arms if arm.startswith(label)), None)
        if OURS not in results.arms or other is None:
            continue
        mine, theirs = (paper.get(f"{results.world} {name}") for name in (OURS, label))
        claims += measure(
            "control",
            results.world.replace("_", " "),
            f"success on SG-JEPA's features minus on {label}'s",
            results.gap(OURS, other, SUCCESS).percent(),
            "above",
            trainings_of(results, OURS, other),
            unit="points",
            paper=f"{with_sign(mine - theirs, 1)} points" if mine is not None and theirs is not None else "",
        )
    return claims


def trainings_of(results: Results, *arms: str) -> int:
    """The trainings of the arm that has fewest."""
    return min(len(results.driven(arm).trainings) for arm in arms)


def in_points(results: Results, gap: Interval, one: str, other: str) -> str:
    """A difference between two policies, and whether they were trained too seldom to say so."""
    trainings = trainings_of(results, one, other)
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
