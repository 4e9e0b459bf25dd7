"""The manifest and the data must tell the same story: what it says is held against what Lance itself has written down."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sgjepa.core import artifact
from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError, one_line
from sgjepa.data import episode
from sgjepa.data.config import MOST_EPISODES, DatasetConfig
from sgjepa.laws import Observed, Sampler

if TYPE_CHECKING:
    from sgjepa.data.store import Split


_FAR = 8.0  # standard deviations that no drawn law lies from its mean


def check_bound(path: Path, manifest: Manifest, split: Split) -> None:
    """Refuse a manifest that disagrees with the schema, the laws or the sizes of a split. path: the manifest's."""
    settings, part, about = manifest.config, manifest.parts[split.name], split.about
    spec = settings.env_spec
    drawn, env = settings.part(split.name), about.get("env", {})
    options = {key: settings.env.get(key, (spec.options.get(key) or (None,))[0]) for key in {*env, *settings.env}}
    told: dict[str, tuple[Any, Any]] = {
        "format": (manifest.format, about.get("format")),
        "config.world": (settings.world, about.get("task")),
        "config.image_size": (settings.image_size, split.picture[0]),
        "config.codec": (settings.codec, about.get("codec")),
        "config.seed": (settings.seed, about.get("seed")),
        "config.env": (options, env),
        f"config.{split.name}.laws": (list({**spec.nominal_law, **drawn.laws}), list(split.laws)),
        f"config.{split.name}.episodes": (drawn.episodes, split.episodes),
        f"parts.{split.name}.laws": (sorted(part.laws), sorted(drawn.laws)),
        f"parts.{split.name}.frames": (part.frames, split.episodes * split.frames),
        f"parts.{split.name}.sha256": (any(name.startswith("data/") for name in part.sha256), True),
    }
    for key, (here, there) in told.items():
        if here != there:
            _refuse(path, key, one_line(here, 60), one_line(there, 60))
    for column, name in enumerate(split.laws):
        if name in drawn.laws and not _possible(drawn.laws[name], split.law[:, column].astype(float)):
            values = split.law[:, column]
            _refuse(path, f"config.{split.name}.laws.{name}", drawn.laws[name], f"{values.min():g} to {values.max():g}")


def _refuse(path: Path, key: str, here: object, there: object) -> None:
    raise InputError(
        f"{path} was edited: {key} = {here}, but the data beside it has {there}; "
        "put back what `sgjepa data` wrote, or make the dataset again"
    )


def _possible(sampler: Sampler, values: np.ndarray) -> bool:
    """Whether a sampler can have drawn the values. The very draws are not repeated: NumPy may change its normal numbers."""
    if sampler.choices > 1:
        return bool(np.isclose(values[:, None], np.array(sampler.parameters)[None], rtol=1e-6, atol=1e-6).any(axis=1).all())
    if isinstance(sampler, Observed):
        return bool(((values >= sampler.low - 1e-6) & (values <= sampler.high + 1e-6)).all())
    reach = _FAR * sampler.std + 1e-6 * max(1.0, abs(sampler.mean))
    middle = max(sampler.mean, getattr(sampler, "floor", -np.inf))  # of a normal that is cut off below
    return bool((np.abs(values - middle) <= reach + middle - sampler.mean).all())


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
    artifact.write_record(folder / MANIFEST, manifest)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a dataset, strictly: an edited one is an InputError that names the place."""
    path = folder / MANIFEST
    found = artifact.read_json(path, _CURE)
    if not isinstance(found, dict) or found.get("format") != episode.FORMAT:
        raise InputError(f"{path} is not of format {episode.FORMAT}; it was made by another program or version")
    if isinstance(parts := found.get("parts"), dict) and (missing := set(episode.SPLITS) - set(parts)):
        raise InputError(f"{path} was edited: it lacks the part {', '.join(sorted(missing))}; {_CURE}")
    return artifact.build_record(Manifest, found, path, _CURE)
