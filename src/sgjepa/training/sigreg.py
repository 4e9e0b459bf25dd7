"""SIGReg, the distance of latents from N(0, I), by Epps-Pulley tests along random directions (paper, app. SIGReg).

Along a unit direction a, the characteristic function of a·z over the batch is compared with that of N(0, 1):

    R = B Σ_l ω_l |mean_b exp(i t_l a·z_b) - exp(-t_l²/2)|²        t_l = l·3/16, l = 0..16

per time step, and averaged over time and directions. Exact N(0, I) latents give 1.0525 whatever B is, collapsed ones
0.40205·B. Statistics are fp32 (fp64 for fp64 latents), also inside autocast: in bf16 the gaps drown in rounding.

`sigreg_reference` is the definition. `sigreg` is the same number from one sine and one cosine: the knots are multiples of
the first, so cos(lθ) and sin(lθ) follow by the Chebyshev recurrence f[l+1] = 2 cos(θ) f[l] - f[l-1]. Its gradient is
written out by hand, directions are taken some at a time, and nothing of size T·B·M·17 (nor T·B·M) is ever stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sgjepa.training.distributed import Group, all_reduce_mean, world_size

DIRECTIONS = 1024
KNOTS = 17
SPACING = 3.0 / (KNOTS - 1)


def draw_directions(dim: int, generator: torch.Generator, count: int = DIRECTIONS) -> Tensor:
    """Directions spread evenly over the sphere, (dim, count), unit columns, on the generator's device."""
    normal = torch.randn(dim, count, generator=generator, device=generator.device)
    return normal.div_(torch.linalg.vector_norm(normal, dim=0))


def knots_and_weights(like: Tensor) -> tuple[Tensor, Tensor]:
    """Knots t and weights ω, both (17,): trapezoid on [0, 3], doubled for [-3, 0], times exp(-t²/2)."""
    t = torch.arange(KNOTS, dtype=torch.float64) * SPACING
    weights = torch.full_like(t, 2 * SPACING)
    weights[0] = weights[-1] = SPACING
    weights *= torch.exp(-(t**2) / 2)
    return t.to(like), weights.to(like)


def sigreg_reference(z: Tensor, directions: Tensor, *, flatten: bool = False) -> Tensor:
    """The definition, a complex exponential at every knot. Arguments as for `sigreg`."""
    with torch.autocast(z.device.type, enabled=False):
        z = _by_time(z, flatten)  # (T, B, D)
        t, weights = knots_and_weights(z)
        x = z @ directions.to(z)  # (T, B, M)
        ecf = torch.exp(1j * x[..., None] * t).mean(dim=1)  # (T, M, K) empirical characteristic function
        gap = (ecf - torch.exp(-(t**2) / 2)).abs().square()
        return z.shape[1] * (gap @ weights).mean()


def sigreg(z: Tensor, directions: Tensor, *, flatten: bool = False, group: Group = None) -> Tensor:
    """Distance of the latents z to N(0, I), a scalar.

    z: (B, T, D)   directions: (D, M), unit columns, no gradient, the same on every rank
    flatten: one batch of B·T latents instead of one test per time step; the factor B of the statistic becomes B·T
    group: the ranks that share the batch, B on each; the value is that of the W·B latents, and parameter gradients
        *averaged* over ranks are those of one process with all of them
    """
    with torch.autocast(z.device.type, enabled=False):
        z = _by_time(z, flatten)  # (T, B, D)
        t, weights = knots_and_weights(z)
        t, weights = t[1:, None, None], weights[1:]  # at t = 0 both functions are 1
        means: Tensor = _TrigonometricMeans.apply(z, directions.to(z))  # type: ignore[no-untyped-call]
        cos, sin = all_reduce_mean(means, group)  # (K, T, M) each
        gap = (cos - torch.exp(-(t**2) / 2)).square() + sin.square()
        batch = z.shape[1] * world_size(group)
        value: Tensor = weights @ gap.mean(dim=(1, 2))
        return batch * value


def _by_time(z: Tensor, flatten: bool) -> Tensor:
    """(B, T, D) -> (T, B, D), or (1, B·T, D); at least fp32."""
    z = z.flatten(0, 1)[None] if flatten else z.transpose(0, 1).contiguous()
    return z if z.dtype == torch.float64 else z.float()


class _TrigonometricMeans(torch.autograd.Function):
    """(T, B, D), (D, M) -> (2, K, T, M): batch means of cos(t_l a·z) and sin(t_l a·z), l = 1..16."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, directions: Tensor) -> Tensor:
        ctx.save_for_backward(z, directions)
        means = z.new_empty(2, KNOTS - 1, z.shape[0], directions.shape[1])
        signs = z.new_empty(KNOTS - 1, 1, 1)
        for part in _parts(z, directions):
            for l, (cos, sin, sign) in enumerate(_waves(z @ directions[:, part])):  # noqa: E741 - the paper's index
                signs[l] = sign
                torch.sum(cos, dim=1, out=means[0, l, :, part])
                torch.sum(sin, dim=1, out=means[1, l, :, part])
        return means.mul_(signs / z.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # d cos(t x) = -t sin(t x) dx and d sin(t x) = t cos(t x) dx, a B-th of each
        z, directions = ctx.saved_tensors
        t, _ = knots_and_weights(z)
        slope = grad * t[1:, None, None] / z.shape[1]  # (2, K, T, M)
        grad_z = torch.zeros_like(z)
        with torch.autocast(z.device.type, enabled=False):
            for part in _parts(z, directions):
                x = z @ directions[:, part]
                grad_x = torch.zeros_like(x)  # (T, B, m)
                for l, (cos, sin, sign) in enumerate(_waves(x)):  # noqa: E741
                    grad_x.addcmul_(slope[0, l, :, None, part], sin, value=-sign)
                    grad_x.addcmul_(slope[1, l, :, None, part], cos, value=sign)
                grad_z += grad_x @ directions[:, part].T
        return grad_z, None


def _waves(x: Tensor) -> Iterator[tuple[Tensor, Tensor, int]]:
    """±cos(lθ), ±sin(lθ) and that sign for l = 1..16, θ = SPACING·x; the next turn writes over both tensors.

    The signs go + + - - and so on, for then f[l+1] = 2 cos(θ) f[l] - f[l-1] is one in-place addition of a product, in
    the memory of f[l-1].
    """
    theta = x * SPACING
    cos, sin = theta.cos(), theta.sin()
    double = 2 * cos
    cos_before, sin_before = torch.ones_like(cos), torch.zeros_like(sin)
    sign, sign_before = 1, 1
    yield cos, sin, sign
    for _ in range(KNOTS - 2):
        cos_before.addcmul_(double, cos, value=-sign_before * sign)
        sin_before.addcmul_(double, sin, value=-sign_before * sign)
        cos, cos_before, sin, sin_before = cos_before, cos, sin_before, sin
        sign, sign_before = -sign_before, sign
        yield cos, sin, sign


def _parts(z: Tensor, directions: Tensor) -> Iterator[slice]:
    """Directions in slices whose projections stay near a CPU core's cache, or that fill a GPU."""
    samples = z.shape[0] * z.shape[1]
    room = 2**18 if z.device.type == "cpu" else 2**22
    width = max(64, room // samples // 64 * 64)  # whole cache lines
    for start in range(0, directions.shape[1], width):
        yield slice(start, start + width)
