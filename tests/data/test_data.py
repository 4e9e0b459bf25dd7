"""Datasets: the same bytes for any number of workers, episodes that stand alone, and work that survives being killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest
from fixtures.datasets import small
from fixtures.processes import wait_for_the_end_of

from sgjepa import laws
from sgjepa.core import artifact
from sgjepa.core.errors import InputError
from sgjepa.data import collect as collect_module
from sgjepa.data.collect import collect, key_of
from sgjepa.data.config import DatasetConfig, Part, episode_law, episode_plan, episode_seed, make_env, make_episode
from sgjepa.data.store import open_dataset
from sgjepa.envs import ENVS, planar
from sgjepa.laws import Grid, Law
from sgjepa.recipes.datasets import dataset


def data_bytes(folder: Path) -> list[bytes]:
    """Contents of the Lance data files, which hold every column and nothing else."""
    return [p.read_bytes() for split in ("train", "test") for p in sorted((folder / f"{split}.lance/data").iterdir())]


# --- determinism ---------------------------------------------------------------------------------------------------


def test_the_bytes_do_not_depend_on_the_number_of_workers(finished: Path, tmp_path: Path) -> None:
    two = collect(small(), tmp_path / "two", workers=2)
    assert data_bytes(two) == data_bytes(finished)
    other_seed = collect(small(seed=1), tmp_path / "other", workers=1)
    assert data_bytes(other_seed) != data_bytes(finished)


def begin(out: Path, settings: DatasetConfig | None = None) -> Path:
    """A dataset that an interrupted command began; returns the folder of its chunks."""
    with suppress(KeyboardInterrupt), artifact.artifact(out, key_of(settings or small()), "sgjepa data", resumable=True):
        raise KeyboardInterrupt
    return out / artifact.PARTIAL / collect_module.CHUNKS


@pytest.mark.parametrize("world", ["approach_ball"])
def test_frames_drawn_by_opengl_repeat_too(tmp_path: Path, world: str) -> None:
    """One worker or two, in one go or begun by somebody else: the same bytes, pictures included."""
    base = small(world)
    settings = replace(base, train=replace(base.train, episodes=27), test=replace(base.test, episodes=3))
    one = collect(settings, tmp_path / "one", workers=1)
    collect_module._make_chunk(collect_module._plan(settings, begin(tmp_path / "two", settings))[1])
    two = collect(settings, tmp_path / "two", workers=2)
    assert data_bytes(one) == data_bytes(two)
    alone = make_episode(settings, make_env(settings), "test", 2)
    stored = open_dataset(one).test
    assert np.array_equal(stored.pixels(np.array([2]))[0], alone.frames)
    assert np.array_equal(stored.state[2], alone.state)


@pytest.mark.parametrize("split", ["train", "test"])
def test_episode_17_does_not_need_episode_16(finished: Path, split: str) -> None:
    settings = small()
    alone = make_episode(settings, make_env(settings), split, 17)
    stored = getattr(open_dataset(finished), split)
    assert np.array_equal(stored.pixels(np.array([17]))[0], alone.frames)
    assert np.array_equal(stored.state[17], alone.state)
    assert np.array_equal(stored.control[17], alone.control)
    assert stored.law[17].tolist() == list(alone.law.values())


@pytest.mark.parametrize("world", ENVS)
def test_mini_is_a_prefix_of_paper(world: str) -> None:
    mini, paper = dataset(world, "mini"), dataset(world, "paper")
    small_env, large_env = make_env(replace(mini, image_size=8)), make_env(replace(paper, image_size=8))
    for split, number in [("train", 3), ("test", mini.test.episodes - 1)]:
        one = make_episode(mini, small_env, split, number)
        other = make_episode(paper, large_env, split, number)
        assert np.array_equal(one.state, other.state)
        assert one.law == other.law


def test_a_stored_episode_can_be_played_again_in_the_environment(finished: Path) -> None:
    split = open_dataset(finished).test
    note = split.metadata(7)
    env = ENVS["square"](image_size=32)
    frame, _ = env.reset(seed=note["seed"], options={"law": note["law"]})
    frames = [frame] + [env.step(control)[0] for control in split.control[7][:-1]]
    assert np.array_equal(np.stack(frames), split.pixels(np.array([7]))[0])


def test_no_two_episodes_share_a_seed() -> None:
    seeds = {episode_seed(s, split, n) for s in range(3) for split in ("train", "test") for n in range(500)}
    assert len(seeds) == 3 * 2 * 500


def test_train_and_test_laws_are_the_papers() -> None:
    paper = dataset("pentagon", "paper")
    train = np.array([episode_law(paper.train.laws, 0, "train", n)["gravity"] for n in range(8000)])
    assert train.mean() == pytest.approx(4.0, abs=4 * 0.5 / np.sqrt(8000))
    assert train.std() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(16000))
    test = [episode_law(paper.test.laws, 0, "test", n)["gravity"] for n in range(5000)]
    assert {g: test.count(g) for g in set(test)} == dict.fromkeys(np.arange(-2, 10.25, 0.5).tolist(), 200)


# --- plans ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [name for name, env in ENVS.items() if env.env_spec.expert_plans])
def test_every_block_of_episodes_has_each_plan_as_often_as_the_world_says(world: str) -> None:
    """Franka: of any 20 episodes from a multiple of 20 on, 14 are planned successes and one is each failure."""
    plans = ENVS[world].env_spec.expert_plans
    for split in ("train", "test"):
        drawn = [episode_plan(plans, 0, split, n) for n in range(20 * len(plans))]
        blocks = [drawn[i : i + len(plans)] for i in range(0, len(drawn), len(plans))]
        assert all(sorted(block) == sorted(plans) for block in blocks)
        assert len(set(map(tuple, blocks))) > 1, "the order is no clue"
    assert [episode_plan(plans, 1, "train", n) for n in range(100)] != [
        episode_plan(plans, 0, "train", n) for n in range(100)
    ]


def test_a_world_without_plans_is_reset_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small()
    assert episode_plan(ENVS["square"].env_spec.expert_plans, 0, "train", 7) == ""
    env = make_env(settings)
    given: list[dict[str, Any]] = []
    reset = env.reset

    def listen(**options: Any) -> Any:
        given.append(options)
        return reset(**options)

    monkeypatch.setattr(env, "reset", listen)
    made = make_episode(settings, env, "train", 7)
    assert given == [{"seed": made.seed, "options": {"law": made.law}}]


@pytest.mark.parametrize("world", ["arm_catcher_ball"])
def test_planned_episodes_are_the_same_bytes_with_any_number_of_workers(tmp_path: Path, world: str) -> None:
    base = small(world)
    settings = replace(base, train=replace(base.train, episodes=5), test=replace(base.test, episodes=2))
    one = collect(settings, tmp_path / "one", workers=1)
    assert data_bytes(one) == data_bytes(collect(settings, tmp_path / "two", workers=2))
    stored = open_dataset(one)
    plans = ENVS[world].env_spec.expert_plans
    assert list(stored.train.label("plan")) == [episode_plan(plans, 0, "train", n) for n in range(5)]
    assert sorted(stored.train.label("plan")) == sorted(plans)
    note = stored.test.metadata(1)
    env = make_env(settings)
    frame, _ = env.reset(seed=note["seed"], options={"law": note["law"], "plan": note["labels"]["plan"]})
    assert np.array_equal(frame, stored.test.pixels(np.array([1]))[0, 0])


# --- the rows ------------------------------------------------------------------------------------------------------


def test_the_schema_names_every_column_unit_and_the_codec(finished: Path) -> None:
    table = lance.dataset(str(finished / "test.lance"))
    about = json.loads(table.schema.metadata[b"sgjepa"])
    assert set(about["columns"]) == set(table.schema.names)
    assert about["codec"] == "lz4"
    assert about["laws"] == {"gravity": "m/s^2"}
    assert about["state"] == [[q.name, q.unit] for q in planar.Square.env_spec.state]
    assert about["control"] == [["impulse_x", "N s"], ["impulse_z", "N s"]]
    assert about["env"] == {"contact": "elastic", "renderer": "raster"}
    assert about["symmetry"] == 4
    rows = table.to_table().to_pydict()
    assert rows["episode_idx"] == [n // 64 for n in range(50 * 64)]
    assert rows["step_idx"] == [n % 64 for n in range(50 * 64)]
    assert set(rows["split_id"]) == {1}
    assert set(rows["reward"]) == {0.0}
    assert set(rows["task"]) == {"square"}
    assert [p[0] for p in rows["phys"]] == rows["gravity"]


def test_control_and_law_join_to_the_papers_action(finished: Path) -> None:
    """(J_x, J_z, g): the impulse only at frame 0, g on every row; J is mass times the speed it causes."""
    split = open_dataset(finished).test
    action = np.concatenate([split.control, np.broadcast_to(split.law[:, None], (50, 64, 1))], axis=2)
    assert (action[:, 1:, :2] == 0).all()
    assert (action[:, 0, :2] != 0).all()
    assert (action[..., 2] == split.law).all()
    mass, free = split.phys[:, 1], np.abs(split.state[:, 1, 5]) < 1e-12  # no bounce yet: no spin
    assert split.state[free, 1, 2] == pytest.approx(action[free, 0, 0] / mass[free], abs=1e-5)


def test_the_reference_contacts_are_written_down(tmp_path: Path) -> None:
    settings = small(env={"contact": "reference"})
    made = open_dataset(collect(settings, tmp_path / "soft", workers=1))
    assert made.train.about["env"]["contact"] == "reference"
    assert made.settings.env == {"contact": "reference"}


def test_jpeg_differs_from_the_lossless_frames_by_little(finished: Path, tmp_path: Path) -> None:
    jpeg = open_dataset(collect(small(codec="jpeg"), tmp_path / "jpeg", workers=1))
    exact = open_dataset(finished).train.pixels(np.arange(5)).astype(int)
    lossy = jpeg.train.pixels(np.arange(5)).astype(int)
    assert 10 * np.log10(255**2 / ((exact - lossy) ** 2).mean()) > 35
    assert jpeg.train.about["codec"] == "jpeg"


def _apply_side_pull(model: object, value: float) -> None:
    model.opt.gravity[0] = value  # type: ignore[attr-defined]


def test_two_laws_make_two_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(laws.LAWS, "side_pull", Law("side_pull", "m/s^2", _apply_side_pull))
    grid = {"gravity": Grid((0.0, 4.0)), "side_pull": Grid((-1.0, 0.0, 1.0))}
    settings = replace(small(), train=Part(6, grid), test=Part(6, grid))
    made = open_dataset(collect(settings, tmp_path / "two", workers=1))
    assert made.train.laws == ("gravity", "side_pull")
    assert sorted(map(tuple, made.train.law.tolist())) == [(g, s) for g in (0.0, 4.0) for s in (-1.0, 0.0, 1.0)]
    pulled = made.train.law[:, 1] > 0
    assert (made.train.state[pulled, 5, 2] > made.train.state[~pulled, 5, 2].min()).all()


# --- killed, finished, half made -----------------------------------------------------------------------------------

MAKE = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from fixtures.datasets import small
from sgjepa.data import collect
real, at = collect._finished, int(sys.argv[4])
def finished(*given):
    for number, chunk in enumerate(real(*given), start=1):
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)
        yield chunk
if __name__ == "__main__":
    collect._finished = finished
    collect.collect(small(), Path(sys.argv[1]), workers=int(sys.argv[3]))
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_in_the_middle_the_same_command_goes_on(finished: Path, tmp_path: Path, workers: int) -> None:
    out, script = tmp_path / "killed", tmp_path / "make.py"
    script.write_text(MAKE)
    command = [sys.executable, str(script), str(out), str(Path(__file__).parents[1]), str(workers)]
    partial, there = out / ".partial", list[int]()
    for at in (1, 2, 1):  # when so many of the four chunks were made
        process = subprocess.Popen([*command, str(at)], stderr=subprocess.DEVNULL, start_new_session=True)
        assert process.wait() == -signal.SIGKILL, "the parent only: its workers must end by themselves"
        wait_for_the_end_of(process.pid)
        there.append(len(list(partial.glob(".chunks/*.arrow"))))
        with pytest.raises(InputError, match=r"half made|does not exist"):
            open_dataset(out)
    assert there == sorted(there)
    assert 0 < there[0] < 4, "killed in the middle"
    subprocess.run([*command, "0"], check=True, stderr=subprocess.DEVNULL)
    assert data_bytes(out) == data_bytes(finished)
    assert not partial.exists()
    assert sorted(p.name for p in out.iterdir()) == ["artifact.json", "test.lance", "train.lance"]


def test_a_finished_dataset_is_not_made_again(copied: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in copied.rglob("*")}
    assert collect(small(), copied, workers=1) == copied
    assert {p: p.stat().st_mtime_ns for p in copied.rglob("*")} == before


def test_other_settings_are_refused_and_named(copied: Path) -> None:
    with pytest.raises(InputError, match=r"holds one with config.seed = 0, not 5; choose another --out"):
        collect(small(seed=5), copied)


def test_a_half_made_dataset_of_other_settings_is_kept(tmp_path: Path) -> None:
    chunk = collect_module._plan(small(), begin(tmp_path / "d"))[0]
    collect_module._make_chunk(chunk)
    with pytest.raises(InputError, match=r"was begun with config.seed = 0, not 5; choose another --out or delete it"):
        collect(small(seed=5), tmp_path / "d")
    assert chunk.path.exists()


def test_a_dataset_that_lacks_a_file_is_made_again(copied: Path, finished: Path) -> None:
    """Killed while files took their places, or somebody deleted one."""
    next((copied / "test.lance" / "data").iterdir()).unlink()
    with pytest.raises(InputError, match="is missing; run `sgjepa data` again"):
        open_dataset(copied)
    made = collect(small(), copied, workers=1)
    assert sorted(p.name for p in made.iterdir()) == ["artifact.json", "test.lance", "train.lance"]
    assert data_bytes(open_dataset(made).path) == data_bytes(finished)


@pytest.mark.parametrize("damage", ["truncated", "foreign"])
def test_a_damaged_chunk_is_made_again(finished: Path, tmp_path: Path, damage: str) -> None:
    chunk = collect_module._plan(small(), begin(tmp_path / "d"))[0]
    if damage == "truncated":
        collect_module._make_chunk(chunk)
        os.truncate(chunk.path, chunk.path.stat().st_size // 2)
    else:  # whole, but not of these settings
        collect_module._make_chunk(replace(chunk, settings=small(seed=1)))
    assert data_bytes(collect(small(), tmp_path / "d", workers=1)) == data_bytes(finished)


def test_a_law_cannot_take_a_columns_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(laws.LAWS, "state", Law("state", "1", _apply_side_pull))
    grid = {"gravity": Grid((0.0, 4.0)), "state": Grid((1.0,))}
    with pytest.raises(InputError, match="a law cannot be called 'state'"):
        collect(replace(small(), train=Part(2, grid), test=Part(2, grid)), tmp_path / "d")
    assert not list(tmp_path.iterdir())


def test_two_makers_of_one_dataset_do_not_meet(tmp_path: Path) -> None:
    import fcntl

    (tmp_path / "d").mkdir()
    with (tmp_path / "d" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="is in use by another process"):
            collect(small(), tmp_path / "d")
