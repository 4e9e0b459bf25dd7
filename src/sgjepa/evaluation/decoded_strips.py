"""Decoded rollouts as pictures: true frames above, imagined frames below. They are for inspection; no metric uses them."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from sgjepa import laws
from sgjepa.core import artifact, files, run_folder
from sgjepa.data.preview import save_film
from sgjepa.data.store import Dataset, training_samplers
from sgjepa.models.base import WorldModel
from sgjepa.models.decoder import Decoder
from sgjepa.models.rollout import rollout
from sgjepa.models.weights import load_weights
from sgjepa.training.config import Run
from sgjepa.training.latent_cache import latents_of

_FRAMES_PER_STRIP = 11
_SHEET, _MP4, _WEBP = "strips.png", "strips.mp4", "strips.webp"
STRIPS = (run_folder.STRIPS, _SHEET, _MP4, _WEBP)


def load_decoder(folder: Path, run: Run, model: WorldModel) -> Decoder | None:
    """The run's picture decoder in eval mode; None if it has none. A damaged file is an InputError."""
    path = folder / run_folder.DECODER
    if not path.is_file():
        return None
    decoder = model.build_decoder(run.train.decoder_width)
    load_weights(artifact.checked(folder, path.name), decoder)
    return decoder.eval()


@torch.no_grad()
def write_strips(folder: Path, out: Path, run: Run, model: WorldModel, dataset: Dataset, context: int) -> list[Path]:
    """Write strips of three test episodes (see `_strip_episodes`); an empty list if the run has no picture decoder.

    The files are strips.npz for the report, strips.png, and a film of all frames: MP4, or WebP without the extra `video`.
    """
    decoder = load_decoder(folder, run, model)
    if decoder is None:
        return []
    part = dataset.test
    numbers = _strip_episodes(part.law, dataset.train.law)
    z = torch.from_numpy(np.array(latents_of(model, part, folder)[numbers]))
    c = model.condition(torch.tensor(part.control[numbers]), torch.tensor(part.law[numbers]))
    rolled = rollout(model, z[:, :context], c, part.frames - context, run.history)
    decoded = (decoder(rolled[:, context:]) * 255).round().to(torch.uint8).numpy()  # (S, n, h, w, 3)
    truth = part.pixels(numbers)[:, context:]
    steps = np.linspace(0, truth.shape[1] - 1, _FRAMES_PER_STRIP).round().astype(int)
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        truth=truth[:, steps],
        decoded=decoded[:, steps],
        horizon=steps + 1,
        law=part.law[numbers].astype(np.float64),  # (S, L)
        episode=numbers,
        inside=laws.in_distribution(training_samplers(dataset), part.law[numbers]),
    )
    files.write_bytes(out / run_folder.STRIPS, buffer.getvalue())
    sheet = out / _SHEET
    picture = io.BytesIO()
    Image.fromarray(_sheet(truth[:, steps], decoded[:, steps])).save(picture, format="PNG", optimize=True)
    files.write_bytes(sheet, picture.getvalue())
    film = out / (_MP4 if importlib.util.find_spec("imageio_ffmpeg") else _WEBP)
    frames = [Image.fromarray(_sheet(truth[:, [t]], decoded[:, [t]], across=True)) for t in range(truth.shape[1])]
    save_film(frames, film, part.about["fps"])
    return [out / run_folder.STRIPS, sheet, film]


def _strip_episodes(law: np.ndarray, training: np.ndarray) -> np.ndarray:
    """Episodes with the lowest, a typical and the highest value of the first law, the other laws typical; law (N, L).

    Typical is what lies nearest to the training mean. Without laws, the first three episodes.
    """
    if law.shape[1] == 0:
        return np.arange(min(3, len(law)))
    spread = np.maximum(law.std(axis=0), 1e-9)
    middle = training.mean(axis=0)
    others = (np.abs(law - middle) / spread)[:, 1:].sum(axis=1)
    first = law[:, 0]
    values = (first.min(), first[np.abs(first - middle[0]).argmin()], first.max())
    return np.array([np.flatnonzero(first == value)[others[first == value].argmin()] for value in values])


def _sheet(truth: np.ndarray, decoded: np.ndarray, across: bool = False) -> np.ndarray:
    """One picture of S strips (S, n, h, w, 3), each with the truth above and the decoded frames below.

    across: strips stand side by side instead of below each other.
    """
    gap, scale = 4, max(1, 128 // truth.shape[2]) if across else 1
    blocks = []
    for pair in zip(truth, decoded, strict=True):
        rows = [
            np.concatenate([np.pad(frame, ((0, gap), (0, gap), (0, 0)), constant_values=255) for frame in row], axis=1)
            for row in pair
        ]
        block = np.concatenate(rows, axis=0).repeat(scale, axis=0).repeat(scale, axis=1)
        blocks.append(np.pad(block, ((0, 2 * gap), (0, 2 * gap), (0, 0)), constant_values=255))
    return np.ascontiguousarray(np.concatenate(blocks, axis=1 if across else 0))
