"""Training of a world model in its run folder: preparation, updates, and the files of the finished run.

A finished training can be continued with more updates and otherwise equal settings: from its last checkpoint, with the
optimiser's momenta and the learning rates of the new length. The files of the shorter one stay, as a run of its own, in
`before/step-N` of the folder. The record notes the continuation, as such a run differs from an uninterrupted one.
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

from sgjepa.core import artifact, config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.provenance import provenance
from sgjepa.core.run_folder import Continued, RunRecord
from sgjepa.data.config import env_options
from sgjepa.data.windows import JointClips
from sgjepa.models.base import WorldModel
from sgjepa.models.decoder import Decoder
from sgjepa.training import checkpoint, distributed, losses
from sgjepa.training.checkpoint import State
from sgjepa.training.config import DECODING, DIRECTIONS, DROPOUT, Run, mix
from sgjepa.training.data import (
    Data,
    Tensors,
    Updates,
    count_updates,
    dataset_digests,
    encode,
    in_memory,
    move,
    open_data,
    read_stretches,
    stretches_of,
    total_updates,
    windows_of,
)
from sgjepa.training.distributed import Group
from sgjepa.training.latent_cache import check_fits
from sgjepa.training.learner import DECODER_OPTIM, Learner, optimisers_of, start, training_mode
from sgjepa.training.loop import Lengths, Trainable, run_loop
from sgjepa.training.optim import schedule
from sgjepa.training.validation import calibrate, health, over_ranks, validate

_HEALTH = 10  # updates between looks at the latents' spectrum


def train(run: Run, folder: Path, datasets: Path) -> Path:
    """Train the run in `folder`, resume it, or do nothing if it is finished. Returns `folder`.

    A finished run that is shorter, and otherwise the same, is continued to this one's length.
    datasets: the folder of the run's datasets. Of several processes, the first decides and writes.
    """
    group = distributed.start()
    with ExitStack() as held:
        finished, begun = distributed.decided_by_first(lambda: _look(run, folder, datasets, held, group), group)
        if not finished:
            _train(run, folder, datasets, begun, group)
    distributed.wait_for_all(group)
    return folder


def _train(run: Run, folder: Path, datasets: Path, begun: Path | None, group: Group) -> None:
    """Prepare the training, then run the loop from the first update or from the checkpoint `begun`."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    learner = start(run).to(device)
    distributed.share_batchnorm(learner, group)
    data = open_data(run, datasets, group)
    for dataset in data.datasets:
        check_fits(learner.model, dataset.train, run.name)
    if run.init is None:  # a pretrained model keeps its statistics
        learner.model.normalise(data.normalisers.control, data.normalisers.law)
    updates = _count_updates(run, data, group)
    about = _about(run, learner.model, data, folder, group)
    if distributed.rank(group) == 0:
        run_folder.create(folder, about)
    training, validation = read_stretches(run, data, learner.model, folder, group)
    trainable = WorldModelTraining(run, learner, training, validation, updates, about, device, group)
    run_loop(trainable, folder, about, begun, device, group)


class WorldModelTraining(Trainable):
    """A world model and, if the run wants one, its picture decoder."""

    def __init__(
        self,
        run: Run,
        learner: Learner,
        training: JointClips,
        validation: JointClips,
        updates: Updates,
        about: RunRecord,
        device: torch.device,
        group: Group,
    ):
        self.run, self.learner, self.about, self.device, self.group = run, learner, about, device, group
        self.training, self.validation = training, validation
        self.name, self.frames = run.name, run.train.batch * run.train.frames
        self.lengths = Lengths(
            updates.total, updates.per_epoch, save_every=run.train.save_every, patience=run.train.patience
        )
        self.modules, self.optimisers = learner, optimisers_of(run, learner)
        self.constant = {"frozen_encoder": about.frozen_encoder} if about.frozen_encoder else {}
        self.collapse_width = learner.model.collapse_width

    def batch(self, step: int) -> Tensors:
        indices = stretches_of(self.run, len(self.training), self.lengths.validate_every, step, self.group)
        return in_memory(self.training.batch(indices), self.device)

    def rates(self, step: int) -> dict[str, float]:
        configs = {"model": self.run.optim, "decoder": DECODER_OPTIM}
        return {name: schedule(step, self.lengths.total, configs[name]) for name in self.optimisers}

    def loss(self, batch: Tensors, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        run, learner = self.run, self.learner
        torch.manual_seed(mix(run.seed, step, DROPOUT, distributed.rank(self.group)))
        training_mode(run, learner)
        batch = move(batch, self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            z, c = encode(learner.model, batch, run.train.chunk)
            loss, terms = losses.compute(
                run.loss,
                learner.model,
                z,
                c,
                torch.Generator(z.device).manual_seed(mix(run.seed, step, DIRECTIONS)),
                history=run.history,
                starts=windows_of(run, step),
                group=self.group,
            )
            if learner.decoder is not None:
                seed, count = mix(run.seed, step, DECODING), run.train.decoder_frames
                reconstruction = _reconstruction(learner.decoder, z, batch.frames, seed, count)
                loss, terms = loss + reconstruction, {**terms, "reconstruction": reconstruction.detach()}
        terms = over_ranks(terms, self.group)
        if step % _HEALTH == 0:
            terms |= {name: torch.tensor(value, device=z.device) for name, value in health(learner.model, z).items()}
        return loss, terms

    def validate(self) -> dict[str, float]:
        calibrate(self.run, self.learner, self.training, self.device, self.group)
        return validate(self.run, self.learner, self.validation, self.device, self.group)

    def finish(self, folder: Path, state: State) -> None:
        decoder = {} if self.learner.decoder is None else {run_folder.DECODER: self.learner.decoder}
        checkpoint.finish(folder, self.about, {**decoder, run_folder.MODEL: self.learner.model})


def _reconstruction(decoder: Decoder, z: Tensor, frames: Tensor, seed: int, decoded: int) -> Tensor:
    """Mean squared error of decoded pictures on some frames of the batch; z is detached inside the decoder."""
    count = z.shape[0] * z.shape[1]
    indices = torch.from_numpy(np.random.default_rng(seed).permutation(count)[:decoded]).to(z.device)
    picture = decoder(z.flatten(0, 1)[indices][None])[0]
    return F.mse_loss(picture.float(), frames.flatten(0, 1)[indices].float() / 255)


# --- before the loop ------------------------------------------------------------------------------------------------


def _look(run: Run, folder: Path, datasets: Path, held: ExitStack, group: Group) -> tuple[bool, Path | None]:
    """Whether the run is finished, and the checkpoint from which it resumes. Refuses a folder that holds another run.

    held: takes the run's lock for the training. Of several processes the first holds it for all.
    """
    if _shorter(run, folder) is not None:
        held.enter_context(files.locked(folder))
        if (shorter := _shorter(run, folder)) is not None:  # another process may have continued it since the first look
            _lengthen(run, shorter, folder, datasets, _provenance(group))
    run_folder.check(folder, run, dataset_digests(run, datasets))
    if not (folder / run_folder.MODEL).is_file():
        held.enter_context(files.locked(folder))
        run_folder.check(folder, run, {})  # another process may have begun, or even finished it since
    if (folder / run_folder.MODEL).is_file():
        return True, None
    checkpoint.remove_leftovers(folder)
    return False, checkpoint.newest(folder)


def _count_updates(run: Run, data: Data, group: Group) -> Updates:
    """The updates of the run on its datasets; an InputError if there is none, or if a batch cannot be shared."""
    updates = count_updates(run, [(dataset.train.episodes, dataset.train.frames) for dataset in data.datasets])
    batch, ranks = run.train.batch, distributed.world_size(group)
    if updates.total == 0:
        raise InputError(f"a batch of {batch} stretches must fit into the {updates.stretches} there are")
    if batch % ranks:
        fits = max(ranks, batch - batch % ranks)
        raise InputError(f"{ranks} processes cannot share a batch of {batch} stretches; add --set train.batch={fits}")
    return updates


def _provenance(group: Group) -> dict[str, Any]:
    return provenance() | {"threads": torch.get_num_threads(), "processes": distributed.world_size(group)}


def _about(run: Run, model: WorldModel, data: Data, folder: Path, group: Group) -> RunRecord:
    """The record of the run; every checkpoint holds the record of the process that wrote it."""
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
        env=env_options(data.datasets[0].settings),
        recorded={
            settings.world: config.to_dict(settings.recorded)
            for settings in (dataset.settings for dataset in data.datasets)
            if settings.recorded
        },
        continued=continued,
    )


# --- a longer training of a finished run ----------------------------------------------------------------------------

_STAYS = (run_folder.CONFIG, run_folder.ROWS, "checkpoints", "tensorboard", run_folder.BEFORE)


def _shorter(run: Run, folder: Path) -> Run | None:
    """The run in the folder, if it differs from this one in its length only."""
    if not (folder / run_folder.CONFIG).is_file():
        return None
    try:
        held = checkpoint.read_config(folder)
    except InputError:  # a later check reports the reason
        return None
    as_long = replace(run.train, epochs=held.train.epochs, updates=held.train.updates)
    return held if held != run and held == replace(run, train=as_long) else None


def _lengthen(run: Run, held: Run, folder: Path, datasets: Path, provenance: dict[str, Any]) -> None:
    """Turn the finished training `held` into an unfinished one of the run's length, while holding the folder's lock.

    After a kill at any moment the same call completes it.
    """
    run_folder.check(folder, held, dataset_digests(run, datasets))
    done, wanted = total_updates(held, datasets), total_updates(run, datasets)
    if wanted <= done:
        raise InputError(
            f"{folder} holds a training of {done} updates, and {wanted} are asked for: it goes on to more, never back; "
            "choose another --out"
        )
    newest = checkpoint.newest(folder)
    step = 0 if newest is None else checkpoint.step_of(newest)
    earlier = folder / run_folder.BEFORE / f"step-{step:07d}"
    if not any((at / run_folder.MODEL).is_file() for at in (folder, earlier)):
        raise InputError(
            f"{folder} is not finished (step {step} of {done}); finish it with its own command, then ask for more"
        )
    if step < done:
        stopped = f"it stopped by itself at step {step} of {done}" if held.train.patience else "its last checkpoint is gone"
        raise InputError(f"{folder} cannot go on: {stopped}; start from its weights: --init {folder} and another --out")
    _set_aside(folder, earlier)
    about = run_folder.about(folder)
    legs = (*about.continued, Continued(step, held.train.epochs, held.train.updates))
    lengthened = replace(about, config=config.to_dict(run), continued=legs, files={}, provenance=provenance)
    artifact.write_record(folder, lengthened)


def _set_aside(folder: Path, earlier: Path) -> None:
    """Move the files of the finished model, with its weights last; the target is a run that can be evaluated."""
    earlier.mkdir(parents=True, exist_ok=True)
    for name in (run_folder.CONFIG, run_folder.ROWS):
        if (folder / name).is_file():
            files.write_bytes(earlier / name, (folder / name).read_bytes())
    made = [path for path in folder.iterdir() if path.name not in _STAYS and not path.name.startswith(".")]
    for path in sorted(made, key=lambda path: path.name == run_folder.MODEL):
        if (target := earlier / path.name).is_dir():  # finished and evaluated once more after a kill: the same results
            shutil.rmtree(target)
        path.replace(target)
