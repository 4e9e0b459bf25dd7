"""The modules that are trained and saved together, their initial weights and their optimisers."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from sgjepa.core.errors import InputError, one_line
from sgjepa.models.decoder import Decoder
from sgjepa.training import checkpoint
from sgjepa.training.config import WEIGHTS, Run, mix
from sgjepa.training.optim import Hybrid, OptimConfig

DECODER_OPTIM = OptimConfig(lr_matrix=5e-4, lr=1e-4)  # the paper's


class Learner(nn.Module):
    """The world model and, if the run has one, the picture decoder."""

    def __init__(self, run: Run):
        super().__init__()
        self.model = run.model.build()
        self.decoder: Decoder | None = None
        if run.train.decoder:
            self.decoder = self.model.build_decoder(run.train.decoder_width)


def start(run: Run) -> Learner:
    """The learner before its first update: random weights, or those of the run in `Run.init`."""
    torch.manual_seed(mix(run.seed, 0, WEIGHTS))
    learner = Learner(run)
    predictor_only = run.train.trains == "predictor"
    if run.init is None:
        if predictor_only:
            raise InputError("training the predictor alone needs a trained encoder: --init RUN")
        return learner
    _, other = checkpoint.load_run(Path(run.init))
    # only the encoder's; the rest stays fresh, and may be of another kind
    weights = other.encoder_state() if predictor_only else other.state_dict()
    if predictor_only and weights.keys() != learner.model.encoder_state().keys():
        raise InputError(f"the encoder in {run.init} is of another kind than this recipe's")
    try:
        learner.model.load_state_dict(weights, strict=not predictor_only)
    except RuntimeError as error:
        raise InputError(
            f"the model in {run.init} does not fit this recipe: {one_line(str(error).splitlines()[1], 160)}"
        ) from error
    return learner


def training_mode(run: Run, learner: Learner) -> None:
    """Set training mode; an encoder that is not trained stays in eval mode and has no gradient."""
    learner.train()
    if run.train.trains == "predictor":
        learner.model.freeze_encoder()


def optimisers_of(run: Run, learner: Learner) -> dict[str, Hybrid]:
    """The optimisers of the model and, if the run has one, of the decoder, over the trained parameters."""
    training_mode(run, learner)
    optimisers = {"model": Hybrid(learner.model, run.optim)}
    if learner.decoder is not None:
        optimisers["decoder"] = Hybrid(learner.decoder, DECODER_OPTIM)
    return optimisers
