"""A recipe's model in outline: its parameters by group and its layers.

Parameters are counted on torch's meta device, where tensors have shapes and no memory.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import torch
from torch import nn

from sgjepa.core.errors import InputError
from sgjepa.models.base import WorldModel
from sgjepa.models.encoders.frozen import Foreign
from sgjepa.training.flops import flop_counter
from sgjepa.training.run import Run

_GROUPS = {  # submodules of the models we have; those of others count as "other"
    "encoder": "encoder",
    "projector": "projector",
    "condition_encoder": "action encoder",
    "embed": "action encoder",
    "predictor": "predictor",
    "pred_proj": "prediction head",
}


def outline(run: Run, device: str = "meta") -> WorldModel:
    """The model as it would be trained; a frozen encoder without its weights."""
    with torch.device(device):
        return run.model.outline()


def parameters(model: nn.Module) -> dict[str, int]:
    """Trained parameters by group, and their total."""
    counts = dict.fromkeys([*_GROUPS.values(), "other"], 0)
    for name, parameter in model.named_parameters():
        counts[_GROUPS.get(name.split(".")[0], "other")] += parameter.numel()
    return {**counts, "total": sum(counts.values())}


def frozen(encoder: Foreign) -> dict[str, Any]:
    """A foreign encoder's size and the FLOPs of a frame, if its weights are on this machine."""
    try:
        net = encoder.build()
    except InputError as error:
        return {"name": type(encoder).__name__, "parameters": None, "flops_per_frame": None, "missing": str(error)}
    with flop_counter() as counter:
        net(torch.zeros(1, net.image_size, net.image_size, 3, dtype=torch.uint8))
    count = sum(p.numel() for p in net.parameters())
    return {"name": net.name, "parameters": count, "flops_per_frame": counter.get_total_flops(), "missing": None}


def layers(model: nn.Module, shapes: dict[str, tuple[int, ...]]) -> list[dict[str, Any]]:
    """One row per layer or free tensor, repeated ones as one row; the counts add up to the total."""
    rows: list[dict[str, Any]] = []

    def walk(module: nn.Module, name: str, deep: bool) -> None:
        for key, tensor in module.named_parameters(recurse=False):
            rows.append(_row(f"{name}.{key}", "Parameter", list(tensor.shape), tensor.numel()))
        for key, child in module.named_children():
            place = f"{name}.{key}" if name else key
            count = sum(p.numel() for p in child.parameters())
            if isinstance(child, nn.ModuleList | nn.Sequential) or (not deep and next(child.children(), None) is not None):
                walk(child, place, deep=True)
            elif count:
                rows.append(_row(place, type(child).__name__, list(shapes[place]), count))

    walk(model, "", deep=False)
    merged = []
    for _, same in groupby(rows, key=lambda row: (row["kind"], row["shape"], row["parameters"], _stem(row["name"]))):
        first, *more = same
        merged.append({**first, "repeats": 1 + len(more)})
    return merged


def _row(name: str, kind: str, shape: list[int], count: int) -> dict[str, Any]:
    return {"name": name, "kind": kind, "shape": shape, "parameters": count}


def _stem(name: str) -> str:
    return name.rstrip("0123456789")
