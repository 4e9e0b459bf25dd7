"""A few real steps of a recipe: shapes, counted arithmetic, and seconds on this machine.

Steps run on a few stretches; everything but the optimiser grows in proportion to the stretches.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sgjepa.models.base import WorldModel
from sgjepa.training import losses
from sgjepa.training.batches import Tensors, encode, windows_of
from sgjepa.training.flops import flop_counter
from sgjepa.training.optim import Hybrid
from sgjepa.training.outline import layers, outline
from sgjepa.training.run import Run

_TIMED = 3e11  # FLOPs of a timed step at most, if one stretch allows it: seconds on two cores
_PIXELS = 64  # picture size for a model that takes any


def steps(run: Run, shape: WorldModel) -> dict[str, Any]:
    """A counted and two timed steps on real tensors; the better one counts."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = outline(run, device).train()
    optimiser = Hybrid(model, run.optim)
    shapes: dict[str, tuple[int, ...]] = {}
    for name, module in model.named_modules():
        module.register_forward_hook(_note(shapes, name))
    _one_window(run, model, device)
    forward, once = _counted(run, model, optimiser, device)
    count = max(1, min(run.train.batch, int(_TIMED / once["forward_backward"])))
    work, update = min((_timed(run, model, optimiser, count, device) for _ in range(2)), key=sum)
    batch = run.train.batch
    flops = {
        "encode_per_frame": forward,
        "optimiser": once["optimiser"],
        "step": once["forward_backward"] * batch + once["optimiser"],
    }
    seconds = {
        "device": device,
        "threads": torch.get_num_threads(),
        "stretches": count,
        "forward_backward": work,
        "optimiser": update,
        "seconds_per_step": work * batch / count + update,
    }
    flops["per_frame"] = flops["step"] / (batch * run.train.frames)
    return {"layers": layers(shape, shapes), "flops": flops, "time": seconds}


def _counted(run: Run, model: WorldModel, optimiser: Hybrid, device: str) -> tuple[float, dict[str, float]]:
    """FLOPs to encode a frame, and those of the two halves of a step on one stretch; also warms the libraries."""
    batch = _random_batch(run, model, 1, device)
    with flop_counter() as training:
        _forward_backward(run, model, batch)
    with flop_counter() as update:
        optimiser.step()
    with flop_counter() as encoding, torch.no_grad():
        encode(model, batch, None)
    parts = {"forward_backward": float(training.get_total_flops()), "optimiser": float(update.get_total_flops())}
    return encoding.get_total_flops() / run.train.frames, parts


@torch.no_grad()
def _one_window(run: Run, model: WorldModel, device: str) -> None:
    """Pass every layer once, for the shapes: a rollout may take several windows through a part of a layer at once."""
    z, c = encode(model, _random_batch(run, model, 1, device), None)
    model.predict(z[:, : run.history], c[:, : run.history])


def _timed(run: Run, model: WorldModel, optimiser: Hybrid, count: int, device: str) -> tuple[float, float]:
    """Seconds of forward and backward on so many stretches, and of the optimiser."""
    batch = _random_batch(run, model, count, device)
    optimiser.zero_grad()
    start = time.perf_counter()
    _forward_backward(run, model, batch)
    middle = time.perf_counter()
    float(optimiser.clip_gradients())  # waits for the device
    optimiser.step()
    return middle - start, time.perf_counter() - middle


def _forward_backward(run: Run, model: WorldModel, batch: Tensors) -> None:
    z, c = encode(model, batch, run.train.chunk)
    generator = torch.Generator(z.device).manual_seed(0)
    starts = windows_of(run, step=0)
    loss, _ = losses.compute(run.loss, model, z, c, generator, history=run.history, starts=starts)
    torch.autograd.backward(loss)


def _random_batch(run: Run, model: WorldModel, count: int, device: str) -> Tensors:
    """Frames are bytes; those of a frozen encoder are its latents, which training reads from a cache."""
    frames = run.train.frames
    if model.frozen_encoder is not None:
        content = torch.randn(count, frames, *model.latent_shape, device=device)
    else:
        size = model.image_size or _PIXELS
        content = torch.randint(0, 256, (count, frames, size, size, 3), dtype=torch.uint8, device=device)
    control = torch.randn(count, frames, run.model.controls, device=device)
    law = torch.randn(count, run.model.laws, device=device)
    return Tensors(content, control, law, np.arange(count))


def _note(shapes: dict[str, tuple[int, ...]], name: str) -> Any:
    def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            shapes.setdefault(name, tuple(output.shape))

    return hook
