"""A finished training that goes on: more updates than it was asked for at first, all else as it was.

It goes on from its last checkpoint, with the optimiser's momenta, and the learning rates of the new length. What had been
made of the shorter one stays, as a run of its own, in `before/step-N` of the folder. run.json says that it was continued, so
that it is never taken for a training without a break.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sgjepa.core import artifact, config, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.run_folder import Continued, RunRecord
from sgjepa.data.config import options
from sgjepa.models.base import WorldModel
from sgjepa.models.decoder import Decoder
from sgjepa.training import checkpoint, distributed, losses
from sgjepa.training.checkpoint import State
from sgjepa.training.config import DECODING, DIRECTIONS, DROPOUT, Run, mix
from sgjepa.training.data import (
    Data,
    Tensors,
    batches,
    digests_there,
    encode,
    open_data,
    read_stretches,
    stretches_in,
    updates_per_epoch,
    updates_there,
    windows_of,
)
from sgjepa.training.distributed import Group
from sgjepa.training.latent_cache import check_fits
from sgjepa.training.learner import Learner, optimisers_of, set_rates, start, training_mode
from sgjepa.training.log import TrainingLog, at_the_end_of_an_update
from sgjepa.training.optim import Hybrid
from sgjepa.training.validation import calibrate, health, over_ranks, validate

_STAYS = (run_folder.CONFIG, run_folder.ROWS, "checkpoints", "tensorboard", run_folder.BEFORE)


def shorter(run: Run, folder: Path) -> Run | None:
    """The run in the folder, if it differs from this one in its length alone."""
    if not (folder / run_folder.CONFIG).is_file():
        return None
    try:
        there = checkpoint.read_config(folder)
    except InputError:  # who looks closer says why
        return None
    as_long = replace(run.train, epochs=there.train.epochs, updates=there.train.updates)
    return there if there != run and there == replace(run, train=as_long) else None


def lengthen(run: Run, there: Run, folder: Path, datasets: Path, provenance: dict[str, Any]) -> None:
    """Make the finished training `there` an unfinished one of the run's length. For the holder of the folder's lock.

    Killed at any moment, the same call does the rest.
    """
    run_folder.check(folder, there, digests_there(run, datasets))
    done, asked = updates_there(there, datasets), updates_there(run, datasets)
    if asked <= done:
        raise InputError(
            f"{folder} holds a training of {done} updates, and {asked} are asked for: it goes on to more, never back; "
            "choose another --out"
        )
    newest = checkpoint.newest(folder)
    step = 0 if newest is None else checkpoint.step_of(newest)
    place = folder / run_folder.BEFORE / f"step-{step:07d}"
    if not any((at / run_folder.MODEL).is_file() for at in (folder, place)):
        raise InputError(
            f"{folder} is not finished (step {step} of {done}); finish it with its own command, then ask for more"
        )
    if step < done:
        stopped = f"it stopped by itself at step {step} of {done}" if there.train.patience else "its last checkpoint is gone"
        raise InputError(f"{folder} cannot go on: {stopped}; start from its weights: --init {folder} and another --out")
    _set_aside(folder, place)
    about = run_folder.about(folder)
    legs = (*about.continued, Continued(step, there.train.epochs, there.train.updates))
    lengthened = replace(about, config=config.to_dict(run), continued=legs, files={}, provenance=provenance)
    artifact.write_record(folder, lengthened)


def _set_aside(folder: Path, place: Path) -> None:
    """Move what was made of the finished model, itself last of all; it stays a run that can be evaluated."""
    place.mkdir(parents=True, exist_ok=True)
    for name in (run_folder.CONFIG, run_folder.ROWS):
        if (folder / name).is_file():
            artifact.write_bytes(place / name, (folder / name).read_bytes())
    made = [path for path in folder.iterdir() if path.name not in _STAYS and not path.name.startswith(".")]
    for path in sorted(made, key=lambda one: one.name == run_folder.MODEL):
        if (target := place / path.name).is_dir():  # finished and evaluated once more after a kill: the same results
            shutil.rmtree(target)
        path.replace(target)


_HEALTH = 10  # steps between looks at the latents' spectrum
_SETTLED = {"cpu": 1, "cuda": _HEALTH}  # steps between looks at the loss: each look waits for the device


def train(run: Run, folder: Path, datasets: Path) -> Path:
    """Train the run in `folder`, or go on with it, or do nothing if it is finished. Returns `folder`.

    A finished run that was shorter, and else the same, goes on to this one's length (training/loop.py).
    datasets: where the run's datasets lie. Of several processes, the first decides and writes.
    """
    group = distributed.start()
    with ExitStack() as held:
        finished, begun = distributed.decided_by_first(lambda: _look(run, folder, datasets, held, group), group)
        if not finished:
            _train(run, folder, datasets, begun, group)
    distributed.wait_for_all(group)
    return folder


def _train(run: Run, folder: Path, datasets: Path, begun: Path | None, group: Group) -> None:
    """Everything, from the first update or from the checkpoint `begun` on."""
    first = distributed.rank(group) == 0
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    learner = start(run).to(device)
    distributed.share_batchnorm(learner, group)
    optimisers = optimisers_of(run, learner)
    state = State() if begun is None else checkpoint.load(begun, learner, optimisers)
    data = open_data(run, datasets, group)
    for dataset in data.datasets:
        check_fits(learner.model, dataset.train, run.name)
    if run.init is None:  # a model that was trained before keeps the statistics it knows
        learner.model.normalise(data.normalisers.control, data.normalisers.law)
    per_epoch = _updates_per_epoch(run, data, group)
    total = per_epoch * run.train.epochs
    about = _about(run, learner.model, data, folder, group)
    if first:
        run_folder.create(folder, about)
        run_folder.keep(folder, state.step)
    training, validation = read_stretches(run, data, learner.model, folder, group)
    stops = False
    with at_the_end_of_an_update() as stop, _log(run, folder, state, total, about, first) as log:
        for step, batch in batches(run, training, state.step, total, device, group):
            if run.train.patience is not None and state.waited >= run.train.patience:
                break
            torch.manual_seed(mix(run.seed, step, DROPOUT, distributed.rank(group)))
            set_rates(run, optimisers, step, total)
            log.step(step + 1, _update(run, learner, optimisers, batch, step, group), batch.episode)
            state = replace(state, step=step + 1)
            stops = distributed.anyone(stop.asked, group)
            validates = state.step % per_epoch == 0
            saves = state.step % run.train.save_every == 0 or state.step == total or stops
            if validates or saves or step % _SETTLED[device.type] == 0:
                log.settle()
            if validates:
                calibrate(run, learner, training, device, group)
                found = validate(run, learner, validation, device, group)
                better = state.best is None or found["loss"] < state.best
                state = replace(state, best=found["loss"], waited=0) if better else replace(state, waited=state.waited + 1)
                log.validation(state.step, found, learner.model.collapse_width)
            if saves and first:
                log.flush()
                state = replace(state, seconds=log.seconds)
                checkpoint.save(folder, learner, {n: o.state_dict() for n, o in optimisers.items()}, state, about)
            if stops:
                break
    if stops and state.step < total:
        raise KeyboardInterrupt(f"{folder}: stopped after step {state.step} of {total}, which is saved")
    if first:
        decoder = {} if learner.decoder is None else {run_folder.DECODER: learner.decoder}
        checkpoint.finish(folder, about, {**decoder, run_folder.MODEL: learner.model})
    if stop.asked:  # too late to stop the training, but not what would come after it
        raise KeyboardInterrupt(f"{folder} is finished")


def _update(
    run: Run, learner: Learner, optimisers: dict[str, Hybrid], batch: Tensors, step: int, group: Group
) -> dict[str, Tensor]:
    """One step of gradient descent; returns the loss terms, which stay on the device."""
    training_mode(run, learner)
    for optimiser in optimisers.values():
        optimiser.zero_grad()
    with torch.autocast(batch.control.device.type, torch.bfloat16, enabled=batch.control.device.type == "cuda"):
        z, c = encode(learner.model, batch, run.train.chunk)
        loss, parts = losses.compute(
            run.loss,
            learner.model,
            z,
            c,
            torch.Generator(z.device).manual_seed(mix(run.seed, step, DIRECTIONS)),
            history=run.history,
            starts=windows_of(run, step),
            group=group,
        )
        if learner.decoder is not None:
            seed, count = mix(run.seed, step, DECODING), run.train.decoder_frames
            reconstruction = _reconstruction(learner.decoder, z, batch.frames, seed, count)
            loss, parts = loss + reconstruction, {**parts, "reconstruction": reconstruction.detach()}
    loss.backward()  # type: ignore[no-untyped-call]
    found = over_ranks(parts, group)
    for name, optimiser in optimisers.items():
        distributed.average_gradients(optimiser.parameters, group)
        found[f"grad_norm_{name}"] = optimiser.clip_gradients()
        optimiser.step()
    if step % _HEALTH == 0:
        found |= {name: torch.tensor(value, device=z.device) for name, value in health(learner.model, z).items()}
    return found


def _reconstruction(decoder: Decoder, z: Tensor, frames: Tensor, seed: int, decoded: int) -> Tensor:
    """Mean squared error of decoded pictures on some frames of the batch; z is detached inside the decoder."""
    count = z.shape[0] * z.shape[1]
    chosen = torch.from_numpy(np.random.default_rng(seed).permutation(count)[:decoded]).to(z.device)
    picture = decoder(z.flatten(0, 1)[chosen][None])[0]
    return F.mse_loss(picture.float(), frames.flatten(0, 1)[chosen].float() / 255)


# --- before and around the loop ------------------------------------------------------------------------------------


def _look(run: Run, folder: Path, datasets: Path, held: ExitStack, group: Group) -> tuple[bool, Path | None]:
    """Is the run finished, and if not, from which checkpoint does it go on? Refuses a folder that holds something else.

    held: takes the run's lock, for as long as it trains. Of several processes the first holds it for all.
    """
    if shorter(run, folder) is not None:
        held.enter_context(artifact.locked(folder))
        if (there := shorter(run, folder)) is not None:  # somebody may have gone on with it since we looked
            lengthen(run, there, folder, datasets, _provenance(group))
    run_folder.check(folder, run, digests_there(run, datasets))
    if not (folder / run_folder.MODEL).is_file():
        held.enter_context(artifact.locked(folder))
        run_folder.check(folder, run, {})  # somebody may have begun, or even ended, since we looked
    if (folder / run_folder.MODEL).is_file():
        return True, None
    checkpoint.remove_leftovers(folder)
    return False, checkpoint.newest(folder)


def _updates_per_epoch(run: Run, data: Data, group: Group) -> int:
    stretches = sum(stretches_in(run, found.train.episodes, found.train.frames) for found in data.datasets)
    count, ranks = updates_per_epoch(run, stretches), distributed.world_size(group)
    batch = run.train.batch
    if count == 0:
        raise InputError(f"a batch of {batch} stretches must fit into the {stretches} there are")
    if batch % ranks:
        fits = max(ranks, batch - batch % ranks)
        raise InputError(f"{ranks} processes cannot share a batch of {batch} stretches; add --set train.batch={fits}")
    return count


def _provenance(group: Group) -> dict[str, Any]:
    return artifact.provenance() | {"threads": torch.get_num_threads(), "processes": distributed.world_size(group)}


def _about(run: Run, model: WorldModel, data: Data, folder: Path, group: Group) -> RunRecord:
    """What run.json says, and in every checkpoint of the process that wrote it."""
    frozen = model.frozen_encoder
    if run.train.trains == "predictor" and frozen is None:
        frozen = f"encoder of {run.init}"
    continued = run_folder.about(folder).continued if (folder / run_folder.CONFIG).is_file() else ()
    return RunRecord(
        config=config.to_dict(run),
        data=data.digests,
        provenance=_provenance(group),
        worlds=tuple(data.worlds),
        frozen_encoder=frozen,
        laws=data.datasets[0].train.laws,
        env=options(data.datasets[0].settings),
        recorded={
            one.settings.world: config.to_dict(one.settings.recorded) for one in data.datasets if one.settings.recorded
        },
        continued=continued,
    )


def _log(run: Run, folder: Path, state: State, total: int, about: RunRecord, active: bool) -> TrainingLog:
    named = {"frozen_encoder": about.frozen_encoder} if about.frozen_encoder else {}
    return TrainingLog(
        folder,
        run.name,
        step=state.step,
        total=total,
        frames=run.train.batch * run.train.frames,
        seconds=state.seconds,
        constant=named,
        active=active,
    )
