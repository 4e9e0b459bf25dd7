"""The futures of `models/imagine.py` for our predictors: a window's part of the shared past is computed once.

Window s sees frames s .. s + H - 1, and the one that ends at frame t answers frame t + 1. A frame's token is its latent and
the condition that leads from it, so the last true frame's token already differs between candidates; those before it do not.
For a recurrent predictor a window's past is the state after it, for a Transformer its keys and values.

E pasts, N candidates, T true frames, P predictions. Without dropout: futures are for planning, not for training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from sgjepa.models.blocks import Attention
from sgjepa.models.predictors.recurrent import RecurrentLayer, RecurrentPredictor
from sgjepa.models.predictors.transformer import TransformerPredictor

State = tuple[Tensor, ...]
Head = Callable[[Tensor, Tensor], Tensor]  # the predictor's answer and the last latent, (R, D) each -> the next latent


class Steps(Protocol):
    """A cell that can be run through a sequence, and go on from there."""

    def begin(self, x: Tensor) -> tuple[Tensor, State]:
        """x (B, T, width) from a state of nothing -> (B, T, width), and the state after it, (B, ...) each."""

    def go_on(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """x (B, width), one step -> (B, width), and the state after it."""


def known(predictor: nn.Module) -> bool:
    """Whether there is a way here for this predictor."""
    if isinstance(predictor, RecurrentPredictor):
        return all(hasattr(layer.cell, "go_on") for layer in predictor.layers)
    return isinstance(predictor, TransformerPredictor)


@torch.no_grad()
def futures(predictor: nn.Module, head: Head, z: Tensor, past: Tensor, c: Tensor, history: int) -> Tensor:
    """z (E, T, D), T <= H, past (E, T - 1, D), c (E, N, P, D) -> (E, N, P, D). The predictor must be in eval mode."""
    way: Any = _Recurrent if isinstance(predictor, RecurrentPredictor) else _Attentive
    count, steps, frames = c.shape[1], c.shape[2], z.shape[1]
    ahead = c.flatten(0, 1).unbind(1)  # P of (E N, D)
    latest = z[:, -1].repeat_interleave(count, dim=0)  # (E N, D)
    starts = range(max(0, frames + steps - 1 - history) + 1)
    walk, found = way(predictor, z[:, :-1], past, count, starts), []
    for step, condition in enumerate(ahead):
        frame = frames - 1 + step
        # the window that ends at this frame
        latest = head(walk.take(frame, latest, condition, first=max(0, frame + 1 - history)), latest)
        found.append(latest)
    return torch.stack(found, dim=1).view(len(z), count, steps, -1)


class _Recurrent:
    """All windows that see a frame take it in together; the rows are (window, past, candidate)."""

    def __init__(self, predictor: RecurrentPredictor, z: Tensor, past: Tensor, count: int, starts: Sequence[int]):
        """z, past (E, T - 1, D): the shared tokens."""
        self.predictor, self.last = predictor, starts[-1]
        self.starts = [s for s in starts if s <= z.shape[1]]  # the others begin later
        self.layers = cast("list[RecurrentLayer]", list(predictor.layers))
        by_window = [self._past(z[:, s:], past[:, s:]) for s in self.starts]  # [window][layer] -> state of E rows
        self.states: list[State] = [
            tuple(torch.stack(parts).repeat_interleave(count, dim=1) for parts in zip(*states, strict=True))
            for states in zip(*by_window, strict=True)
        ]  # [layer] -> (windows, E N, ...) each

    def _past(self, z: Tensor, past: Tensor) -> list[State]:
        x, c = self.predictor.input(z + self.predictor.position[:, : z.shape[1]]), self.predictor.condition(past)
        states = []
        for layer in self.layers:
            y, state = cast("Steps", layer.cell).begin(layer.before_cell(x, layer.conditioned(c), None))
            x = layer.after_cell(x, y, None)
            states.append(state)
        return states

    def take(self, frame: int, latest: Tensor, condition: Tensor, first: int) -> Tensor:
        """The latent (R, D) of a frame and the condition that leads from it -> the answer of window `first`, (R, D)."""
        over, new = first - self.starts[0], frame if self.starts[-1] < frame <= self.last else None
        self.starts = [*self.starts[over:], *([] if new is None else [new])]
        position = self.predictor.position[0, [frame - s for s in self.starts]]  # (windows, D)
        x, c = self.predictor.input(latest + position[:, None]), self.predictor.condition(condition)
        for i, layer in enumerate(self.layers):
            fresh = 0 if new is None else 1  # a window that begins here knows nothing
            joined = (torch.cat([part[over:], torch.zeros_like(part[:fresh])]) for part in self.states[i])
            state = tuple(part.flatten(0, 1) for part in joined)
            inner = layer.before_cell(x, layer.conditioned(c), None).flatten(0, 1)
            y, state = cast("Steps", layer.cell).go_on(inner, state)
            self.states[i] = tuple(part.view(*x.shape[:2], *part.shape[1:]) for part in state)
            x = layer.after_cell(x, y.view_as(x), None)
        answer: Tensor = self.predictor.output(x[0])
        return answer


class _Attentive:
    """One window at a time; for the next one the frames after the past are taken in anew, at their new positions."""

    def __init__(self, predictor: TransformerPredictor, z: Tensor, past: Tensor, count: int, starts: Sequence[int]):
        """z, past (E, T - 1, D): the shared tokens."""
        self.predictor, self.count, self.z, self.past = predictor, count, z, past
        self.start = -1
        self.shared: list[tuple[Tensor, Tensor]] = []  # [block]: keys and values of the window's past, (E, heads, L, d)
        self.own: list[tuple[Tensor, Tensor]] = []  # [block]: of the frames after it, (E N, heads, m, d)
        self.seen: list[tuple[Tensor, Tensor]] = []  # latents and conditions of all frames after the past, (E N, D)

    def take(self, frame: int, latest: Tensor, condition: Tensor, first: int) -> Tensor:
        """The latent (R, D) of a frame and the condition that leads from it -> the answer of window `first`, (R, D)."""
        self.seen.append((latest, condition))
        fresh = self.seen[-1:]
        if first != self.start:
            self.start, self.own, fresh = first, [], self.seen[max(0, first - self.z.shape[1]) :]
            self._look_back()
        x, c = (torch.stack(parts, dim=1) for parts in zip(*fresh, strict=True))  # (E N, m, D)
        position = frame - len(fresh) + 1 - first
        x = self._input(x, c, slice(position, position + len(fresh)))
        for i, block in enumerate(self.predictor.blocks):
            x = block(x, c, attend=lambda attention, h, i=i: self._attend(attention, h, i))
        answer: Tensor = self.predictor.norm(x[:, -1])
        return answer

    def _input(self, z: Tensor, c: Tensor, positions: slice) -> Tensor:
        x = z + self.predictor.position[:, positions]
        return x if self.predictor.join is None else self.predictor.join(x, c)

    def _look_back(self) -> None:
        """Keys and values of the window's past."""
        self.shared = []
        z, c = self.z[:, self.start :], self.past[:, self.start :]
        x = self._input(z, c, slice(0, z.shape[1]))

        def attend(attention: Attention, h: Tensor) -> Tensor:
            q, k, v = attention.heads_of(h)
            self.shared.append((k, v))
            mask = torch.ones(h.shape[1], h.shape[1], dtype=torch.bool, device=h.device).tril()
            return attention.gather(_weights(q @ k.mT, mask) @ v)

        for block in self.predictor.blocks:
            x = block(x, c, attend=attend)

    def _attend(self, attention: Attention, h: Tensor, i: int) -> Tensor:
        """h (E N, m, D): new tokens; they see the past, what of their own came before, and each other up to themselves."""
        q, k, v = attention.heads_of(h)  # (E N, heads, m, d)
        if i < len(self.own):
            k, v = (torch.cat(pair, dim=2) for pair in zip(self.own[i], (k, v), strict=True))
            self.own[i] = k, v
        else:
            self.own.append((k, v))
        keys, values = self.shared[i]  # (E, heads, L, d)
        # the candidates of one past are queries to the same keys
        old = self._by_candidate(self._by_past(q) @ keys.mT)  # (E N, heads, m, L)
        new, length = q @ k.mT, keys.shape[2]
        later = torch.ones(new.shape[-2:], dtype=torch.bool, device=h.device).tril(new.shape[-1] - new.shape[-2])
        mask = torch.cat([later.new_ones(len(later), length), later], dim=1)
        weights = _weights(torch.cat([old, new], dim=-1), mask)
        back = self._by_candidate(self._by_past(weights[..., :length]) @ values)
        return attention.gather(back + weights[..., length:] @ v)

    def _by_past(self, x: Tensor) -> Tensor:
        """(E N, heads, m, ...) -> (E, heads, N m, ...)"""
        pasts = len(x) // self.count
        return x.view(pasts, self.count, *x.shape[1:]).transpose(1, 2).flatten(2, 3)

    def _by_candidate(self, x: Tensor) -> Tensor:
        """The way back."""
        return x.reshape(*x.shape[:2], self.count, x.shape[2] // self.count, x.shape[3]).transpose(1, 2).flatten(0, 1)


def _weights(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores of scaled queries (..., m, n) -> attention; mask (m, n): True where a token may look."""
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)
