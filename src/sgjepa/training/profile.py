"""The cost of a training: parameters, floating-point operations and seconds of a step, for `sgjepa describe`.

Operations are counted by torch's counter and, for the attention of CPUs, which it omits, by hand. A
product of (m, k) and (k, n) is 2 m k n. Recomputation in a backward pass is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from sgjepa.core import config
from sgjepa.core.errors import InputError
from sgjepa.data.config import DatasetConfig
from sgjepa.envs import get_env
from sgjepa.models.base import WorldModel
from sgjepa.models.encoders.frozen import Foreign
from sgjepa.training import losses
from sgjepa.training.config import Run
from sgjepa.training.data import Tensors, count_updates, encode, windows_of
from sgjepa.training.optim import Hybrid


def flop_counter() -> FlopCounterMode:
    """A context whose `get_total_flops()` is the number of operations that ran in it."""
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    return FlopCounterMode(display=False, custom_mapping={attention: _attention, backward: _attention_backward})


def _attention(q: Any, k: Any, v: Any, *_: Any, **__: Any) -> int:
    count: int = sdpa_flop_count(q, k, v)  # type: ignore[no-untyped-call]
    return count


def _attention_backward(_grad: Any, q: Any, k: Any, v: Any, *_: Any, **__: Any) -> int:
    return 2 * _attention(q, k, v)


_GROUPS = {  # submodules of the models we have; those of others count as "other"
    "encoder": "encoder",
    "projector": "projector",
    "condition_encoder": "action encoder",
    "embed": "action encoder",
    "predictor": "predictor",
    "pred_proj": "prediction head",
}


def outline(run: Run, device: str = "meta") -> WorldModel:
    """Build the run's model; a frozen encoder has no pretrained weights."""
    with torch.device(device):
        return run.model.outline()


def parameters(model: nn.Module) -> dict[str, int]:
    """Trained parameters by group, and their total."""
    counts = dict.fromkeys([*_GROUPS.values(), "other"], 0)
    for name, parameter in model.named_parameters():
        counts[_GROUPS.get(name.split(".")[0], "other")] += parameter.numel()
    return {**counts, "total": sum(counts.values())}


def frozen(encoder: Foreign) -> dict[str, Any]:
    """A pretrained encoder's size and the FLOPs of a frame, if its weights are on this machine."""
    try:
        net = encoder.build()
    except InputError as error:
        return {"name": type(encoder).__name__, "parameters": None, "flops_per_frame": None, "missing": str(error)}
    with flop_counter() as counter:
        net(torch.zeros(1, net.image_size, net.image_size, 3, dtype=torch.uint8))
    count = sum(p.numel() for p in net.parameters())
    return {"name": net.name, "parameters": count, "flops_per_frame": counter.get_total_flops(), "missing": None}


def layers(model: nn.Module, shapes: dict[str, tuple[int, ...]]) -> list[dict[str, Any]]:
    """One row per layer or free tensor, with repeated layers in one row; the counts add up to the total."""
    rows: list[dict[str, Any]] = []

    def walk(module: nn.Module, name: str, deep: bool) -> None:
        for key, tensor in module.named_parameters(recurse=False):
            rows.append(_row(f"{name}.{key}", "Parameter", list(tensor.shape), tensor.numel()))
        for key, child in module.named_children():
            path = f"{name}.{key}" if name else key
            count = sum(p.numel() for p in child.parameters())
            if isinstance(child, nn.ModuleList | nn.Sequential) or (not deep and next(child.children(), None) is not None):
                walk(child, path, deep=True)
            elif count:
                rows.append(_row(path, type(child).__name__, list(shapes[path]), count))

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


_TIMED = 3e11  # FLOPs of a timed step at most, if one stretch allows it: seconds on two cores
_PIXELS = 64  # picture size for a model that takes any


def steps(run: Run, shape: WorldModel) -> dict[str, Any]:
    """Count one step and time two on real tensors; the faster one is reported."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = outline(run, device).train()
    optimiser = Hybrid(model, run.optim)
    shapes: dict[str, tuple[int, ...]] = {}
    for name, module in model.named_modules():
        module.register_forward_hook(_note(shapes, name))
    _one_window(run, model, device)
    forward, counted = _counted(run, model, optimiser, device)
    count = max(1, min(run.train.batch, int(_TIMED / counted["forward_backward"])))
    work, update = min((_timed(run, model, optimiser, count, device) for _ in range(2)), key=sum)
    batch = run.train.batch
    flops = {
        "encode_per_frame": forward,
        "optimiser": counted["optimiser"],
        "step": counted["forward_backward"] * batch + counted["optimiser"],
    }
    seconds = {
        "device": device,
        "threads": torch.get_num_threads(),
        "stretches": count,
        "forward_backward": work,
        "optimiser": update,
        "seconds_per_step": work * batch / count + update,
    }
    flops["per_frame"] = flops["step"] / (batch * run.train.frames)
    return {"layers": layers(shape, shapes), "flops": flops, "time": seconds}


def _counted(run: Run, model: WorldModel, optimiser: Hybrid, device: str) -> tuple[float, dict[str, float]]:
    """FLOPs to encode a frame, and those of the two halves of a step on one stretch; also warms the libraries."""
    batch = _random_batch(run, model, 1, device)
    with flop_counter() as training:
        _forward_backward(run, model, batch)
    with flop_counter() as update:
        optimiser.step()
    with flop_counter() as encoding, torch.no_grad():
        encode(model, batch, None)
    parts = {"forward_backward": float(training.get_total_flops()), "optimiser": float(update.get_total_flops())}
    return encoding.get_total_flops() / run.train.frames, parts


@torch.no_grad()
def _one_window(run: Run, model: WorldModel, device: str) -> None:
    """Run every layer once to record its shapes; a rollout may run several windows through a part of a layer at once."""
    z, c = encode(model, _random_batch(run, model, 1, device), None)
    model.predict(z[:, : run.history], c[:, : run.history])


def _timed(run: Run, model: WorldModel, optimiser: Hybrid, count: int, device: str) -> tuple[float, float]:
    """Seconds of forward and backward on `count` stretches, and of the optimiser."""
    batch = _random_batch(run, model, count, device)
    optimiser.zero_grad()
    start = time.perf_counter()
    _forward_backward(run, model, batch)
    middle = time.perf_counter()
    float(optimiser.clip_gradients())  # waits for the device
    optimiser.step()
    return middle - start, time.perf_counter() - middle


def _forward_backward(run: Run, model: WorldModel, batch: Tensors) -> None:
    z, c = encode(model, batch, run.train.chunk)
    generator = torch.Generator(z.device).manual_seed(0)
    starts = windows_of(run, step=0)
    loss, _ = losses.compute(run.loss, model, z, c, generator, history=run.history, starts=starts)
    torch.autograd.backward(loss)


def _random_batch(run: Run, model: WorldModel, count: int, device: str) -> Tensors:
    """A random batch: frames as bytes, or latents for a frozen encoder, which training reads from a cache."""
    frames = run.train.frames
    if model.frozen_encoder is not None:
        content = torch.randn(count, frames, *model.latent_shape, device=device)
    else:
        size = model.image_size or _PIXELS
        content = torch.randint(0, 256, (count, frames, size, size, 3), dtype=torch.uint8, device=device)
    control = torch.randn(count, frames, run.model.controls, device=device)
    law = torch.randn(count, run.model.laws, device=device)
    return Tensors(content, control, law, np.arange(count))


def _note(shapes: dict[str, tuple[int, ...]], name: str) -> Any:
    def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            shapes.setdefault(name, tuple(output.shape))

    return hook


def describe(run: Run, datasets: Sequence[DatasetConfig] | None) -> dict[str, Any]:
    """All numbers of `sgjepa describe` as one JSON value. datasets: those of `run.data`; None if one has no recipe."""
    model = outline(run)
    measured = steps(run, model)
    foreign = None if run.model.foreign_encoder is None else frozen(run.model.foreign_encoder)
    data = None if datasets is None else _windows(run, datasets)
    if foreign is not None:
        measured["flops"]["encode_per_frame"] = foreign["flops_per_frame"]
    seconds = measured["time"]["seconds_per_step"]
    measured["time"]["hours"] = None if data is None else seconds * data["updates"] / 3600
    return {
        "recipe": run.name,
        "config": config.to_dict(run),
        "parameters": parameters(model),
        "frozen_encoder": foreign,
        "windows": data,
        **measured,
    }


def _windows(run: Run, datasets: Sequence[DatasetConfig]) -> dict[str, int]:
    """The numbers of stretches, windows and updates, from the datasets' settings."""
    updates = count_updates(run, [(data.train.episodes, get_env(data.world).env_spec.frames) for data in datasets])
    return {
        "stretches": updates.stretches,
        "stretches_per_epoch": updates.per_epoch * run.train.batch,
        "windows_per_epoch": updates.per_epoch * run.train.batch * _windows_per_stretch(run),
        "updates_per_epoch": updates.per_epoch,
        "updates": updates.total,
    }


def _windows_per_stretch(run: Run) -> int:
    if run.loss.windows == "clip":
        return 1
    drawn = windows_of(run, step=0)
    return len(drawn) if drawn is not None else run.train.frames - run.history - run.loss.steps + 1


def as_text(described: dict[str, Any]) -> str:
    """The report as text; every number in it is in `described`."""
    lines = [f"{described['recipe']}", *_config_lines(described["config"], "  "), "", "layers, for one stretch of frames"]
    for row in described["layers"]:
        times = f" x {row['repeats']}" if row["repeats"] > 1 else ""
        shape = ", ".join(map(str, row["shape"]))
        lines.append(f"  {row['name'] + times:38s} {row['kind']:20s} ({shape + ')':22s} {row['parameters']:>12,}")
    lines += ["", "parameters"]
    lines += [f"  {group:20s} {count:>12,}" for group, count in described["parameters"].items() if count]
    if frozen := described["frozen_encoder"]:
        if frozen["missing"] is None:
            lines.append(f"  not trained: {frozen['name']}, {frozen['parameters']:,}")
        else:
            lines.append(f"  not trained, and its weights are not here: {frozen['name']} ({frozen['missing']})")
    flops, took, data = described["flops"], described["time"], described["windows"]
    lines.append(
        f"\narithmetic  {_si(flops['encode_per_frame'])} per encoded frame, {_si(flops['step'])} per step "
        f"(optimiser {_si(flops['optimiser'])}), {_si(flops['per_frame'])} per trained frame"
    )
    if data is None:
        lines.append("per epoch   unknown: there is no dataset recipe for this world yet")
    else:
        lines.append(
            f"per epoch   {data['stretches_per_epoch']:,} of the {data['stretches']:,} stretches there are, "
            f"{data['windows_per_epoch']:,} windows, {data['updates_per_epoch']:,} updates; "
            f"{data['updates']:,} updates in all"
        )
    whole = "" if took["hours"] is None else f", {_duration(took['hours'])} for all updates, without reading and validation"
    lines.append(
        f"time        {took['seconds_per_step']:.3g} s per step{whole}\n"
        f"            (the better of two steps on {took['stretches']} of {described['config']['train']['batch']} stretches, "
        f"{took['device']}, {took['threads']} threads: {took['forward_backward']:.3g} s, "
        f"and {took['optimiser']:.3g} s for the optimiser)"
    )
    return "\n".join(lines)


def _config_lines(value: dict[str, Any], indent: str) -> list[str]:
    lines = []
    for key, item in value.items():
        if isinstance(item, dict):
            lines += [f"{indent}{key}: {item['type']}", *_config_lines(item, indent + "  ")]
        elif key != "type":
            lines.append(f"{indent}{key} = {item}")
    return lines


def _si(flops: float | None) -> str:
    if flops is None:
        return "unknown"
    factor, letter = next(pair for pair in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (0.0, "")) if flops >= pair[0])
    return f"{flops / (factor or 1):.3g} {letter}FLOP"


def _duration(hours: float) -> str:
    return f"{hours:.3g} h" if hours >= 1 else f"{hours * 60:.3g} min"
