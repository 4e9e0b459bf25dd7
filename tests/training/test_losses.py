from dataclasses import replace

import pytest
import torch
from torch import nn

from sgjepa.core import config
from sgjepa.core.errors import InputError
from sgjepa.models.rollout import rollout
from sgjepa.training.losses import OneStepLoss, RolloutLoss, compute, cut_windows, rollout_weights
from sgjepa.training.sigreg import draw_directions, sigreg


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Recurrent(nn.Module):
    """A small predictor whose answer depends on the whole window and on the conditions."""

    def __init__(self, width: int = 6, condition: int = 2):
        super().__init__()
        self.gru = nn.GRU(width + condition, 8, batch_first=True)
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(8, width)
        self.calls = 0

    def predict(self, z, c):
        self.calls += 1
        hidden, _ = self.gru(torch.cat([z, c], dim=-1))
        return z + self.out(self.dropout(hidden))


class Geometric(nn.Module):
    """ẑ[t + 1] = a z[t], so a rollout is a geometric series."""

    def __init__(self, ratio: float):
        super().__init__()
        self.ratio = nn.Parameter(torch.tensor(ratio))

    def predict(self, z, c):
        return self.ratio * z


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Recurrent().eval()


def stretch(frames, batch=3):
    source = generator(5)
    z = torch.randn(batch, frames, 6, generator=source).requires_grad_()
    return z, torch.randn(batch, frames - 1, 2, generator=source)


def test_rollout_weights_are_the_papers():
    expected = torch.tensor([0.2210, 0.2100, 0.1995, 0.1895, 0.1800])
    torch.testing.assert_close(rollout_weights(0.95, 5), expected, atol=5e-5, rtol=0)


@pytest.mark.parametrize("discount", [0.5, 0.95, 1.0])
def test_rollout_weights_sum_to_one(discount):
    assert rollout_weights(discount, 7).sum().item() == pytest.approx(1)


def test_rollout_loss_and_its_gradients_are_those_of_a_geometric_series():
    """Frames x, encoder z = w x, predictor z -> a z: every path of the gradient has a closed form.

    L = Σ_k w_k mean (a^k z_0 - z_k)². Cutting the targets, or the graph between steps, would lose terms.
    """
    ratio, gain, steps = 0.8, 1.3, 5
    model, encoder = Geometric(ratio), torch.tensor(gain, requires_grad=True)
    x = torch.randn(4, 3 + steps, 2, generator=generator())
    total, parts = compute(RolloutLoss(sigreg=0), model, encoder * x, torch.zeros(4, 7, 1), generator())
    total.backward()
    k = torch.arange(1, steps + 1)
    powers, weights = (ratio**k)[:, None], rollout_weights(0.95, steps)
    start, target = x[:, 2:3], x[:, 3:]
    gap = powers * start - target  # (B, K, D), in units of frames
    mean = lambda v: (v.mean(dim=(0, 2)) * weights).sum().item()  # noqa: E731
    assert total.item() == pytest.approx(gain**2 * mean(gap**2), rel=1e-5)
    assert encoder.grad.item() == pytest.approx(2 * gain * mean(gap * gap), rel=1e-5)
    through_inputs_only = 2 * gain * mean(gap * powers * start)
    assert encoder.grad.item() != pytest.approx(through_inputs_only, rel=1e-2)
    through_all_steps = 2 * gain**2 * mean(gap * k[:, None] * (ratio ** (k - 1))[:, None] * start)
    assert model.ratio.grad.item() == pytest.approx(through_all_steps, rel=1e-5)
    assert parts["rollout"] == parts["loss"] == total


def test_every_rollout_step_reaches_the_history(model):
    z, c = stretch(9)
    predicted = rollout(model, z[:, :4], c, 5, 4)
    for k in range(5):
        grad = torch.autograd.grad(predicted[:, 4 + k].sum(), z, retain_graph=True)[0]
        assert grad[:, 3].abs().max() > 0
        assert grad[:, 4:].abs().max() == 0  # a rollout never sees a true latent of the future


def test_targets_keep_their_gradient(model):
    z, c = stretch(9)
    compute(RolloutLoss(sigreg=0), model, z, c, generator())[0].backward()
    assert (z.grad[:, 4:].abs().amax(dim=(0, 2)) > 0).all()


def test_one_step_loss_is_the_mean_over_all_positions(model):
    z, c = stretch(7)
    total, parts = compute(OneStepLoss(sigreg=0), model, z, c, generator())
    expected = (model.predict(z[:, :6], c) - z[:, 1:]).square().mean()
    torch.testing.assert_close(total, expected)
    assert set(parts) == {"loss", "one_step"}


def test_one_rollout_step_is_the_last_position_of_teacher_forcing(model):
    z, c = stretch(7)
    total, _ = compute(RolloutLoss(steps=1, sigreg=0), model, z, c, generator())
    torch.testing.assert_close(total, (model.predict(z[:, :6], c) - z[:, 1:])[:, -1].square().mean())


@pytest.mark.parametrize(("loss", "calls"), [(RolloutLoss(), 5), (OneStepLoss(), 1)])
def test_no_forward_pass_is_wasted(model, loss, calls):
    z, c = stretch(9)
    compute(loss, model, z, c, generator())
    assert model.calls == calls


@pytest.mark.parametrize("loss", [RolloutLoss(sigreg=0.72), OneStepLoss(sigreg=0.09)])
def test_sigreg_sees_all_encoded_latents_and_nothing_else(model, loss):
    z, c = stretch(9)
    total, parts = compute(loss, model, z, c, generator(7))
    torch.testing.assert_close(parts["sigreg"], sigreg(z, draw_directions(6, generator(7))))
    bare, _ = compute(replace(loss, sigreg=0), model, z, c, generator(7))
    torch.testing.assert_close(total, bare + loss.sigreg * parts["sigreg"])


@pytest.mark.parametrize("loss", [RolloutLoss(steps=3, sigreg=0), OneStepLoss(sigreg=0)])
def test_dense_windows_are_the_mean_over_separate_windows(model, loss):
    z, c = stretch(14)
    history, size = 4, 7 if isinstance(loss, RolloutLoss) else 5
    starts = range(14 - size + 1)
    separate = torch.stack(
        [compute(loss, model, z[:, s : s + size], c[:, s : s + size - 1], generator())[0] for s in starts]
    )
    dense, _ = compute(replace(loss, windows="dense"), model, z, c, generator(), history=history)
    torch.testing.assert_close(dense, separate.mean())
    inputs = [z, *model.parameters()]
    for one, other in zip(torch.autograd.grad(dense, inputs), torch.autograd.grad(separate.mean(), inputs), strict=True):
        torch.testing.assert_close(one, other)


def test_chosen_starts_are_the_windows(model):
    z, c = stretch(14)
    loss = RolloutLoss(steps=3, sigreg=0, windows="dense")
    chosen, _ = compute(loss, model, z, c, generator(), history=4, starts=[2, 5])
    each = [compute(loss, model, z, c, generator(), history=4, starts=[s])[0] for s in (2, 5)]
    torch.testing.assert_close(chosen, sum(each) / 2)


def test_windows_are_cut_in_order():
    x = torch.arange(10).reshape(2, 5)
    assert cut_windows(x, 2, [0, 3]).tolist() == [[0, 1], [3, 4], [5, 6], [8, 9]]


def test_latents_may_be_grids_of_patches():
    z = torch.randn(2, 8, 3, 4, generator=generator())
    total, _ = compute(RolloutLoss(), Geometric(0.5), z, torch.zeros(2, 7, 1), generator())
    flat, _ = compute(RolloutLoss(), Geometric(0.5), z.flatten(2), torch.zeros(2, 7, 1), generator())
    torch.testing.assert_close(total, flat)


@pytest.mark.parametrize(
    ("loss", "history", "message"),
    [
        (RolloutLoss(windows="dense"), None, "need the history"),
        (RolloutLoss(), 20, "dense windows"),
        (RolloutLoss(windows="dense"), 20, "does not fit"),
        (RolloutLoss(steps=9), None, "does not fit"),
    ],
)
def test_windows_that_do_not_fit_are_refused(model, loss, history, message):
    z, c = stretch(9)
    with pytest.raises(InputError, match=message):
        compute(loss, model, z, c, generator(), history=history)


@pytest.mark.parametrize("loss", [RolloutLoss(windows="dense", flatten=True), OneStepLoss()])
def test_configs_survive_json(loss):
    assert config.from_dict(type(loss), config.to_dict(loss)) == loss


@pytest.mark.parametrize("loss", [RolloutLoss, OneStepLoss])
def test_a_misspelt_choice_is_refused(loss):
    with pytest.raises(InputError, match="did you mean dense"):
        loss(windows="dens")


def test_the_loss_stays_in_fp32_under_autocast(model):
    z, c = stretch(9)
    with torch.autocast("cpu", torch.bfloat16):
        total, _ = compute(RolloutLoss(sigreg=0.1), model, z, c, generator())
    assert total.dtype == torch.float32
