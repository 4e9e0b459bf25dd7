"""Planning in closed loop: cases with goals, balls to be met, what stands on the page, and what is refused."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.datasets import small
from fixtures.planning import Placed, untaught
from torch import Tensor

from sgjepa import cli
from sgjepa.core.errors import InputError
from sgjepa.data.collect import collect
from sgjepa.data.config import make_env
from sgjepa.data.probe_targets import Targets
from sgjepa.data.store import Dataset, open_dataset, split_episodes
from sgjepa.envs import ENVS, get_env
from sgjepa.evaluation.probes import Fitted, Probe, ProbeConfig
from sgjepa.models.candidate_rollouts import rollout_candidates_plain
from sgjepa.planning.cem import Search
from sgjepa.planning.interception import InterceptionCost, interception_targets
from sgjepa.planning.load import default_planner_config, planned, simulated
from sgjepa.planning.receding_horizon import PlannerConfig
from sgjepa.planning.stable_worldmodel_adapter import as_cost
from sgjepa.policies.evaluate import beginnings, trial, untrained
from sgjepa.policies.files import SECONDS, read_controls, read_trial
from sgjepa.policies.goal_tasks import Cases, cases_of, from_columns, goal_pictures, to_columns
from sgjepa.report import films
from sgjepa.report.closed_loop import by_plan
from sgjepa.results.paper_numbers import PublishedPlans, published_plans
from sgjepa.results.table import Results

pytestmark = pytest.mark.opengl
torch.set_num_threads(1)
CATCHER = "arm_catcher_ball"
FEW = PlannerConfig(horizon=2, execute=2, search=Search(candidates=6, iterations=2, elites=2))
CASES = Cases(count=2, offset=3, budget=4)


def few(world: str, place: Path, **changes: object) -> Dataset:
    settings = small(world if world in ENVS and world != "placed" else "square", seed=1)
    settings = replace(settings, train=replace(settings.train, episodes=4), test=replace(settings.test, episodes=4))
    return open_dataset(collect(replace(settings, world=world, **changes), place / "datasets" / world, workers=1))


@pytest.fixture(autouse=True)
def _small_films(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(films, "SIDE", 32)


@pytest.fixture(scope="module", autouse=True)
def _known() -> object:
    ENVS["placed"] = Placed
    yield
    del ENVS["placed"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plan")


@pytest.fixture(scope="module")
def goals(place: Path, _known: object) -> Dataset:
    return few("placed", place)


@pytest.fixture(scope="module")
def run(goals: Dataset, place: Path) -> Path:
    return untaught(goals, place)


@pytest.fixture(scope="module")
def balls(place: Path) -> Dataset:
    return few(CATCHER, place)


@pytest.fixture(scope="module")
def catcher(balls: Dataset, place: Path) -> Path:
    return untaught(balls, place)


# --- cases ---------------------------------------------------------------------------------------------------------


def test_a_case_begins_in_a_frame_of_its_episode_and_its_goal_is_that_episodes_later_state(goals: Dataset) -> None:
    env = make_env(goals.settings)
    for start in cases_of(goals, CASES):
        env.begin(start.seed, start.options(env.env_spec))
        assert not env.success()
        np.testing.assert_allclose(env.state(), goals.test.state[start.number, start.frame], atol=1e-5)
        assert list(env.goal.values()) == goals.test.state[start.number, start.frame + 3, :2].tolist()
        env.put(start.reached or {})
        assert env.success()
    assert cases_of(goals, replace(CASES, count=1))[0] == cases_of(goals, CASES)[0], "one case does not depend on the others"


def test_cases_can_be_of_episodes_that_were_held_out(goals: Dataset, run: Path, tmp_path: Path) -> None:
    (number,) = split_episodes(goals.train.episodes)[1]
    (start,) = cases_of(goals, replace(CASES, count=1), held_out=True)
    names = [quantity.name for quantity in Placed.env_spec.state]
    assert start.number == number
    assert start.state == dict(zip(names, goals.train.state[number, start.frame].tolist(), strict=True))
    options = [
        "--episodes",
        "1",
        "--offset",
        "3",
        "--candidates",
        "6",
        "--iterations",
        "2",
        "--elites",
        "2",
        "--workers",
        "1",
    ]
    assert cli.main(["evaluate-policy", str(run), "--held-out", "--out", str(tmp_path / "out"), *options]) == 0
    (place,) = run.glob("trials/*held-out*")
    about, rows = read_trial(place)
    assert (about.settings.split, rows["episode"].tolist()) == ("train", [number])


def test_what_was_held_out_from_a_run_is_known_of_its_own_dataset_alone(
    goals: Dataset, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = goals.settings
    longer = collect(replace(settings, train=replace(settings.train, episodes=6)), tmp_path / "longer", workers=1)
    given = [str(run), "--dataset", str(longer), "--out", str(tmp_path / "out")]
    assert cli.main(["evaluate-policy", *given, "--held-out", "--offset", "3", "--episodes", "1"]) == 3
    said = capsys.readouterr().err
    assert "the training episodes of longer that were held out from placed_gru-mini-seed0 are not known" in said


def test_no_policy_on_features_is_trained_where_a_goal_is_not_in_the_picture(
    goals: Dataset, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["train-policy", str(run), "--dataset", str(goals.path), "--out", str(tmp_path / "policy")]) == 3
    assert "placed has goals, which its pictures do not show" in capsys.readouterr().err
    assert not (tmp_path / "policy").exists()


def test_a_case_tells_what_its_episode_was_made_for(tmp_path: Path) -> None:
    settings = small("reacher", seed=1)
    settings = replace(settings, train=replace(settings.train, episodes=4), test=replace(settings.test, episodes=6))
    dataset = open_dataset(collect(replace(settings, image_size=32), tmp_path / "reacher", workers=1))
    begun = cases_of(dataset, Cases(count=4))
    assert [start.plan for start in begun] == [dataset.test.label("plan")[start.number] for start in begun]
    assert len({start.plan for start in begun}) > 1
    table = {"episode": np.array([start.number for start in begun]), **to_columns(begun)}
    numbers = [start.number for start in begun]
    assert from_columns(table, dataset.settings, "test", numbers) == begun, "rows hold all that films need"


def test_the_picture_of_a_goal_is_that_episodes_own_picture(goals: Dataset) -> None:
    begun = cases_of(goals, CASES)
    shown = goals.test.pixels(np.array([start.number for start in begun]))
    for picture, frames, start in zip(goal_pictures(goals.settings, begun), shown, begun, strict=True):
        assert np.abs(picture.astype(int) - frames[start.frame + 3]).mean() < 1


# --- trials --------------------------------------------------------------------------------------------------------


def test_a_run_plans_its_cases_the_same_alone_and_beside_others_and_says_how_long_it_took(goals: Dataset, run: Path) -> None:
    both, alone = (
        trial(planned(run, goals, FEW, cases), goals, 0, beginnings(goals, cases=cases))
        for cases in (CASES, replace(CASES, count=1))
    )
    about, rows = read_trial(both)
    assert about.settings.cases == CASES
    first = read_controls(alone)
    controls = read_controls(both)
    for name in (name for name in first if name.startswith("control.")):
        np.testing.assert_array_equal(first[name], controls[name][: len(first[name])])
    assert (np.isfinite(controls[SECONDS]) == (controls["step"] % 2 == 0)).all(), "a plan for every second control"
    numbers = rows["episode"].tolist()
    assert from_columns(rows, goals.settings, "test", numbers) == cases_of(goals, CASES), "rows hold all that films need"


def test_the_planner_in_the_true_simulator_reaches_what_random_controls_do_not(goals: Dataset, tmp_path: Path) -> None:
    cases = Cases(count=3, offset=3, budget=3)
    cfg = PlannerConfig(horizon=3, execute=3)
    found = [
        read_trial(trial(subject, goals, 0, beginnings(goals, cases=cases)))[1]["success"].mean()
        for subject in (simulated(goals, tmp_path, cfg), untrained("random", goals, tmp_path))
    ]
    assert found[0] > found[1]
    assert found[0] == 1


def test_success_is_told_by_what_the_episodes_were_made_for(goals: Dataset, tmp_path: Path) -> None:
    begun = beginnings(goals, None, CASES)
    begun = replace(begun, starts=tuple(replace(s, plan=p) for s, p in zip(begun.starts, ("sweep", "wander"), strict=True)))
    results = Results.of_trials([trial(untrained("random", goals, tmp_path), goals, 0, begun)])
    assert {plan: chosen.tolist() for plan, chosen in results.plans.items()} == {
        "sweep": [True, False],
        "wander": [False, True],
    }
    success = results.values("random controls", "success")[0, :, 0]
    table = by_plan(results)
    assert table is not None
    assert [(row["plan"], row["mean"], row["count"]) for row in table.csv] == [
        ("sweep", success[0], 1),
        ("wander", success[1], 1),
    ]
    assert list(table.columns) == ["Policy", "sweep (1)", "wander (1)"]
    plain = trial(untrained("random", goals, tmp_path / "plain"), goals, 0, beginnings(goals, None, CASES))
    assert by_plan(Results.of_trials([plain])) is None, "episodes of this world were made for nothing in particular"


def test_the_papers_last_table_is_the_papers() -> None:
    assert published_plans("square") == {}
    found = {world: published_plans(world) for world in ("reacher", "cube")}
    methods = [f"SG-JEPA ({name})" for name in ("Transformer", "GRU", "SSM")]
    assert [found["cube"][method].success for method in methods] == [68, 70, 68]
    assert [found["reacher"][method].success for method in methods] == [100, 98, 98]
    assert found["reacher"][methods[1]] == PublishedPlans(98, 94, 100, 0.00323, 0.00289, 0.316)


def test_the_command_writes_a_page_and_goes_on_where_it_was(
    goals: Dataset, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sgjepa.report.closed_loop.published_plans", lambda _: published_plans("reacher"))
    search = ["--candidates", "6", "--iterations", "2", "--elites", "2", "--horizon", "2"]
    policies = [str(run), "random", "simulator"]
    command = ["evaluate-policy", *policies, "--episodes", "2", "--offset", "3", "--workers", "1", *search]
    command += ["--out", str(tmp_path / "out")]
    assert cli.main(command) == 0
    said = capsys.readouterr().out
    for words in ("SG-JEPA (GRU), planned by CEM", "random controls", "planned in the true simulator", "A plan takes"):
        assert words in said
    with (tmp_path / "out" / "latent_errors.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["run"] == run.name
    assert 0 < float(row["low"]) <= float(row["k5"]) <= float(row["high"])
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Planning time" in page
    assert "its goal" in page
    assert "paper: SG-JEPA (GRU)" in page
    with (tmp_path / "out" / "tables" / "paper.csv").open() as file:
        ours, paper = csv.DictReader(file)
    assert (ours["of"], paper["of"], paper["seconds"], paper["success"]) == ("here", "paper", "0.316", "0.98")
    assert float(ours["k_last"]) == pytest.approx(float(row["k5"]))
    assert float(ours["k_mean"]) == pytest.approx(float(row["mean"]))
    records = sorted(run.glob("trials/*/artifact.json"))
    before = [path.stat().st_mtime_ns for path in records]
    assert cli.main(command) == 0
    assert [path.stat().st_mtime_ns for path in records] == before


# --- a ball to be met ------------------------------------------------------------------------------------------------


class Bare(torch.nn.Module):
    def features(self, z: Tensor) -> Tensor:
        return z


def test_a_meeting_costs_the_smallest_distance_of_two_places_in_any_imagined_frame() -> None:
    places = ("x", "z", "a", "b")
    cfg = ProbeConfig("linear", window=3)
    probe = Probe(cfg, 4, 4)
    with torch.no_grad():  # reads twice the newest frame, in units of half a metre
        probe.layers[-1].weight.copy_(torch.cat([torch.zeros(4, 8), 2 * torch.eye(4)], dim=1))
        probe.layers[-1].bias.zero_()
    probe.std.fill_(0.5)
    probe.mean.fill_(7.0)
    known = Fitted(probe, cfg, Targets(places, places, (), "", "", 1, 0.1), {})
    futures = torch.zeros(1, 2, 3, 4)
    futures[0, 0, :, 0] = torch.tensor([5.0, 1.0, 3.0])  # the first candidate comes to within 1 m in its second frame
    futures[0, 1, :, 3] = 2.0
    cost = InterceptionCost(Bare(), known)(torch.full((1, 5, 4), 9.0), futures, torch.arange(1))  # type: ignore[arg-type]
    assert cost.tolist() == [[1.0, 4.0]]


def test_ball_and_catcher_are_told_apart_by_the_worlds_own_words(balls: Dataset) -> None:
    found = interception_targets(get_env(CATCHER).env_spec)
    assert found.position == ("x", "y", "z", "catcher_x", "catcher_y", "catcher_z")
    seen = np.concatenate([balls.test.state, balls.test.record("catcher")], axis=-1)
    assert np.array_equal(found.of(seen)[..., :3], balls.test.state[..., :3])
    assert np.array_equal(found.of(seen)[..., 3:], balls.test.record("catcher")[..., :3])


def test_a_run_that_plans_stands_beside_policies_on_the_page_of_control(
    balls: Dataset, catcher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sgjepa.planning.load.TO_INTERCEPT", replace(FEW, horizon=4, execute=4))
    out = str(tmp_path / "out")
    assert cli.main(["evaluate-policy", str(catcher), "random", "--episodes", "1", "--workers", "1", "--out", out]) == 0
    page = (tmp_path / "out" / "index.html").read_text()
    assert "SG-JEPA (GRU), planned by CEM" in page
    assert "probed distance" in page
    (probe,) = (catcher / "probes").iterdir()
    assert probe.name.endswith("-x-y-z-catcher_x-catcher_y-catcher_z")


# --- the other direction -------------------------------------------------------------------------------------------


def test_our_cost_is_the_distance_of_the_last_plain_rollout_and_sees_info_as_solvers_give_it(run: Path) -> None:
    cost = as_cost(run)
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (2, 4, 32, 32, 3), dtype=torch.uint8, generator=generator)
    control, law = torch.randn(2, 3, 2, generator=generator), torch.tensor([[9.0], [2.0]])
    plans = torch.randn(2, 5, 3, 2, generator=generator)
    info = {"pixels": frames, "goal": frames[:, :1].flip(2), "control": control, "law": law}
    expanded = {key: value[:, None].expand(2, 5, *value.shape[1:]) for key, value in info.items()}
    found = cost.get_cost(expanded, plans)
    assert found.shape == (2, 5)
    assert torch.equal(cost.get_cost(expanded, plans), found), "the dict is handed back at every iteration"
    model = cost.model
    with torch.no_grad():
        z, goal = model.encode(frames), model.encode(info["goal"])
        past = model.condition(control, law)
        c = model.condition(plans.flatten(0, 1), law.repeat_interleave(5, 0)).view(2, 5, 3, -1)
        expected = (rollout_candidates_plain(model, z, past, c, 4)[:, :, -1] - goal).square().mean(-1)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    wild = plans.clone().fill_(1e3)
    torch.testing.assert_close(cost.get_cost(expanded, wild), cost.get_cost(expanded, 10 * wild))
    with pytest.raises(InputError, match="info lacks 'goal'"):
        cost.get_cost({"pixels": expanded["pixels"]}, plans)


def test_a_past_that_is_too_short_costs_as_if_the_world_had_held_still(run: Path) -> None:
    cost = as_cost(run)
    generator = torch.Generator().manual_seed(0)
    frame = torch.randint(0, 256, (1, 1, 32, 32, 3), dtype=torch.uint8, generator=generator)
    plans, law = torch.randn(1, 5, 3, 2, generator=generator), torch.full((1, 1), 9.0)

    def found(**past: torch.Tensor) -> torch.Tensor:
        info = {"goal": frame.flip(2), "law": law, **past}
        return cost.get_cost({key: value[:, None].expand(1, 5, *value.shape[1:]) for key, value in info.items()}, plans)

    held = frame.expand(1, cost.history, -1, -1, -1)
    still = torch.zeros(1, cost.history - 1, 2)
    torch.testing.assert_close(found(pixels=frame), found(pixels=held, control=still), atol=1e-6, rtol=1e-5)


def test_solvers_that_go_down_the_gradient_get_one(run: Path) -> None:
    cost = as_cost(run)
    frames = torch.randint(0, 256, (1, 1, 1, 32, 32, 3), dtype=torch.uint8)
    plans = torch.zeros(1, 1, 3, 2, requires_grad=True)
    cost.get_cost({"pixels": frames, "goal": frames.flip(3), "law": torch.ones(1, 1, 1)}, plans).sum().backward()
    assert plans.grad is not None
    assert plans.grad.abs().sum() > 0


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["{run}", "--horizon", "0"], "a plan needs a horizon of at least 1, got 0"),
        (["{run}", "--execute", "6"], "of 5 planned controls 1 to 5 can be executed, not 6"),
        (["{run}", "--elites", "301"], "cannot choose 301 elites among 300 candidates"),
        (["{run}", "--search", "gradient"], "unknown planner 'gradient'"),
        (["{run}", "--episodes", "5"], "has 4 planning cases, not 5"),
        (["{run}", "--episodes", "0"], "cases must be at least 1 for planning, got 0 (--episodes)"),
        (["{run}", "--offset", "-3"], "frames to a goal must be at least 1 for planning, got -3 (--offset)"),
        (["{run}", "--horizon", "64"], "takes at most 63 controls in an episode, so a plan of 64 is too long (--horizon)"),
        (["{run}", "--offset", "60"], "goals 60 frames on do not fit into episodes of 64 frames"),
        (["{run}", "--budget", "64"], "placed takes at most 63 controls in an episode, not 64"),
        (["{run}", "--dataset", "{balls}"], "arm_catcher_ball"),
        (
            ["{run}", "--dataset", "{balls}", "--transfer", "--episodes", "2"],
            "another world: 3 controls and 1 laws, the model in",
        ),
        (["{run}", "--dataset", "{square}", "--transfer"], "nothing can be planned in square: it has no task"),
        (["{catcher}", "--episodes", "9"], "has 4 test episodes, not 9"),
        (["{run}", "{run}"], "is given twice"),
        (["{run}", "--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["{place}"], "is not a policy"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    line: str,
    run: Path,
    catcher: Path,
    balls: Dataset,
    finished: Path,
    place: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = {"run": run, "catcher": catcher, "balls": balls.path, "square": finished, "place": place}
    given = [argument.format(**names) for argument in arguments]
    assert cli.main(["evaluate-policy", *given, "--out", str(tmp_path / "out")]) == 3
    said = capsys.readouterr().err.strip()
    assert line in said
    assert "\n" not in said


def test_a_goal_of_another_world_is_refused(goals: Dataset) -> None:
    start = cases_of(goals, CASES)[0]
    with pytest.raises(InputError, match="unknown reset option 'goal'"):
        ENVS["square"](image_size=32).begin(0, start.options(Placed.env_spec))
    with pytest.raises(InputError, match="has no goal to reach"):
        default_planner_config(ENVS["franka_basket"].env_spec)
