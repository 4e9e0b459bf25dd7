"""The record of a dataset: its settings, the specification of its world, and size and digest of each split."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sgjepa.core import artifact, files
from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError
from sgjepa.data import episode
from sgjepa.data.config import MOST_EPISODES, DatasetConfig
from sgjepa.envs.spec import EnvSpec

MANIFEST, MADE_BY = artifact.RECORD, "sgjepa data"
_MOST = 1e12  # frames, bytes: more than any disk holds


@dataclass(frozen=True)
class LawSummary:
    """The distribution of a law's values over the episodes of a split."""

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
    """A split: its size, and twelve digits of the SHA-256 of its episodes."""

    episodes: int
    frames: int
    bytes: int
    laws: dict[str, LawSummary]
    digest: str
    successes: int
    labels: dict[str, dict[str, int]]  # episodes by each word of each label

    def __post_init__(self) -> None:
        check_bounds(self, episodes=(1, MOST_EPISODES), frames=(1, _MOST), bytes=(0, 1e4 * _MOST))


@dataclass(frozen=True)
class Manifest:
    """The record of a dataset. env_spec: the specification of its world"""

    made_by: ClassVar[str] = MADE_BY
    format: str
    config: DatasetConfig
    parts: dict[str, PartSummary]
    frames_per_second: float | None  # of the command that finished it; None if it only assembled
    env_spec: EnvSpec
    provenance: dict[str, Any]

    @property
    def frames(self) -> int:
        return sum(part.frames for part in self.parts.values())

    @property
    def digest(self) -> str:
        """Twelve digits that identify the content of all parts; a dataset made again from equal settings has the same."""
        content = "".join(self.parts[name].digest for name in sorted(self.parts))
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def part_digest(folder: Path) -> str:
    """Twelve digits that identify the content of a split's data files, independent of their names and Lance's own files."""
    content = sorted(files.digests(folder / "data").values())
    return hashlib.sha256("".join(content).encode()).hexdigest()[:12]


def read_manifest(folder: Path) -> Manifest:
    """Read the record of a dataset strictly: an edited one is an InputError that names the entry."""
    manifest = artifact.read_record(Manifest, folder)
    path = folder / MANIFEST
    if manifest.format != episode.FORMAT:
        raise InputError(f"{path} is not of format {episode.FORMAT}; it was made by another version")
    if missing := set(episode.SPLITS) - set(manifest.parts):
        raise InputError(
            f"{path} was edited: it lacks the part {', '.join(sorted(missing))}; delete {folder} and make it again"
        )
    return manifest
