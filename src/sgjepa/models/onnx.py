"""A world model as ONNX files, one for each of `encode`, `condition` and `predict`, to run without torch.

Batches of any size go in. Frames and conditions may be of any number of steps; windows of `predict` have the length that
was exported, for a recurrent predictor is written out step by step. A rollout feeds the last answer of `predict` back in,
as models/rollout.py does.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim

from sgjepa.core import files
from sgjepa.core.errors import InputError
from sgjepa.models.base import WorldModel

_NEEDED = ("onnx", "onnxscript")


class Method(nn.Module):
    """One method of a model as a module of its own: exporters start at `forward`."""

    def __init__(self, model: WorldModel, name: str):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, *inputs: Tensor) -> Tensor:
        answer: Tensor = getattr(self.model, self.name)(*inputs)
        return answer


@torch.no_grad()
def export(model: WorldModel, folder: Path, history: int, image_size: int | None = None) -> dict[str, Path]:
    """Write `folder/{encode,condition,predict}.onnx`; returns the files by method.

    model: in eval mode. history: frames of a window of `predict`. image_size: for a model that takes any.
    """
    if absent := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise InputError(f"export needs {' and '.join(absent)}: pip install {' '.join(absent)}")
    if model.training:
        raise InputError("a model is exported in eval mode: call model.eval() first")
    size = model.image_size or image_size
    if size is None:
        raise InputError("this model takes pictures of any size: say which with image_size")
    device = next(model.parameters()).device
    batch, time = Dim("batch"), Dim("time")
    # any values will do, but not one row, frame or step: sizes of one are taken for constants
    frames = torch.zeros(2, 3, size, size, 3, dtype=torch.uint8, device=device)
    control, law = torch.zeros(2, 3, model.controls, device=device), torch.zeros(2, model.laws, device=device)
    width = model.condition(control, law).shape[2]
    z = torch.zeros(2, history, *model.latent_shape, device=device)
    c = torch.zeros(2, history, width, device=device)
    both, rows = {0: batch, 1: time}, {0: batch}
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "encode": _write(folder, model, "encode", {"frames": frames}, [both], "z"),
        "condition": _write(folder, model, "condition", {"control": control, "law": law}, [both, rows], "c"),
        "predict": _write(folder, model, "predict", {"z": z, "c": c}, [rows, rows], "z_next"),
    }


def _write(
    folder: Path, model: WorldModel, method: str, inputs: dict[str, Tensor], free: list[dict[int, Dim]], output: str
) -> Path:
    """Export one method. free: the axes of each input that may have any size."""
    # exported here, not by torch.onnx: that one falls back to fixed sizes where free ones fail
    program = torch.export.export(Method(model, method), tuple(inputs.values()), dynamic_shapes=(tuple(free),), strict=False)
    written = torch.onnx.export(program, dynamo=True, verbose=False, input_names=list(inputs), output_names=[output])
    assert written is not None
    path = folder / f"{method}.onnx"
    files.write_bytes(path, written.model_proto.SerializeToString())
    return path
