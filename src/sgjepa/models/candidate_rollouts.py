"""Rollouts of many candidate plans from one past, for planners.

N candidates share E pasts of T true latents and differ in their controls from the last true frame on. A window slides as
in `models.rollout.rollout`, so the answers are the same up to rounding. But a window's computation on the frames before the
last true one is the same for all N candidates, and the built-in predictors do it once: with H = 10 frames and P = 5
predictions the plain rollout makes 50 tokens for every candidate, this one 15.

Window s sees frames s .. s + H - 1, and the one that ends at frame t answers frame t + 1. A frame's token is its latent and
the condition that leads from it, so the last true frame's token already differs between candidates; those before it do not.
For a recurrent predictor a window's past is the state after it, for a Transformer its keys and values.

E pasts, N candidates, T true frames, P predictions. Without dropout and gradient: for planning, not for training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn

from sgjepa.core.errors import InputError
from sgjepa.models.layers import Attention
from sgjepa.models.predictors.recurrent import RecurrentPredictor
from sgjepa.models.predictors.transformer import AdaLNBlock, ConcatBlock, TransformerPredictor
from sgjepa.models.rollout import Predicts, rollout

# conditions (E, N, P, D) from the last true frame on, for each candidate -> the P latents that follow, (E, N, P, ...)
CandidateRollout: TypeAlias = Callable[[Tensor], Tensor]


def prepare_candidate_rollout(model: Predicts, z: Tensor, past: Tensor, steps: int, history: int) -> CandidateRollout:
    """Compute everything that does not depend on the candidates, for repeated calls of a search.

    z (E, T, ...), past (E, T - 1, D): conditions between them. steps: P. history: H, the longest window.
    """
    if past.shape[:2] != (len(z), z.shape[1] - 1):
        raise InputError(
            f"{z.shape[1]} latents of {len(z)} pasts need {z.shape[1] - 1} conditions between them, got {past.shape[1]} of "
            f"{len(past)}"
        )
    own: Callable[[Tensor, Tensor, int], CandidateRollout | None] | None = getattr(model, "candidate_rollout", None)
    faster = own(z, past, steps) if own is not None and z.shape[1] <= history else None
    return faster or (lambda c: rollout_candidates_plain(model, z, past, c, history))


def rollout_candidates(model: Predicts, z: Tensor, past: Tensor, c: Tensor, history: int) -> Tensor:
    """The rollouts of one set of candidates, conditions c (E, N, P, D) -> (E, N, P, ...)."""
    if len(c) != len(z):
        raise InputError(f"candidates of {len(c)} pasts were given, and there are {len(z)} pasts")
    return prepare_candidate_rollout(model, z, past, c.shape[2], history)(c)


def rollout_candidates_plain(model: Predicts, z: Tensor, past: Tensor, c: Tensor, history: int) -> Tensor:
    """The reference of `rollout_candidates`: every candidate by itself, through `rollout`."""
    count, steps = c.shape[1:3]
    rows = z.repeat_interleave(count, dim=0)
    conditions = torch.cat([past.repeat_interleave(count, dim=0), c.flatten(0, 1)], dim=1)
    predicted = rollout(model, rows, conditions, steps, history)[:, z.shape[1] :]
    return predicted.reshape(len(z), count, *predicted.shape[1:])


# --- built-in predictors: the shared past ----------------------------------------------------------------------------

State = tuple[Tensor, ...]
Head = Callable[[Tensor, Tensor], Tensor]  # the predictor's answer and the last latent, (R, D) each -> the next latent


@torch.no_grad()
def prepare_with_shared_past(
    predictor: nn.Module, head: Head, z: Tensor, past: Tensor, steps: int, history: int
) -> CandidateRollout | None:
    """The faster rollout of a built-in predictor in eval mode; None for other predictors.

    z (E, T, D), T <= H, past (E, T - 1, D); steps: P.
    """
    frames = z.shape[1]
    starts = range(max(0, frames + steps - 1 - history) + 1)
    shared: _RecurrentPast | _AttentivePast
    if isinstance(predictor, RecurrentPredictor):
        shared = _RecurrentPast(predictor, z[:, :-1], past, starts)
    elif isinstance(predictor, TransformerPredictor):
        shared = _AttentivePast(predictor, z[:, :-1], past, starts)
    else:
        return None

    @torch.no_grad()
    def roll(c: Tensor) -> Tensor:
        count = c.shape[1]
        latest = z[:, -1].repeat_interleave(count, dim=0)  # (E N, D)
        windows, predicted = shared.windows(count), []
        for step, condition in enumerate(c.flatten(0, 1).unbind(1)):  # P of (E N, D)
            frame = frames - 1 + step
            # the window that ends at this frame
            latest = head(windows.step(frame, latest, condition, first=max(0, frame + 1 - history)), latest)
            predicted.append(latest)
        return torch.stack(predicted, dim=1).view(len(z), count, steps, -1)

    return roll


class _RecurrentPast:
    """The state of every layer after each window's part of the past."""

    def __init__(self, predictor: RecurrentPredictor, z: Tensor, past: Tensor, starts: Sequence[int]):
        """z, past (E, T - 1, D): the shared tokens."""
        self.predictor, self.last = predictor, starts[-1]
        self.layers = predictor.recurrent_layers
        self.starts = [s for s in starts if s <= z.shape[1]]  # the others begin later
        by_window = [self._states(z[:, s:], past[:, s:]) for s in self.starts]  # [window][layer] -> state of E rows
        self.states: list[State] = [
            tuple(torch.stack(parts) for parts in zip(*states, strict=True)) for states in zip(*by_window, strict=True)
        ]  # [layer] -> (windows, E, ...) each

    def _states(self, z: Tensor, past: Tensor) -> list[State]:
        x, c = self.predictor.input(z + self.predictor.position[:, : z.shape[1]]), self.predictor.condition(past)
        states = []
        for layer in self.layers:
            y, state = layer.cell.start(layer.before_cell(x, layer.conditioned(c), None))
            x = layer.after_cell(x, y, None)
            states.append(state)
        return states

    def windows(self, count: int) -> _RecurrentWindows:
        return _RecurrentWindows(self, count)


class _RecurrentWindows:
    """All windows that see a frame process it together; the rows are (window, past, candidate)."""

    def __init__(self, past: _RecurrentPast, count: int):
        self.predictor, self.layers, self.last, self.starts = past.predictor, past.layers, past.last, past.starts
        self.states: list[State] = [
            tuple(part.repeat_interleave(count, dim=1) for part in state) for state in past.states
        ]  # [layer] -> (windows, E N, ...) each

    def step(self, frame: int, latest: Tensor, condition: Tensor, first: int) -> Tensor:
        """The latent (R, D) of a frame and the condition that leads from it -> the answer of window `first`, (R, D)."""
        over, new = first - self.starts[0], frame if self.starts[-1] < frame <= self.last else None
        self.starts = [*self.starts[over:], *([] if new is None else [new])]
        position = self.predictor.position[0, [frame - s for s in self.starts]]  # (windows, D)
        x, c = self.predictor.input(latest + position[:, None]), self.predictor.condition(condition)
        for i, layer in enumerate(self.layers):
            parts = [part[over:] for part in self.states[i]]
            if new is not None:  # a window that begins here knows nothing
                parts = [torch.cat([part, torch.zeros_like(part[:1])]) for part in parts]
            inner = layer.before_cell(x, layer.conditioned(c), None).flatten(0, 1)
            y, state = layer.cell.advance(inner, tuple(part.flatten(0, 1) for part in parts))
            self.states[i] = tuple(part.view(*x.shape[:2], *part.shape[1:]) for part in state)
            x = layer.after_cell(x, y.view_as(x), None)
        answer: Tensor = self.predictor.output(x[0])
        return answer


class _AttentivePast:
    """Keys and values of each window's part of the past."""

    def __init__(self, predictor: TransformerPredictor, z: Tensor, past: Tensor, starts: Sequence[int]):
        """z, past (E, T - 1, D): the shared tokens."""
        self.predictor, self.frames = predictor, z.shape[1]
        self.blocks = cast("list[AdaLNBlock | ConcatBlock]", list(predictor.blocks))
        self.shared = [self._look_back(z[:, s:], past[:, s:]) for s in starts]  # [window][block], (E, heads, L, d) each

    def _look_back(self, z: Tensor, c: Tensor) -> list[tuple[Tensor, Tensor]]:
        keys_values = []

        def attend(attention: Attention, h: Tensor) -> Tensor:
            q, k, v = attention.heads_of(h)
            keys_values.append((k, v))
            mask = torch.ones(h.shape[1], h.shape[1], dtype=torch.bool, device=h.device).tril()
            scores = (q @ k.mT).masked_fill(~mask, -torch.inf)
            return attention.gather(torch.softmax(scores, dim=-1) @ v)

        x = self.input(z, c, slice(0, z.shape[1]))
        for block in self.blocks:
            x = block.both_halves(x, block.conditioned(c), attend)
        return keys_values

    def input(self, z: Tensor, c: Tensor, positions: slice) -> Tensor:
        x = z + self.predictor.position[:, positions]
        return x if self.predictor.join is None else self.predictor.join(x, c)

    def windows(self, count: int) -> _AttentiveWindows:
        return _AttentiveWindows(self, count)


class _AttentiveWindows:
    """One window at a time; for the next one the frames after the past are processed again, at their new positions."""

    def __init__(self, past: _AttentivePast, count: int):
        self.past, self.blocks, self.count = past, past.blocks, count
        self.start = -1
        self.own: list[tuple[Tensor, Tensor]] = []  # [block]: keys and values after the past, (E, heads, N, m, d)
        self.seen: list[tuple[Tensor, ...]] = []  # of those frames: latents, conditions, what each block makes of the latter

    def step(self, frame: int, latest: Tensor, condition: Tensor, first: int) -> Tensor:
        """The latent (R, D) of a frame and the condition that leads from it -> the answer of window `first`, (R, D)."""
        self.seen.append((latest, condition, *(block.conditioned(condition) for block in self.blocks)))
        fresh = self.seen[-1:]
        if first != self.start:
            self.start, self.own, fresh = first, [], self.seen[max(0, first - self.past.frames) :]
        x, c, *conditioned = (torch.stack(parts, dim=1) for parts in zip(*fresh, strict=True))  # (E N, m, ...)
        position = frame - len(fresh) + 1 - first
        x = self.past.input(x, c, slice(position, position + len(fresh)))
        for i, block in enumerate(self.blocks):
            since = len(fresh) - 1 if i == len(self.blocks) - 1 else 0  # the last block needs no earlier frames

            def attend(attention: Attention, h: Tensor, i: int = i, since: int = since) -> Tensor:
                return self._attend(attention, h, i, since)

            x = block.both_halves(x, conditioned[i], attend, since)
        answer: Tensor = self.past.predictor.norm(x[:, -1])
        return answer

    def _attend(self, attention: Attention, h: Tensor, i: int, since: int) -> Tensor:
        """Attend from new tokens h (E N, m, D) to the past, to earlier tokens of their own, and causally to each other.

        Scores have the keys first and the candidates last: a softmax over a short last axis takes 20 times as long.
        """
        # (E N, heads, m, d) -> (E, heads, N, m, d)
        q, k, v = (x.view(-1, self.count, *x.shape[1:]).transpose(1, 2) for x in attention.heads_of(h, since))
        if i < len(self.own):
            k, v = (torch.cat(pair, dim=3) for pair in zip(self.own[i], (k, v), strict=True))
            self.own[i] = k, v
        else:
            self.own.append((k, v))
        keys, values = self.past.shared[self.start][i]  # (E, heads, L, d)
        queries, length = q.shape[3], keys.shape[2]
        # the candidates of one past are queries to the same keys
        old = (keys @ q.flatten(2, 3).mT).view(*keys.shape[:3], self.count, queries)  # (E, heads, L, N, m)
        new = (k @ q.mT).transpose(2, 3)  # (E, heads, all of their own, N, m)
        if queries > 1:  # the last token may look anywhere
            later = torch.ones(new.shape[2], queries, dtype=torch.bool, device=h.device).tril(queries - new.shape[2] - 1)
            new = new.masked_fill(later[:, None], -torch.inf)
        weights = torch.softmax(torch.cat([old, new], dim=2), dim=2)
        back = (weights[:, :, :length].flatten(3).mT @ values).view_as(q)
        gathered = back + weights[:, :, length:].permute(0, 1, 3, 4, 2) @ v
        return attention.gather(gathered.transpose(1, 2).flatten(0, 1))
