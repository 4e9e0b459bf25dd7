"""What a recipe would train: its config, layers, parameters, arithmetic, and how long that takes on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sgjepa.core import config
from sgjepa.data.config import DatasetConfig
from sgjepa.envs import find
from sgjepa.training.batches import windows_of
from sgjepa.training.budget import stretches_in, updates_per_epoch
from sgjepa.training.outline import frozen, outline, parameters
from sgjepa.training.run import Run
from sgjepa.training.timing import steps


def describe(run: Run, datasets: Sequence[DatasetConfig] | None) -> dict[str, Any]:
    """Everything `sgjepa describe` shows, as one JSON value. datasets: those of `run.data`; None where one has no recipe."""
    model = outline(run)
    found = steps(run, model)
    foreign = None if run.model.foreign_encoder is None else frozen(run.model.foreign_encoder)
    data = None if datasets is None else _windows(run, datasets)
    if foreign is not None:
        found["flops"]["encode_per_frame"] = foreign["flops_per_frame"]
    seconds = found["time"]["seconds_per_step"]
    found["time"]["hours"] = None if data is None else seconds * data["updates"] / 3600
    return {
        "recipe": run.name,
        "config": config.to_dict(run),
        "parameters": parameters(model),
        "frozen_encoder": foreign,
        "windows": data,
        **found,
    }


def _windows(run: Run, datasets: Sequence[DatasetConfig]) -> dict[str, int]:
    """Stretches, windows and updates, by the datasets' configs."""
    stretches = sum(stretches_in(run, one.train.episodes, find(one.world).world.frames) for one in datasets)
    updates = updates_per_epoch(run, stretches)
    return {
        "stretches": stretches,
        "stretches_per_epoch": updates * run.train.batch,
        "windows_per_epoch": updates * run.train.batch * _windows_per_stretch(run),
        "updates_per_epoch": updates,
        "updates": updates * run.train.epochs,
    }


def _windows_per_stretch(run: Run) -> int:
    if run.loss.windows == "clip":
        return 1
    drawn = windows_of(run, step=0)
    return len(drawn) if drawn is not None else run.train.frames - run.history - run.loss.steps + 1


def as_text(found: dict[str, Any]) -> str:
    """The report; every number in it is in `found`."""
    lines = [f"{found['recipe']}", *_config_lines(found["config"], "  "), "", "layers, for one stretch of frames"]
    for row in found["layers"]:
        times = f" x {row['repeats']}" if row["repeats"] > 1 else ""
        shape = ", ".join(map(str, row["shape"]))
        lines.append(f"  {row['name'] + times:38s} {row['kind']:20s} ({shape + ')':22s} {row['parameters']:>12,}")
    lines += ["", "parameters"]
    lines += [f"  {group:20s} {count:>12,}" for group, count in found["parameters"].items() if count]
    if frozen := found["frozen_encoder"]:
        if frozen["missing"] is None:
            lines.append(f"  not trained: {frozen['name']}, {frozen['parameters']:,}")
        else:
            lines.append(f"  not trained, and its weights are not here: {frozen['name']} ({frozen['missing']})")
    flops, took, data = found["flops"], found["time"], found["windows"]
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
        f"            (the better of two steps on {took['stretches']} of {found['config']['train']['batch']} stretches, "
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
