"""Open a dataset, check it, and read it by episode.

Opening is strict: the folder must have a manifest, every file must be the one that was written, and the rows must be whole
episodes. Code that reads from an open dataset does not check again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sgjepa.core import artifact
from sgjepa.core.errors import InputError, one_line, unknown
from sgjepa.core.stats import ZScore, fit_zscore
from sgjepa.data import codec, episode
from sgjepa.data.config import SPLIT_SEED, DatasetConfig
from sgjepa.data.manifest import Manifest, read_manifest
from sgjepa.envs import ENVS
from sgjepa.envs.spec import EnvSpec
from sgjepa.laws import Grid, Sampler


@dataclass(frozen=True)
class Dataset:
    """Episodes on disk in two splits: training and held out.

    path: its folder.
    manifest: its record, with digests.
    settings: the settings that made it: world, size of the pictures, laws.
    train: the training episodes, a `Split`; a tenth of them is held out for validation.
    test: the held-out episodes, a `Split`.
    """

    path: Path
    manifest: Manifest
    settings: DatasetConfig
    train: Split
    test: Split

    @property
    def env_spec(self) -> EnvSpec:
        """The specification of the world: names and units of its records, its task."""
        return self.manifest.env_spec

    def __repr__(self) -> str:
        spec = self.settings.env_spec
        about = f"laws {', '.join(self.train.laws) or 'none'}, {self.settings.image_size} pixels, {spec.frames} frames each"
        return (
            f"Dataset {self.path} of {spec.name}: {self.train.episodes} episodes and {self.test.episodes} held out, {about}"
        )

    @classmethod
    def open(cls, path: str | Path, verify: bool = True) -> Dataset:
        """Open a dataset that `sgjepa data` or `Dataset.from_arrays` made.

        path: the folder.
        verify: compare every file with its digest, about 1 s per GB.

            data = sgjepa.Dataset.open("datasets/square-mini")
            print(data.train.episodes, data.train.laws, data.test.law[:3])
        """
        return open_dataset(path, verify)

    @staticmethod
    def from_arrays(out: str | Path, frames: Any, control: Any = None, state: Any = None, **more: Any) -> Dataset:
        """Write your own recordings as a dataset, and open it: N episodes of T frames, A controls, S numbers of state.

        out: the folder to write.
        frames: pictures (N, T, H, W, 3) uint8, H = W; or N arrays (T, H, W, 3).
        control: (N, T, A), the control between a frame and the next; None without controls.
        state: (N, T, S), or by name, each (N, T) or (N, T, k); probes read it. None if it is unknown.
        more: `law`: by name, a number for all episodes or (N,). `fps`: frames per second, default 16. `world`: what was
            recorded; a registered world, whose names then hold, or a name of your own. `test`: the share of episodes to
            hold out, default 0.2, or their numbers. Others, such as names and units: `sgjepa.data.arrays.from_arrays`.

            few = data.train.pixels([0, 1, 2, 3, 4])  # (5, T, H, W, 3)
            states = data.train.state[:5]
            sgjepa.Dataset.from_arrays("datasets/mine", few, state=states, law={"gravity": 4.0}, test=0.4)
        """
        from sgjepa.data.arrays import from_arrays

        return from_arrays(out, frames, control, state, **more)


def open_dataset(path: str | Path, verify: bool = True) -> Dataset:
    """Open the folder that `sgjepa data` made. `verify=False` skips the file digests (about 1 s per GB)."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; {_how_made(path.name)}")
    manifest = read_manifest(path)
    if verify:
        _verify(path)
    splits = {
        name: Split(path / f"{name}.lance", name, part.episodes, part.digest, manifest.env_spec)
        for name, part in manifest.parts.items()
    }
    return Dataset(path, manifest, manifest.config, splits["train"], splits["test"])


def _how_made(name: str) -> str:
    """The command for a missing dataset; the folders of default datasets are called WORLD-SIZE."""
    world, _, size = name.rpartition("-")
    return (
        f"make it: sgjepa data {world} --size {size}" if world in ENVS else "make it with `sgjepa data`, or say where it is"
    )


def _verify(path: Path) -> None:
    """Refuse files that were changed, and further files that Lance would read."""
    record = artifact.check(path)
    for name in episode.SPLITS:
        for file in (path / f"{name}.lance").rglob("*"):
            if not file.is_dir() and file.relative_to(path).as_posix() not in record["files"]:
                raise InputError(f"{file} does not belong to the dataset; move it away")


class Split:
    """A split of a dataset: N episodes of T frames. Arrays are read at their first use.

    episodes: N.
    frames: T.
    laws: the names of the laws, in the order of `law`.
    picture: the height, width and channels of a frame.
    """

    def __init__(self, folder: Path, name: str, episodes: int, digest: str, spec: EnvSpec):
        """spec: the specification of the world of these episodes"""
        self.folder, self.name, self.episodes, self.digest, self.env_spec = folder, name, episodes, digest, spec
        self._records: dict[str, np.ndarray] = {}
        try:
            import lance  # here, so that help and kept results are shown without it

            self._lance = lance.dataset(str(folder.absolute()))
            self._about = json.loads(self._lance.schema.metadata[b"sgjepa"])
            self.frames: int = self._about["frames_per_episode"]
            self.laws: tuple[str, ...] = tuple(self._about["laws"])
            self.picture: tuple[int, int, int] = tuple(self._about["pixels_shape"])
            self._codec = codec.CODECS.lookup(self._about["codec"])
            self._widths: dict[str, int] = {key: len(self._about[key]) for key in ("state", "control", "phys")}
        except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
            raise InputError(f"{folder} cannot be opened as one of our Lance datasets ({one_line(error, 160)})") from error
        self._check()

    @property
    def about(self) -> dict[str, Any]:
        """The metadata of the rows: names and units of the columns, codec of the pictures, the world."""
        return dict(self._about)

    def _check(self) -> None:
        wanted = {*episode.columns_of(self._widths), *self.laws, *self._about.get("records", {})}
        missing = wanted - set(self._lance.schema.names)
        if missing:
            raise InputError(f"{self.folder} lacks the column {', '.join(sorted(missing))}")
        order = self._read(["episode_idx", "step_idx"])
        number, step = order["episode_idx"].to_numpy(), order["step_idx"].to_numpy()
        whole = np.arange(self.episodes * self.frames)
        if len(number) != len(whole) or (number != whole // self.frames).any() or (step != whole % self.frames).any():
            raise InputError(f"{self.folder} does not hold {self.episodes} whole episodes of {self.frames} frames in order")

    def _read(self, columns: list[str], numbers: np.ndarray | None = None) -> pa.Table:
        try:
            if numbers is None:
                return self._lance.to_table(columns=columns).combine_chunks()
            rows = (np.asarray(numbers)[:, None] * self.frames + np.arange(self.frames)).ravel()
            return self._lance.take(rows, columns=columns).combine_chunks()
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(f"{self.folder} cannot be read ({one_line(error, 160)})") from error

    def _array(self, column: str) -> np.ndarray:
        """A numeric column as (N, T, ...) float32; a value that is not finite is refused as damage."""
        values = self._read([column])[column].chunk(0)
        if pa.types.is_fixed_size_list(values.type):
            width = values.type.list_size
            array = values.flatten().to_numpy(zero_copy_only=False).reshape(self.episodes, self.frames, width)
        else:
            array = values.to_numpy(zero_copy_only=False).reshape(self.episodes, self.frames)
        if not np.isfinite(array).all():
            where = int(np.argwhere(~np.isfinite(array))[0][0])
            raise InputError(f"{self.folder}: column {column} of episode {where} holds a value that is not finite")
        return np.asarray(array, np.float32)

    @cached_property
    def state(self) -> np.ndarray:
        """The states that the frames show, (N, T, S) float32; S is 0 if they were not recorded."""
        return self._vectors("state")

    @cached_property
    def control(self) -> np.ndarray:
        """The controls between a frame and the next, (N, T, A) float32; A is 0 in a world without controls."""
        return self._vectors("control")

    @cached_property
    def phys(self) -> np.ndarray:
        """The physical constants of each episode, (N, P) float32; P is 0 if they were not recorded."""
        return self._vectors("phys")[:, 0]

    def _vectors(self, column: str) -> np.ndarray:
        """A column (N, T, W); a dataset has none of width 0."""
        if self._widths[column] == 0:
            return np.zeros((self.episodes, self.frames, 0), np.float32)
        return self._array(column)

    @cached_property
    def law(self) -> np.ndarray:
        """The laws of each episode in the order of `laws`, (N, L) float32; L is 0 in a world without laws."""
        if not self.laws:
            return np.zeros((self.episodes, 0), np.float32)
        columns = [self._array(name) for name in self.laws]
        for name, values in zip(self.laws, columns, strict=True):
            if (values != values[:, :1]).any():
                where = int(np.argwhere(values != values[:, :1])[0][0])
                raise InputError(f"{self.folder}: law {name} changes within episode {where}")
        return (
            np.stack([values[:, 0] for values in columns], axis=1) if columns else np.zeros((self.episodes, 0), np.float32)
        )

    @cached_property
    def reward(self) -> np.ndarray:
        """The reward of the step that led to each frame, (N, T) float32; 0 at frame 0."""
        return self._array("reward")

    def record(self, name: str) -> np.ndarray:
        """Further numbers that the world records at each frame, (N, T, R) float32.

        name: the name of the record; `about["records"]` lists them, with names and units of the R numbers.
        """
        if name not in self._records:
            known = self._about.get("records", {})
            if name not in known:
                raise unknown(f"record of {self.folder}", name, known)
            self._records[name] = self._array(name)
        return self._records[name]

    @cached_property
    def success(self) -> np.ndarray:
        """Whether the task was solved in each episode, (N,) bool."""
        return np.array([note["success"] for note in self._notes])

    def label(self, name: str) -> np.ndarray:
        """A categorical label of each episode, (N,) str.

        name: the name of the label; `about["labels"]` lists them.
        """
        known = self._about.get("labels", {})
        if name not in known:
            raise unknown(f"label of {self.folder}", name, known)
        return np.array([note["labels"][name] for note in self._notes])

    @cached_property
    def _notes(self) -> list[dict[str, Any]]:
        first = np.arange(self.episodes) * self.frames
        rows = self._lance.take(first, columns=["episode_metadata"])["episode_metadata"]
        return [json.loads(text.as_py()) for text in rows]

    def metadata(self, number: int) -> dict[str, Any]:
        """The metadata of an episode: the seed for `reset`, laws, success, labels.

        number: the number of the episode, from 0.
        """
        row = self._read(["episode_metadata"], np.array([number]))
        return dict(json.loads(row["episode_metadata"][0].as_py()))

    def pixels(self, numbers: Sequence[int] | np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Pictures of some episodes, (n, T, H, W, 3) uint8.

        numbers: the numbers of the n episodes, from 0.
        out: an array of that shape to write into, instead of a new one.
        """
        numbers = np.asarray(numbers)
        packed = self._read(["pixels"], numbers)["pixels"]
        frames = np.empty((len(numbers), self.frames, *self.picture), np.uint8) if out is None else out
        for row, content in enumerate(packed):
            episode_row, t = divmod(row, self.frames)
            source = f"{self.folder}, episode {int(numbers[episode_row])}, frame {t}"
            frames[episode_row, t] = codec.decode(self._codec, content.as_py(), self.picture, source)
        return frames


def split_episodes(count: int, fraction: float = 0.9, seed: int = SPLIT_SEED) -> tuple[np.ndarray, np.ndarray]:
    """Training and validation episodes, sorted. Whole episodes: the windows of an episode are never divided."""
    if not 0 < fraction < 1:
        raise InputError(f"the training fraction must lie between 0 and 1, got {fraction}")
    order = np.random.default_rng(seed).permutation(count)
    size = int(count * fraction)
    if not 0 < size < count:
        raise InputError(f"{count} episodes cannot be split {fraction:g} to {1 - fraction:g}: one part would be empty")
    return np.sort(order[:size]), np.sort(order[size:])


def training_samplers(dataset: Dataset) -> dict[str, Sampler]:
    """The sampler of each law in training, in the order of the columns; a constant law has a grid of one value."""
    drawn, first = dataset.settings.train.laws, dataset.train.law[0].tolist()
    return {name: drawn.get(name, Grid((value,))) for name, value in zip(dataset.train.laws, first, strict=True)}


@dataclass(frozen=True)
class Normalisers:
    """Z-scores of a model's control and law inputs. They are saved with the model, not with the data."""

    control: ZScore
    law: ZScore


def fit_normalisers(control: np.ndarray, law: np.ndarray) -> Normalisers:
    """Fit the Z-scores; pass the arrays of training episodes only. control (N, T, A), law (N, L)"""
    return Normalisers(
        control=fit_zscore(control.reshape(control.shape[0] * control.shape[1], control.shape[2])), law=fit_zscore(law)
    )


def unseen(dataset: Dataset, held_out: bool = False) -> tuple[Split, list[int]]:
    """A split with the numbers of its held-out episodes: all of the test split.

    held_out: instead the validation episodes of the training split, to tune settings by.
    """
    if held_out:
        return dataset.train, split_episodes(dataset.train.episodes)[1].tolist()
    return dataset.test, list(range(dataset.test.episodes))
