"""Searches find what costs little, and a planner that knows the dynamics reaches its goal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from sgjepa.core.errors import InputError
from sgjepa.envs.spec import EnvSpec, Quantity
from sgjepa.models.base import WorldModel
from sgjepa.planning.cem import Search, _noise, search
from sgjepa.planning.planner import Distance, Planner
from sgjepa.planning.receding_horizon import PlannerConfig, RecedingHorizon

torch.set_num_threads(1)
WAYS = ("cem", "icem", "mppi")
LIMIT = torch.tensor([1.0, 0.5])
TARGET = torch.tensor([[0.3, -0.2], [-0.7, 0.4], [0.1, 5.0]])  # the last lies beyond the limit of its second control


def rngs(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


def far(target: Tensor) -> Tensor:
    return target.clamp(-LIMIT, LIMIT)


@pytest.mark.parametrize("way", WAYS)
def test_every_search_finds_the_cheapest_plan_within_the_limits(way: str) -> None:
    cfg = Search(way, candidates=200, iterations=20, elites=20, spread=0.5)
    targets = TARGET[:, None].expand(-1, 4, -1)  # (E, P, A)

    def cost(plans: Tensor) -> Tensor:
        assert (plans.abs() <= LIMIT + 1e-6).all(), "nothing outside the limits is asked for"
        return (plans - targets[:, None]).square().sum(dim=(2, 3))

    best, lowest = search(cfg, cost, torch.zeros(3, 4, 2), LIMIT, rngs(0, 1, 2))
    atol = 0.2 if way == "mppi" else 0.05
    torch.testing.assert_close(best, far(TARGET)[:, None].expand(-1, 4, -1), atol=atol, rtol=0)
    torch.testing.assert_close(lowest, cost(best[:, None])[:, 0])


@pytest.mark.parametrize("way", WAYS)
def test_a_search_does_not_depend_on_those_beside_it(way: str) -> None:
    cfg = Search(way, candidates=30, iterations=4, elites=5)

    def cost_to(target: Tensor) -> object:
        return lambda plans: (plans - target[:, None, None]).square().sum(dim=(2, 3))

    both, _ = search(cfg, cost_to(TARGET[:2]), torch.zeros(2, 3, 2), LIMIT, rngs(7, 8))
    alone, _ = search(cfg, cost_to(TARGET[1:2]), torch.zeros(1, 3, 2), LIMIT, rngs(8))
    torch.testing.assert_close(both[1:], alone)


def test_more_iterations_never_cost_more() -> None:
    def cost(plans: Tensor) -> Tensor:
        return (plans - TARGET[:, None, None]).abs().sum(dim=(2, 3))

    start, sizes = torch.zeros(3, 5, 2), [Search(iterations=n, candidates=40, elites=4) for n in (1, 3, 9)]
    lowest = [search(cfg, cost, start, LIMIT, rngs(1, 2, 3))[1] for cfg in sizes]
    assert (lowest[0] >= lowest[1]).all()
    assert (lowest[1] >= lowest[2]).all()


@pytest.mark.parametrize("way", WAYS)
def test_every_search_finds_its_way_in_as_many_dimensions_as_a_benchmark_has(way: str) -> None:
    """Five blocks of five actions of two torques, that turn once."""
    torque = 0.6 * torch.cos(torch.arange(25) * torch.pi / 25)
    target = torch.stack([torque, -torque], dim=1).view(1, 1, 5, 10)

    def cost(plans: Tensor) -> Tensor:
        return (plans - target).square().sum(dim=(2, 3))

    start = torch.zeros(1, 5, 10)
    found = search(Search(way), cost, start, torch.ones(10), rngs(0), actions=5)[1]
    assert found.item() < 0.2 * cost(start[:, None]).item()


@pytest.mark.parametrize("way", WAYS)
def test_the_last_mean_is_priced_too(way: str) -> None:
    """One iteration around 0 of a bowl at 0.4: the mean of what is good lies nearer than anything drawn."""
    asked: list[Tensor] = []

    def cost(plans: Tensor) -> Tensor:
        asked.append(plans)
        return (plans - 0.4).square().sum(dim=(2, 3))

    best, _ = search(Search(way, iterations=1), cost, torch.zeros(1, 5, 10), torch.ones(10), rngs(0))
    assert asked[-1].shape == (1, 1, 5, 10)
    torch.testing.assert_close(best, asked[-1][:, 0])


def test_the_noise_of_icem_is_slow_and_has_unit_variance() -> None:
    slow, white = (_noise(Search(way), np.random.default_rng(0), 20_000, 8, 1)[..., 0] for way in ("icem", "cem"))
    for noise in (slow, white):
        assert noise.var() == pytest.approx(1.0, abs=0.02)
    beside = [np.mean(noise[:, 1:] * noise[:, :-1]) for noise in (slow, white)]
    assert beside[0] > 0.5 > abs(beside[1]) * 10


def test_the_noise_of_icem_is_slow_along_the_actions_of_a_control() -> None:
    noise = _noise(Search("icem"), np.random.default_rng(0), 20_000, 3, 10, actions=5)
    by_action = noise.reshape(20_000, 15, 2)
    assert by_action.var() == pytest.approx(1.0, abs=0.02)
    assert np.mean(by_action[:, 1:] * by_action[:, :-1]) > 0.5
    assert abs(np.mean(by_action[..., 0] * by_action[..., 1])) < 0.05, "two torques have nothing to do with each other"


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_costs_that_are_no_numbers_are_refused(bad: float) -> None:
    def cost(plans: Tensor) -> Tensor:
        found = plans.square().sum(dim=(2, 3))
        found[:, 3] = bad
        return found

    with pytest.raises(InputError, match=r"of 300 plans cost (nan|inf): a search needs finite costs"):
        search(Search(), cost, torch.zeros(1, 2, 2), LIMIT, rngs(0))


def test_icem_asks_for_fewer_and_fewer_candidates() -> None:
    counts = [Search("icem", candidates=300, elites=20).count(i) for i in range(20)]
    assert counts[0] == 300
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 40


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"elites": 301}, "cannot choose 301 elites among 300 candidates"),
        (
            {"way": "icem", "candidates": 4, "elites": 4, "kept": 1.0},
            "4 reused elites and the mean fill all 4 candidates",
        ),
        ({"way": "mppi", "candidates": 1, "elites": 1}, "at least 2 candidates"),
        ({"way": "gradient"}, "unknown planner 'gradient'"),
    ],
)
def test_a_search_that_cannot_be_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Search(**settings)  # type: ignore[arg-type]


def test_a_plan_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="a horizon of at least 1, got 0"):
        PlannerConfig(horizon=0)
    with pytest.raises(InputError, match="of 5 planned controls 1 to 5 can be executed, not 6"):
        PlannerConfig(execute=6)


# --- a world that is known exactly -------------------------------------------------------------------------------------

POINT = EnvSpec(
    name="point",
    gym_id="",
    state=(),
    control=(Quantity("dx", "m"), Quantity("dy", "m")),
    control_limit=1.0,
    phys=(),
    nominal_law={},
)
STEP = 0.1


class Point(WorldModel):
    """Red and green of a frame are a point's place; a control moves it by a tenth, against a wind that is the law."""

    encoder_parts = ()

    def __init__(self) -> None:
        super().__init__(2, 1, latent_shape=(2,), feature_width=2, image_size=None)

    @property
    def encoder_settings(self) -> object:
        return None

    def encode(self, frames: Tensor, chunk: int | None = None) -> Tensor:
        return frames[:, :, 0, 0, :2].float() / 127.5 - 1

    def condition(self, control: Tensor, law: Tensor) -> Tensor:
        return torch.cat([control, law[:, None].expand(-1, control.shape[1], -1)], dim=-1)

    def predict(self, z: Tensor, c: Tensor) -> Tensor:
        return z + STEP * (c[..., :2] - c[..., 2:])

    def features(self, z: Tensor) -> Tensor:
        return z


def frames_of(place: np.ndarray) -> np.ndarray:
    """(N, 2) -> (N, 4, 4, 3)"""
    colour = np.concatenate([np.round((place + 1) * 127.5), np.zeros((len(place), 1))], axis=1).astype(np.uint8)
    return np.broadcast_to(colour[:, None, None], (len(place), 4, 4, 3)).copy()


def drive(cfg: PlannerConfig, start: np.ndarray, goal: np.ndarray, wind: np.ndarray, seeds: list[int]) -> np.ndarray:
    model = Point()
    price = Distance(model, torch.from_numpy(goal).float())
    planner, place = Planner(model, 4, POINT, price, cfg), start.copy()
    planner.reset(wind, seeds)
    for _ in range(25):
        control = planner.act({"frame": frames_of(place)}, wind)
        assert (np.abs(control) <= 1).all()
        place = np.clip(place + STEP * (control - wind), -1, 1)
    return place


START, GOAL = np.array([[-0.5, 0.5], [0.6, 0.0]]), np.array([[0.7, -0.4], [-0.2, 0.8]])
WIND = np.array([[0.3], [-0.2]], np.float32)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("execute", [1, 3])
def test_a_planner_with_the_true_dynamics_reaches_the_goal_against_the_wind(way: str, execute: int) -> None:
    cfg = PlannerConfig(horizon=4, execute=execute, search=Search(way, candidates=80, iterations=8, elites=10))
    place = drive(cfg, START, GOAL, WIND, [0, 1])
    assert np.abs(START - GOAL).max() > 0.8
    assert np.abs(place - GOAL).max() < 0.2, "only the end of a plan is priced, so it need not hurry over the last steps"


def test_an_episode_is_planned_the_same_alone_and_beside_others() -> None:
    cfg = PlannerConfig(horizon=4, search=Search(candidates=40, iterations=3, elites=8))
    both = drive(cfg, START, GOAL, WIND, [0, 1])
    alone = drive(cfg, START[1:], GOAL[1:], WIND[1:], [1])
    np.testing.assert_array_equal(both[1:], alone)


class Unmoved(RecedingHorizon):
    """Every plan is where its search would begin."""

    def plans(self, rows: Tensor, mean: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        return mean


def test_plans_can_stay_within_the_controls_that_a_model_has_seen() -> None:
    world = replace(POINT, control_limit=(1.0, 0.5))
    near = Unmoved(world, PlannerConfig(within=2.0), familiar=np.array([0.2, 0.4]))
    torch.testing.assert_close(near.limit, torch.tensor([0.4, 0.5]))
    free = Unmoved(world, PlannerConfig(), familiar=np.array([0.2, 0.4]))
    torch.testing.assert_close(free.limit, torch.tensor([1.0, 0.5]))


def test_worlds_may_limit_each_control_by_itself() -> None:
    narrow = replace(POINT, control_limit=(1.0, 0.0))
    cfg = PlannerConfig(search=Search(candidates=20, elites=4))
    planner = Planner(Point(), 4, narrow, Distance(Point(), torch.ones(1, 2)), cfg)
    planner.reset(WIND[:1], [0])
    control = planner.act({"frame": frames_of(START[:1])}, WIND[:1])
    assert control[0, 1] == 0
    assert control[0, 0] > 0.9
