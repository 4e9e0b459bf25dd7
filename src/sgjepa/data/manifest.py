"""The manifest: what a finished dataset says of itself. Its presence is what makes a folder a dataset."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sgjepa.core import files, records
from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError
from sgjepa.data import episode
from sgjepa.data.config import MOST_EPISODES, DatasetConfig

MANIFEST = "manifest.json"
_CURE = "put back what `sgjepa data` wrote, or make the dataset again"
_MOST = 1e12  # frames, bytes: more than any disk holds


@dataclass(frozen=True)
class LawSummary:
    """How a law's values are spread over the episodes of a split."""

    mean: float
    std: float
    min: float
    max: float
    values: tuple[float, ...]  # each value of a grid, or the middles of histogram bins
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        check_bounds(self, counts=(0, MOST_EPISODES))
        if not self.counts or len(self.counts) != len(self.values):
            raise InputError(f"{len(self.values)} values of a law cannot have {len(self.counts)} counts")


@dataclass(frozen=True)
class PartSummary:
    """One split: its size and the digest of every file."""

    episodes: int
    frames: int
    bytes: int
    laws: dict[str, LawSummary]
    sha256: dict[str, str]
    successes: int | None = None  # None if it was made before they were counted
    labels: dict[str, dict[str, int]] = field(default_factory=dict)  # episodes by each word of each label

    def __post_init__(self) -> None:
        check_bounds(self, episodes=(1, MOST_EPISODES), frames=(1, _MOST), bytes=(0, 1e4 * _MOST))

    @property
    def digest(self) -> str:
        """Twelve digits for what the data files hold. Their names, and Lance's own files, differ from time to time."""
        content = sorted(digest for name, digest in self.sha256.items() if name.startswith("data/"))
        return hashlib.sha256("".join(content).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Manifest:
    """Everything a command prints about a dataset is here."""

    format: str
    config: DatasetConfig
    parts: dict[str, PartSummary]
    frames_per_second: float | None  # of the run that finished it; None if that run only assembled
    provenance: dict[str, Any]

    @property
    def frames(self) -> int:
        return sum(part.frames for part in self.parts.values())

    @property
    def digest(self) -> str:
        """Twelve digits for what all parts hold: a dataset made again from the same settings has the same."""
        content = "".join(self.parts[name].digest for name in sorted(self.parts))
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make the folder a dataset."""
    records.write(folder / MANIFEST, manifest)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a dataset, strictly: an edited one is an InputError that names the place."""
    path = folder / MANIFEST
    found = files.read_json(path, _CURE)
    if not isinstance(found, dict) or found.get("format") != episode.FORMAT:
        raise InputError(f"{path} is not of format {episode.FORMAT}; it was made by another program or version")
    if isinstance(parts := found.get("parts"), dict) and (missing := set(episode.SPLITS) - set(parts)):
        raise InputError(f"{path} was edited: it lacks the part {', '.join(sorted(missing))}; {_CURE}")
    return records.build(Manifest, found, path, _CURE)
