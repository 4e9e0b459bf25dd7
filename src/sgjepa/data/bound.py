"""The manifest and the data must tell the same story: what it says is held against what Lance itself has written down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sgjepa.core.errors import InputError, one_line
from sgjepa.data.manifest import Manifest
from sgjepa.laws import Observed, Sampler

if TYPE_CHECKING:
    from sgjepa.data.store import Split

_FAR = 8.0  # standard deviations that no drawn law lies from its mean


def check_bound(path: Path, manifest: Manifest, split: Split) -> None:
    """Refuse a manifest that disagrees with the schema, the laws or the sizes of a split. path: the manifest's."""
    settings, part, about = manifest.config, manifest.parts[split.name], split.about
    world = settings.spec
    drawn, env = settings.part(split.name), about.get("env", {})
    options = {key: settings.env.get(key, (world.options.get(key) or (None,))[0]) for key in {*env, *settings.env}}
    told: dict[str, tuple[Any, Any]] = {
        "format": (manifest.format, about.get("format")),
        "config.world": (settings.world, about.get("task")),
        "config.image_size": (settings.image_size, split.picture[0]),
        "config.codec": (settings.codec, about.get("codec")),
        "config.seed": (settings.seed, about.get("seed")),
        "config.env": (options, env),
        f"config.{split.name}.laws": (list({**world.nominal_law, **drawn.laws}), list(split.laws)),
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
        return bool(np.isclose(values[:, None], np.array(sampler.numbers)[None], rtol=1e-6, atol=1e-6).any(axis=1).all())
    if isinstance(sampler, Observed):
        return bool(((values >= sampler.low - 1e-6) & (values <= sampler.high + 1e-6)).all())
    reach = _FAR * sampler.std + 1e-6 * max(1.0, abs(sampler.mean))
    middle = max(sampler.mean, getattr(sampler, "floor", -np.inf))  # of a normal that is cut off below
    return bool((np.abs(values - middle) <= reach + middle - sampler.mean).all())
