"""What a world records beside its state: vectors a frame, words an episode, and worlds that nobody drives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import lance
import numpy as np
import pytest

from sgjepa import envs, laws
from sgjepa.core.errors import InputError
from sgjepa.data import episode
from sgjepa.data.collect import collect
from sgjepa.data.config import DatasetConfig, Part
from sgjepa.data.store import fit_normalisers, open_dataset
from sgjepa.data.windows import Clips, JointClips
from sgjepa.envs import ENVS, planar
from sgjepa.envs.base import Env
from sgjepa.envs.spec import EnvSpec, Quantity
from sgjepa.laws import Grid, Law


class Walled(planar.Square):
    """A square that nobody kicks, that says when a wall is near and what became of it."""

    env_spec: ClassVar[EnvSpec] = replace(
        planar.Square.env_spec,
        name="walled",
        gym_id="sgjepa/Walled-v0",
        control=(),
        records={
            "near": (Quantity("left_or_right", "1"), Quantity("bottom_or_top", "1")),
            "height": (Quantity("height", "m"),),
        },
        labels={"end": ("low", "high")},
        has_task=True,
    )

    def _advance(self, control: np.ndarray) -> None:
        super()._advance(np.zeros(2))

    def expert(self) -> np.ndarray:
        return np.zeros(0, np.float32)

    def records(self) -> dict[str, np.ndarray]:
        x, z = self.state()[:2]
        return {"near": np.array([abs(x) > 3.5, abs(z - 4.6) > 3.5], float), "height": np.array([z])}

    def labels(self) -> dict[str, str]:
        return {"end": "low" if self.state()[1] < 4.6 else "high"}

    def success(self) -> bool:
        return bool(self.state()[1] < 4.6)


@pytest.fixture
def walled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(envs.ENVS, "walled", Walled)
    part = Part(6, {"gravity": Grid((-4.0, 4.0))})
    return collect(DatasetConfig("walled", 16, part, part), tmp_path / "walled", workers=1)


def test_records_and_labels_come_back_as_the_world_gave_them(walled: Path) -> None:
    split = open_dataset(walled).train
    assert split.record("near").shape == (6, 64, 2)
    assert np.array_equal(split.record("height")[..., 0], split.state[..., 1])
    assert np.array_equal(split.record("near")[..., 1], np.abs(split.state[..., 1] - 4.6) > 3.5)
    fell = split.state[:, -1, 1] < 4.6
    assert split.success.tolist() == fell.tolist()
    assert split.label("end").tolist() == np.where(fell, "low", "high").tolist()
    assert set(split.label("end")) == {"low", "high"}


def test_the_reward_is_one_at_the_frame_in_which_success_is_first_reached(walled: Path) -> None:
    split = open_dataset(walled).train
    low = split.state[..., 1] < 4.6  # success, by frame; it starts high
    first = np.where(low.any(axis=1), low.argmax(axis=1), -1)
    assert (first > 0).any()
    assert np.array_equal(split.reward, np.arange(64) == first[:, None])
    assert split.about["columns"]["reward"] == "1 at the frame in which success is first reached, else 0"


def test_the_manifest_counts_the_words_of_every_label(walled: Path) -> None:
    dataset = open_dataset(walled)
    for name, part in dataset.manifest.parts.items():
        notes = [json.loads(note) for note in _notes(walled / f"{name}.lance")]
        ends = [note["labels"]["end"] for note in notes]
        assert part.labels == {"end": {word: ends.count(word) for word in set(ends)}}
        assert sum(part.labels["end"].values()) == part.episodes
        assert part.successes == sum(note["success"] for note in notes)


def _notes(table: Path) -> list[str]:
    rows = lance.dataset(table).to_table(columns=["step_idx", "episode_metadata"]).to_pylist()
    return [row["episode_metadata"] for row in rows if row["step_idx"] == 63]


def test_records_and_labels_are_explained_in_the_schema(walled: Path) -> None:
    table = lance.dataset(str(walled / "test.lance"))
    about = json.loads(table.schema.metadata[b"sgjepa"])
    assert set(about["columns"]) == set(table.schema.names)
    assert about["records"]["near"] == [["left_or_right", "1"], ["bottom_or_top", "1"]]
    assert about["labels"] == {"end": ["low", "high"]}


def test_unknown_records_and_labels_are_named(walled: Path) -> None:
    split = open_dataset(walled).test
    with pytest.raises(InputError, match=r"unknown record of .* 'hight' \(did you mean height\?\)"):
        split.record("hight")
    with pytest.raises(InputError, match="unknown label of"):
        split.label("outcome")


def test_a_word_that_the_world_does_not_declare_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Walled, "labels", lambda self: {"end": "sideways"})
    with pytest.raises(InputError, match="unknown end of walled 'sideways'"):
        episode.simulate(Walled(image_size=8), seed=0, law={"gravity": 4.0})


def test_a_law_cannot_take_a_records_name(walled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(laws.LAWS, "near", Law("near", "1", lambda model, value: None))
    part = Part(2, {"gravity": Grid((4.0,)), "near": Grid((1.0,))})
    with pytest.raises(InputError, match="a law cannot be called 'near'"):
        collect(DatasetConfig("walled", 16, part, part), tmp_path / "other", workers=1)


def test_a_world_without_controls_goes_through_every_reader(walled: Path) -> None:
    split = open_dataset(walled).train
    assert split.control.shape == (6, 64, 0)
    scores = fit_normalisers(split.control, split.law)
    assert (scores.control.mean, len(scores.law.mean)) == ((), 1)
    clips = JointClips([Clips(split, np.arange(4), 25), Clips(split, np.arange(4, 6), 25)])
    batch = clips.batch(np.array([0, 50, len(clips) - 1]))
    assert batch.control.shape == (3, 25, 0)
    assert batch.frames.shape == (3, 25, 16, 16, 3)


@pytest.mark.parametrize("world", ENVS)
def test_every_world_records_what_it_declares(world: str) -> None:
    """Widths and words as declared, names that are no other column's, and the same in info."""
    env: Env = ENVS[world](image_size=16)
    _, info = env.reset(seed=0)
    declared: Mapping[str, tuple[Quantity, ...]] = env.env_spec.records
    assert not declared.keys() & (episode.COLUMNS.keys() | laws.LAWS.keys())
    for _ in range(3):
        assert {name: values.shape for name, values in env.records().items()} == {n: (len(q),) for n, q in declared.items()}
        assert env.labels().keys() == env.env_spec.labels.keys()
        assert all(word in env.env_spec.labels[name] for name, word in env.labels().items())
        assert info["records"].keys() == declared.keys()
        assert info["labels"] == env.labels()
        *_, info = env.step(env.expert())
    env.close()
