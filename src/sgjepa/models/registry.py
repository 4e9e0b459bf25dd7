"""Which world models and predictors there are, by the class names of their configs, as run.json has them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from sgjepa.core.registry import Registry
from sgjepa.models.base import Config, PredictorConfig

PREDICTORS: Registry[type[PredictorConfig]] = Registry(
    "predictor",
    {
        "GRU": "sgjepa.models.predictors.gru:GRU",
        "SSM": "sgjepa.models.predictors.ssm:SSM",
        "Transformer": "sgjepa.models.predictors.transformer:Transformer",
    },
)
MODELS: Registry[type[Config]] = Registry(
    "world model",
    {
        "JEPAConfig": "sgjepa.models.jepa:JEPAConfig",
        "DinoConfig": "sgjepa.models.dino:DinoConfig",
        "MeanPatchConfig": "sgjepa.models.mean_patch:MeanPatchConfig",
    },
)
# the types of fields that hold one of them
Predictor: TypeAlias = Annotated[PredictorConfig, PREDICTORS]
Model: TypeAlias = Annotated[Config, MODELS]
