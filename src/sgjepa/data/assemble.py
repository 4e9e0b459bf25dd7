"""The last step of a dataset: chunk files become Lance, and the manifest says what was made."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

from sgjepa.core import files
from sgjepa.core.errors import one_line
from sgjepa.data import codec, episode
from sgjepa.data.config import DatasetConfig, Part
from sgjepa.data.manifest import LawSummary, Manifest, PartSummary, write_manifest
from sgjepa.laws import Grid


def schema_of(settings: DatasetConfig, split: str) -> pa.Schema:
    """The schema of a split's rows, with every option of the world spelled out."""
    world = settings.spec
    names = list({**world.nominal_law, **settings.part(split).laws})
    env = {**{key: choices[0] for key, choices in world.options.items()}, **settings.env}
    return episode.schema(world, names, settings.image_size, codec.find(settings.codec), env, settings.seed)


def assemble(settings: DatasetConfig, partial: Path, chunks: dict[str, list[Path]], speed: float | None) -> None:
    """Chunks to Lance, then the manifest: the folder is a dataset from that moment on."""
    parts = {}
    for split, paths in chunks.items():
        target = partial / f"{split}.lance"
        shutil.rmtree(target, ignore_errors=True)
        schema = schema_of(settings, split)
        try:
            lance.write_dataset(pa.RecordBatchReader.from_batches(schema, _batches(paths)), target, schema=schema)
        except (OSError, RuntimeError) as error:
            shutil.rmtree(target, ignore_errors=True)
            reason = "No space left on device" if "No space left" in str(error) else one_line(error)
            raise OSError(f"{reason}: {target}") from error
        parts[split] = _summary(target, settings, split)
    write_manifest(partial, Manifest(episode.FORMAT, settings, parts, speed, files.provenance()))


def _batches(paths: list[Path]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with pa.ipc.open_stream(path.read_bytes()) as stream:
            yield from stream


def _summary(target: Path, settings: DatasetConfig, split: str) -> PartSummary:
    part: Part = settings.part(split)
    first = lance.dataset(target).to_table(columns=["episode_metadata"], filter="step_idx = 0")
    notes = [json.loads(note) for note in first["episode_metadata"].to_pylist()]
    words = {name: Counter(note["labels"][name] for note in notes) for name in settings.spec.labels}
    return PartSummary(
        episodes=part.episodes,
        frames=part.episodes * settings.spec.frames,
        bytes=sum(p.stat().st_size for p in target.rglob("*") if p.is_file()),
        laws={
            name: _describe([note["law"][name] for note in notes], isinstance(part.laws[name], Grid)) for name in part.laws
        },
        sha256=files.digests(target),
        successes=sum(note["success"] for note in notes),
        labels={name: dict(counts.most_common()) for name, counts in words.items()},
    )


def _describe(values: list[float], grid: bool) -> LawSummary:
    different = sorted(set(values))
    if grid and len(different) <= 32:  # count each value: bins would hold one here and two there
        counts, places = [values.count(value) for value in different], different
    else:
        bins, edges = np.histogram(values, bins=16)
        counts, places = bins.tolist(), ((edges[:-1] + edges[1:]) / 2).tolist()
    middles = tuple(round(place, 6) for place in places)
    return LawSummary(float(np.mean(values)), float(np.std(values)), min(values), max(values), middles, tuple(counts))
