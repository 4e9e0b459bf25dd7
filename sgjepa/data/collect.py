"""Seeds x laws -> episodes -> Lance: in parallel, the same bytes for any number of workers, and safe to kill.

Work goes to `<name>.partial/` in chunks of episodes, each a file that is whole or not there. When all chunks exist they
become `train.lance` and `test.lance`, then `manifest.json`, and only then does the folder get its final name.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import pyarrow as pa

from sgjepa import config, files
from sgjepa.data import codec, episode
from sgjepa.data.assemble import MANIFEST, assemble, schema_of
from sgjepa.data.settings import DatasetConfig, check, make_env, make_episode
from sgjepa.envs.base import Env
from sgjepa.errors import InputError, one_line
from sgjepa.progress import progress

CHUNK = 25  # episodes a file; fixed, so that the bytes do not depend on it


@dataclass(frozen=True)
class _Chunk:
    """A piece of work: which episodes of which split, and the file they go to."""

    settings: DatasetConfig
    split: str
    numbers: range
    path: Path


def collect(settings: DatasetConfig, out: Path, workers: int | None = None) -> Path:
    """Make the dataset at `out`, or go on with it, or do nothing if it is finished. Returns `out`."""
    check(settings)
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    if out.exists() or out.is_symlink():
        if not (out / MANIFEST).is_file():
            raise InputError(f"{out} exists and is not a dataset (no {MANIFEST}); choose another --out or move it away")
        _check_same(settings, files.read_json(out / MANIFEST).get("config"), f"{out} is finished")
        return out
    partial = out.with_name(out.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    with _alone(partial):
        begun = partial / "config.json"
        if begun.exists():
            _check_same(settings, files.read_json(begun), f"{partial} was begun")
        files.write_json(begun, config.to_dict(settings))
        if not (partial / MANIFEST).exists():
            chunks = _plan(settings, partial)
            seconds = _make(chunks, workers or len(os.sched_getaffinity(0)))
            by_split = {split: [c.path for c in chunks if c.split == split] for split in episode.SPLITS}
            assemble(settings, partial, by_split, seconds)
        for leftover in [*partial.glob("*.arrow"), begun]:
            leftover.unlink(missing_ok=True)
    partial.rename(out)
    return out


def _check_same(settings: DatasetConfig, recorded: Any, place: str) -> None:
    """Settings that differ from those already there are refused: nothing is overwritten."""
    if found := config.difference(recorded, config.to_dict(settings)):
        key, there, asked = found
        raise InputError(
            f"{place} with {key} = {one_line(there, 60)}, not {one_line(asked, 60)}; choose another --out or delete it"
        )


@contextmanager
def _alone(partial: Path) -> Iterator[None]:
    """Hold the folder: two makers of one dataset would tread on each other."""
    with (partial / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{partial} is being made by another process; wait for it or stop it") from error
        yield
        (partial / ".lock").unlink()


def _plan(settings: DatasetConfig, partial: Path) -> list[_Chunk]:
    chunks = []
    for split in episode.SPLITS:
        count = settings.part(split).episodes
        for start in range(0, count, CHUNK):
            numbers = range(start, min(start + CHUNK, count))
            chunks.append(_Chunk(settings, split, numbers, partial / f"{split}-{start // CHUNK:06d}.arrow"))
    return chunks


def _make(chunks: list[_Chunk], workers: int) -> float:
    """Make the chunks that are missing; returns the seconds it took."""
    missing = [chunk for chunk in chunks if not chunk.path.exists()]
    total = sum(len(chunk.numbers) for chunk in chunks)
    done = total - sum(len(chunk.numbers) for chunk in missing)
    began = time.perf_counter()
    with progress(total, done, chunks[0].settings.world, " episodes") as bar:
        for chunk in _finished(missing, min(workers, len(missing))):
            bar.update(len(chunk.numbers))
    return time.perf_counter() - began


def _finished(chunks: list[_Chunk], workers: int) -> Iterator[_Chunk]:
    """Each chunk as soon as its file is there."""
    if workers <= 1:
        for chunk in chunks:
            _make_chunk(chunk)
            yield chunk
        return
    # spawn: neither Lance nor an OpenGL context survives a fork
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_watch_parent)
    try:
        futures = {pool.submit(_make_chunk, chunk): chunk for chunk in chunks}
        while futures:
            for future in wait(futures, return_when=FIRST_COMPLETED).done:
                future.result()
                yield futures.pop(future)
    except BrokenProcessPool as error:
        raise InputError("a worker process was killed (out of memory?); run the same command again to go on") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _watch_parent() -> None:
    """In a worker: end with the parent, also when the parent is killed outright."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


_env: tuple[DatasetConfig, Env] | None = None


def _worker_env(settings: DatasetConfig) -> Env:
    """One environment for all chunks of a process: building models and renderers is the plain way's cost."""
    global _env
    if _env is None or _env[0] != settings:
        _env = (settings, make_env(settings))
    return _env[1]


def _make_chunk(chunk: _Chunk) -> None:
    settings, env = chunk.settings, _worker_env(chunk.settings)
    numbered = [(number, make_episode(settings, env, chunk.split, number)) for number in chunk.numbers]
    schema = schema_of(settings, chunk.split)
    batch = episode.rows(numbered, chunk.split, schema, codec.find(settings.codec), settings.world)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    files.write_bytes(chunk.path, memoryview(sink.getvalue()))
