"""Datasets from arrays of recordings, with a specification built from their names and units."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sgjepa.core import artifact, files
from sgjepa.core.errors import InputError, unknown
from sgjepa.core.progress import progress
from sgjepa.data import episode
from sgjepa.data.codec import CODECS
from sgjepa.data.collect import CHUNKS, assemble, key_of, schema_of
from sgjepa.data.config import DatasetConfig, Part
from sgjepa.data.episode import Episode
from sgjepa.data.manifest import MADE_BY
from sgjepa.data.store import Dataset, open_dataset
from sgjepa.envs import ENVS, get_env
from sgjepa.envs.spec import DatasetDefaults, DatasetSize, EnvSpec, Probed, Quantity
from sgjepa.laws import Grid, Observed, Sampler

_CHUNK = 25  # episodes encoded at a time
_FEW = 32  # different values of a law, up to which they count as a grid
_WINDOW = 4  # frames that a probe sees


@dataclass(frozen=True)
class _Recording:
    """Checked arrays: N episodes of T frames."""

    frames: Sequence[np.ndarray]  # N of (T, H, W, 3) uint8
    state: np.ndarray  # (N, T, S)
    control: np.ndarray  # (N, T, A)
    law: dict[str, np.ndarray]  # (N,) each


def from_arrays(
    out: str | Path,
    frames: Any,
    control: Any = None,
    state: Any = None,
    law: Mapping[str, Any] | None = None,
    *,
    world: str | None = None,
    fps: float = 16,
    state_names: Sequence[str] | None = None,
    control_names: Sequence[str] | None = None,
    position: Sequence[str] | None = None,
    velocity: Sequence[str] = (),
    angle: str = "",
    rate: str = "",
    symmetry: int = 1,
    units: Mapping[str, str] | None = None,
    test: float | Sequence[int] = 0.2,
    codec: str = "lz4",
    seed: int = 0,
) -> Dataset:
    """Write N episodes of T frames as a dataset in the folder `out`, and open it.

    frames: (N, T, H, W, 3) uint8, H = W; or N arrays (T, H, W, 3). control: (N, T, A), the control between a frame and the
    next. state: (N, T, S), or by name, each (N, T) or (N, T, k). law: by name, a number for all episodes or one for each.
    world: the world of the recordings; a registered one, whose names and probe then hold, or a new name (default: the
    folder's).
    position, velocity: names of the states that a probe reads, as many velocities as positions or none (default: all).
    angle, rate, symmetry: names and symmetry of a body's rotation. units: by the state's and control's names.
    test: the share of episodes that is held out, drawn with `seed`, or their numbers.
    """
    out = Path(out).absolute()
    recording = _checked(frames, control, state, law or {})
    names = _state_names(state, recording.state.shape[-1], state_names)
    spec = _spec_of(
        world or re.sub(r"\W+", "_", out.name).strip("_").lower() or "recorded",
        recording,
        names,
        _names("control", control_names, recording.control.shape[-1], "u"),
        fps,
        units or {},
        _probed(names, position, velocity, angle, rate, symmetry),
    )
    fitting, held_out = _split(len(recording.frames), test, seed)
    pixels = recording.frames[0].shape[1]
    laws = {
        split: {name: _sampler(values[numbers]) for name, values in recording.law.items()}
        for split, numbers in (("train", fitting), ("test", held_out))
    }
    spec = _with_defaults(spec, pixels, laws, len(fitting), len(held_out))
    settings = DatasetConfig(
        world=spec.name,
        image_size=pixels,
        train=Part(len(fitting), laws["train"]),
        test=Part(len(held_out), laws["test"]),
        codec=codec,
        seed=seed,
        recorded=spec,
    )
    CODECS.lookup(codec)
    return _write(out, settings, recording, {"train": fitting, "test": held_out})


def _checked(frames: Any, control: Any, state: Any, law: Mapping[str, Any]) -> _Recording:
    """The arrays in the shapes of `_Recording`; an InputError names the one that does not fit."""
    pictures = [np.asarray(episode_frames) for episode_frames in frames]
    if len(pictures) < 2:
        raise InputError(f"a dataset needs at least two episodes, one to train on and one to hold out, got {len(pictures)}")
    first = pictures[0].shape
    for number, film in enumerate(pictures):
        if film.dtype != np.uint8 or film.ndim != 4 or film.shape[-1] != 3:
            raise InputError(f"frames of episode {number} must be uint8 (T, H, W, 3), got {film.dtype} {film.shape}")
        if film.shape[1] != film.shape[2]:
            raise InputError(
                f"frames must be square, got {film.shape[1]} x {film.shape[2]} pixels: crop or resize them first"
            )
        if film.shape != first:
            raise InputError(
                f"frames of episode {number} are {film.shape}, those of episode 0 {first}: cut episodes to one length"
            )
    count, steps = len(pictures), first[0]
    parts = list(state.values()) if isinstance(state, Mapping) else [state]
    columns = [_numbers("state", part, count, steps) for part in parts if part is not None]
    values = np.concatenate(columns, axis=-1) if columns else np.zeros((count, steps, 0), np.float32)
    driven = np.zeros((count, steps, 0), np.float32) if control is None else _numbers("control", control, count, steps)
    laws = {name: _law(name, value, count) for name, value in law.items()}
    if not laws and not driven.shape[-1]:
        raise InputError("a world model needs at least one control or one law: give `control` or `law`")
    return _Recording(pictures, values, driven, laws)


def _numbers(what: str, array: Any, count: int, steps: int) -> np.ndarray:
    """(N, T) or (N, T, k) numbers -> (N, T, k) float32; a control may lack the last frame's, which has no effect."""
    try:
        values = np.asarray(array, np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be numbers (N, T, k), all episodes equally long") from error
    values = values[..., None] if values.ndim == 2 else values
    if what == "control" and values.ndim == 3 and values.shape[1] == steps - 1:
        values = np.concatenate([values, np.zeros_like(values[:, :1])], axis=1)
    if values.ndim != 3 or values.shape[:2] != (count, steps):
        raise InputError(f"{what} must be ({count}, {steps}, k) for as many episodes and frames, got {values.shape}")
    if not np.isfinite(values).all():
        number = int(np.argwhere(~np.isfinite(values))[0][0])
        raise InputError(f"{what} of episode {number} holds a value that is not finite")
    return values


def _law(name: str, array: Any, count: int) -> np.ndarray:
    """One value for each episode, rounded to float32."""
    try:
        values = np.broadcast_to(np.asarray(array, np.float32).reshape(-1), count).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"law '{name}' must be a number or one for each of the {count} episodes") from error
    if not name.isidentifier() or name in episode.COLUMNS:
        raise InputError(f"a law cannot be called '{name}'; take letters, digits and _, and no name of a dataset's column")
    if not np.isfinite(values).all():
        raise InputError(f"law '{name}' of episode {int(np.argwhere(~np.isfinite(values))[0][0])} is not finite")
    return values


def _state_names(state: Any, width: int, names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None and isinstance(state, Mapping):
        columns_of: list[str] = []
        for name, part in state.items():
            columns = np.asarray(part).shape[2:]
            columns_of += [str(name)] if columns in ((), (1,)) else [f"{name}_{i}" for i in range(columns[0])]
        return tuple(columns_of)
    return _names("state", names, width, "s")


def _names(what: str, wanted: Sequence[str] | None, width: int, letter: str) -> tuple[str, ...]:
    names = tuple(f"{letter}{i}" for i in range(width)) if wanted is None else tuple(wanted)
    if len(names) != width or len(set(names)) != width:
        raise InputError(f"{what}_names must be {width} different names, got {len(names)}: {', '.join(names)}")
    return names


def _probed(
    names: tuple[str, ...], position: Sequence[str] | None, velocity: Sequence[str], angle: str, rate: str, symmetry: int
) -> Probed | None:
    """The quantities that a probe reads; None without a state."""
    if not names:
        return None
    moving = {*velocity, angle, rate} - {""}
    positions = tuple(name for name in names if name not in moving) if position is None else tuple(position)
    for name in (*positions, *moving):
        if name not in names:
            raise unknown("quantity of the state", name, names)
    if velocity and len(velocity) != len(positions):
        raise InputError(f"{len(positions)} positions need as many velocities, or none; got {len(velocity)}")
    if bool(angle) != bool(rate):
        raise InputError("a body that turns needs both, `angle` and `rate`")
    return Probed(positions, tuple(velocity), angle, rate, symmetry)


def _spec_of(
    name: str,
    recording: _Recording,
    state: tuple[str, ...],
    control: tuple[str, ...],
    fps: float,
    units: Mapping[str, str],
    probed: Probed | None,
) -> EnvSpec:
    """The specification of the recordings: the registered world's, or a new one."""
    limit = float(np.abs(recording.control).max(initial=0.0)) or 1.0
    steps = len(recording.frames[0])
    if name in ENVS:
        spec = get_env(name).env_spec
        widths = {"state": (len(spec.state), len(state)), "control": (len(spec.control), len(control))}
        for what, (declared, width) in widths.items():
            if declared != width:
                raise InputError(f"{name} has {declared} numbers of {what}, the arrays {width}; give another `world` name")
        return replace(
            spec,
            frames=steps,
            records={},
            observed_records=(),
            labels={},
            expert_plans=(),
            phys=(),
            nominal_law={},
            options={},
            success_plan="",
            outcome_label="",
            interception=(),
        )
    return EnvSpec(
        name=name,
        gym_id=f"recorded/{name}-v0",
        state=tuple(Quantity(name, units.get(name, "")) for name in state),
        control=tuple(Quantity(name, units.get(name, "")) for name in control),
        control_limit=limit,
        phys=(),
        nominal_law={},
        probed=probed,
        image_size=recording.frames[0].shape[1],
        fps=fps,
        frames=steps,
    )


def _split(count: int, test: float | Sequence[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the training and of the held-out episodes, each in order."""
    if isinstance(test, (int, float)) and not isinstance(test, bool):
        if not 0 < test < 1:
            raise InputError(f"test must be a share between 0 and 1, or the numbers of the held-out episodes, got {test}")
        order = np.random.default_rng(seed).permutation(count)
        held_out = np.sort(order[: min(max(1, round(count * test)), count - 1)])
    else:
        held_out = np.unique(np.asarray(test, np.int64))
        if not 0 < len(held_out) < count or held_out[0] < 0 or held_out[-1] >= count:
            raise InputError(f"held-out episodes must be some of 0 to {count - 1}, and not all of them")
    return np.setdiff1d(np.arange(count), held_out), held_out


def _sampler(values: np.ndarray) -> Sampler:
    """The sampler that describes recorded values of a law."""
    different = np.unique(values)
    if len(different) <= _FEW:
        return Grid(tuple(different.tolist()))
    return Observed(float(values.mean()), float(values.std()), float(different[0]), float(different[-1]))


def _with_defaults(
    spec: EnvSpec, pixels: int, laws: Mapping[str, dict[str, Sampler]], fitting: int, held_out: int
) -> EnvSpec:
    """The specification with the recordings as its default dataset at every model size, from which recipes are made."""
    size = DatasetSize(pixels, fitting, held_out, min(_WINDOW, spec.frames))
    defaults = DatasetDefaults(laws["train"], laws["test"], dict.fromkeys(("mini", "small", "paper"), size))
    return replace(spec, defaults=defaults)


def _write(out: Path, settings: DatasetConfig, recording: _Recording, numbers: Mapping[str, np.ndarray]) -> Dataset:
    """Write the dataset; an existing one must hold the same episodes."""
    with artifact.artifact(out, key_of(settings), MADE_BY) as new:
        if not new.finished:
            chunks = {split: list(_chunks(new.path, settings, recording, split, numbers[split])) for split in episode.SPLITS}
            new.about = assemble(settings, new.path, chunks, None)
    dataset = open_dataset(out)
    for split in (dataset.train, dataset.test) if new.finished else ():
        for row, number in enumerate(numbers[split.name].tolist()):
            if not np.array_equal(split.pixels(np.array([row]))[0], recording.frames[number]):
                raise InputError(f"{out} holds other episodes of the same form; choose another folder or delete it")
    return dataset


def _chunks(folder: Path, settings: DatasetConfig, recording: _Recording, split: str, numbers: np.ndarray) -> Iterator[Path]:
    """Files of encoded episodes, each as it is done."""
    (folder / CHUNKS).mkdir(exist_ok=True)
    schema, codec = schema_of(settings, split), CODECS.lookup(settings.codec)
    with progress(len(numbers), 0, f"{settings.world}, {split}", "episodes") as bar:
        for start in range(0, len(numbers), _CHUNK):
            some = numbers[start : start + _CHUNK]
            numbered = ((start + i, _episode(recording, int(number))) for i, number in enumerate(some))
            batch = episode.rows(numbered, split, schema, codec, settings.world)
            path = folder / CHUNKS / f"{split}-{start // _CHUNK:06d}.arrow"
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as writer:
                writer.write_batch(batch)
            files.write_bytes(path, memoryview(sink.getvalue()))
            bar.update(len(some))
            yield path


def _episode(recording: _Recording, number: int) -> Episode:
    steps = len(recording.frames[number])
    return Episode(
        frames=np.ascontiguousarray(recording.frames[number]),
        state=recording.state[number],
        control=recording.control[number],
        phys=np.zeros(0, np.float32),
        law={name: float(values[number]) for name, values in recording.law.items()},
        reward=np.zeros(steps, np.float32),
        success=False,
        seed=number,  # its index among the recordings
    )
