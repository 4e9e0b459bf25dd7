"""A training step of SG-JEPA (GRU): ours with and without threads.prepare, and plain PyTorch, in one run.

paper   ViT-Tiny 128/8, 8 clips of 25 frames. "plain" is Hugging Face's ViTModel, the same projectors and predictor, the
        rollout as a list, SIGReg with a cosine and a sine per knot, torch.optim.Muon and AdamW, and no machine settings.
        torch.optim.Muon computes in bf16, which takes minutes per step on a CPU without bf16 units. So it is timed once, and
        the plain step is also given with the same Muon in fp32, matrix after matrix.
mini    the recipe's own batch.

Every way has a process of its own, because the settings must come before torch; they take turns, so that a slow moment of
the machine hits all of them. After every step of ours the same process multiplies 2048 x 2048 matrices: that is the peak of
the same moment.

    python benchmarks/train_step.py            # writes benchmarks/results/train_step.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import record

from sgjepa.core import threads

BARE = "--bare" in sys.argv
SETTINGS = {} if BARE else threads.prepare()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from sgjepa.models.layers import ConditionEncoder, Projector  # noqa: E402
from sgjepa.models.predictors.gru import GRU  # noqa: E402
from sgjepa.recipes.training import recipe  # noqa: E402
from sgjepa.training import losses  # noqa: E402
from sgjepa.training.data import windows_of  # noqa: E402
from sgjepa.training.optim import Hybrid, newton_schulz_reference, split_parameters  # noqa: E402
from sgjepa.training.profile import flop_counter  # noqa: E402
from sgjepa.training.sigreg import draw_directions, knots_and_weights  # noqa: E402

BATCH = int(sys.argv[sys.argv.index("--batch") + 1]) if "--batch" in sys.argv else None
PLAIN_FP32 = "plain, Muon in fp32"
Work = Callable[[], object]


def stretches(size: str) -> int:
    """How many per step: what was asked for, 8 clips at paper size, the recipe's own batch at mini size."""
    return BATCH or (8 if size == "paper" else recipe("square_gru", size).train.batch)


def inputs(batch: int, pixels: int, frames: int) -> tuple[Tensor, Tensor, Tensor]:
    """Frames (B, T, h, w, 3) uint8, control (B, T, 2), law (B, 1)."""
    source = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (batch, frames, pixels, pixels, 3), dtype=torch.uint8, generator=source)
    return pictures, torch.randn(batch, frames, 2, generator=source), torch.randn(batch, 1, generator=source)


def ours(size: str) -> dict[str, Work]:
    """The parts of a step."""
    run = recipe("square_gru", size)
    model = run.model.build().train()
    optimiser = Hybrid(model, run.optim)
    frames, control, law = inputs(stretches(size), run.model.encoder.image_size, run.train.frames)
    generator = torch.Generator().manual_seed(0)

    def forward_backward() -> None:
        optimiser.zero_grad()
        z, c = model.encode(frames), model.condition(control, law)
        starts = windows_of(run, step=0)
        loss, _ = losses.compute(run.loss, model, z, c, generator, history=run.history, starts=starts)
        loss.backward()

    return {"forward_backward": forward_backward, "optimiser": optimiser.step}


class Plain(nn.Module):
    """The same model with Hugging Face's encoder; the loss as one would first write it."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import ViTConfig, ViTModel

        widths = {"hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": 12, "num_attention_heads": 3}
        self.encoder = ViTModel(ViTConfig(**widths, image_size=128, patch_size=8), add_pooling_layer=False)
        self.projector = Projector(192, 2048, 256)
        self.condition = ConditionEncoder(3, 1024, 256)
        self.predictor = GRU().build(256, 20)
        self.pred_proj = Projector(256, 2048, 256)

    def forward(self, frames: Tensor, control: Tensor, law: Tensor, generator: torch.Generator) -> Tensor:
        mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
        pictures = ((frames.flatten(0, 1) / 255 - mean) / std).permute(0, 3, 1, 2)
        z = self.projector(self.encoder(pictures).last_hidden_state[:, 0]).unflatten(0, frames.shape[:2])
        c = self.condition(torch.cat([control, law[:, None].expand(-1, control.shape[1], -1)], dim=-1))
        latents, loss = list(z[:, :20].unbind(1)), z.new_zeros(())
        weights = losses.rollout_weights(0.95, 5)
        for k in range(5):
            window = torch.stack(latents[-20:], dim=1)
            latents.append(self.pred_proj(self.predictor(window, c[:, k : k + 20]))[:, -1])
            loss = loss + weights[k] * F.mse_loss(latents[-1], z[:, 20 + k])
        t, weights = knots_and_weights(z)
        x = (z.transpose(0, 1) @ draw_directions(256, generator)).unsqueeze(-1) * t  # (T, B, M, K)
        gap = (x.cos().mean(1) - torch.exp(-(t**2) / 2)).square() + x.sin().mean(1).square()
        return loss + 0.72 * len(z) * (gap @ weights).mean()


def plain(size: str) -> dict[str, Work]:
    """The parts of a step; "torch_muon" is the optimiser that stands in place of "optimiser"."""
    assert size == "paper"
    model = Plain().train()
    matrices, others = split_parameters(model)
    # the paper's 0.4 and 1e-3: torch's factor is 0.2
    muon = torch.optim.Muon(matrices, lr=2e-4, weight_decay=5e-4, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW(others, lr=5e-5, weight_decay=1e-3)
    momenta = [torch.zeros_like(p) for p in matrices]
    batch = inputs(stretches(size), 128, 25)
    generator = torch.Generator().manual_seed(0)

    def forward_backward() -> None:
        model.zero_grad()
        model(*batch, generator).backward()

    def with_torch_muon() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        muon.step()
        adamw.step()

    @torch.no_grad()
    def with_fp32_muon() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for p, momentum in zip(matrices, momenta, strict=True):
            momentum.mul_(0.95).add_(p.grad)
            p.mul_(1 - 1e-7).add_(newton_schulz_reference(p.grad + 0.95 * momentum), alpha=-4e-5 * max(p.shape) ** 0.5)
        adamw.step()

    return {"forward_backward": forward_backward, "optimiser": with_fp32_muon, "torch_muon": with_torch_muon}


WAYS = {"ours": ours, "plain": plain}


# --- the worker: one step for every line it reads --------------------------------------------------------------------


def timed(work: Callable[[], object]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def peak(seconds: float = 2.0) -> dict[str, float]:
    """FLOP/s of 2048 x 2048 fp32 products: by the clock, and by one core's CPU time times the threads."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    out, count = a @ b, 0

    def multiply() -> None:
        nonlocal count
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            torch.mm(a, b, out=out)
            count += 1

    took = timed(multiply)
    work = 2 * 2048**3 * count
    return {"wall": work / took["wall"], "cpu": work / took["cpu"] * torch.get_num_threads()}


def work(way: str, size: str) -> None:
    torch.manual_seed(0)
    parts = WAYS[way](size)
    with flop_counter() as counter:  # also the warm-up
        parts["forward_backward"]()
        parts["optimiser"]()
    about = {"flops": counter.get_total_flops(), "threads": torch.get_num_threads(), "machine": SETTINGS}
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        answer = {part: timed(parts[part]) for part in line.split()}
        print(json.dumps({**answer, "peak": peak() if way == "ours" else None}), flush=True)


class Worker:
    """A process that times parts of a step when it is told to."""

    def __init__(self, way: str, size: str, bare: bool):
        command = [sys.executable, __file__, "--worker", way, "--size", size, "--batch", str(stretches(size))]
        command += ["--bare"] if bare else []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.name, self.about = way, self._read()
        self.steps: list[dict[str, Any]] = []

    def time(self, parts: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        print(parts, file=self.process.stdin, flush=True)
        found: dict[str, Any] = self._read()
        return found

    def step(self) -> None:
        self.steps.append(self.time("forward_backward optimiser"))
        print(f"  {self.name}: {json.dumps(self.steps[-1])}", file=sys.stderr, flush=True)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a worker stopped; its error is above")
        return json.loads(line)


# --- the comparison --------------------------------------------------------------------------------------------------


def compare(size: str, ways: dict[str, tuple[str, bool]], rounds: int, torch_muon: bool = False) -> dict[str, Any]:
    workers = {name: Worker(way, size, bare) for name, (way, bare) in ways.items()}
    for _ in range(rounds):
        for worker in workers.values():
            worker.step()
    batch = stretches(size)
    frames = batch * recipe("square_gru", size).train.frames
    found = {name: summary(worker.about, worker.steps, frames) for name, worker in workers.items()}
    if torch_muon:
        slow = workers[PLAIN_FP32].time("torch_muon")["torch_muon"]
        steps = [{**step, "optimiser": slow} for step in workers[PLAIN_FP32].steps]
        found["plain"] = summary(workers[PLAIN_FP32].about, steps, frames)
    for worker in workers.values():
        worker.close()
    best = found["ours"]
    print(f"\n{size}, {batch} stretches, {frames} frames, {rounds} rounds, medians; (x) is how many times ours is faster")
    print(f"  {'':24s} {'frames/s':>9s} {'step s':>14s} {'forward, backward s':>20s} {'optimiser s':>16s}")
    for row in found.values():
        row["ratio"] = {part: row[part]["wall"] / best[part]["wall"] for part in ("step", "forward_backward", "optimiser")}
        row["ratio_cpu"] = {part: row[part]["cpu"] / best[part]["cpu"] for part in row["ratio"]}
    for name, row in found.items():
        parts = "".join(
            f"{row[part]['wall']:{width}.2f} ({row['ratio'][part]:.2f}x)"
            for part, width in (("step", 7), ("forward_backward", 11), ("optimiser", 8))
        )
        print(f"  {name:24s} {row['frames_per_second']:9.2f} {parts}")
    reached = best["fraction_of_peak"]
    print(
        f"  ours: {best['flops'] / 1e12:.2f} TFLOP per step at {reached['wall']:.0%} of the matrix-multiply peak "
        f"({best['peak']['wall'] / 1e9:.0f} GFLOP/s in the same moments); by CPU time {reached['cpu']:.0%}"
    )
    return {"batch": batch, "frames": frames, "rounds": rounds, **found}


def summary(about: dict[str, Any], steps: list[dict[str, Any]], frames: int) -> dict[str, Any]:
    row: dict[str, Any] = {**about, "steps": steps}
    for part in ("forward_backward", "optimiser"):
        row[part] = {clock: statistics.median(s[part][clock] for s in steps) for clock in ("wall", "cpu")}
    whole = [{c: s["forward_backward"][c] + s["optimiser"][c] for c in ("wall", "cpu")} for s in steps]
    row["step"] = {clock: statistics.median(s[clock] for s in whole) for clock in ("wall", "cpu")}
    row["frames_per_second"] = frames / row["step"]["wall"]
    if steps[0]["peak"]:
        row["peak"] = {clock: statistics.median(s["peak"][clock] for s in steps) for clock in ("wall", "cpu")}
        threads = {"wall": 1, "cpu": row["threads"]}  # CPU time is the sum over threads
        row["fraction_of_peak"] = {
            clock: statistics.median(
                row["flops"] * threads[clock] / w[clock] / s["peak"][clock] for w, s in zip(whole, steps, strict=True)
            )
            for clock in ("wall", "cpu")
        }
    return row


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--rounds", type=int, default=3, help="at paper size")
    parser.add_argument("--mini-rounds", type=int, default=9)
    parser.add_argument("--sizes", nargs="+", choices=("mini", "paper"), default=["mini", "paper"])
    parser.add_argument("--batch", type=int, help="stretches of a step (default: 8 at paper size, else the recipe's)")
    parser.add_argument(
        "--no-torch-muon", action="store_true", help="leave out torch.optim.Muon, minutes without bf16 units"
    )
    parser.add_argument("--worker", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--size", choices=("mini", "paper"), help=argparse.SUPPRESS)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.size)
        return
    ways = {"ours": ("ours", False), "ours, memory as it comes": ("ours", True)}
    result: dict[str, Any] = {}
    if "mini" in options.sizes:
        result["mini"] = compare("mini", ways, options.mini_rounds)
    if "paper" in options.sizes:
        plainly = {**ways, PLAIN_FP32: ("plain", True)}
        result["paper"] = compare("paper", plainly, options.rounds, torch_muon=not options.no_torch_muon)
    asked = record.settings(options, "worker", "size", "bare")
    record.write(options.out, asked, {**result, "torch": torch.__version__})


if __name__ == "__main__":
    main()
