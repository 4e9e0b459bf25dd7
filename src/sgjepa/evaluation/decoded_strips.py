"""Decoded rollouts to look at: true frames above, what the model imagines below. No number comes from here."""

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

_SHOWN = 11  # pictures of a strip
_SHEET, _MP4, _WEBP = "strips.png", "strips.mp4", "strips.webp"
STRIPS = (run_folder.STRIPS, _SHEET, _MP4, _WEBP)


def load_decoder(folder: Path, run: Run, model: WorldModel) -> Decoder | None:
    """The run's picture decoder, in eval mode, if it has one. Call it before hours of work that end in strips."""
    path = folder / run_folder.DECODER
    if not path.is_file():
        return None
    decoder = model.build_decoder(run.train.decoder_width)
    load_weights(artifact.checked(folder, path.name), decoder)
    return decoder.eval()


@torch.no_grad()
def write_strips(folder: Path, out: Path, run: Run, model: WorldModel, dataset: Dataset, context: int) -> list[Path]:
    """Strips of three test episodes (see `_shown`); nothing if the run has no picture decoder.

    Writes strips.npz (what the report draws), strips.png and a film of all frames: MP4, or WebP without the extra `video`.
    """
    decoder = load_decoder(folder, run, model)
    if decoder is None:
        return []
    part = dataset.test
    numbers = _shown(part.law, dataset.train.law)
    z = torch.from_numpy(np.array(latents_of(model, part, folder)[numbers]))
    c = model.condition(torch.tensor(part.control[numbers]), torch.tensor(part.law[numbers]))
    rolled = rollout(model, z[:, :context], c, part.frames - context, run.history)
    decoded = (decoder(rolled[:, context:]) * 255).round().to(torch.uint8).numpy()  # (S, n, h, w, 3)
    truth = part.pixels(numbers)[:, context:]
    steps = np.linspace(0, truth.shape[1] - 1, _SHOWN).round().astype(int)
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


def _shown(law: np.ndarray, training: np.ndarray) -> np.ndarray:
    """Episodes at the lowest, the usual and the highest value of the first law, the other laws as usual; law (N, L).

    Usual is what lies nearest to the training mean. Without laws, the first three episodes.
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
    """(S, n, h, w, 3) each -> one picture: for every strip the truth above and the decoded below; `across`: side by side."""
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
