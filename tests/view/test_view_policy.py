"""The viewer with a policy: the closed loop as `sgjepa evaluate-policy` has it, streamed to a page that never waits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixtures.browser import BROWSER, Browser, Tab
from fixtures.driven import CATCHER, Driven, driven
from fixtures.driving import DONE, opened
from fixtures.posting import Post
from fixtures.viewer import hear, needs_browser, running, socket_to

from sgjepa import cli, zoo
from sgjepa.core import artifact, files, run_folder
from sgjepa.core.tables import read_table, write_table
from sgjepa.policies.files import read_controls, read_trial
from sgjepa.policies.vector_env import Outcome
from sgjepa.report.films import replay
from sgjepa.results.success import Opening, opening_in
from sgjepa.training import checkpoint
from sgjepa.view.policy_scene import EXPERT, PolicyScenes, open_policy
from sgjepa.view.request import Request, parse_request
from sgjepa.view.request_queue import RequestQueue
from sgjepa.view.viewer import Viewer, open_viewer


@pytest.fixture(scope="module")
def port(driven: Driven, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running([driven.policy], tmp_path_factory.mktemp("server")) as (_, found):
        yield found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if BROWSER is None:
        pytest.skip("no browser: sgjepa doctor --fix browser")
    with Browser() as found:
        yield found


__all__ = ["driven"]  # a fixture
pytestmark = pytest.mark.opengl
SCENE = f"{CATCHER}-policy"


@pytest.fixture(scope="module")
def scenes(driven: Driven) -> Iterator[PolicyScenes]:
    torch.set_num_threads(1)
    found = PolicyScenes([open_policy(driven.policy, "tiny")])
    yield found
    found.close()


def requested(number: int, gravity: float, *models: str, **changes: Any) -> Request:
    law = {"gravity": gravity}
    return replace(Request(number, SCENE, 0, law, law, models or ("tiny",)), **changes)


# --- the closed loop -----------------------------------------------------------------------------------------------


def test_an_episode_under_its_own_law_is_that_of_the_policys_trial(scenes: PolicyScenes, driven: Driven) -> None:
    about, rows = read_trial(driven.trial)
    for number in (1, 9):
        *frames, outcome = scenes.episode(requested(1, float(rows["law.gravity"][number]), seed=number), "tiny")
        assert isinstance(outcome, Outcome)
        assert outcome.steps == rows["steps"][number]
        assert outcome.measures["success"] == rows["success"][number]
        assert outcome.labels["reason"] == rows["reason"][number]
        film = replay(about, rows, read_controls(driven.trial), [number], 32)[0]
        np.testing.assert_array_equal(np.concatenate(frames), film[: outcome.steps + 1])


def test_the_law_and_the_try_change_what_a_policy_does(scenes: PolicyScenes) -> None:
    def film(**changes: Any) -> np.ndarray:
        *frames, _ = scenes.episode(requested(1, 4.0, **changes), "tiny")
        return np.concatenate(frames)

    first = film()
    np.testing.assert_array_equal(film(), first)
    for other in (film(sampling=1), film(law={"gravity": 9.0}), film(seed=3)):
        assert other.shape != first.shape or (other != first).any()


def test_frames_stream_in_turn_and_the_expert_follows(scenes: PolicyScenes) -> None:
    heads = [m.header for m in scenes.answer(requested(7, 4.0, "tiny", EXPERT)) if m]
    kinds = [(head["kind"], head.get("model")) for head in heads]
    assert kinds[0] == ("started", None)
    assert kinds[-2:] == [("answered", None), ("finished", None)]
    assert kinds.index(("frame", EXPERT)) >= 16, "it starts later: its plan may take a while"
    assert kinds.index(("frame", EXPERT)) < kinds.index(("outcome", "tiny")), "and does not wait for the end"
    for name in ("tiny", EXPERT):
        assert [head["first"] for head in heads if head["kind"] == "frame" and head["model"] == name] == list(
            range(kinds.count(("frame", name)))
        )
    end = next(head for head in heads if head["kind"] == "outcome" and head["model"] == EXPERT)
    assert end["success"]
    assert end["word"] == "success"
    assert end["words"].startswith("the ball is caught in the box; time to capture ")
    assert heads[0]["coverage"]["tiny"]["words"]


def test_two_pages_at_once_do_not_disturb_each_other(scenes: PolicyScenes) -> None:
    def heads(messages: list[Any]) -> list[Any]:
        return [(m.header["kind"], m.header.get("word"), m.frames is not None and m.frames.sum()) for m in messages if m]

    alone = [heads(list(scenes.answer(requested(1, law)))) for law in (2.0, 9.0)]
    one, other = (scenes.answer(requested(1, law)) for law in (2.0, 9.0))
    mixed: list[list[Any]] = [[], []]
    for _ in range(200):
        for work, into in zip((one, other), mixed, strict=True):
            message = next(work, None)
            if message is not None:
                into.append(message)
    assert [heads(m)[:-2] for m in mixed] == [found[:-2] for found in alone]


def test_the_last_drag_wins_and_an_episode_under_way_is_dropped(scenes: PolicyScenes) -> None:
    queue, post = RequestQueue(Viewer([PolicyScenes(list(scenes.loaded.values()))])), Post()
    for number in range(1, 8):
        queue.ask(1, requested(number, float(number)), post)
        if number == 1:
            post.wait("frame", 1)  # it is under way
    post.wait("finished", 7)
    queue.close()
    assert post.of("outcome") == [7]
    assert len([number for number in post.of("frame") if number != 7]) < 20, "of a second and more of frames"


def test_a_page_knows_what_the_trials_say(scenes: PolicyScenes, driven: Driven) -> None:
    (scene,) = scenes.describe()
    policy, expert = scene["models"]
    assert (scene["name"], scene["kind"], expert["name"]) == (SCENE, "policy", EXPERT)
    rows = read_trial(driven.trial)[1]
    assert policy["success"]["regions"]["all"]["mean"] == pytest.approx(rows["success"].mean(), abs=1e-3)
    assert [one["law"] for one in policy["success"]["by_law"]["gravity"]] == sorted(rows["law.gravity"].tolist())
    json.dumps(scene, allow_nan=False)


def test_a_page_begins_with_a_success_of_the_policy_under_a_law_near_its_training(driven: Driven, tmp_path: Path) -> None:
    about, rows = read_trial(driven.trial)
    laws, episodes = rows["law.gravity"], rows["episode"]
    for case, wins in enumerate((laws >= 6.0, laws < 1.0, np.zeros(len(laws), bool))):
        place = Path(shutil.copytree(driven.trial, tmp_path / str(case) / driven.trial.name))
        table = read_table(place / "episodes.parquet") | {"success": wins.astype(rows["success"].dtype)}
        write_table(place / "episodes.parquet", table)
        digests = about.files | {"episodes.parquet": files.file_digest(place / "episodes.parquet")}
        artifact.write_record(place, replace(about, files=digests))
        found = opening_in([place], {"gravity": 4.0})
        if not wins.any():
            assert found is None
            continue
        assert found
        best = min(episodes[wins], key=lambda number: abs(laws[list(episodes).index(number)] - 4.0))
        assert found.launch == best
        assert found.law == {"gravity": float(laws[list(episodes).index(best)])}
        assert found.sampling == about.settings.sampling


def test_what_a_page_begins_with_is_within_its_sliders(scenes: PolicyScenes) -> None:
    (policy,) = scenes.loaded.values()
    for law, there in ((4.5, True), (400.0, False)):
        opening = Opening(7, {"gravity": law}, 1)
        (scene,) = PolicyScenes([replace(policy, opening=opening)]).describe()
        said = {"label": policy.label, "seed": 7, "law": {"gravity": law}, "sampling": 1}
        assert scene["opening"] == (said if there else None)


@pytest.mark.slow
def test_the_zoos_policy_succeeds_where_its_page_begins() -> None:
    zoos = PolicyScenes([open_policy(zoo.folder_of("arm_catcher_policy"), "zoo")])
    (scene,) = zoos.describe()
    begins = scene["opening"]
    request = Request(1, SCENE, begins["seed"], begins["law"], begins["law"], ("zoo",), sampling=begins["sampling"])
    *_, outcome = zoos.episode(request, "zoo")
    zoos.close()
    assert isinstance(outcome, Outcome)
    assert outcome.measures["success"]
    assert scene["blind"]["regions"]["all"]["episodes"] == 250


def test_a_sampling_seed_is_checked_at_the_door(scenes: PolicyScenes) -> None:
    good = {"number": 1, "scene": SCENE, "seed": 0, "law": {"gravity": 4.0}, "models": ["tiny", EXPERT], "sampling": 3}
    assert parse_request(json.dumps(good), scenes.choices).sampling == 3
    for bad in (-1, 1.5, "x", None, 10**9):
        with pytest.raises(Exception, match="sampling must be a whole number"):
            parse_request(json.dumps(good | {"sampling": bad}), scenes.choices)


def test_runs_and_policies_share_a_page(driven: Driven) -> None:
    viewer = open_viewer([driven.run, driven.policy])
    assert [one["kind"] for one in viewer.about()["scenes"]] == ["model", "policy"]
    assert set(viewer.choices) == {CATCHER, SCENE}
    viewer.close()


def test_a_policy_without_trials_says_so(driven: Driven, tmp_path: Path) -> None:
    bare = Path(shutil.copytree(driven.policy, driven.place / "policies" / "bare"))
    shutil.rmtree(bare / "trials")
    assert open_policy(bare, "bare").success is None
    shutil.rmtree(bare)


# --- what is refused -----------------------------------------------------------------------------------------------


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["view", "--no-browser", "--port", "0", *arguments]) == 3
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    return error


def test_a_wrong_folder_or_a_changed_run_is_one_line(
    driven: Driven, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is neither a run nor a policy" in refused([str(tmp_path)], capsys)
    place = tmp_path / "all"
    shutil.copytree(driven.place, place)
    policy, run = place / "policies" / "tiny", place / "runs" / driven.run.name
    (policy / "policy.safetensors").rename(place / "away")
    assert "has no finished policy" in refused([str(policy)], capsys)
    (place / "away").rename(policy / "policy.safetensors")
    _, model = checkpoint.load_run(run)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    checkpoint.finish(run, run_folder.about(run), {run_folder.MODEL: model})
    assert f"was trained on other weights of {run.name}" in refused([str(policy)], capsys)
    shutil.rmtree(run)
    assert "does not exist; restore that run" in refused([str(policy)], capsys)


# --- the page ------------------------------------------------------------------------------------------------------


def settled(tab: Tab, action: Any) -> None:
    """Do something, and wait until the answers to it are there."""
    before = tab.run("parseInt(document.body.dataset.answered)")
    action()
    tab.wait(f"{DONE} && parseInt(document.body.dataset.answered) > {before}", 120)


def test_a_client_gets_frames_one_by_one(port: int) -> None:
    with socket_to(port) as client:
        client.send(json.dumps({"number": 1, "scene": SCENE, "seed": 0, "law": {"gravity": 4.0}, "models": ["tiny"]}))
        assert hear(client, "frame")["bytes"] == 32 * 32 * 3
        client.send(json.dumps({"number": 2, "scene": SCENE, "seed": 0, "law": {"gravity": 8.0}, "models": ["tiny"]}))
        numbers = [hear(client, "frame")["number"]]
        while len(numbers) < 2 or numbers[-2:] != [2, 2]:
            numbers.append(hear(client, "frame")["number"])
        assert numbers == sorted(numbers), "nothing of the first comes after the second has begun"
        while (last := hear(client, "outcome")["number"]) != 2:
            assert last == 1, "only if it had ended before the second was asked"


@needs_browser
def test_a_drag_begins_another_episode_and_its_outcome_is_marked(chromium: Browser, port: int) -> None:
    tab = opened(chromium, port)
    picture = "document.querySelector('.panel:nth-child(1) canvas').toDataURL()"
    assert tab.run("document.querySelectorAll('.panel').length") == 2
    assert tab.run("document.querySelector('h1').textContent") == "Move gravity, and watch the policy act"
    assert tab.run("document.querySelectorAll('#success .played').length") == 2
    assert tab.run("document.querySelectorAll('#success .dot-mark').length") == 12, "one for every law of the trial"
    assert tab.run("document.querySelectorAll('#success .band').length") == 1
    tab.key(" ")
    tab.run("scrub.value = 20, scrub.dispatchEvent(new Event('input'))")
    before = tab.run(picture)
    settled(tab, lambda: tab.drag("#law-gravity", [0.9]))
    assert tab.run("document.querySelector('#law output').textContent").startswith("g = 8.9")
    assert tab.run(picture) != before
    assert "sigma out" in tab.run("document.querySelector('.panel:nth-child(1) .note').textContent")
    words = tab.run("document.querySelector('.panel:nth-child(1) .chip').textContent")
    assert words in ("success", "passed beside", "bounced off", "never arrived", "not settled")
    assert tab.run("document.querySelectorAll('#success .played').length") == 4
    settled(tab, lambda: tab.key("t"))
    assert tab.run("document.querySelector('#sampling').value") == "1"
    assert "On this page: " in tab.run("document.querySelector('#success-rates li').textContent")
    assert tab.complaints == []
    assert [one for one in tab.requests if f"127.0.0.1:{port}/" not in one and not one.startswith("data:")] == []
    tab.close()


@needs_browser
def test_the_clock_waits_for_frames_and_ends_with_the_episode(chromium: Browser, port: int) -> None:
    tab = opened(chromium, port)
    last = int(tab.run("scrub.max"))
    tab.run("scrub.value = scrub.max, scrub.dispatchEvent(new Event('input'))")
    badge = "document.querySelector('.panel:nth-child(2) .badge').textContent"
    assert tab.run(badge) == "success", "the demonstrator's last frame says what came of it"
    assert 0 < last <= 63
    places = tab.run("""import("/clock.js").then(({ makeClock }) => {
      const made = () => document.createElement("input"), found = [];
      const clock = makeClock({ play: made(), scrub: made(), speed: made() }, () => {});
      for (const there of [5, 9, Infinity]) { clock.limit(there); clock.go(60); found.push(clock.frame()); }
      return found;
    })""")
    assert places == [4, 8, 60], "no farther than the frames that have arrived"
    assert tab.complaints == []
    tab.close()


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1280, True)])
def test_it_fits_the_screen(chromium: Browser, port: int, width: int, dark: bool) -> None:
    tab = opened(chromium, port, width, 844, dark=dark)
    assert tab.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    wide = f"[...document.querySelectorAll('main *')].filter((o) => o.getBoundingClientRect().right > {width + 1}).length"
    assert tab.run(wide) == 0
    ground = tab.run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(22, 24, 27)" if dark else "rgb(255, 255, 255)")
    nameless = tab.run("""[...document.querySelectorAll("input, select, button")].filter((one) =>
      !(one.labels?.length || one.getAttribute("aria-label") || one.textContent.trim())).map((one) => one.outerHTML)""")
    assert nameless == []
    assert tab.complaints == []
    tab.close()


@needs_browser
def test_an_exported_page_plays_policies_from_a_file(
    chromium: Browser, driven: Driven, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["view", str(driven.policy), "--export", str(tmp_path / "out"), "--laws", "2", "--seeds", "1"]) == 0
    page = Path(capsys.readouterr().out.strip())
    tab = chromium.open(page.as_uri())
    tab.wait(DONE)
    settled(tab, lambda: tab.drag("#law-gravity", [1.0]))
    assert tab.run("document.querySelectorAll('#success .played').length") == 4
    assert tab.run("document.querySelector('[data-for=\"policy sampling\"]').hidden"), "there is one try"
    assert tab.complaints == []
    place = page.parent.as_uri()
    assert [one for one in tab.requests if not one.startswith((place, "data:"))] == []
    tab.close()
