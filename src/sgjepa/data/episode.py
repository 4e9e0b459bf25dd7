"""An episode, and its Lance rows: one row per frame.

row t:   pixels[t], state[t]    the frame and exactly the state it shows
         control[t]             acts between frame t and t + 1; the last row's has no effect
         one column per law     constant over the episode; the paper's action is [control; law]
         one column per record  further numbers that the world records at a frame: `EnvSpec.records`
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from sgjepa import laws
from sgjepa.core.errors import unknown
from sgjepa.data.codec import Codec
from sgjepa.envs.spec import EnvSpec, Quantity

if TYPE_CHECKING:
    from sgjepa.envs.base import Env

FORMAT = "sgjepa-1"
SPLITS = {"train": 0, "test": 1}

COLUMNS = {
    "episode_idx": "number of the episode in this split, from 0 without gaps",
    "step_idx": "number of the frame in its episode, from 0",
    "split_id": "train 0, test 1",
    "pixels": "the RGB frame, encoded as `codec` says",
    "state": "what the frame shows, in the order of `state`",
    "control": "acts from this frame to the next, in the order of `control`; the paper's action is [control; law]",
    "reward": "always 0",  # but see REWARD
    "phys": "constants of the episode, in the order of `phys`",
    "source_episode_index": "number that, with the seed and the split, fixes the episode in datasets of any size",
    "task": "the world's name",
    "episode_metadata": "JSON: seed for reset, laws, success, labels",
}

REWARD = "1 at the frame in which success is first reached, else 0"  # in worlds that can succeed


def columns_of(widths: Mapping[str, int]) -> dict[str, str]:
    """Descriptions of a dataset's columns. widths: of state, control and phys; columns of width 0 are left out"""
    return {name: about for name, about in COLUMNS.items() if widths.get(name, 1)}


@dataclass(frozen=True)
class Episode:
    """A recorded episode of T frames with state, control and reward of each.

    frames: pictures (T, H, W, 3) uint8.
    state: (T, S) float32, the state that each frame shows, in the units that [Worlds](worlds.md) names.
    control: (T, A) float32; row t acts between frame t and frame t + 1.
    phys: (P,) float32, constants of the episode.
    law: values by name.
    reward: (T,) float32, the reward of the step that led to the frame; 0 at frame 0.
    success: whether the task was solved, in a world with a task.
    seed: the seed of the reset.
    records: further numbers of each frame, by name, (T, R) float32 each.
    labels: categorical labels of the whole episode, by name.
    names: the names of the state's columns.
    """

    frames: np.ndarray
    state: np.ndarray
    control: np.ndarray
    phys: np.ndarray
    law: dict[str, float]
    reward: np.ndarray
    success: bool
    seed: int
    records: dict[str, np.ndarray] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    @property
    def states(self) -> dict[str, np.ndarray]:
        """The state by name, (T,) each."""
        return {name: self.state[:, i] for i, name in enumerate(self.names)}


def reset_options(law: Mapping[str, float], plan: str) -> dict[str, Any]:
    """The options of `Env.reset` for an episode."""
    return {"law": dict(law), **({"plan": plan} if plan else {})}


Act: TypeAlias = Callable[[np.ndarray, int], np.ndarray]  # a picture (H, W, 3) and its number -> a control (A,)


def simulate(env: Env, seed: int, law: Mapping[str, float], plan: str = "", act: Act | None = None) -> Episode:
    """Simulate an episode. Without a plan the seed draws one, in worlds with plans.

    act: the policy; None: the scripted expert of the world.
    """
    frame, _ = env.reset(seed=seed, options=reset_options(law, plan))
    drive = act or (lambda frame, t: env.expert())
    frames, states, controls, records, rewards = [frame], [env.state()], [drive(frame, 0)], [env.records()], [0.0]
    for t in range(1, env.env_spec.frames):
        frame, reward, *_ = env.step(controls[-1])
        frames.append(frame)
        rewards.append(reward)
        states.append(env.state())
        controls.append(drive(frame, t))
        records.append(env.records())
    return Episode(
        frames=np.stack(frames),
        state=np.stack(states).astype(np.float32),
        control=np.stack(controls).astype(np.float32),
        phys=env.phys().astype(np.float32),
        law=dict(env.law),
        reward=np.array(rewards, np.float32),
        success=env.success(),
        seed=seed,
        records={name: np.stack([r[name] for r in records]).astype(np.float32) for name in env.env_spec.records},
        labels={name: _known(env.env_spec, name, env.labels()[name]) for name in env.env_spec.labels},
        names=tuple(quantity.name for quantity in env.env_spec.state),
    )


def _known(spec: EnvSpec, label: str, word: str) -> str:
    if word not in spec.labels[label]:
        raise unknown(f"{label} of {spec.name}", word, spec.labels[label])
    return word


def schema(
    spec: EnvSpec, law_names: Sequence[str], image_size: int, codec: Codec, env_options: Mapping[str, str], seed: int
) -> pa.Schema:
    """The columns of a split, with metadata that describes them; equal settings give equal bytes."""

    def vector(quantities: Sequence[Quantity]) -> pa.DataType:
        return pa.list_(pa.float32(), len(quantities))

    fields: list[tuple[str, pa.DataType]] = [
        ("episode_idx", pa.int32()),
        ("step_idx", pa.int32()),
        ("split_id", pa.int8()),
        ("pixels", pa.binary()),
        # Lance has no vectors that are 0 wide
        *([("state", vector(spec.state))] if spec.state else []),
        *([("control", vector(spec.control))] if spec.control else []),
        *((name, pa.float32()) for name in law_names),
        ("reward", pa.float32()),
        *([("phys", vector(spec.phys))] if spec.phys else []),
        *((name, vector(quantities)) for name, quantities in spec.records.items()),
        ("source_episode_index", pa.int32()),
        ("task", pa.string()),
        ("episode_metadata", pa.string()),
    ]
    about = {
        "format": FORMAT,
        "task": spec.name,
        "gym_id": spec.gym_id,
        "fps": spec.fps,
        "frames_per_episode": spec.frames,
        "pixels_shape": [image_size, image_size, 3],
        "codec": codec.name,
        "codec_about": codec.about,
        "columns": {
            **columns_of({"state": len(spec.state), "control": len(spec.control), "phys": len(spec.phys)}),
            **({"reward": REWARD} if spec.has_task else {}),
            **{name: f"law in {laws.get_law(name).unit}, constant over the episode" for name in law_names},
            **{name: f"record at the frame, in the order of `records.{name}`" for name in spec.records},
        },
        "state": [[q.name, q.unit] for q in spec.state],
        "control": [[q.name, q.unit] for q in spec.control],
        "phys": [[q.name, q.unit] for q in spec.phys],
        "records": {name: [[q.name, q.unit] for q in quantities] for name, quantities in spec.records.items()},
        "labels": {name: list(words) for name, words in spec.labels.items()},
        "laws": {name: laws.get_law(name).unit for name in law_names},
        "split_to_id": SPLITS,
        "symmetry": spec.probed.symmetry if spec.probed else 1,
        "env": dict(env_options),
        "mujoco": version("mujoco"),  # trajectories repeat bit for bit only within a version
        "seed": seed,
    }
    return pa.schema(fields, metadata={"sgjepa": json.dumps(about)})


def rows(episodes: Iterable[tuple[int, Episode]], split: str, to: pa.Schema, codec: Codec, task: str) -> pa.RecordBatch:
    """The Lance rows of numbered episodes, in their order."""
    columns: dict[str, list[Any]] = {name: [] for name in to.names}
    for number, episode in episodes:
        steps = len(episode.frames)
        metadata = {
            "seed": episode.seed,
            "split": split,
            "source_episode_index": number,
            "law": episode.law,
            "success": episode.success,
            "labels": episode.labels,
        }
        constant: dict[str, Any] = {
            "episode_idx": number,
            "split_id": SPLITS[split],
            **episode.law,
            "source_episode_index": number,
            "task": task,
            "episode_metadata": json.dumps(metadata),
        }
        for name, value in constant.items():
            columns[name].extend([value] * steps)
        columns["step_idx"].extend(range(steps))
        columns["pixels"].extend(codec.encode(frame) for frame in episode.frames)
        columns["reward"].extend(episode.reward.tolist())
        vectors = {"state": episode.state, "control": episode.control}
        vectors["phys"] = np.broadcast_to(episode.phys, (steps, episode.phys.size))
        for name, values in vectors.items():
            if name in columns:
                columns[name].append(values)
        for name, values in episode.records.items():
            columns[name].append(values)
    arrays = [_column(field, columns[field.name]) for field in to]
    return pa.record_batch(arrays, schema=to)


def _column(field: pa.Field, values: list[Any]) -> pa.Array:
    if pa.types.is_fixed_size_list(field.type):
        flat = pa.array(np.concatenate(values).ravel(), type=pa.float32())
        return pa.FixedSizeListArray.from_arrays(flat, field.type.list_size)
    return pa.array(values, type=field.type)
