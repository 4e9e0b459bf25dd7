"""What the viewer computes: truth, imagination, coverage, the law that explains frames best; questions, and the desk."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixtures.datasets import small
from fixtures.posting import Post
from fixtures.viewed import viewed

from sgjepa import zoo
from sgjepa.core import artifact
from sgjepa.core.errors import InputError
from sgjepa.core.stats import fit_zscore
from sgjepa.data.config import make_env, make_episode
from sgjepa.data.store import open_dataset
from sgjepa.evaluation.coverage import coverage_curve
from sgjepa.evaluation.forecast import forecast
from sgjepa.evaluation.metrics import Guess, errors
from sgjepa.view import question, studio
from sgjepa.view.coverage import coverage
from sgjepa.view.desk import Desk
from sgjepa.view.imagination import encode, explain, imagine
from sgjepa.view.question import Question
from sgjepa.view.shown import Shown, axes, open_shown
from sgjepa.view.studio import Studio
from sgjepa.view.truth import simulate

__all__ = ["viewed"]  # a fixture
G = "gravity"


@pytest.fixture(scope="module")
def shown(viewed: list[Path]) -> list[Shown]:
    return open_shown(viewed)


@pytest.fixture
def made(shown: list[Shown]) -> Studio:
    return Studio(shown)


def asked(number: int, law: float, made: Studio, told: float | None = None, **changes: Any) -> Question:
    models = tuple(made.shown)
    return replace(Question(number, "square", 0, {G: law}, {G: law if told is None else told}, models), **changes)


def test_sg_jepa_is_the_first_model_of_its_world_whatever_was_named_first(shown: list[Shown]) -> None:
    for several in (shown, shown[::-1]):
        (scene,) = Studio(several).scenes()
        assert [one["label"] for one in scene["models"]] == ["SG-JEPA (GRU)", "LeWM"]


# --- truth and imagination -----------------------------------------------------------------------------------------


def test_a_launch_under_its_own_law_is_the_test_episode_of_that_number() -> None:
    settings = small()
    env = make_env(settings)
    episode = make_episode(settings, env, "test", 7)
    truth = simulate(env, 7, episode.law)
    np.testing.assert_array_equal(truth.episode.frames, episode.frames)
    np.testing.assert_array_equal(truth.episode.state, episode.state)
    other = simulate(env, 7, {G: episode.law[G] + 1})
    assert (other.episode.frames != episode.frames).any()


def test_imagination_under_the_true_law_errs_as_the_evaluation_says(viewed: list[Path], finished: Path) -> None:
    data, one = open_dataset(finished).test, open_shown(viewed[:1])[0]
    assert one.fitted
    number = 3
    z = one.model.encode(torch.from_numpy(data.pixels(np.array([number]))))
    law, control = data.law[[number]], data.control[[number]]
    steps = data.frames - one.context
    probed, latent = forecast(one.model, one.fitted, z, control, law, one.context, steps, one.run.history)["predicted"]
    wanted = one.fitted.targets.of(data.state[[number], one.context :].astype(np.float64))
    measured = errors(Guess(one.fitted.targets, probed[:, 1:], wanted, one.fitted.std))
    truth = simulate(make_env(small()), number, {G: float(law[0, 0])})
    found = imagine(one, encode(one, truth.episode), truth.episode, {G: float(law[0, 0])})
    np.testing.assert_allclose(found.errors["position_l2"], measured["position_l2"][0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found.errors["latent_mse"], latent[0], rtol=1e-3, atol=1e-6)
    assert found.frames is not None
    assert found.frames.shape == (steps, 32, 32, 3)


def test_the_law_that_is_told_reaches_the_model(shown: list[Shown]) -> None:
    truth = simulate(make_env(small()), 0, {G: 4.0})
    for one in shown:
        z = encode(one, truth.episode)
        home, away = (imagine(one, z, truth.episode, {G: told}) for told in (4.0, 9.0))
        assert (home.errors["latent_mse"] != away.errors["latent_mse"]).any()


def test_a_law_explains_the_frames_as_well_as_the_imagination_under_it(shown: list[Shown]) -> None:
    truth = simulate(make_env(small()), 0, {G: 4.0})
    one, values = shown[0], np.linspace(-2, 10, 9)
    z = encode(one, truth.episode)
    found = np.concatenate(list(explain(one, z, truth.episode, {G: 4.0}, G, values)))
    each = [imagine(one, z, truth.episode, {G: value}).errors["latent_mse"].mean() for value in values]
    np.testing.assert_allclose(found, each, rtol=1e-4)


@pytest.mark.opengl
def test_a_model_of_the_zoo_errs_least_when_told_the_truth_at_home() -> None:
    """At the training mean, over four launches: the best of the laws tried lies within the training band."""
    one = open_shown([zoo.folder_of("approach_ball_sg_jepa")])[0]
    made = Studio([one])
    found = []
    for seed in range(4):
        question = Question(0, "approach_ball", seed, {G: 9.8}, {G: 9.8}, (one.name,))
        values, errors = next(pair for pair in made.explained(question, one, made.axes["approach_ball"][0]) if pair)
        found.append(values[errors.argmin()])
    made.close()
    assert abs(np.median(found) - 9.8) < 2 * one.std[G]


def with_laws(one: Shown, mean: float, std: float) -> Shown:
    """As if it had been trained under other laws."""
    model = copy.deepcopy(one.model)
    model.law_mean.fill_(mean)
    model.law_std.fill_(std)
    return replace(one, model=model)


def test_the_laws_that_are_tried_are_evenly_apart_and_the_first_law_is_one_of_them(shown: list[Shown]) -> None:
    for mean in (4.0, 3.7, -1.93):
        (axis,) = axes([with_laws(shown[0], mean, 0.5)])
        values = studio.tried(axis)
        assert axis.start in values
        assert np.ptp(np.diff(values)) < 1e-6
        assert axis.low <= values[0] and values[-1] <= axis.high  # noqa: PT018
        assert 20 <= len(values) <= 41


def test_the_slider_reaches_what_was_asked_and_what_was_trained(shown: list[Shown]) -> None:
    (usual,) = axes([with_laws(shown[0], 4.0, 0.5)])
    assert (usual.low, usual.high) == (-2, 10)
    (strange,) = axes([with_laws(shown[0], 15.0, 0.5)])
    assert (strange.low, strange.high, strange.start) == (-2, 16, 15)


def test_a_law_that_never_varied_in_training_is_left_at_once(shown: list[Shown]) -> None:
    mean, std = fit_zscore(np.full((400, 1), 4.0)).mean[0], fit_zscore(np.full((400, 1), 4.0)).std[0]
    one = with_laws(shown[0], mean, std)
    assert one.std == {G: 0.0}
    assert coverage({G: 4.0}, one.mean, one.std).inside
    assert not coverage({G: 4.1}, one.mean, one.std).inside


def test_the_truth_is_that_of_the_world_a_run_was_trained_in(shown: list[Shown]) -> None:
    here, there = shown[0], replace(shown[0], name="other", env={"contact": "reference"})
    made = Studio([here, there])
    found = [made.truth(asked(1, 9.0, made), one).episode.state for one in (here, there)]
    settings = replace(small(), env={"contact": "reference"})
    np.testing.assert_array_equal(found[1], simulate(make_env(settings), 0, {G: 9.0}).episode.state)
    assert np.abs(found[0] - found[1]).max() > 0.1


def test_a_model_that_is_told_nothing_is_always_at_home(shown: list[Shown]) -> None:
    model = copy.deepcopy(shown[0].model)
    model.blind = True
    blind = replace(shown[0], model=model)
    made = Studio([blind])
    assert made.imagined(asked(1, 9.0, made), blind)[1].inside


# --- coverage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("g", "words"), [(4.0, "inside"), (5.0, "inside"), (6.0, "4 sigma out"), (0.0, "8 sigma out"), (5.3, "2.6 sigma out")]
)
def test_coverage_is_said_in_sigmas(g: float, words: str) -> None:
    found = coverage({G: g}, {G: 4.0}, {G: 0.5})
    assert found.words == words
    assert found.L_law == pytest.approx(1 + ((g - 4) / 0.5) ** 2)


def test_coverage_of_two_laws_is_that_of_a_design_that_draws_them_independently() -> None:
    one, other = np.meshgrid([1.0, 2.0, 3.0, 6.0], [-1.0, 0.0, 4.0])
    design = np.stack([one.ravel(), other.ravel()], axis=1)
    names = ("gravity", "gravity_x")
    mean, std = (dict(zip(names, values.tolist(), strict=True)) for values in (design.mean(axis=0), design.std(axis=0)))
    for law in ([2.0, 0.5], [9.0, -3.0]):
        found = coverage(dict(zip(names, law, strict=True)), mean, std)
        assert found.L_law == pytest.approx(coverage_curve(design, np.array([law]), names=names)[0])
    assert "g_x" in coverage({"gravity": 3.0, "gravity_x": 40.0}, mean, std).words


def test_a_law_that_never_varied_is_known_at_its_one_value_only() -> None:
    assert coverage({G: 4.0}, {G: 4.0}, {G: 0.0}).inside
    away = coverage({G: 5.0}, {G: 4.0}, {G: 0.0})
    assert not away.inside
    assert away.words == "never varied in training"


# --- what can be shown ---------------------------------------------------------------------------------------------


def test_a_folder_that_is_no_run_is_one_line(tmp_path: Path, viewed: list[Path]) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(InputError, match=folder.name):
            open_shown([viewed[0], folder])


def test_folders_of_one_name_are_told_apart(tmp_path: Path, viewed: list[Path]) -> None:
    copy = shutil.copytree(viewed[0], tmp_path / viewed[0].name)
    names = [one.name for one in open_shown([viewed[0], copy, viewed[0]])]
    assert names == [viewed[0].name, f"{viewed[0].name}-2", f"{viewed[0].name}-3"]


def test_a_run_says_which_laws_its_model_is_told(viewed: list[Path]) -> None:
    assert json.loads((viewed[0] / "artifact.json").read_text())["laws"] == [G]


def test_a_model_without_decoder_and_probe_is_still_shown(tmp_path: Path, viewed: list[Path]) -> None:
    bare = shutil.copytree(viewed[0], tmp_path / "bare")
    (bare / "decoder.safetensors").unlink()
    shutil.rmtree(bare / "probes")
    made = Studio(open_shown([bare]))
    messages = [message for message in made.answer(asked(1, 4.0, made)) if message]
    imagined = next(message for message in messages if message.head["kind"] == "imagined")
    assert imagined.pictures is None
    assert list(imagined.head["errors"]) == ["latent_mse"]


def test_a_slider_reaches_as_far_as_the_usual_test_and_begins_at_home(shown: list[Shown]) -> None:
    (axis,) = axes(shown)
    assert (axis.low, axis.high) == (-2.0, 10.0)
    assert axis.start == pytest.approx(shown[0].mean[G], abs=axis.step)
    with pytest.raises(InputError, match="gravity must lie between -2 and 10"):
        axis.check(10.5)


def test_viewing_writes_nothing_into_a_run(viewed: list[Path]) -> None:
    def there() -> dict[Path, str]:
        return {path: artifact.file_digest(path) if path.is_file() else "" for run in viewed for path in run.rglob("*")}

    before = there()
    made = Studio(open_shown(viewed))
    assert any(made.answer(asked(1, 5.0, made)))
    assert there() == before


# --- questions -----------------------------------------------------------------------------------------------------

GOOD = {"number": 1, "world": "square", "seed": 0, "law": {G: 4.0}, "told": None, "models": []}
BAD = {
    "nothing": "",
    "no JSON": "{",
    "deep": "[" * 5000,
    "a list": "[]",
    "too long": json.dumps(GOOD | {"world": "x" * 30_000}),
    "another part": GOOD | {"file": "/etc/passwd"},
    "no number": {key: value for key, value in GOOD.items() if key != "number"},
    "number": GOOD | {"number": -1},
    "world": GOOD | {"world": "moon"},
    "world that is none": GOOD | {"world": ["square"]},
    "seed": GOOD | {"seed": 1.5},
    "seed that is true": GOOD | {"seed": True},
    "large seed": GOOD | {"seed": 10**30},
    "law out of range": GOOD | {"law": {G: 5000}},
    "law that is text": GOOD | {"law": {G: "4"}},
    "law that is no number": '{"number": 1, "world": "square", "seed": 0, "models": [], "law": {"gravity": NaN}}',
    "another law": GOOD | {"law": {G: 4.0, "gravity_x": 1.0}},
    "no law": GOOD | {"law": {}},
    "told out of range": GOOD | {"told": {G: -500}},
    "model": GOOD | {"models": ["../secret"]},
    "models": GOOD | {"models": "all"},
    "models that are none": GOOD | {"models": [{}]},
}


def test_a_good_question_is_understood(made: Studio) -> None:
    found = question.read(json.dumps(GOOD | {"models": list(made.shown)}), made.choices)
    assert found == Question(1, "square", 0, {G: 4.0}, {G: 4.0}, tuple(made.shown))


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_question_is_one_line(made: Studio, bad: Any) -> None:
    text = bad if isinstance(bad, str) else json.dumps(bad)
    with pytest.raises(InputError) as said:
        question.read(text, made.choices)
    assert len(str(said.value).splitlines()) == 1
    assert len(str(said.value)) < 400


# --- the desk ------------------------------------------------------------------------------------------------------


def test_the_last_drag_wins_and_stale_work_is_dropped(made: Studio) -> None:
    desk, post = Desk(made), Post()
    for number in range(1, 31):
        desk.ask(1, asked(number, number / 4, made), post)
    post.wait("rest", 30)
    desk.close()
    assert post.of("done") == [30]
    assert len(post.of("truth")) <= 2, "what was begun, and the last"
    assert post.of("rest") == [30]


def test_two_clients_get_their_own_answers(made: Studio) -> None:
    desk, posts = Desk(made), [Post(), Post()]
    for client, post in enumerate(posts):
        desk.ask(client, asked(client + 1, 3.0 + client, made), post)
    for client, post in enumerate(posts):
        post.wait("rest", client + 1)
        assert set(post.of("truth")) == {client + 1}
    desk.close()


def test_nothing_is_sent_to_a_client_that_left(made: Studio) -> None:
    desk, gone, here = Desk(made), Post(), Post()
    desk.ask(1, asked(1, 3.0, made), gone)
    desk.leave(1)
    desk.ask(2, asked(2, 3.5, made), here)
    here.wait("rest", 2)
    desk.close()
    assert gone.of("done") == []


def test_a_fault_is_told_and_the_desk_goes_on(made: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise MemoryError("no room")

    desk, post = Desk(made), Post()
    with monkeypatch.context() as broken:
        broken.setattr(studio, "simulate", fails)
        desk.ask(1, asked(1, 3.0, made), post)
        post.wait("error", 1)
    assert "out of memory" in post.heads[0]["message"]
    desk.ask(1, asked(2, 3.0, made), post)
    post.wait("done", 2)
    desk.close()
