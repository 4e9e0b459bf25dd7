"""Planar generation at 128 px, simulation to Lance on disk: ours against the plain way, in one run.

The plain way is the reference's: one process, a new MuJoCo model and renderer for each episode, MuJoCo's own picture at
its default multisampling, JPEG by Pillow. It is timed with the reference's contacts (320 Hz) and with ours.

    python benchmarks/generation.py            # writes benchmarks/results/generation.json
"""

from __future__ import annotations

import io
import shutil
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import record
from PIL import Image

from sgjepa.data import episode
from sgjepa.data.codec import Codec
from sgjepa.data.collect import collect, schema_of
from sgjepa.data.config import DatasetConfig, make_env, make_episode
from sgjepa.recipes.datasets import dataset


def pillow_jpeg(frame) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, format="JPEG", quality=95)
    return buffer.getvalue()


PLAIN_CODEC = Codec("jpeg", "Pillow's default, quality 95", pillow_jpeg, lambda packed, shape: None)


def plain(settings: DatasetConfig, folder: Path) -> int:
    """Returns the number of frames made."""
    numbered = []
    for number in range(settings.train.episodes):
        env = make_env(settings)
        numbered.append((number, make_episode(settings, env, "train", number)))
        env.close()
    schema = schema_of(settings, "train")
    batch = episode.rows(numbered, "train", schema, PLAIN_CODEC, settings.world)
    lance.write_dataset(pa.table(batch), folder / "plain.lance")
    return settings.train.episodes * 64


def ours(settings: DatasetConfig, folder: Path) -> int:
    collect(settings, folder / "ours")
    return (settings.train.episodes + settings.test.episodes) * 64


def frames_per_second(make, settings: DatasetConfig) -> float:
    folder = Path(tempfile.mkdtemp())
    try:
        start = time.perf_counter()
        frames = make(settings, folder)
        return frames / (time.perf_counter() - start)
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--world", default="square")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plain-episodes", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=600)
    options = parser.parse_args()
    base = replace(dataset(options.world, "mini"), image_size=128)
    few = replace(base, train=replace(base.train, episodes=options.plain_episodes), codec="jpeg")
    many = replace(
        base,
        train=replace(base.train, episodes=options.episodes * 3 // 4),
        test=replace(base.test, episodes=options.episodes // 4),
    )
    ways = {
        "plain, reference contacts": (plain, replace(few, env={"renderer": "mujoco", "contact": "reference"})),
        "plain, our contacts": (plain, replace(few, env={"renderer": "mujoco"})),
        "ours, lz4": (ours, many),
        "ours, jpeg": (ours, replace(many, codec="jpeg")),
    }
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):  # interleaved: a slow moment of the machine hits all ways
        for name, (make, settings) in ways.items():
            speeds[name].append(frames_per_second(make, settings))
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    slowest = medians["plain, reference contacts"]
    print(f"\n{options.world}, 128 px, {options.rounds} rounds, median frames/s and ratio to the plain way")
    for name, value in medians.items():
        print(f"  {name:28s} {value:8.0f}  {value / slowest:6.1f}x")
    result = {"world": options.world, "image_size": 128, "frames_per_second": speeds, "median": medians}
    result["ratio"] = {name: value / slowest for name, value in medians.items()}
    record.write(options.out, record.settings(options), result)


if __name__ == "__main__":
    main()
