"""A preview of a dataset: a contact sheet (PNG) and a short video (animated WebP, or MP4 with the extra `video`)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sgjepa.core import artifact, files
from sgjepa.core.errors import InputError, MachineError, unknown
from sgjepa.data.store import Dataset, Split
from sgjepa.laws import get_law

SHEET_FRAMES = (0, 13, 25, 38, 50, 63)  # the paper's frames
FORMATS = ("webp", "mp4")
MOST_ROWS = 50
MADE_BY, _SHEET = "sgjepa preview", "contact_sheet.png"
FILES = (_SHEET, *(f"preview.{kind}" for kind in FORMATS))
_TILE, _GAP, _LABEL, _TOP = 128, 6, 108, 26
_INK, _PAPER, _QUIET = (28, 28, 30), (255, 255, 255), (110, 110, 115)


def preview(dataset: Dataset, out: Path, video: str = "webp", rows: int = 5) -> list[Path]:
    """Write `contact_sheet.png` and `preview.webp` (or .mp4) to the folder `out`; returns their paths."""
    if video not in FORMATS:
        raise unknown("video format", video, FORMATS)
    if not 1 <= rows <= MOST_ROWS:
        raise InputError(f"a preview shows 1 to {MOST_ROWS} laws, got {rows}")
    artifact.require_free(out, MADE_BY)
    numbers = _across_laws(dataset.test, rows)
    frames = dataset.test.pixels(numbers)  # (R, T, H, W, 3)
    part = dataset.test
    labels = [law_text(part.laws, part.law[n].tolist(), part.about["laws"]) or f"episode {n}" for n in numbers.tolist()]
    pictures = film_frames(frames, labels, part.about["fps"])
    film = f"preview.{video}"
    with artifact.artifact(out, {}, MADE_BY, replace=True) as new:
        _save(contact_sheet(frames, labels, dataset.settings.world), new.path / _SHEET, "PNG", optimize=True)
        save_film(pictures, new.path / film, dataset.test.about["fps"])
    return [out / _SHEET, out / film]


def film_frames(frames: np.ndarray, labels: list[str], fps: float) -> list[Image.Image]:
    """Pictures of episodes side by side, each under its label, one picture per frame. frames: (R, T, H, W, 3)"""
    return [_side_by_side(frames[:, t], labels, t / fps) for t in range(frames.shape[1])]


def save_film(pictures: list[Image.Image], path: Path, fps: float) -> None:
    """Write pictures as WebP or MP4, by the suffix of the path."""
    if path.suffix == ".mp4":
        _write_mp4(pictures, path, fps)
        return
    files.write_bytes(path, encode_webp(pictures, fps))


def encode_webp(pictures: list[Image.Image], fps: float) -> bytes:
    """Encode pictures as an animated WebP that loops."""
    buffer, more = io.BytesIO(), pictures[1:]
    pictures[0].save(buffer, "WEBP", save_all=True, append_images=more, duration=1000 / fps, loop=0, quality=85)
    return buffer.getvalue()


def _across_laws(split: Split, rows: int) -> np.ndarray:
    """Numbers of episodes whose first law runs evenly from its smallest to its largest value, each value once.

    In a split without laws, those of the first episodes.
    """
    if not split.laws:
        return np.arange(min(rows, split.episodes))
    values = split.law[:, 0]
    wanted = np.linspace(values.min(), values.max(), rows)
    nearest = [int(np.abs(values - value).argmin()) for value in wanted]
    return np.array(list(dict.fromkeys(nearest)))


def law_text(names: Sequence[str], values: Sequence[float], units: Mapping[str, str]) -> str:
    """The laws of an episode as text, one line each."""
    return "\n".join(f"{get_law(n).label} = {v:g} {units[n]}" for n, v in zip(names, values, strict=True))


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _tile(frame: np.ndarray) -> Image.Image:
    picture = Image.fromarray(frame)
    return picture if picture.width == _TILE else picture.resize((_TILE, _TILE), Image.Resampling.LANCZOS)


def contact_sheet(frames: np.ndarray, labels: list[str], title: str) -> Image.Image:
    """One row per episode, one column for each of the SHEET_FRAMES frames. frames: (R, T, H, W, 3)"""
    width = _LABEL + len(SHEET_FRAMES) * (_TILE + _GAP)
    height = _TOP + len(frames) * (_TILE + _GAP)
    sheet = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((_GAP, _TOP // 2), title.replace("_", " "), _INK, _font(14), anchor="lm")
    for column, t in enumerate(SHEET_FRAMES):
        middle = _LABEL + column * (_TILE + _GAP) + _TILE // 2
        draw.text((middle, _TOP // 2), f"frame {t}", _QUIET, _font(12), anchor="mm")
    for row, (film, label) in enumerate(zip(frames, labels, strict=True)):
        top = _TOP + row * (_TILE + _GAP)
        draw.text((_GAP, top + _TILE // 2), label, _INK, _font(13), anchor="lm")
        for column, t in enumerate(SHEET_FRAMES):
            sheet.paste(_tile(film[t]), (_LABEL + column * (_TILE + _GAP), top))
    return sheet


def _side_by_side(frames: np.ndarray, labels: list[str], seconds: float) -> Image.Image:
    """The frames of several episodes at one time, each under its label. frames: (R, H, W, 3)"""
    lines = max(label.count("\n") for label in labels) + 1
    top = 8 + 18 * lines
    picture = Image.new("RGB", (len(frames) * (_TILE + _GAP) + _GAP, (top + _TILE + 22) // 2 * 2), _PAPER)
    draw = ImageDraw.Draw(picture)
    for column, (frame, label) in enumerate(zip(frames, labels, strict=True)):
        left = _GAP + column * (_TILE + _GAP)
        draw.text((left + _TILE // 2, top // 2), label, _INK, _font(14), anchor="mm", align="center")
        picture.paste(_tile(frame), (left, top))
    draw.text((_GAP, top + _TILE + 11), f"{seconds:.2f} s", _QUIET, _font(12), anchor="lm")
    return picture


def _save(picture: Image.Image, path: Path, kind: str, **options: Any) -> None:
    buffer = io.BytesIO()
    picture.save(buffer, format=kind, **options)
    files.write_bytes(path, buffer.getvalue())


def _write_mp4(pictures: list[Image.Image], path: Path, fps: float) -> None:
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise MachineError("MP4 needs the extra `video`: pip install 'sgjepa[video]', or use --video webp") from error
    temporary = files.temporary(path)
    width, height = pictures[0].width // 2 * 2, pictures[0].height // 2 * 2  # the codec wants even sides
    quality = ["-crf", "18", "-f", "mp4", "-loglevel", "error"]
    try:
        writer = imageio_ffmpeg.write_frames(
            str(temporary), (width, height), fps=fps, codec="libx264", output_params=quality, macro_block_size=2
        )
        writer.send(None)
        for picture in pictures:
            writer.send(np.ascontiguousarray(np.asarray(picture)[:height, :width]))
        writer.close()
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
