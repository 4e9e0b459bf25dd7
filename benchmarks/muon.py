"""One Muon step on a world model's matrices: ours, a plain fp32 loop, and torch.optim.Muon, in one run.

`mini`: ViT of 4 layers, width 96, and a GRU predictor of width 160. `paper`: ViT-Tiny and a GRU predictor of width 512.
torch.optim.Muon computes in bf16, which a CPU without bf16 units does tens of times slower than fp32: a step at paper size
may take minutes, so it is timed at mini size only. One thread, CPU time, medians over interleaved rounds.

    python benchmarks/muon.py                  # writes benchmarks/results/muon.json
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import record
import torch
from torch import nn

from sgjepa.training.optim import Muon, newton_schulz_reference

SIZES = {"mini": (4, 96, 160), "paper": (12, 192, 512)}  # encoder layers, encoder width, predictor width


def parameters(size: str) -> list[nn.Parameter]:
    """The matrices with random values and gradients."""
    layers, narrow, wide = SIZES[size]
    encoder = layers * [*4 * [(narrow, narrow)], (4 * narrow, narrow), (narrow, 4 * narrow)]
    predictor = 3 * [(3 * wide, wide), (3 * wide, wide), (wide, wide), (4 * wide, wide), (wide, 4 * wide)]
    source = torch.Generator().manual_seed(0)
    made = []
    for shape in [*encoder, *predictor]:
        made.append(nn.Parameter(torch.randn(shape, generator=source)))
        made[-1].grad = torch.randn(shape, generator=source)
    return made


def plain_step(matrices: list[nn.Parameter]) -> Callable[[], None]:
    """Matrix after matrix, fp32, no Gram form."""
    momenta = [torch.zeros_like(p) for p in matrices]

    @torch.no_grad()
    def step() -> None:
        for p, momentum in zip(matrices, momenta, strict=True):
            assert p.grad is not None
            momentum.mul_(0.95).add_(p.grad)
            p.mul_(1 - 1e-7).add_(newton_schulz_reference(p.grad + 0.95 * momentum), alpha=-4e-5 * max(p.shape) ** 0.5)

    return step


def measure(size: str, rounds: int) -> dict[str, Any]:
    """Seconds of every way at one size, and how many times slower than ours each is."""
    ways: dict[str, Callable[[], object]] = {
        "ours": Muon(parameters(size)).step,
        "plain fp32": plain_step(parameters(size)),
    }
    if size == "mini":
        theirs = torch.optim.Muon(parameters(size), lr=2e-4, weight_decay=5e-4, adjust_lr_fn="match_rms_adamw")
        ways["torch.optim.Muon"] = theirs.step
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for step in ways.values():
        step()  # momenta are made, libraries warm
    for _ in range(rounds):  # interleaved: a slow moment of the machine hits all ways
        for name, step in ways.items():
            start = time.process_time()
            step()
            seconds[name].append(time.process_time() - start)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    count = sum(p.numel() for p in parameters(size))
    print(f"\n{size}, {count / 1e6:.1f} M numbers in matrices, {rounds} rounds, median CPU s per step and ratio to ours")
    for name, value in medians.items():
        print(f"  {name:20s} {value:8.4f}  {value / medians['ours']:7.2f}x")
    ratio = {name: value / medians["ours"] for name, value in medians.items()}
    return {"numbers": count, "cpu_seconds": seconds, "median": medians, "ratio": ratio}


def main() -> None:
    """Measure both sizes and write the result."""
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    result: dict[str, Any] = {size: measure(size, options.rounds) for size in SIZES}
    about = {"threads": 1, "torch": torch.__version__, "platform": platform.platform()}
    record.write(options.out, record.settings(options), {**result, **about})


if __name__ == "__main__":
    main()
