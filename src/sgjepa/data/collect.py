"""Make datasets: worker processes simulate chunks of episodes, which become Lance files under one manifest."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from sgjepa.core import artifact, config, files, threads
from sgjepa.core import processes as workers
from sgjepa.core.errors import InputError, one_line
from sgjepa.core.progress import progress
from sgjepa.data import episode
from sgjepa.data.codec import CODECS
from sgjepa.data.config import DatasetConfig, Part, check, make_env, make_episode, with_mesh_digest
from sgjepa.data.manifest import MADE_BY, LawSummary, PartSummary, part_digest
from sgjepa.envs.base import Env
from sgjepa.envs.robots import MENAGERIE
from sgjepa.laws import Grid


def schema_of(settings: DatasetConfig, split: str) -> pa.Schema:
    """The schema of a split's rows, with every option of the world."""
    spec = settings.env_spec
    names = list({**spec.nominal_law, **settings.part(split).laws})
    env = {**{key: choices[0] for key, choices in spec.options.items()}, **settings.env}
    return episode.schema(spec, names, settings.image_size, CODECS.lookup(settings.codec), env, settings.seed)


def assemble(settings: DatasetConfig, folder: Path, chunks: dict[str, list[Path]], speed: float | None) -> dict[str, Any]:
    """Write the chunks as Lance datasets; returns their entries of the dataset's record."""
    parts = {}
    for split, paths in chunks.items():
        target = folder.absolute() / f"{split}.lance"
        shutil.rmtree(target, ignore_errors=True)
        schema = schema_of(settings, split)
        try:
            lance.write_dataset(pa.RecordBatchReader.from_batches(schema, _batches(paths)), target, schema=schema)
        except (OSError, RuntimeError) as error:
            shutil.rmtree(target, ignore_errors=True)
            reason = "No space left on device" if "No space left" in str(error) else one_line(error)
            raise OSError(f"{reason}: {target}") from error
        parts[split] = config.to_dict(_summary(target, settings, split))
    spec = config.to_dict(settings.env_spec)
    return {"parts": parts, "frames_per_second": speed, "env_spec": spec}


def key_of(settings: DatasetConfig) -> dict[str, Any]:
    """The settings that identify a dataset, as its record holds them."""
    return {"format": episode.FORMAT, "config": config.to_dict(settings)}


def _batches(paths: list[Path]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with pa.ipc.open_stream(path.read_bytes()) as stream:
            yield from stream


def _summary(target: Path, settings: DatasetConfig, split: str) -> PartSummary:
    part: Part = settings.part(split)
    first = lance.dataset(target).to_table(columns=["episode_metadata"], filter="step_idx = 0")
    notes = [json.loads(note) for note in first["episode_metadata"].to_pylist()]
    words = {name: Counter(note["labels"][name] for note in notes) for name in settings.env_spec.labels}
    return PartSummary(
        episodes=part.episodes,
        frames=part.episodes * settings.env_spec.frames,
        bytes=sum(p.stat().st_size for p in target.rglob("*") if p.is_file()),
        laws={
            name: _describe([note["law"][name] for note in notes], isinstance(part.laws[name], Grid)) for name in part.laws
        },
        digest=part_digest(target),
        successes=sum(note["success"] for note in notes),
        labels={name: dict(counts.most_common()) for name, counts in words.items()},
    )


def _describe(values: list[float], grid: bool) -> LawSummary:
    different = sorted(set(values))
    if grid and len(different) <= 32:  # count each value: bins would hold one here and two there
        counts, centres = [values.count(value) for value in different], different
    else:
        bins, edges = np.histogram(values, bins=16)
        counts, centres = bins.tolist(), ((edges[:-1] + edges[1:]) / 2).tolist()
    middles = tuple(round(value, 6) for value in centres)
    return LawSummary(float(np.mean(values)), float(np.std(values)), min(values), max(values), middles, tuple(counts))


CHUNKS = ".chunks"  # of a dataset that is not finished: encoded episodes
CHUNK = 25  # episodes per file; fixed, so that the bytes do not depend on it


@dataclass(frozen=True)
class _Chunk:
    """A unit of work: some episodes of a split, and the file for them."""

    settings: DatasetConfig
    split: str
    numbers: range
    path: Path


def collect(settings: DatasetConfig, out: Path, workers: int | None = None) -> Path:
    """Make the dataset at `out`, resume it, or do nothing if it is finished. Returns `out`."""
    settings = with_mesh_digest(settings)
    check(settings)
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    _require_same_look(out, settings)
    with artifact.artifact(out, key_of(settings), MADE_BY, resumable=True) as new:
        if not new.finished:
            chunks = _plan(settings, new.path / CHUNKS)
            speed = _make(chunks, workers or threads.cores())
            by_split = {split: [c.path for c in chunks if c.split == split] for split in episode.SPLITS}
            new.about = assemble(settings, new.path, by_split, speed)
    return out


def _require_same_look(out: Path, settings: DatasetConfig) -> None:
    """Refuse to resume with other meshes of the robot."""
    for folder in (out, out / artifact.PARTIAL):
        if artifact.made_by(folder) == MADE_BY:
            dressed = MENAGERIE in artifact.read_json_record(folder)["config"]["env"]
            if dressed != (MENAGERIE in settings.env):
                how, change = ("with", "set") if dressed else ("without", "unset")
                raise InputError(
                    f"{out} was begun {how} Menagerie's meshes; {change} {MENAGERIE} to go on, or choose another --out"
                )


def _plan(settings: DatasetConfig, folder: Path) -> list[_Chunk]:
    folder.mkdir(exist_ok=True)
    files.sweep(folder, mine=True)
    chunks = []
    for split in episode.SPLITS:
        count = settings.part(split).episodes
        for start in range(0, count, CHUNK):
            numbers = range(start, min(start + CHUNK, count))
            chunks.append(_Chunk(settings, split, numbers, folder / f"{split}-{start // CHUNK:06d}.arrow"))
    return chunks


def _make(chunks: list[_Chunk], processes: int) -> float | None:
    """Make the missing chunks; returns the frames made per second, None if there was nothing to do."""
    missing = [chunk for chunk in chunks if not _whole(chunk)]
    total = sum(len(chunk.numbers) for chunk in chunks)
    made = sum(len(chunk.numbers) for chunk in missing)
    began = time.perf_counter()
    with progress(total, total - made, chunks[0].settings.world, "episodes") as bar:
        for chunk in _finished(missing, min(processes, len(missing))):
            bar.update(len(chunk.numbers))
    frames = made * chunks[0].settings.env_spec.frames
    return round(frames / (time.perf_counter() - began), 1) if made else None


def _whole(chunk: _Chunk) -> bool:
    """Whether the chunk's file exists, is readable and has the same schema, which holds versions and options."""
    try:
        with pa.ipc.open_stream(chunk.path.read_bytes()) as stream:
            rows = sum(batch.num_rows for batch in stream)
            fits = stream.schema.equals(schema_of(chunk.settings, chunk.split), check_metadata=True)
    except (OSError, pa.ArrowInvalid):
        return False
    return bool(fits) and rows == len(chunk.numbers) * chunk.settings.env_spec.frames


def _finished(chunks: list[_Chunk], processes: int) -> Iterator[_Chunk]:
    """Yield each chunk as soon as its file is written."""
    if processes <= 1:
        for chunk in chunks:
            _make_chunk(chunk)
            yield chunk
        return
    with workers.pool(processes) as pool:
        futures = {pool.submit(_make_chunk, chunk): chunk for chunk in chunks}
        while futures:
            for future in wait(futures, return_when=FIRST_COMPLETED).done:
                future.result()
                yield futures.pop(future)


_env: tuple[DatasetConfig, Env] | None = None


def _worker_env(settings: DatasetConfig) -> Env:
    """The environment shared by all chunks of a process: building models and renderers anew would dominate the time."""
    global _env
    if _env is None or _env[0] != settings:
        _env = (settings, make_env(settings))
    return _env[1]


def _make_chunk(chunk: _Chunk) -> None:
    settings, env = chunk.settings, _worker_env(chunk.settings)
    # one at a time: the rows are encoded, raw frames of many episodes would fill the memory
    numbered = ((number, make_episode(settings, env, chunk.split, number)) for number in chunk.numbers)
    schema = schema_of(settings, chunk.split)
    batch = episode.rows(numbered, chunk.split, schema, CODECS.lookup(settings.codec), settings.world)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    files.write_bytes(chunk.path, memoryview(sink.getvalue()))
