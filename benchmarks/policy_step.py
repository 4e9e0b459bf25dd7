"""An update of the mini diffusion policy: with our Mish, and with PyTorch's.

One thread, CPU time of an update (loss, its gradient, AdamW, the running mean), medians over interleaved rounds.

    python benchmarks/policy_step.py           # writes benchmarks/results/policy_step.json
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import record

from sgjepa.core import threads

threads.prepare()  # before torch starts

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from sgjepa.policies.diffusion import Averaged, follow, noise_loss  # noqa: E402
from sgjepa.policies.diffusion_model import Mish  # noqa: E402
from sgjepa.recipes.policies import SIZES  # noqa: E402

FEATURES, CONTROLS, LAWS = 64, 3, 1
OURS, PLAIN = "ours", "PyTorch's Mish"


@dataclass
class Pupil:
    """A policy in training."""

    learner: Averaged
    optimiser: torch.optim.Optimizer
    seconds: list[float]


def pupil(plain: bool) -> Pupil:
    """The same weights each time."""
    torch.manual_seed(0)
    learner = Averaged(SIZES["mini"].network.build(FEATURES, CONTROLS, LAWS))
    if plain:
        for module in list(learner.modules()):
            for name, child in module.named_children():
                if isinstance(child, Mish):
                    setattr(module, name, nn.Mish())
    return Pupil(learner, torch.optim.AdamW(learner.network.parameters(), lr=1e-3, fused=True), [])


def update(one: Pupil, batch: tuple[Tensor, Tensor, Tensor], step: int) -> None:
    """As in `training/loop.py`, timed."""
    start = time.thread_time()
    loss = noise_loss(SIZES["mini"], one.learner.network, batch, step)
    one.optimiser.zero_grad()
    torch.autograd.backward(loss)
    one.optimiser.step()
    follow(one.learner.mean, one.learner.network, step, SIZES["mini"].slowest)
    one.seconds.append(time.thread_time() - start)


def main() -> None:
    """Measures both and writes the file."""
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cfg = SIZES["mini"]
    seen = torch.randn(cfg.batch, cfg.network.history, FEATURES)
    batch = seen, torch.randn(cfg.batch, LAWS), torch.rand(cfg.batch, cfg.network.horizon, CONTROLS) * 2 - 1
    pupils = {OURS: pupil(plain=False), PLAIN: pupil(plain=True)}
    for step in range(options.rounds):
        for one in pupils.values():
            update(one, batch, step)
    medians = {name: 1000 * statistics.median(one.seconds) for name, one in pupils.items()}
    ratio = statistics.median(plain / ours for ours, plain in zip(pupils[OURS].seconds, pupils[PLAIN].seconds, strict=True))
    for name, found in medians.items():
        print(f"{name:<16}{found:7.1f} ms an update")
    print(f"{OURS}: {ratio:.2f} times as fast")
    record.write(options.out, record.settings(options), {"ms an update": medians, "ratio": ratio})


if __name__ == "__main__":
    main()
