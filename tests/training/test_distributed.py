"""Two gloo processes against one process with the whole batch."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sgjepa.training import distributed
from sgjepa.training.losses import OneStepLoss, RolloutLoss, compute
from sgjepa.training.sigreg import draw_directions, sigreg

LOSSES = {"rollout": RolloutLoss(steps=3), "one_step": OneStepLoss(), "dense": RolloutLoss(steps=2, windows="dense")}


class Training(nn.Module):
    """Encoder, predictor and loss in one forward, the form DDP wants. BatchNorm on both sides, as in the paper's model."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 6))
        self.cell = nn.GRU(6, 7, batch_first=True)
        self.out = nn.Sequential(nn.Linear(7, 9), nn.BatchNorm1d(9), nn.GELU(), nn.Linear(9, 6))

    def predict(self, z, c):
        hidden, _ = self.cell(z + c)
        return self.out(hidden.flatten(0, 1)).unflatten(0, z.shape[:2])

    def forward(self, frames, loss, seed, group):
        z = self.encoder(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        c = torch.zeros_like(z)
        history = 4 if loss.windows == "dense" else None
        return compute(loss, self, z, c, torch.Generator().manual_seed(seed), history=history, group=group)


def build() -> Training:
    torch.manual_seed(1)
    return Training()


def batch() -> torch.Tensor:
    return torch.randn(8, 7, 5, generator=torch.Generator().manual_seed(2)) * 2 + 1


def outcome(model, total, parts):
    grads = {name: p.grad.clone() for name, p in model.named_parameters()}
    return {
        "total": total.detach(),
        "parts": parts,
        "grads": grads,
        "buffers": {k: v.clone() for k, v in model.named_buffers()},
    }


def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    group, results = dist.group.WORLD, {}
    share = batch().chunk(2)[rank]
    for name, loss in LOSSES.items():
        model = distributed.share_batchnorm(build(), group)
        wrapped = DistributedDataParallel(model)
        # another seed on each rank: the directions must be rank 0's all the same
        total, parts = wrapped(share, loss, 10 + rank, group)
        total.backward()
        results[name] = outcome(model, total, parts)
    try:
        wrapped(share, LOSSES["rollout"], 10, None)
    except RuntimeError as error:
        results["refusal"] = str(error)
    z = share[:, :, :4].clone().requires_grad_()
    value = sigreg(z, draw_directions(4, torch.Generator().manual_seed(3)), group=group)
    value.backward()
    results["sigreg"] = (value.detach(), z.grad)
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    mp.spawn(work, args=(str(folder),), nprocs=2)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_train_as_one_with_the_whole_batch(ranks, name):
    model = build()
    total, parts = model(batch(), LOSSES[name], 10, None)
    total.backward()
    whole = outcome(model, total, parts)
    close = {"rtol": 1e-5, "atol": 1e-6}
    # of the largest entry: a bias in front of BatchNorm has gradient zero up to rounding
    largest = max(grad.abs().max().item() for grad in whole["grads"].values())
    for rank in ranks:
        torch.testing.assert_close(rank[name]["parts"]["sigreg"], whole["parts"]["sigreg"], **close)
        torch.testing.assert_close(rank[name]["grads"], whole["grads"], rtol=1e-5, atol=1e-5 * largest)
        torch.testing.assert_close(rank[name]["buffers"], whole["buffers"], **close)
    torch.testing.assert_close((ranks[0][name]["total"] + ranks[1][name]["total"]) / 2, whole["total"], **close)


def test_sigreg_gradient_on_a_rank_is_scaled_for_averaging(ranks):
    """A rank's gradient is W = 2 times its share, for DDP divides by W."""
    z = batch()[:, :, :4].clone().requires_grad_()
    value = sigreg(z, draw_directions(4, torch.Generator().manual_seed(3)))
    value.backward()
    for rank, share in zip(ranks, z.grad.chunk(2), strict=True):
        torch.testing.assert_close(rank["sigreg"][0], value.detach())
        torch.testing.assert_close(rank["sigreg"][1] / 2, share)


def test_a_part_of_the_batch_is_never_taken_for_the_whole(ranks):
    assert all("group" in rank["refusal"] for rank in ranks)


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 3)])
@pytest.mark.parametrize("options", [{}, {"affine": False}, {"momentum": None}, {"track_running_stats": False}])
def test_shared_batchnorm_of_one_process_is_batchnorm(tmp_path, shape, options):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        plain, shared = (
            nn.BatchNorm1d(4, **options),
            distributed.share_batchnorm(nn.BatchNorm1d(4, **options), dist.group.WORLD),
        )
        for seed in range(3):
            x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3 + 7
            x, y = x.clone().requires_grad_(), x.clone().requires_grad_()
            plain(x).square().sum().backward()
            shared(y).square().sum().backward()
            torch.testing.assert_close(shared(y), plain(x), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(y.grad, x.grad, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(shared.state_dict(), plain.state_dict())
        torch.testing.assert_close(shared.eval()(y), plain.eval()(x))
    finally:
        dist.destroy_process_group()


def test_sharing_batchnorm_keeps_parameters_and_state_dict():
    model = build()
    before, state = list(model.parameters()), model.state_dict()
    distributed.share_batchnorm(model, None)
    assert all(one is other for one, other in zip(before, model.parameters(), strict=True))
    assert isinstance(model.encoder[1], distributed.GlobalBatchNorm1d)
    build().load_state_dict(model.state_dict())
    torch.testing.assert_close(model.state_dict(), state)
