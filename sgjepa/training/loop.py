"""Train a world model. The loop is `train`, read from top to bottom.

Everything random is a function of the run's seed and the step: the order of the data, the windows drawn from a stretch,
SIGReg's directions, dropout. So a checkpoint needs no generator states, and a killed run goes on bitwise as if it had not
been (on a CPU with the same number of threads).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgjepa.core import config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.data.windows import Together
from sgjepa.models.decoder import Decoder
from sgjepa.models.dino import DinoWM
from sgjepa.models.jepa import WorldModel
from sgjepa.training import checkpoint, losses, monitor, parallel
from sgjepa.training.data import (
    Data,
    Tensors,
    batches,
    digests_there,
    encode,
    open_data,
    to_device,
    updates_of,
    windows_of,
)
from sgjepa.training.log import TrainingLog
from sgjepa.training.optim import Hybrid, OptimConfig, schedule
from sgjepa.training.parallel import Group
from sgjepa.training.run import Run

_WEIGHTS, _DROPOUT, _DIRECTIONS, _DECODING = 1, 2, 3, 4  # streams of random numbers
_ENCODER = ("encoder.", "projector.", "control_", "law_")  # what a frozen encoder consists of, with its statistics
_CALIBRATION = 16  # batches that BatchNorm's statistics are averaged over
_HEALTH = 10  # steps between looks at the latents' spectrum
_SETTLED = {"cpu": 1, "cuda": _HEALTH}  # steps between looks at the loss: each look waits for the device
_DECODER = OptimConfig(lr_matrix=5e-4, lr=1e-4)  # the paper's


class Learner(nn.Module):
    """What is trained and saved together: the world model and, if asked for, the picture decoder."""

    def __init__(self, run: Run):
        super().__init__()
        self.model = checkpoint.build(run.model)
        self.decoder: Decoder | None = None
        if run.train.decoder:
            if not isinstance(self.model, WorldModel):
                raise InputError("the picture decoder needs a model that is trained from pixels, not a frozen encoder")
            latent, pixels = self.model.config.latent, self.model.config.encoder.image_size
            self.decoder = Decoder(latent, pixels, run.train.decoder_width)


def train(run: Run, folder: Path, datasets: Path) -> Path:
    """Train the run in `folder`, or go on with it, or do nothing if it is finished. Returns `folder`.

    datasets: where the run's datasets lie. Of several processes, the first decides and writes.
    """
    group = parallel.start()
    first = parallel.rank(group) == 0
    finished, begun = parallel.decided_by_first(lambda: _look(run, folder, datasets), group)
    if finished:
        return folder
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    learner = _learner(run).to(device)
    parallel.share_batchnorm(learner, group)
    optimisers = _optimisers(run, learner)
    state: dict[str, Any] = {"step": 0, "best": None, "waited": 0, "seconds": 0.0}
    if begun is not None:
        saved, state = checkpoint.load(begun, learner)
        for name, optimiser in optimisers.items():
            optimiser.load_state_dict(saved[name])
    data = open_data(run, learner.model, datasets, group)
    per_epoch = _updates_an_epoch(run, data, group)
    total = per_epoch * run.train.epochs
    about = _about(run, learner.model, data, group)
    if first:
        run_folder.create(folder, about)
        run_folder.keep(folder, state["step"])
    with _log(run, folder, state, total, about, first) as log:
        for step, batch in batches(run, data.train, state["step"], total, device, group):
            if run.train.patience is not None and state["waited"] >= run.train.patience:
                break
            torch.manual_seed(_mix(run.seed, step, _DROPOUT, parallel.rank(group)))
            _rates(run, optimisers, step, total)
            log.step(step + 1, _update(run, learner, optimisers, batch, step, group), batch.episode)
            state["step"] = step + 1
            validates = state["step"] % per_epoch == 0
            saves = state["step"] % run.train.save_every == 0 or state["step"] == total
            if validates or saves or step % _SETTLED[device.type] == 0:
                log.settle()
            if validates:
                _calibrate(run, learner, data.train, device, group)
                found = _validate(run, learner, data.validation, device, group)
                better = state["best"] is None or found["loss"] < state["best"]
                state |= {"best": found["loss"], "waited": 0} if better else {"waited": state["waited"] + 1}
                log.validation(state["step"], found, getattr(run.model, "latent", None))
            if saves and first:
                log.flush()
                state["seconds"] = log.seconds
                checkpoint.save(folder, learner, {n: o.state_dict() for n, o in optimisers.items()}, state, about)
    if first:
        if learner.decoder is not None:
            checkpoint.save_weights(folder / run_folder.DECODER, learner.decoder)
        checkpoint.save_weights(folder / run_folder.MODEL, learner.model)
    return folder


def _update(
    run: Run, learner: Learner, optimisers: dict[str, Hybrid], batch: Tensors, step: int, group: Group
) -> dict[str, Tensor]:
    """One step of gradient descent; returns the loss terms, which stay on the device."""
    learner.train()
    if run.train.trains == "predictor":
        _freeze(learner.model)
    for optimiser in optimisers.values():
        optimiser.zero_grad()
    with torch.autocast(batch.control.device.type, torch.bfloat16, enabled=batch.control.device.type == "cuda"):
        z, c = encode(learner.model, batch, run.train.chunk)
        loss, parts = losses.compute(
            run.loss,
            learner.model,
            z,
            c,
            torch.Generator(z.device).manual_seed(_mix(run.seed, step, _DIRECTIONS)),
            history=run.history,
            starts=windows_of(run, step),
            group=group,
        )
        if learner.decoder is not None:
            seed, count = _mix(run.seed, step, _DECODING), run.train.decoder_frames
            reconstruction = _reconstruction(learner.decoder, z, batch.frames, seed, count)
            loss, parts = loss + reconstruction, {**parts, "reconstruction": reconstruction.detach()}
    loss.backward()  # type: ignore[no-untyped-call]
    found = _over_ranks(parts, group)
    for name, optimiser in optimisers.items():
        parallel.average_gradients(optimiser.parameters, group)
        found[f"grad_norm_{name}"] = optimiser.clip_gradients()
        optimiser.step()
    if step % _HEALTH == 0:
        found |= {name: torch.tensor(value, device=z.device) for name, value in _health(z).items()}
    return found


def _reconstruction(decoder: Decoder, z: Tensor, frames: Tensor, seed: int, decoded: int) -> Tensor:
    """Mean squared error of decoded pictures on some frames of the batch; z is detached inside the decoder."""
    count = z.shape[0] * z.shape[1]
    chosen = torch.from_numpy(np.random.default_rng(seed).permutation(count)[:decoded]).to(z.device)
    picture = decoder(z.flatten(0, 1)[chosen][None])[0]
    return F.mse_loss(picture.float(), frames.flatten(0, 1)[chosen].float() / 255)


@torch.no_grad()
def _calibrate(run: Run, learner: Learner, data: Together, device: torch.device, group: Group) -> None:
    """Take BatchNorm's running statistics anew, as plain averages over some training batches.

    Their usual moving average lags behind weights that move fast: at mini learning rates the validation loss in eval mode
    was 16 times what the same weights reach with statistics of their own (docs/log.md). Weights are not touched.
    """
    norms = [m for m in learner.modules() if isinstance(m, nn.BatchNorm1d)]
    if run.train.trains == "predictor" and isinstance(learner.model, WorldModel):
        frozen = set(learner.model.projector.modules())
        norms = [m for m in norms if m not in frozen]
    if not norms:
        return
    learner.eval()
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # BatchNorm's spelling of a plain average
        norm.train()
    ranks, count = parallel.world_size(group), min(_CALIBRATION, len(data) // run.train.batch)
    for numbers in np.linspace(0, len(data) - 1, count * run.train.batch).astype(int).reshape(count, -1):
        batch = to_device(data.batch(numbers[parallel.rank(group) :: ranks]), device)
        z, c = encode(learner.model, batch, None)
        generator = torch.Generator(device).manual_seed(0)
        starts = windows_of(run, 0)
        losses.compute(run.loss, learner.model, z, c, generator, history=run.history, starts=starts, group=group)
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum


@torch.no_grad()
def _validate(run: Run, learner: Learner, data: Together, device: torch.device, group: Group) -> dict[str, float]:
    """Mean of every loss term over validation stretches, with the same directions at every epoch, in eval mode."""
    learner.eval()
    ranks = parallel.world_size(group)
    size = min(run.train.batch, len(data) // ranks * ranks)  # equal shares
    if size == 0:
        raise InputError(f"{len(data)} validation stretches cannot be shared by {ranks} processes")
    count = len(data) // size
    if run.train.validation is not None:
        count = min(count, run.train.validation)
    numbers = np.linspace(0, len(data) - 1, count * size).astype(int).reshape(count, size)
    terms = []
    for index, chosen in enumerate(numbers):
        batch = to_device(data.batch(chosen[parallel.rank(group) :: ranks]), device)
        z, c = encode(learner.model, batch, None)
        generator = torch.Generator(device).manual_seed(_mix(0, index, _DIRECTIONS))
        _, parts = losses.compute(run.loss, learner.model, z, c, generator, history=run.history, group=group)
        terms.append({name: float(value) for name, value in _over_ranks(parts, group).items()} | _health(z))
    return {name: float(np.mean([term[name] for term in terms])) for name in terms[0]}


def _over_ranks(parts: dict[str, Tensor], group: Group) -> dict[str, Tensor]:
    """Means of the loss terms over all processes."""
    values = parallel.all_reduce_mean(torch.stack(list(parts.values())).float(), group)
    return dict(zip(parts, values.unbind(), strict=True))


def _health(z: Tensor) -> dict[str, float]:
    # patch grids come from a frozen encoder and cannot collapse
    return monitor.latent_health(z) if z.dim() == 3 else {}


# --- before and around the loop ------------------------------------------------------------------------------------


def _look(run: Run, folder: Path, datasets: Path) -> tuple[bool, Path | None]:
    """Is the run finished, and if not, from which checkpoint does it go on? Refuses a folder that holds something else."""
    run_folder.check(folder, run, digests_there(run, datasets))
    if (folder / run_folder.MODEL).is_file():
        return True, None
    checkpoint.remove_leftovers(folder)
    return False, checkpoint.newest(folder)


def _updates_an_epoch(run: Run, data: Data, group: Group) -> int:
    count, ranks = updates_of(run, len(data.train)), parallel.world_size(group)
    if count == 0 or run.train.batch % ranks:
        raise InputError(
            f"a batch of {run.train.batch} stretches must fit into the {len(data.train)} there are "
            f"and divide by the {ranks} processes"
        )
    return count


def _about(run: Run, model: WorldModel | DinoWM, data: Data, group: Group) -> dict[str, Any]:
    """What run.json says, and in every checkpoint of the process that wrote it."""
    frozen = model.name if isinstance(model, DinoWM) else None
    if run.train.trains == "predictor" and frozen is None:
        frozen = f"encoder of {run.init}"
    machine = {"threads": torch.get_num_threads(), "processes": parallel.world_size(group)}
    return {
        "config": config.to_dict(run),
        "data": data.digests,
        "worlds": data.worlds,
        "frozen_encoder": frozen,
        "provenance": files.provenance() | machine,
    }


def _log(run: Run, folder: Path, state: dict[str, Any], total: int, about: dict[str, Any], active: bool) -> TrainingLog:
    named = {"frozen_encoder": about["frozen_encoder"]} if about["frozen_encoder"] else {}
    return TrainingLog(
        folder,
        run.name,
        step=state["step"],
        total=total,
        frames=run.train.batch * run.train.frames,
        seconds=state["seconds"],
        constant=named,
        active=active,
    )


def _mix(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def _learner(run: Run) -> Learner:
    torch.manual_seed(_mix(run.seed, 0, _WEIGHTS))
    learner = Learner(run)
    if run.init is not None:
        _, other = checkpoint.load_run(Path(run.init))
        weights = other.state_dict()
        alone = run.train.trains == "predictor"
        if alone:  # the rest stays fresh, and may be of another kind
            weights = {name: value for name, value in weights.items() if name.startswith(_ENCODER)}
        try:
            learner.model.load_state_dict(weights, strict=not alone)
        except RuntimeError as error:
            raise InputError(
                f"the model in {run.init} does not fit this recipe: {str(error).splitlines()[1].strip()}"
            ) from error
    elif run.train.trains == "predictor":
        raise InputError("training the predictor alone needs a trained encoder: --init RUN")
    return learner


def _freeze(model: WorldModel | DinoWM) -> None:
    """Keep the encoder as it is: no gradient, and BatchNorm by its stored statistics."""
    parts: list[nn.Module] = [model.encoder] if isinstance(model, DinoWM) else [model.encoder, model.projector]
    for part in parts:
        part.requires_grad_(False).eval()


def _optimisers(run: Run, learner: Learner) -> dict[str, Hybrid]:
    if run.train.trains == "predictor":
        _freeze(learner.model)
    found = {"model": Hybrid(learner.model, run.optim)}
    if learner.decoder is not None:
        found["decoder"] = Hybrid(learner.decoder, _DECODER)
    return found


def _rates(run: Run, optimisers: dict[str, Hybrid], step: int, total: int) -> None:
    for name, optimiser in optimisers.items():
        optimiser.scale_rates(schedule(step, total, _DECODER if name == "decoder" else run.optim))
