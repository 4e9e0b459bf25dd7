"""Where the seconds of a mini update go, and how much faster than the plain way it is, in one run.

plain   what a reader would write first: the rollout window by window (models/rollout.py), torch's attention for every token
        and torch's GroupNorm in the encoder.
fast    what training does: windows side by side, plain attention for few tokens, no keys and values in the last block,
        the stem's norms as LayerNorms.

Both have the same weights, batch and random numbers; they take turns in one process, and their loss and gradients are
compared first. The parts of the fast way are timed one by one, each with its backward pass.

    OMP_NUM_THREADS=1 python benchmarks/mini_step.py            # writes benchmarks/results/mini_step.json
"""

from __future__ import annotations

import copy
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import record

from sgjepa.core import threads

SETTINGS = threads.prepare()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from sgjepa.models.encoders.vit import NormReLU  # noqa: E402
from sgjepa.models.jepa import JEPA  # noqa: E402
from sgjepa.models.layers import Attention  # noqa: E402
from sgjepa.recipes.training import recipe  # noqa: E402
from sgjepa.training import losses  # noqa: E402
from sgjepa.training.config import Run  # noqa: E402
from sgjepa.training.data import windows_of  # noqa: E402
from sgjepa.training.optim import Hybrid  # noqa: E402
from sgjepa.training.profile import flop_counter  # noqa: E402
from sgjepa.training.sigreg import draw_directions, sigreg  # noqa: E402

T = TypeVar("T")
Times = dict[str, list[tuple[float, float]]]  # seconds of the clock and of the processor


# --- the plain way -----------------------------------------------------------------------------------------------------


class PlainAttention(Attention):
    """Keys and values of every token, and torch's fused kernel."""

    def forward(self, x: Tensor, first: int | None = None, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        h = self.norm(x)
        pairs = ((self.query, h[:, :first]), (self.key, h), (self.value, h))
        q, k, v = (layer(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer, tokens in pairs)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
        return F.dropout(self.out(y.transpose(1, 2).flatten(2)), self.dropout, self.training)


class PlainNorm(NormReLU):
    """torch's own two layers."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(nn.GroupNorm.forward(self, x))


class OnlyPredicts:
    """A model without its own way to unroll: the rollout goes window by window."""

    def __init__(self, model: JEPA):
        self.predict = model.predict


def plainly(model: JEPA) -> JEPA:
    """The same weights, computed the plain way."""
    plain = copy.deepcopy(model)
    plain.pixels.channels_last = False
    for module in plain.modules():
        if type(module) is Attention:
            module.__class__ = PlainAttention
        elif type(module) is NormReLU:
            module.__class__ = PlainNorm
    return plain


# --- an update ---------------------------------------------------------------------------------------------------------


class Update:
    """One way to make an update of a recipe, on a batch that stays the same."""

    def __init__(self, run: Run, model: JEPA, batch: int, plain: bool):
        self.run, self.model, self.plain = run, model.train(), plain
        self.optimiser = Hybrid(model, run.optim)
        source = torch.Generator().manual_seed(0)
        shape = (batch, run.train.frames)
        pixels = model.config.encoder.image_size
        self.frames = torch.randint(0, 256, (*shape, pixels, pixels, 3), dtype=torch.uint8, generator=source)
        self.control = torch.randn(*shape, run.model.controls, generator=source)
        self.law = torch.randn(batch, run.model.laws, generator=source)

    def gradients(self, step: int) -> Tensor:
        """The loss of one step, its gradients in place."""
        torch.manual_seed(step)
        self.optimiser.zero_grad()
        z, c = self.model.encode(self.frames), self.model.condition(self.control, self.law)
        predicts = OnlyPredicts(self.model) if self.plain else self.model
        directions = torch.Generator().manual_seed(step)
        starts = windows_of(self.run, step)
        loss, _ = losses.compute(self.run.loss, predicts, z, c, directions, history=self.run.history, starts=starts)
        loss.backward()
        return loss.detach()

    def finish(self) -> None:
        self.optimiser.clip_gradients()
        self.optimiser.step()

    def in_parts(self, step: int, times: Times) -> None:
        """The same arithmetic cut into parts, each with its backward pass."""
        model, run, encoder = self.model, self.run, self.model.encoder
        torch.manual_seed(step)
        self.optimiser.zero_grad()

        def part(name: str, work: Callable[[], T]) -> T:
            with stopwatch(times[name]):
                return work()

        pictures = part("pixels", lambda: model.pixels(self.frames.flatten(0, 1)))
        stem = part("stem", lambda: encoder.stem(pictures))
        stem_leaf = leaf(stem)
        cls = part("ViT blocks", lambda: encoder.see(stem_leaf))
        cls_leaf = leaf(cls)
        z = part("projector", lambda: model.projector(cls_leaf)).view(*self.frames.shape[:2], -1)
        z_leaf = leaf(z)
        c = part("condition", lambda: model.condition(self.control, self.law))
        c_leaf = leaf(c)
        bare = replace(run.loss, sigreg=0.0)
        generator = torch.Generator().manual_seed(step)
        starts = windows_of(run, step)
        predicts = OnlyPredicts(model) if self.plain else model
        error = part(
            "predictor",
            lambda: losses.compute(bare, predicts, z_leaf, c_leaf, generator, history=run.history, starts=starts)[0],
        )
        width = z_leaf.shape[-1]
        regulariser = part("SIGReg", lambda: sigreg(z_leaf, draw_directions(width, generator), flatten=run.loss.flatten))
        part("predictor", error.backward)
        part("SIGReg", lambda: (run.loss.sigreg * regulariser).backward())
        part("condition", lambda: c.backward(c_leaf.grad))
        part("projector", lambda: z.backward(z_leaf.grad))
        part("ViT blocks", lambda: cls.backward(cls_leaf.grad))
        part("stem", lambda: stem.backward(stem_leaf.grad))
        part("clipping", self.optimiser.clip_gradients)
        for name, optimiser in self.optimiser.parts.items():
            part(name, optimiser.step)


def leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_()


@contextmanager
def stopwatch(times: list[tuple[float, float]]) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    times.append((time.perf_counter() - wall, time.process_time() - cpu))


# --- the comparison ----------------------------------------------------------------------------------------------------


def compare(name: str, rounds: int, batch: int | None) -> dict[str, Any]:
    run = recipe(name, "mini")
    stretches = batch or run.train.batch
    torch.manual_seed(0)
    model = run.model.build()
    assert isinstance(model, JEPA)
    ways = {"plain": Update(run, plainly(model), stretches, True), "fast": Update(run, model, stretches, False)}
    agreement = apart(ways["plain"], ways["fast"])
    with flop_counter() as counter:
        ways["fast"].gradients(0)
        ways["fast"].finish()
    ways["plain"].finish()
    times: dict[str, Times] = {way: defaultdict(list) for way in ways}
    parts: dict[str, Times] = {way: defaultdict(list) for way in ways}
    for step in range(rounds):
        for way, update in ways.items():
            with stopwatch(times[way]["update"]):
                update.gradients(step)
                update.finish()
            if step % 2:
                again: dict[str, list[tuple[float, float]]] = defaultdict(list)
                update.in_parts(step, again)
                for part, pieces in again.items():
                    parts[way][part].append((sum(p[0] for p in pieces), sum(p[1] for p in pieces)))
    frames = stretches * run.train.frames
    found: dict[str, Any] = {"frames": frames, "flops": counter.get_total_flops(), "agreement": agreement}
    for way in ways:
        wall, cpu = medians(times[way]["update"])
        found[way] = {
            "update": {"wall": wall, "cpu": cpu},
            "frames_per_cpu_second": frames / cpu,
            "parts": {part: dict(zip(("wall", "cpu"), medians(values), strict=True)) for part, values in parts[way].items()},
        }
    ratios = [[p[i] / f[i] for p, f in zip(times["plain"]["update"], times["fast"]["update"], strict=True)] for i in (0, 1)]
    found["ratio"] = {"wall": statistics.median(ratios[0]), "cpu": statistics.median(ratios[1])}
    show(name, found)
    return found


def apart(plain: Update, fast: Update) -> dict[str, float]:
    """How far the two ways' losses and gradients are apart, relative to their size."""
    one, other = float(plain.gradients(0)), float(fast.gradients(0))
    grads = [torch.cat([p.grad.flatten() for p in way.model.parameters() if p.grad is not None]) for way in (plain, fast)]
    gap = float(torch.linalg.vector_norm(grads[0] - grads[1]) / torch.linalg.vector_norm(grads[0]))
    return {"loss": abs(one - other) / abs(one), "gradient": gap}


def medians(times: list[tuple[float, float]]) -> tuple[float, float]:
    wall, cpu = zip(*times, strict=True)
    return statistics.median(wall), statistics.median(cpu)


def show(name: str, found: dict[str, Any]) -> None:
    plain, fast = found["plain"], found["fast"]
    print(f"\n{name}, {found['frames']} frames per update, {found['flops'] / 1e9:.1f} GFLOP, medians of CPU time")
    print(f"  {'':12s} {'plain ms':>9s} {'fast ms':>9s} {'ratio':>6s} {'share':>6s}")
    rows = [(part, plain["parts"][part]["cpu"], took["cpu"]) for part, took in fast["parts"].items()]
    for part, before, after in [*rows, ("update", plain["update"]["cpu"], fast["update"]["cpu"])]:
        share = after / fast["update"]["cpu"]
        print(f"  {part:12s} {1e3 * before:9.1f} {1e3 * after:9.1f} {before / after:6.2f} {share:6.1%}")
    print(
        f"  {found['ratio']['cpu']:.2f} times as fast by CPU time, {found['ratio']['wall']:.2f} by the clock; losses differ "
        f"by {found['agreement']['loss']:.0e}, gradients by {found['agreement']['gradient']:.0e}"
    )


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--recipes", nargs="+", default=["approach_ball_gru", "approach_ball_lewm"])
    parser.add_argument("--batch", type=int, help="stretches of an update (default: the recipe's)")
    options = parser.parse_args()
    result = {name: compare(name, options.rounds, options.batch) for name in options.recipes}
    about = {"threads": torch.get_num_threads(), "machine": SETTINGS, "torch": torch.__version__}
    record.write(options.out, record.settings(options), {**result, **about})


if __name__ == "__main__":
    main()
