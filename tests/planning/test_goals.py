"""What to reach: a goal is part of an episode's beginning, given by name or drawn by the seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sgjepa.core.errors import InputError
from sgjepa.envs import planar


class Placed(planar.Square):
    """A square that should come to a place."""

    env_spec = replace(planar.Square.env_spec, name="placed", goal=("x", "z"), has_task=True)

    def _draw_goal(self, rng: np.random.Generator) -> dict[str, float]:
        return {"x": rng.uniform(-1, 1), "z": rng.uniform(4, 5)}

    def success(self) -> bool:
        return bool(np.hypot(*(self.state()[:2] - list(self.goal.values()))) < 0.1)


def test_a_goal_is_drawn_by_the_seed_and_a_given_one_takes_its_place() -> None:
    env = Placed(image_size=8)
    drawn = env.reset(seed=3)[1]["goal"]
    launch = env.state()
    assert drawn == env.goal
    assert env.reset(seed=3)[1]["goal"] == drawn
    assert env.reset(seed=4)[1]["goal"] != drawn
    env.reset(seed=3, options={"goal": {"z": 5.0, "x": 1.0}})
    assert env.goal == {"x": 1.0, "z": 5.0}
    assert np.array_equal(env.state(), launch), "a seed is a launch, whatever the goal"
    after = env.np_random.uniform()
    env.reset(seed=3)
    assert env.np_random.uniform() == after


def test_the_present_state_decides_whether_the_goal_is_reached() -> None:
    env = Placed(image_size=8)
    env.begin(0, {"goal": {"x": 1.0, "z": 5.0}})
    assert not env.success()
    env.put({"x": 1.02, "z": 5.03})
    assert env.success()
    env.put({"x": 0.5})
    assert not env.success()


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ({"x": 1.0}, "a goal of placed needs x, z; z missing"),
        ({}, "a goal of placed needs x, z; x, z missing"),
        ({"x": 1.0, "z": 5.0, "vx": 0.0}, "unknown goal quantity 'vx'"),
        ({"x": 1.0, "z": float("nan")}, "goal 'z' must be a finite number, got nan"),
        ([1.0, 5.0], r"goal must be a dict of named quantities \(x, z\)"),
        (None, r"goal must be a dict of named quantities \(x, z\)"),
    ],
)
def test_a_goal_that_says_too_little_or_too_much_is_one_clear_line(goal: Any, words: str) -> None:
    env = Placed(image_size=8)
    with pytest.raises(InputError, match=words) as caught:
        env.reset(seed=0, options={"goal": goal})
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="unknown reset option 'goal'"):
        planar.Square(image_size=8).reset(seed=0, options={"goal": {"x": 1.0, "z": 5.0}})
