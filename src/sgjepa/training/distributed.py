"""Training over several processes as if it were one process with the whole batch.

Each rank holds an equal share of the batch and its own copy of the model; `average_gradients` averages the parameter
gradients over ranks. Whatever mixes samples of a batch (SIGReg, BatchNorm) has to see all of them, so its batch means go
through `all_reduce_mean`. A rank's backward pass then yields W times its share of the gradient of the *mean over ranks* of
the loss, and the division by the number of ranks W makes the sum of the shares exactly the whole-batch gradient.

`group=None` always means a single process without communication.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sgjepa.core.errors import InputError

Group: TypeAlias = "dist.ProcessGroup | None"
T = TypeVar("T")
_PATIENCE = timedelta(hours=6)  # rank 0 may decode or encode a whole dataset while the others wait for it


def start() -> Group:
    """Join the processes that `torchrun` started; None for a single process."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return None
    if not dist.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=_PATIENCE)
        atexit.register(stop)  # threads of a group that is still open may abort a process that ends
    return cast("dist.ProcessGroup", dist.group.WORLD)


def stop() -> None:
    """Leave the group, if this process joined one."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def wait_for_all(group: Group) -> None:
    """Wait until all processes arrive, so that none leaves while another one still communicates."""
    if group is not None:
        dist.barrier(group)


def rank(group: Group) -> int:
    """This process's number in the group."""
    return 0 if group is None else dist.get_rank(group)


def decided_by_first(work: Callable[[], T], group: Group) -> T:
    """The result of `work` on rank 0, sent to every rank. If it fails there, every rank raises the error."""
    if group is None:
        return work()
    answer: list[Any] = [None, None]
    if rank(group) == 0:
        try:
            answer[0] = work()
        except (InputError, OSError) as error:
            answer[1] = error
    dist.broadcast_object_list(answer, group_src=0, group=group)
    if answer[1] is not None:
        raise answer[1]
    return cast(T, answer[0])


def first_before_others(work: Callable[[], T], group: Group) -> T:
    """Run `work` on rank 0, and then on the others, which use the files that it made."""
    mine: list[T] = []
    decided_by_first(lambda: mine.append(work()), group)
    return mine[0] if mine else work()


def average_gradients(parameters: list[nn.Parameter], group: Group) -> None:
    """Replace every gradient by its mean over ranks, all in one message."""
    if group is None:
        return
    grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat, group=group)
    flat /= world_size(group)
    for p, mean in zip(parameters, torch.split(flat, [grad.numel() for grad in grads]), strict=True):
        p.grad = mean.view_as(p)


class _AllReduceMean(torch.autograd.Function):
    """Averaging over ranks is a symmetric linear map, so its backward is the same averaging."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        mean = x.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(mean, group=group)  # a sum: gloo has no average
        return mean.div_(world_size(group))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return all_reduce_mean(grads[0], ctx.group), None


def all_reduce_mean(x: Tensor, group: Group) -> Tensor:
    """The mean of x over ranks, on every rank; differentiable. Every rank must call it, and call backward."""
    if group is None:
        return x
    mean: Tensor = _AllReduceMean.apply(x, group)  # type: ignore[no-untyped-call]
    return mean


def from_first_rank(x: Tensor, group: Group) -> Tensor:
    """Rank 0's x on every rank, written in place."""
    if group is not None:
        dist.broadcast(x, group_src=0, group=group)
    return x


def sum_over_ranks(x: Tensor, group: Group) -> Tensor:
    """The sum of x over ranks, written in place."""
    if group is not None:
        dist.all_reduce(x, group=group)
    return x


def any_rank(flag: bool, group: Group) -> bool:
    """Whether the flag is set on any rank: all must leave a loop together, or the rest would wait for ever."""
    if group is None:
        return flag
    device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
    return bool(sum_over_ranks(torch.tensor(int(flag), device=device), group))


def world_size(group: Group) -> int:
    """The number of processes that share a batch."""
    return 1 if group is None else dist.get_world_size(group)


class GlobalBatchNorm1d(nn.BatchNorm1d):
    """BatchNorm1d with the statistics of the batch over all ranks; the state dict is BatchNorm1d's.

    torch's SyncBatchNorm does this on GPUs only; this one runs anywhere, and statistics are fp32 also under autocast.
    """

    group: Group = None

    def forward(self, x: Tensor) -> Tensor:
        """x: (N, C) or (N, C, L) -> the same shape."""
        if self.group is None or not self.training:
            return super().forward(x)
        self._check_input_dim(x)
        others = [0, *range(2, x.dim())]
        shape = [1, -1] + [1] * (x.dim() - 2)
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        # two passes: E[x^2] - E[x]^2 would lose digits when the mean is large
        mean = all_reduce_mean(wide.mean(others), self.group)  # (C,)
        centred = wide - mean.view(shape)
        var = all_reduce_mean(centred.square().mean(others), self.group)  # (C,)
        self._track(mean.detach(), var.detach(), count=x.numel() // x.shape[1] * world_size(self.group))
        y = centred * (var + self.eps).rsqrt().view(shape)
        if self.affine:
            y = y * self.weight.view(shape) + self.bias.view(shape)
        return y.to(x.dtype)

    def _track(self, mean: Tensor, var: Tensor, count: int) -> None:
        if not self.track_running_stats:
            return
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        # momentum None is BatchNorm's spelling of a plain average over all batches so far
        rate = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), rate)
        self.running_var.lerp_((var * (count / (count - 1))).to(self.running_var.dtype), rate)


def share_batchnorm(model: nn.Module, group: Group) -> nn.Module:
    """Turn every BatchNorm1d inside `model` into one over the group's whole batch, keeping parameters and buffers."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            # only the class changes, so parameters stay the same objects, which an optimiser may already hold
            module.__class__ = GlobalBatchNorm1d
            cast(GlobalBatchNorm1d, module).group = group
    return model
