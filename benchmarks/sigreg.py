"""SIGReg at the paper's size (64 clips of 25 frames, 256 dimensions, 1024 directions, 17 knots): ours against plain ways.

"complex" is our reference, "cos and sin" the usual way: the angles at all knots in one (T, B, M, 17) tensor. One thread,
CPU time, medians over interleaved rounds; also the memory autograd holds between forward and backward.

    python benchmarks/sigreg.py                # writes benchmarks/results/sigreg.json
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable

import record
import torch
from torch import Tensor

from sgjepa.training.sigreg import draw_directions, knots_and_weights, sigreg, sigreg_reference


def cos_and_sin(z: Tensor, directions: Tensor) -> Tensor:
    """Every knot's cosine and sine computed and kept; z (B, T, D)."""
    t, weights = knots_and_weights(z)
    x = (z.transpose(0, 1) @ directions).unsqueeze(-1) * t  # (T, B, M, K)
    gap = (x.cos().mean(1) - torch.exp(-(t**2) / 2)).square() + x.sin().mean(1).square()
    return len(z) * (gap @ weights).mean()


WAYS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "ours": sigreg,
    "cos and sin": cos_and_sin,
    "complex": sigreg_reference,
}


def held_megabytes(way: Callable[[Tensor, Tensor], Tensor], z: Tensor, directions: Tensor) -> float:
    """Memory saved for the backward pass, without z and the directions themselves."""
    storages = {}

    def note(x: Tensor) -> Tensor:
        storages[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        value = way(z, directions)  # held while counting, or addresses would be used again
        for given in (z, directions):
            storages.pop(given.untyped_storage().data_ptr(), None)
    assert value.isfinite()
    return sum(storages.values()) / 2**20


def seconds_of(way: Callable[[Tensor, Tensor], Tensor], z: Tensor, directions: Tensor) -> tuple[float, float]:
    """CPU seconds of the forward pass alone, and of forward and backward."""
    start = time.process_time()
    with torch.no_grad():
        way(z, directions)
    middle = time.process_time()
    torch.autograd.backward(way(z, directions))
    end = time.process_time()
    z.grad = None
    return middle - start, end - middle


def main() -> None:
    """Measure all ways and write the result."""
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(64, 25, 256, generator=generator).requires_grad_()
    directions = draw_directions(256, generator)
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    memory = {name: held_megabytes(way, z, directions) for name, way in WAYS.items()}
    for _ in range(options.rounds):  # interleaved: a slow moment of the machine hits all ways
        for name, way in WAYS.items():
            rounds[name].append(seconds_of(way, z, directions))
    result = {}
    for name, times in rounds.items():
        forward, both = (statistics.median(column) for column in zip(*times, strict=True))
        result[name] = {"forward": forward, "forward_backward": both, "held_megabytes": memory[name], "cpu_seconds": times}
    best = result["ours"]
    print(f"\nSIGReg 64 x 25 x 256, {options.rounds} rounds, median CPU s and ratio to ours, memory held for backward")
    print(f"  {'':14s} {'forward':>16s} {'and backward':>18s} {'MB':>8s}")
    for name, row in result.items():
        row["ratio_forward"] = row["forward"] / best["forward"]
        row["ratio_forward_backward"] = row["forward_backward"] / best["forward_backward"]
        print(
            f"  {name:14s} {row['forward']:8.3f} {row['ratio_forward']:6.1f}x"
            f" {row['forward_backward']:10.3f} {row['ratio_forward_backward']:6.1f}x {row['held_megabytes']:8.1f}"
        )
    about = {"threads": 1, "torch": torch.__version__, "platform": platform.platform()}
    record.write(options.out, record.settings(options), {**result, **about})


if __name__ == "__main__":
    main()
