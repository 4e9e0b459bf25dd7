"""Reading: split by episode, statistics of the training part only, and clips that decode each frame once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fixtures.datasets import small

from sgjepa.core.errors import InputError
from sgjepa.data import store
from sgjepa.data.collect import collect
from sgjepa.data.store import fit_normalisers, open_dataset, split_episodes
from sgjepa.data.windows import Clips


def test_a_split_parts_whole_episodes_and_repeats() -> None:
    train, validation = split_episodes(8000)
    assert len(train) == 7200
    assert sorted([*train, *validation]) == list(range(8000))
    assert np.array_equal(split_episodes(8000)[0], train)
    assert not np.array_equal(split_episodes(8000, seed=1)[0], train)


def test_normalisers_never_see_validation_episodes(finished: Path) -> None:
    split = open_dataset(finished).train
    train, validation = split_episodes(split.episodes)
    before = fit_normalisers(split.control[train], split.law[train])
    for name in ("law", "control"):  # whatever validation holds
        changed = getattr(split, name).copy()
        changed[validation] = 1e9
        setattr(split, name, changed)
    assert fit_normalisers(split.control[train], split.law[train]) == before
    scored = before.law(split.law[train])
    assert scored.mean() == pytest.approx(0, abs=1e-5)
    assert scored.std() == pytest.approx(1, abs=1e-5)
    assert before.law.undo(scored) == pytest.approx(split.law[train], abs=1e-4)


def test_a_channel_that_never_varies_becomes_zero() -> None:
    from sgjepa.core.stats import fit_zscore

    constant = np.full((10, 1), 3.0)
    assert (fit_zscore(constant)(constant) == 0).all()
    assert fit_zscore(constant)(constant + 2).tolist() == [[2.0]] * 10, "another value is as far away as it is"


@pytest.mark.parametrize("keep", ["ram", "disk"])
def test_windows_are_the_frames_they_say(copied: Path, keep: str) -> None:
    split = open_dataset(copied).train
    episodes = np.array([2, 5, 29])
    clips = Clips(split, episodes, length=25, keep=keep)
    assert len(clips) == 3 * 40
    batch = clips.batch(np.array([0, 39, 40, 119]))
    assert batch.episode.tolist() == [2, 2, 5, 29]
    assert batch.start.tolist() == [0, 39, 0, 39]
    pixels = split.pixels(episodes)
    for row, (n, start) in enumerate([(0, 0), (0, 39), (1, 0), (2, 39)]):
        window = slice(start, start + 25)
        assert np.array_equal(batch.frames[row], pixels[n, window])
        assert np.array_equal(batch.state[row], split.state[episodes[n], window])
        assert np.array_equal(batch.control[row], split.control[episodes[n], window])
        assert np.array_equal(batch.law[row], split.law[episodes[n]])


def test_each_frame_is_decoded_once(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split, decoded = open_dataset(copied).train, []
    real = store.codec.decode
    monkeypatch.setattr(store.codec, "decode", lambda *args: decoded.append(1) or real(*args))
    clips = Clips(split, np.arange(4), length=25, keep="ram")
    for numbers in np.random.default_rng(0).permutation(len(clips)).reshape(-1, 8):
        clips.batch(numbers)
    assert len(decoded) == 4 * 64


def test_a_memory_map_is_made_once_and_found_again(copied: Path) -> None:
    first = Clips(open_dataset(copied).train, np.arange(30), length=64, keep="disk").batch(np.arange(30)).frames
    made = next(copied.glob("train.frames-*.npy")).stat().st_mtime_ns
    again = Clips(open_dataset(copied).train, np.arange(30), length=64, keep="disk").batch(np.arange(30)).frames
    assert np.array_equal(first, again)
    assert next(copied.glob("train.frames-*.npy")).stat().st_mtime_ns == made


def test_a_memory_map_of_other_frames_is_refused(copied: Path) -> None:
    split = open_dataset(copied).train
    np.save(copied / f"train.frames-{split.digest}.npy", np.zeros((1, 64, 32, 32, 3), np.uint8))
    with pytest.raises(InputError, match=r"train\.frames-\w+\.npy holds other frames"):
        Clips(split, np.arange(3), length=25, keep="disk")


@pytest.mark.parametrize("length", [0, 60, 5000])
def test_a_damaged_memory_map_is_one_line(copied: Path, length: int) -> None:
    Clips(open_dataset(copied).train, np.arange(3), length=25, keep="disk")
    (path,) = copied.glob("train.frames-*.npy")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InputError, match=r"train\.frames-\w+\.npy is damaged \(.*\); delete that file"):
        Clips(open_dataset(copied).train, np.arange(3), length=25, keep="disk")


def test_a_dataset_made_again_has_the_same_digest_and_another_seed_another(finished: Path, tmp_path: Path) -> None:
    before = open_dataset(finished).manifest.digest
    again = collect(small(), tmp_path / "again", workers=1)
    other = collect(small(seed=1), tmp_path / "other", workers=1)
    assert open_dataset(again).manifest.digest == before
    assert open_dataset(other).manifest.digest != before


@pytest.mark.parametrize(
    ("length", "keep", "words"), [(0, "ram", "1 to 64"), (65, "ram", "1 to 64"), (9, "gpu", "unknown place")]
)
def test_bad_windows_are_named(finished: Path, length: int, keep: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Clips(open_dataset(finished).train, np.arange(2), length=length, keep=keep)


def test_a_world_without_controls_has_normalisers_too() -> None:
    scores = fit_normalisers(np.zeros((3, 4, 0)), np.array([[1.0], [2.0], [3.0]]))
    assert scores.control.mean == ()
    assert scores.law.mean == (2.0,)


def test_a_world_without_a_task_never_rewards(finished: Path) -> None:
    split = open_dataset(finished).train
    assert split.reward.shape == (30, 64)
    assert not split.reward.any()
    assert split.about["columns"]["reward"] == "always 0"


def test_a_dataset_opens_without_a_simulator_or_torch(finished: Path) -> None:
    """Importing either would fail in this process."""
    code = "import sys; sys.modules['torch'] = None; sys.modules['mujoco'] = None\nimport sgjepa\n"
    code += f"data = sgjepa.Dataset.open({str(finished)!r})\nprint(data.env_spec.name, data.train.pixels([0]).dtype)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "square uint8", done.stderr
