"""Reading training windows of 25 frames at 128 px: ours against the reference's way, in one run.

The reference's way takes the 25 rows of each window from Lance and decodes 25 JPEGs, for every window again. It is given
the faster JPEG library (simplejpeg) and one `take` per batch, which its own code does not have.

    python benchmarks/clips.py                 # writes benchmarks/results/clips.json
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import record
import simplejpeg

from sgjepa.data.collect import collect
from sgjepa.data.store import open_dataset
from sgjepa.data.windows import Clips
from sgjepa.recipes.datasets import dataset

LENGTH, BATCH, EPISODES, ROUNDS = 25, 64, 200, 5


def reference_batch(table: lance.LanceDataset, numbers: np.ndarray) -> np.ndarray:
    row, start = np.divmod(numbers, 64 - LENGTH + 1)
    rows = (row * 64 + start)[:, None] + np.arange(LENGTH)
    packed = table.take(rows.ravel(), columns=["pixels", "state", "control", "gravity"])["pixels"]
    frames = np.stack([simplejpeg.decode_jpeg(p.as_py()) for p in packed])
    return frames.reshape(len(numbers), LENGTH, *frames.shape[1:])


def windows_per_second(read, order: np.ndarray) -> float:
    start = time.perf_counter()
    for numbers in order:
        read(numbers)
    return order.size / (time.perf_counter() - start)


def main() -> None:
    options = record.parser(__doc__, __file__).parse_args()
    base = replace(dataset("square", "mini"), image_size=128)
    few = replace(base, train=replace(base.train, episodes=EPISODES), test=replace(base.test, episodes=25))
    with tempfile.TemporaryDirectory() as folder:
        lossless = open_dataset(collect(few, Path(folder) / "lz4"))
        jpeg = open_dataset(collect(replace(few, codec="jpeg"), Path(folder) / "jpeg"))
        table = lance.dataset(str(jpeg.train.folder))
        start = time.perf_counter()
        ram = Clips(lossless.train, np.arange(EPISODES), LENGTH, keep="ram")
        decode = time.perf_counter() - start
        disk = Clips(lossless.train, np.arange(EPISODES), LENGTH, keep="disk")
        ways = {
            "25 JPEG decodes per window": (lambda n: reference_batch(table, n), 4),
            "ours, RAM": (ram.batch, 40),
            "ours, memory map": (disk.batch, 40),
        }
        rng, speeds = np.random.default_rng(0), {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, (read, batches) in ways.items():
                speeds[name].append(windows_per_second(read, rng.integers(0, len(ram), (batches, BATCH))))
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    plain = medians["25 JPEG decodes per window"]
    print(f"\nsquare, 128 px, windows of {LENGTH} frames, batches of {BATCH}, median of {ROUNDS} rounds")
    for name, value in medians.items():
        print(f"  {name:28s} {value:8.0f} windows/s  {value / plain:6.1f}x")
    once = EPISODES * 64 / decode
    epoch = EPISODES * 40 / plain
    with_decode = EPISODES * 40 / (decode + EPISODES * 40 / medians["ours, RAM"])
    print(
        f"  decoding once: {once:.0f} frames/s; first epoch with it {with_decode / plain:.1f}x ({epoch:.1f} s the plain way)"
    )
    result = {"windows_per_second": speeds, "median": medians, "ratio": {n: v / plain for n, v in medians.items()}}
    result |= {"decode_frames_per_second": once, "first_epoch_ratio": with_decode / plain}
    sizes = {"length": LENGTH, "batch": BATCH, "episodes": EPISODES, "rounds": ROUNDS}
    record.write(options.out, sizes, result)


if __name__ == "__main__":
    main()
