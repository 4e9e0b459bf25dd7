"""What a training reads: its datasets, split by episode, and their frames as stretches.

Of several processes, the first makes what has to be made, and all map the same files: a frame is decoded once, and held once
in the memory of a machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.data.manifest import MANIFEST, read_manifest
from sgjepa.data.store import Dataset, Normalisers, fit_normalisers, open_dataset, split_episodes
from sgjepa.data.windows import Clips, Together, check_alike
from sgjepa.models.base import WorldModel
from sgjepa.training import parallel
from sgjepa.training.latents import latents_of
from sgjepa.training.parallel import Group
from sgjepa.training.run import Run


@dataclass(frozen=True)
class Data:
    """Datasets that are open and fit together; nothing is decoded yet. digests: by name. worlds: in the datasets' order."""

    datasets: list[Dataset]
    normalisers: Normalisers
    digests: dict[str, str]
    worlds: list[str]


def open_data(run: Run, datasets: Path, group: Group = None) -> Data:
    """Open the run's datasets, and fit the normalisers on training episodes."""
    first = parallel.rank(group) == 0
    opened = parallel.first_before_others(lambda: [open_existing(datasets / name, verify=first) for name in run.data], group)
    check_alike([found.train for found in opened])
    controls, laws = [], []
    for found in opened:
        episodes, _ = split_episodes(found.train.episodes, seed=run.split_seed)
        controls.append(found.train.control[episodes])
        laws.append(found.train.law[episodes])
    return Data(
        opened,
        fit_normalisers(np.concatenate(controls), np.concatenate(laws)),
        {name: found.manifest.digest for name, found in zip(run.data, opened, strict=True)},
        [found.settings.world for found in opened],
    )


def read_stretches(run: Run, data: Data, model: WorldModel, folder: Path, group: Group = None) -> tuple[Together, Together]:
    """Stretches of training and of validation episodes; every frame is decoded, or encoded, once.

    folder: the run's, for latents of an encoder that another run trained.
    """
    keep = "auto" if group is None else "disk"
    parts: tuple[list[Clips], list[Clips]] = ([], [])
    latents = [
        latents_of(model, found.train, folder, group) if _reads_latents(run, model) else None for found in data.datasets
    ]
    splits = [split_episodes(found.train.episodes, seed=run.split_seed) for found in data.datasets]
    if run.init is None:  # as with control and law: a model that was trained before keeps the statistics it knows
        pairs = zip(latents, splits, strict=True)
        model.standardise(content[number] for content, (fitting, _) in pairs if content is not None for number in fitting)
    for found, content, split in zip(data.datasets, latents, splits, strict=True):
        for clips, episodes in zip(parts, split, strict=True):
            make = partial(Clips, found.train, episodes, run.train.frames, keep, content)
            clips.append(parallel.first_before_others(make, group))
    return Together(parts[0]), Together(parts[1])


def _reads_latents(run: Run, model: WorldModel) -> bool:
    """Latents take the place of frames if the encoder does not change; but a picture decoder learns from the frames."""
    return model.frozen_encoder is not None or (run.train.trains == "predictor" and not run.train.decoder)


def with_laws(run: Run, datasets: Path) -> Run:
    """The run with as many laws as its datasets have: a recipe knows its world's own, and a dataset may draw more."""
    laws = len(open_existing(datasets / run.data[0], verify=False).train.laws)
    return replace(run, model=replace(run.model, laws=laws))


def digests_there(run: Run, datasets: Path) -> dict[str, str]:
    """The digests of those datasets of the run that are there, from their manifests; nothing else is read."""
    return {name: read_manifest(datasets / name).digest for name in run.data if (datasets / name / MANIFEST).is_file()}


def open_existing(path: Path, verify: bool) -> Dataset:
    """Open a dataset, or say which command makes it."""
    if not path.exists():
        world, dash, size = path.name.rpartition("-")
        made = f"make it: sgjepa data {world} --size {size}" if dash else "make it with `sgjepa data`, or say where it is"
        raise InputError(f"{path} does not exist; {made}")
    return open_dataset(path, verify)
