"""The sliding windows of a rollout in parallel instead of one after another, for a recurrent predictor.

Window k sees frames k .. k + H - 1 and answers frame k + H; its state starts at zero, so nothing carries over from one
window to the next. But a prediction is causal. The computation of window k on true latents can be done before the first
prediction, for all K windows at once; and when a frame has been predicted, all windows that see it process it together:

    frame      0  1  2  3 | 4  5          H = 4, K = 3: the moments in which each window is at work
    window 0   x  x  x  x |
    window 1      x  x  x | x
    window 2         x  x | x  x

So a rollout of K windows of H frames is a scan over H moments and K - 1 single steps, on K times as many rows at a time,
instead of K scans. The condition's term of a frame is computed once, not once for every window that sees the frame.

The numbers are those of `models.rollout.rollout` up to rounding, dropout included: its noise is drawn in the order in which
the plain way draws it. That is tested, also for the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor, nn

from sgjepa.models.layers import Projector
from sgjepa.models.predictors.recurrent import RecurrentLayer, RecurrentPredictor

Noise = list[tuple[Tensor | None, Tensor | None]]  # of each layer: for its MLP, for its cell; (blocks, B, width)


def can_run_in_parallel(predictor: nn.Module) -> TypeGuard[RecurrentPredictor]:
    """Whether the predictor is recurrent with a cell that can scan many sequences together."""
    return isinstance(predictor, RecurrentPredictor) and all(layer.cell.scans for layer in predictor.recurrent_layers)


@dataclass(frozen=True)
class Plan:
    """The schedule of windows and frames. A block is one window at one frame; blocks go by frame, then by window."""

    history: int
    steps: int

    def windows(self, frame: int) -> range:
        """The windows that see a frame."""
        return range(max(0, frame - self.history + 1), min(frame, self.steps - 1) + 1)

    def blocks(self, first: int, last: int) -> list[tuple[int, int]]:
        """(frame, window) of the frames from `first` to before `last`."""
        return [(frame, window) for frame in range(first, last) for window in self.windows(frame)]


def unroll(
    predictor: RecurrentPredictor, head: Projector, z: Tensor, c: Tensor, steps: int, *, residual: bool = False
) -> Tensor:
    """The `steps` latents after z (B, H, D), each prediction fed back; c (B, H + steps - 1 or more, D) -> (B, steps, D).

    head: every answer of the predictor passes it. Its BatchNorm sees all positions of a window, as in the plain way, but
    only the last position is taken to the end.
    """
    plan, latest = Plan(z.shape[1], steps), z[:, -1]
    windows = ParallelWindows(predictor, c[:, : z.shape[1] + steps - 1], plan)
    hidden, blocks = head.first(windows.observe(z)), plan.blocks(0, z.shape[1])
    # the head's inputs of each window so far, (positions, B, hidden)
    seen = [[hidden[[i for i, (_, window) in enumerate(blocks) if window == k]]] for k in range(steps)]
    predicted: list[Tensor] = []
    for k in range(steps):
        if k:
            frame = z.shape[1] + k - 1
            for window, block in zip(plan.windows(frame), head.first(windows.step(latest)), strict=True):
                seen[window].append(block[None])
        prediction = head.rest(torch.cat(seen[k]).flatten(0, 1), last=len(z))
        latest = latest + prediction if residual else prediction
        predicted.append(latest)
    return torch.stack(predicted, dim=1)


class ParallelWindows:
    """One rollout. Rows are (block, batch); `observe` takes in the true latents, `step` a predicted one."""

    def __init__(self, predictor: RecurrentPredictor, c: Tensor, plan: Plan):
        """c: (B, H + K - 1, D)"""
        self.predictor, self.plan, self.batch = predictor, plan, len(c)
        self.layers = predictor.recurrent_layers
        condition = predictor.condition(c.transpose(0, 1))  # (H + K - 1, B, width)
        self.conditioned = [layer.conditioned(condition) for layer in self.layers]
        self.noise = draw_noise(self.layers, plan, c)
        self.states = [condition.new_zeros(0, condition.shape[-1]) for _ in self.layers]
        self.frame, self.drawn = 0, 0

    def observe(self, z: Tensor) -> Tensor:
        """True latents (B, H, D) -> the predictor's answers (blocks, B, D)."""
        return self._advance(z.transpose(0, 1))

    def step(self, z: Tensor) -> Tensor:
        """The latent (B, D) of the frame that comes next -> the answers of all windows that see it, (windows, B, D)."""
        return self._advance(z[None])

    def _advance(self, z: Tensor) -> Tensor:
        """z (frames, B, D)"""
        first, last = self.frame, self.frame + len(z)
        blocks = self.plan.blocks(first, last)
        frame = torch.tensor([f for f, _ in blocks], device=z.device)
        position = torch.tensor([f - k for f, k in blocks], device=z.device)
        counts = [len(self.plan.windows(f)) * self.batch for f in range(first, last)]
        # the window that has just answered is the first one, and needs its state no more
        over = self.plan.windows(first).start - self.plan.windows(max(first - 1, 0)).start
        drawn = slice(self.drawn, self.drawn + len(blocks))
        x = self.predictor.input(z.index_select(0, frame - first) + self.predictor.position[0, position][:, None])
        for i, layer in enumerate(self.layers):
            in_mlp, in_cell = (None if n is None else n[drawn] for n in self.noise[i])
            y = layer.before_cell(x, self.conditioned[i].index_select(0, frame), in_mlp)
            y = layer.cell.scan(y.flatten(0, 1), self.states[i][over * self.batch :], counts)
            self.states[i] = y[-counts[-1] :]
            x = layer.after_cell(x, y.view(-1, *x.shape[1:]), in_cell)
        self.frame, self.drawn = last, drawn.stop
        answers: Tensor = self.predictor.output(x)
        return answers


def draw_noise(layers: list[RecurrentLayer], plan: Plan, like: Tensor) -> Noise:
    """Dropout's factors for all blocks, drawn window by window and layer by layer as the plain way does.

    The plain way's MLP holds (B, H, hidden) in this order and nn.GRU's answer (H, B, width): noise is drawn in the order
    of the memory.
    """
    blocks = plan.blocks(0, plan.history + plan.steps - 1)
    where = {block: i for i, block in enumerate(blocks)}
    rows, noise = [len(blocks), len(like)], []
    for layer in layers:
        drop, last = layer.mlp[2], layer.mlp[3]
        assert isinstance(drop, nn.Dropout)
        assert isinstance(last, nn.Linear)
        widths = ((drop, last.in_features), (layer.dropout, last.out_features))
        noise.append([like.new_empty(*rows, width) if d.training and d.p else None for d, width in widths])
    for window in range(plan.steps):
        own = torch.tensor([where[window + p, window] for p in range(plan.history)], device=like.device)
        for layer, (in_mlp, in_cell) in zip(layers, noise, strict=True):
            keep = 1 - layer.dropout.p
            if in_mlp is not None:
                in_mlp.index_copy_(0, own, _noise(like, keep, len(like), plan.history, in_mlp.shape[-1]).transpose(0, 1))
            if in_cell is not None:
                in_cell.index_copy_(0, own, _noise(like, keep, plan.history, len(like), in_cell.shape[-1]))
    return [(in_mlp, in_cell) for in_mlp, in_cell in noise]


def _noise(like: Tensor, keep: float, *shape: int) -> Tensor:
    """Dropout factors, drawn as by F.dropout: 1 / keep for kept entries, else 0."""
    return like.new_empty(shape).bernoulli_(keep).div_(keep)
