"""What the viewer computes: simulation, rollouts, coverage, the law that explains frames best; requests and their queue."""

from __future__ import annotations

import asyncio
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
from sgjepa.core import files
from sgjepa.core.errors import InputError
from sgjepa.core.stats import fit_zscore
from sgjepa.data.config import make_env, make_episode
from sgjepa.data.store import open_dataset
from sgjepa.evaluation.coverage import coverage_curve
from sgjepa.evaluation.forecast import forecast
from sgjepa.evaluation.metrics import Guess, errors
from sgjepa.view import model_scene
from sgjepa.view.messages import Message
from sgjepa.view.model_scene import (
    LoadedModel,
    ModelScenes,
    candidate_laws,
    encode,
    errors_under_laws,
    open_model,
    roll_out,
    simulate,
)
from sgjepa.view.request import Request, parse_request
from sgjepa.view.request_queue import RequestQueue
from sgjepa.view.scenes import coverage, sliders_for, training_spread
from sgjepa.view.server import Outbox
from sgjepa.view.viewer import Viewer, open_viewer, unique_names

__all__ = ["viewed"]  # a fixture
G = "gravity"


@pytest.fixture(scope="module")
def loaded(viewed: list[Path]) -> list[LoadedModel]:
    return [open_model(folder, folder.name) for folder in viewed]


@pytest.fixture
def scenes(loaded: list[LoadedModel]) -> ModelScenes:
    return ModelScenes(loaded)


def requested(number: int, law: float, scenes: ModelScenes) -> Request:
    return Request(number, "square", 0, {G: law}, {G: law}, tuple(scenes.loaded))


def test_sg_jepa_is_the_first_model_of_its_world_whatever_was_named_first(loaded: list[LoadedModel]) -> None:
    for several in (loaded, loaded[::-1]):
        (scene,) = ModelScenes(several).describe()
        assert [one["label"] for one in scene["models"]] == ["SG-JEPA (GRU)", "LeWM"]


# --- simulation and rollouts -----------------------------------------------------------------------------------------


def test_a_launch_under_its_own_law_is_the_test_episode_of_that_number() -> None:
    settings = small()
    env = make_env(settings)
    episode = make_episode(settings, env, "test", 7)
    simulation = simulate(env, 7, episode.law)
    np.testing.assert_array_equal(simulation.episode.frames, episode.frames)
    np.testing.assert_array_equal(simulation.episode.state, episode.state)
    other = simulate(env, 7, {G: episode.law[G] + 1})
    assert (other.episode.frames != episode.frames).any()


def test_a_rollout_under_the_true_law_errs_as_the_evaluation_says(viewed: list[Path], finished: Path) -> None:
    data, one = open_dataset(finished).test, open_model(viewed[0], "gru")
    assert one.probe
    number = 3
    z = one.model.encode(torch.from_numpy(data.pixels(np.array([number]))))
    law, control = data.law[[number]], data.control[[number]]
    steps = data.frames - one.context
    probed, latent = forecast(one.model, one.probe, z, control, law, one.context, steps, one.run.history)["predicted"]
    wanted = one.probe.targets.of(data.state[[number], one.context :].astype(np.float64))
    measured = errors(Guess(one.probe.targets, probed[:, 1:], wanted, one.probe.std))
    simulation = simulate(make_env(small()), number, {G: float(law[0, 0])})
    found = roll_out(one, encode(one, simulation.episode), simulation.episode, {G: float(law[0, 0])})
    np.testing.assert_allclose(found.errors["position_l2"], measured["position_l2"][0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found.errors["latent_mse"], latent[0], rtol=1e-3, atol=1e-6)
    assert found.frames is not None
    assert found.frames.shape == (steps, 32, 32, 3)


def test_the_law_that_is_given_reaches_the_model(loaded: list[LoadedModel]) -> None:
    simulation = simulate(make_env(small()), 0, {G: 4.0})
    for one in loaded:
        z = encode(one, simulation.episode)
        home, away = (roll_out(one, z, simulation.episode, {G: law}) for law in (4.0, 9.0))
        assert (home.errors["latent_mse"] != away.errors["latent_mse"]).any()


def test_a_law_explains_the_frames_as_well_as_the_rollout_under_it(loaded: list[LoadedModel]) -> None:
    simulation = simulate(make_env(small()), 0, {G: 4.0})
    one, values = loaded[0], np.linspace(-2, 10, 9)
    z = encode(one, simulation.episode)
    found = np.concatenate(list(errors_under_laws(one, z, simulation.episode, {G: 4.0}, G, values)))
    each = [roll_out(one, z, simulation.episode, {G: value}).errors["latent_mse"].mean() for value in values]
    np.testing.assert_allclose(found, each, rtol=1e-4)


@pytest.mark.opengl
def test_a_model_of_the_zoo_errs_least_under_the_true_law_at_its_training_mean() -> None:
    """Over four launches: the best of the candidate laws lies within the training band."""
    one = open_model(zoo.folder_of("approach_ball_sg_jepa"), "zoo")
    scenes = ModelScenes([one])
    found = []
    for seed in range(4):
        request = Request(0, "approach_ball", seed, {G: 9.8}, {G: 9.8}, (one.name,))
        values, errors = next(pair for pair in scenes.law_errors(request, one, scenes.sliders["approach_ball"][0]) if pair)
        found.append(values[errors.argmin()])
    scenes.close()
    assert abs(np.median(found) - 9.8) < 2 * one.std[G]


def with_laws(one: LoadedModel, mean: float, std: float) -> LoadedModel:
    """The model, if it had been trained under other laws."""
    return replace(one, mean={G: mean}, std=training_spread((G,), (std,)))


def test_candidate_laws_are_evenly_apart_and_the_start_is_one_of_them(loaded: list[LoadedModel]) -> None:
    for mean in (4.0, 3.7, -1.93):
        (slider,) = sliders_for([with_laws(loaded[0], mean, 0.5)])
        values = candidate_laws(slider)
        assert slider.start in values
        assert np.ptp(np.diff(values)) < 1e-6
        assert slider.low <= values[0] and values[-1] <= slider.high  # noqa: PT018
        assert 20 <= len(values) <= 41


def test_the_slider_covers_the_usual_test_and_the_training(loaded: list[LoadedModel]) -> None:
    (usual,) = sliders_for([with_laws(loaded[0], 4.0, 0.5)])
    assert (usual.low, usual.high) == (-2, 10)
    (strange,) = sliders_for([with_laws(loaded[0], 15.0, 0.5)])
    assert (strange.low, strange.high, strange.start) == (-2, 16, 15)


def test_a_law_that_never_varied_in_training_is_left_at_once(loaded: list[LoadedModel]) -> None:
    mean, std = fit_zscore(np.full((400, 1), 4.0)).mean[0], fit_zscore(np.full((400, 1), 4.0)).std[0]
    one = with_laws(loaded[0], mean, std)
    assert one.std == {G: 0.0}
    assert coverage({G: 4.0}, one.mean, one.std).inside
    assert not coverage({G: 4.1}, one.mean, one.std).inside


def test_the_simulation_is_that_of_the_world_a_run_was_trained_in(loaded: list[LoadedModel]) -> None:
    here, there = loaded[0], replace(loaded[0], name="other", env={"contact": "reference"})
    scenes = ModelScenes([here, there])
    found = [scenes.simulation(requested(1, 9.0, scenes), one).episode.state for one in (here, there)]
    settings = replace(small(), env={"contact": "reference"})
    np.testing.assert_array_equal(found[1], simulate(make_env(settings), 0, {G: 9.0}).episode.state)
    assert np.abs(found[0] - found[1]).max() > 0.1


def test_a_model_that_is_not_conditioned_on_the_law_always_gets_its_training_mean(loaded: list[LoadedModel]) -> None:
    model = copy.deepcopy(loaded[0].model)
    model.blind = True
    blind = replace(loaded[0], model=model)
    scenes = ModelScenes([blind])
    assert scenes.rollout(requested(1, 9.0, scenes), blind)[1].inside


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
            open_viewer([viewed[0], folder])


def test_folders_of_one_name_are_told_apart(tmp_path: Path, viewed: list[Path]) -> None:
    folders, name = [viewed[0], tmp_path / viewed[0].name, viewed[0]], viewed[0].name
    assert unique_names(folders) == [name, f"{name}-2", f"{name}-3"]
    assert unique_names(folders[:1], (name,)) == [f"{name}-2"]


def test_a_run_says_which_laws_condition_its_model(viewed: list[Path]) -> None:
    assert json.loads((viewed[0] / "artifact.json").read_text())["laws"] == [G]


def test_a_model_without_decoder_and_probe_can_be_viewed(tmp_path: Path, viewed: list[Path]) -> None:
    bare = shutil.copytree(viewed[0], tmp_path / "bare")
    (bare / "decoder.safetensors").unlink()
    shutil.rmtree(bare / "probes")
    scenes = ModelScenes([open_model(bare, "bare")])
    messages = [message for message in scenes.answer(requested(1, 4.0, scenes)) if message]
    rollout = next(message for message in messages if message.header["kind"] == "rollout")
    assert rollout.frames is None
    assert list(rollout.header["errors"]) == ["latent_mse"]


def test_a_slider_covers_the_usual_test_and_starts_at_the_training_mean(loaded: list[LoadedModel]) -> None:
    (slider,) = sliders_for(loaded)
    assert (slider.low, slider.high) == (-2.0, 10.0)
    assert slider.start == pytest.approx(loaded[0].mean[G], abs=slider.step)
    with pytest.raises(InputError, match="gravity must lie between -2 and 10"):
        slider.check(10.5)


def test_viewing_writes_nothing_into_a_run(viewed: list[Path]) -> None:
    def there() -> dict[Path, str]:
        return {path: files.file_digest(path) if path.is_file() else "" for run in viewed for path in run.rglob("*")}

    before = there()
    scenes = ModelScenes([open_model(folder, folder.name) for folder in viewed])
    assert any(scenes.answer(requested(1, 5.0, scenes)))
    assert there() == before


# --- requests ------------------------------------------------------------------------------------------------------

GOOD = {"number": 1, "scene": "square", "seed": 0, "law": {G: 4.0}, "model_law": None, "models": []}
BAD = {
    "nothing": "",
    "no JSON": "{",
    "deep": "[" * 5000,
    "a list": "[]",
    "too long": json.dumps(GOOD | {"scene": "x" * 30_000}),
    "another part": GOOD | {"file": "/etc/passwd"},
    "no number": {key: value for key, value in GOOD.items() if key != "number"},
    "number": GOOD | {"number": -1},
    "scene": GOOD | {"scene": "moon"},
    "scene that is no name": GOOD | {"scene": ["square"]},
    "seed": GOOD | {"seed": 1.5},
    "seed that is true": GOOD | {"seed": True},
    "large seed": GOOD | {"seed": 10**30},
    "law out of range": GOOD | {"law": {G: 5000}},
    "law that is text": GOOD | {"law": {G: "4"}},
    "law that is no number": '{"number": 1, "scene": "square", "seed": 0, "models": [], "law": {"gravity": NaN}}',
    "another law": GOOD | {"law": {G: 4.0, "gravity_x": 1.0}},
    "no law": GOOD | {"law": {}},
    "model law out of range": GOOD | {"model_law": {G: -500}},
    "model": GOOD | {"models": ["../secret"]},
    "models": GOOD | {"models": "all"},
    "models that are none": GOOD | {"models": [{}]},
}


def test_a_good_request_is_understood(scenes: ModelScenes) -> None:
    found = parse_request(json.dumps(GOOD | {"models": list(scenes.loaded)}), scenes.choices)
    assert found == Request(1, "square", 0, {G: 4.0}, {G: 4.0}, tuple(scenes.loaded))


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_request_is_one_line(scenes: ModelScenes, bad: Any) -> None:
    text = bad if isinstance(bad, str) else json.dumps(bad)
    with pytest.raises(InputError) as said:
        parse_request(text, scenes.choices)
    assert len(str(said.value).splitlines()) == 1
    assert len(str(said.value)) < 400


# --- the queue -----------------------------------------------------------------------------------------------------


def test_the_last_drag_wins_and_stale_work_is_dropped(scenes: ModelScenes) -> None:
    queue, post = RequestQueue(Viewer([scenes])), Post()
    for number in range(1, 31):
        queue.ask(1, requested(number, number / 4, scenes), post)
    post.wait("finished", 30)
    queue.close()
    assert post.of("answered") == [30]
    assert len(post.of("simulation")) <= 2, "what was begun, and the last"
    assert post.of("finished") == [30]


def test_two_clients_get_their_own_answers(scenes: ModelScenes) -> None:
    queue, posts = RequestQueue(Viewer([scenes])), [Post(), Post()]
    for client, post in enumerate(posts):
        queue.ask(client, requested(client + 1, 3.0 + client, scenes), post)
    for client, post in enumerate(posts):
        post.wait("finished", client + 1)
        assert set(post.of("simulation")) == {client + 1}
    queue.close()


def test_nothing_is_sent_to_a_client_that_left(scenes: ModelScenes) -> None:
    queue, gone, here = RequestQueue(Viewer([scenes])), Post(), Post()
    queue.ask(1, requested(1, 3.0, scenes), gone)
    queue.leave(1)
    queue.ask(2, requested(2, 3.5, scenes), here)
    here.wait("finished", 2)
    queue.close()
    assert gone.of("answered") == []


def test_a_fault_is_reported_and_the_queue_goes_on(scenes: ModelScenes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise MemoryError("no room")

    queue, post = RequestQueue(Viewer([scenes])), Post()
    with monkeypatch.context() as broken:
        broken.setattr(model_scene, "simulate", fails)
        queue.ask(1, requested(1, 3.0, scenes), post)
        post.wait("error", 1)
    assert "out of memory" in post.heads[0]["message"]
    queue.ask(1, requested(2, 3.0, scenes), post)
    post.wait("answered", 2)
    queue.close()


def test_a_client_that_does_not_read_stops_its_own_answer_only(scenes: ModelScenes) -> None:
    queue, slow, here = RequestQueue(Viewer([scenes])), Post(), Post()
    queue.ask(1, requested(1, 3.0, scenes), slow, is_full=lambda: len(slow.heads) >= 2)
    queue.ask(2, requested(2, 3.5, scenes), here)
    here.wait("finished", 2)
    queue.close()
    assert len(slow.heads) == 2


def test_an_outbox_that_nobody_reads_is_full_until_it_is_delivered() -> None:
    async def fill_and_deliver() -> list[bytes]:
        outbox, sent = Outbox(), []

        async def send(content: bytes) -> None:
            sent.append(content)

        while not outbox.is_full():
            outbox.put(Message({"kind": "frame"}).to_bytes())
        delivering = asyncio.create_task(outbox.deliver(send))
        while outbox.is_full():
            await asyncio.sleep(0)
        delivering.cancel()
        return sent

    assert 0 < len(asyncio.run(fill_and_deliver())) < 1000
