"""Train a world model. The loop is `train`, read from top to bottom.

Everything random is a function of the run's seed and the step: the order of the data, the windows drawn from a stretch,
SIGReg's directions, dropout. So a checkpoint needs no generator states, and a killed run goes on bitwise as if it had not
been (on a CPU with the same number of threads).
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sgjepa.core import config, files, lock, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.records import RunRecord
from sgjepa.data.config import options
from sgjepa.models.base import WorldModel
from sgjepa.models.decoder import Decoder
from sgjepa.training import checkpoint, longer, losses, parallel
from sgjepa.training.batches import Tensors, batches, encode, windows_of
from sgjepa.training.budget import stretches_in, updates_per_epoch
from sgjepa.training.checkpoint import State
from sgjepa.training.data import Data, digests_there, open_data, read_stretches
from sgjepa.training.interrupt import at_the_end_of_an_update
from sgjepa.training.latents import check_fits
from sgjepa.training.learner import Learner, optimisers_of, set_rates, start, training_mode
from sgjepa.training.log import TrainingLog
from sgjepa.training.optim import Hybrid
from sgjepa.training.parallel import Group
from sgjepa.training.run import Run
from sgjepa.training.seeds import DECODING, DIRECTIONS, DROPOUT, mix
from sgjepa.training.validation import calibrate, health, over_ranks, validate

_HEALTH = 10  # steps between looks at the latents' spectrum
_SETTLED = {"cpu": 1, "cuda": _HEALTH}  # steps between looks at the loss: each look waits for the device


def train(run: Run, folder: Path, datasets: Path) -> Path:
    """Train the run in `folder`, or go on with it, or do nothing if it is finished. Returns `folder`.

    A finished run that was shorter, and else the same, goes on to this one's length (training/longer.py).
    datasets: where the run's datasets lie. Of several processes, the first decides and writes.
    """
    group = parallel.start()
    with ExitStack() as held:
        finished, begun = parallel.decided_by_first(lambda: _look(run, folder, datasets, held, group), group)
        if not finished:
            _train(run, folder, datasets, begun, group)
    parallel.wait_for_all(group)
    return folder


def _train(run: Run, folder: Path, datasets: Path, begun: Path | None, group: Group) -> None:
    """Everything, from the first update or from the checkpoint `begun` on."""
    first = parallel.rank(group) == 0
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    learner = start(run).to(device)
    parallel.share_batchnorm(learner, group)
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
            torch.manual_seed(mix(run.seed, step, DROPOUT, parallel.rank(group)))
            set_rates(run, optimisers, step, total)
            log.step(step + 1, _update(run, learner, optimisers, batch, step, group), batch.episode)
            state = replace(state, step=step + 1)
            stops = parallel.anyone(stop.asked, group)
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
        parallel.average_gradients(optimiser.parameters, group)
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
    if longer.shorter(run, folder) is not None:
        held.enter_context(lock.alone(folder))
        if (there := longer.shorter(run, folder)) is not None:  # somebody may have gone on with it since we looked
            longer.lengthen(run, there, folder, datasets, _provenance(group))
    run_folder.check(folder, run, digests_there(run, datasets))
    if not (folder / run_folder.MODEL).is_file():
        held.enter_context(lock.alone(folder))
        run_folder.check(folder, run, {})  # somebody may have begun, or even ended, since we looked
    if (folder / run_folder.MODEL).is_file():
        return True, None
    checkpoint.remove_leftovers(folder)
    return False, checkpoint.newest(folder)


def _updates_per_epoch(run: Run, data: Data, group: Group) -> int:
    stretches = sum(stretches_in(run, found.train.episodes, found.train.frames) for found in data.datasets)
    count, ranks = updates_per_epoch(run, stretches), parallel.world_size(group)
    batch = run.train.batch
    if count == 0:
        raise InputError(f"a batch of {batch} stretches must fit into the {stretches} there are")
    if batch % ranks:
        fits = max(ranks, batch - batch % ranks)
        raise InputError(f"{ranks} processes cannot share a batch of {batch} stretches; add --set train.batch={fits}")
    return count


def _provenance(group: Group) -> dict[str, Any]:
    return files.provenance() | {"threads": torch.get_num_threads(), "processes": parallel.world_size(group)}


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
