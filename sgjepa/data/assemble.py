"""The last step of a dataset: chunk files become Lance, and the manifest says what was made."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from sgjepa import config, files
from sgjepa.data import codec, episode
from sgjepa.data.settings import DatasetConfig, Part, episode_law
from sgjepa.envs import find
from sgjepa.errors import one_line

MANIFEST = "manifest.json"


def schema_of(settings: DatasetConfig, split: str) -> pa.Schema:
    """The schema of a split's rows, with every option of the world spelled out."""
    world = find(settings.world).world
    names = list({**world.nominal_law, **settings.part(split).laws})
    env = {**{key: choices[0] for key, choices in world.options.items()}, **settings.env}
    return episode.schema(world, names, settings.image_size, codec.find(settings.codec), env, settings.seed)


def assemble(settings: DatasetConfig, partial: Path, chunks: dict[str, list[Path]], seconds: float) -> None:
    """Chunks to Lance, then the manifest: the folder is a dataset from that moment on."""
    parts: dict[str, Any] = {}
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
    manifest = {
        "format": episode.FORMAT,
        "config": config.to_dict(settings),
        "parts": parts,
        "frames": sum(part["frames"] for part in parts.values()),
        "seconds": round(seconds, 2),  # of the run that finished it
        "provenance": files.provenance(),
    }
    files.write_json(partial / MANIFEST, manifest)


def _batches(paths: list[Path]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with pa.ipc.open_stream(path.read_bytes()) as stream:
            yield from stream


def _summary(target: Path, settings: DatasetConfig, split: str) -> dict[str, Any]:
    part: Part = settings.part(split)
    drawn = [episode_law(part.laws, settings.seed, split, number) for number in range(part.episodes)]
    return {
        "episodes": part.episodes,
        "frames": part.episodes * find(settings.world).world.frames,
        "bytes": sum(p.stat().st_size for p in target.rglob("*") if p.is_file()),
        "laws": {name: _describe([law[name] for law in drawn]) for name in part.laws},
        "sha256": files.digests(target),
    }


def _describe(values: list[float]) -> dict[str, Any]:
    different = sorted(set(values))
    if len(different) <= 32:  # a grid: count each value
        counts, places = [values.count(value) for value in different], different
    else:
        bins, edges = np.histogram(values, bins=16)
        counts, places = bins.tolist(), ((edges[:-1] + edges[1:]) / 2).tolist()
    return {
        "mean": float(np.mean(values)),
        "std": float(np.std(values)),
        "min": min(values),
        "max": max(values),
        "histogram": {"values": [round(place, 6) for place in places], "counts": counts},
    }
