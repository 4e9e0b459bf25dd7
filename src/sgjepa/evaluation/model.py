"""`Model`, the trained model that `sgjepa.load` returns, and `Forecast`, its predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sgjepa import laws
from sgjepa.core import run_folder
from sgjepa.core.errors import InputError, need_matplotlib, one_line, unknown
from sgjepa.core.methods import label_of
from sgjepa.data.config import env_spec_of
from sgjepa.data.episode import Episode
from sgjepa.data.probe_targets import Targets
from sgjepa.envs.spec import EnvSpec
from sgjepa.evaluation import forecast, metrics
from sgjepa.evaluation.decoded_strips import load_decoder
from sgjepa.evaluation.probes import Fitted, probe_if_fitted
from sgjepa.laws import coordinates_moved_by
from sgjepa.models.base import WorldModel
from sgjepa.models.decoder import Decoder
from sgjepa.models.rollout import rollout
from sgjepa.training import checkpoint
from sgjepa.training.config import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTEXT = 20  # true frames of the paper's models
STEPS = 44  # predictions where no episode sets a length


@dataclass(frozen=True)
class Forecast:
    """A model's prediction of the n steps after its last true frame, and its errors.

    context: the number of true frames before the prediction.
    law: the law that conditions the model, by name.
    latents: (context + n, ...), first those of the true frames.
    states: the probe's reading of the imagined latents, by name, (n,) each; empty without a probe.
    frames: imagined pictures (n, h, w, 3) uint8; None without a decoder.
    errors: by metric, (n,) each, such as "position_l2" in the world's unit of length; empty without a truth.
    truth: the true states by name, (n,) each; None if they are not known.
    frame_dt: seconds from one frame to the next.
    units: of states, by name.
    """

    context: int
    law: dict[str, float]
    latents: Tensor
    states: dict[str, np.ndarray]
    frames: np.ndarray | None
    errors: dict[str, np.ndarray]
    truth: dict[str, np.ndarray] | None
    frame_dt: float
    units: dict[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """n, the number of imagined steps."""
        return len(self.latents) - self.context

    @property
    def time(self) -> np.ndarray:
        """(n,) seconds after the last true frame."""
        return np.arange(1, self.steps + 1) * self.frame_dt

    def plot(self, *names: str, others: Mapping[str, Forecast] | None = None) -> Figure:
        """A matplotlib figure of states or errors over time, a panel each, with the truth where it is known.

        names: of states or metrics (default: the first three states).
        others: more forecasts of the same episode by label, drawn into the same panels.

            forecast.plot("z").savefig("height.png")
        """
        need_matplotlib()
        from sgjepa.core.plotting import forecasts

        drawn = names or tuple(name for name in self.states if not self.truth or name in self.truth)[:3]
        forecasts_by_label = {"forecast": self, **(others or {})}
        lines = {label: {**forecast.states, **forecast.errors} for label, forecast in forecasts_by_label.items()}
        for name in drawn:
            for label, quantities in lines.items():
                if name not in quantities:
                    raise unknown(f"quantity of {label}", name, quantities)
        units = {**{name: metric.unit for name, metric in metrics.METRICS.items()}, **self.units}
        return forecasts(drawn, [units.get(name, "") for name in drawn], self.time, self.truth, lines)

    def __repr__(self) -> str:
        law = ", ".join(f"{name} = {value:g}" for name, value in self.law.items()) or "no law"
        errors = ", ".join(f"{name} {float(np.mean(values)):.3g}" for name, values in self.errors.items())
        return f"Forecast of {self.steps} steps from {self.context} frames, given {law}" + (
            f"; mean {errors}" if errors else ""
        )


@dataclass(frozen=True)
class Model:
    """A trained world model.

    name: the name of its folder.
    folder: the folder that it was read from.
    run: the settings that it was trained with.
    net: the torch module.
    env_spec: the specification of the world that it was trained in.
    laws: names of the laws that condition it, in order.
    probe: reads named states from its latents; None if none was fitted.
    decoder: draws its latents; None if none was trained.
    """

    name: str
    folder: Path
    run: Run
    net: WorldModel
    env_spec: EnvSpec
    laws: tuple[str, ...]
    probe: Fitted | None
    decoder: Decoder | None

    @property
    def label(self) -> str:
        """The paper's name of its method."""
        return label_of(self.run.name, self.env_spec.name, self.net.frozen_encoder)

    @property
    def history(self) -> int:
        """H, the number of frames that a prediction depends on."""
        return self.run.history

    @property
    def image_size(self) -> int | None:
        """Side of its pictures in pixels; None if it takes any size."""
        return self.net.image_size

    @property
    def device(self) -> torch.device:
        """The torch device of its weights."""
        return next(self.net.parameters()).device

    def to(self, device: str | torch.device) -> Model:
        """Move the model to a device such as "cuda", in place; returns the model."""
        try:
            for part in (self.net, self.decoder, None if self.probe is None else self.probe.probe):
                if part is not None:
                    part.to(device)
        except (RuntimeError, AssertionError) as error:  # raised by torch for a missing device
            raise InputError(f"{self.name} cannot compute on '{device}': {one_line(error, 120)}") from error
        return self

    @torch.inference_mode()
    def encode(self, frames: Any) -> Tensor:
        """Encode pictures to latents (T, ...) or (B, T, ...) on the model's device.

        frames: an episode, or (T, h, w, 3) or (B, T, h, w, 3) uint8, of `image_size` pixels.
        """
        pictures = torch.as_tensor(np.asarray(frames.frames if isinstance(frames, Episode) else frames), device=self.device)
        batched = pictures.ndim == 5
        size = self.image_size or (pictures.shape[-2] if pictures.ndim >= 4 else 0)
        if pictures.dtype != torch.uint8 or pictures.ndim not in (4, 5) or pictures.shape[-3:] != (size, size, 3):
            raise InputError(
                f"{self.name} takes pictures (T, {size}, {size}, 3) uint8, got {pictures.dtype} {tuple(pictures.shape)}"
                + (f"; make the environment with image_size={size}" if self.image_size else "")
            )
        z: Tensor = self.net.encode(pictures if batched else pictures[None])
        return z if batched else z[0]

    @torch.inference_mode()
    def read(self, z: Tensor) -> dict[str, np.ndarray]:
        """Read named states from latents with the probe.

        z: latents of T consecutive frames, (T, ...) or (B, T, ...).

        The probe reads a window of `model.probe.config.window` latents, so each state has T - window + 1 values, or
        (B, T - window + 1) for a batch: those of the frames window - 1 to T - 1.

            z = model.encode(episode.frames)
            print(model.read(z)["z"][-1], episode.states["z"][-1])  # metres
        """
        probe = self._needs_probe()
        batched = z.ndim == 2 + len(self.net.latent_shape)
        if (frames := z.shape[int(batched)]) < probe.config.window:
            raise InputError(f"the probe of {self.name} needs {probe.config.window} consecutive frames, got {frames}")
        y = probe.read(self.net.features(z if batched else z[None]))
        return probe.targets.to_state(y if batched else y[0])

    @torch.inference_mode()
    def decode(self, z: Tensor) -> np.ndarray:
        """Decode latents to pictures (T, h, w, 3) or (B, T, h, w, 3) uint8, for inspection.

        z: (T, D) or (B, T, D).
        """
        if self.decoder is None:
            raise InputError(f"{self.name} has no decoder: train with a decoder to see what it imagines")
        batched = z.ndim == 3
        frames = (self.decoder(z if batched else z[None]) * 255).round().to(torch.uint8).cpu().numpy()
        pictures: np.ndarray = frames if batched else frames[0]
        return pictures

    @torch.inference_mode()
    def imagine(
        self,
        seen: Episode | Any,
        controls: Any = None,
        law: Mapping[str, float] | None = None,
        context: int = CONTEXT,
        steps: int | None = None,
    ) -> Forecast:
        """Predict the future from the first true frames, with the model's own predictions fed back.

        seen: an episode, whose controls and law are the defaults and whose states are the truth; or pictures
            (T, h, w, 3) uint8, at least `context` of them.
        controls: (context + steps - 1, A) or longer, of every frame from the first on.
        law: the law that conditions the model, by name; it may differ from the true law.
        context: the number of true frames.
        steps: the number of predictions (default: to the end of an episode, and 44 after pictures).

            forecast = model.imagine(episode, law={"gravity": 4.0})  # it was 16
            print(forecast.states["z"].shape, forecast.errors["position_l2"].mean())
        """
        truth = seen if isinstance(seen, Episode) else None
        if truth is not None and truth.names and truth.names != tuple(quantity.name for quantity in self.env_spec.state):
            raise InputError(f"{self.name} was trained in {self.env_spec.name}, and the episode is of another world")
        frames = truth.frames if truth is not None else np.asarray(seen)
        shortest = max(self.history, self.probe.config.window if self.probe else 1)
        if not shortest <= context <= len(frames):
            raise InputError(f"context must be from {shortest} to {len(frames)} frames, got {context}")
        length = STEPS if steps is None and truth is None else len(frames) - context if steps is None else steps
        if length < 1:
            raise InputError(f"nothing is left to imagine: {len(frames)} frames, of which {context} are given")
        conditions = self._law(law, truth)
        control = self._controls(controls if controls is not None or truth is None else truth.control, context + length - 1)
        z = self.encode(frames[:context])[None]
        values = torch.tensor([[conditions[name] for name in self.laws]], dtype=torch.float32, device=self.device)
        c = self.net.condition(control[None], values)
        states: dict[str, np.ndarray] = {}
        errors: dict[str, np.ndarray] = {}
        true: dict[str, np.ndarray] | None = None
        if self.probe is None:
            rolled = rollout(self.net, z, c, length, self.history)
        else:
            y, rolled = forecast.imagine(self.net, self.probe, z, c, length, self.history)
            targets = self.probe.targets
            states = targets.to_state(y[0, 1:])
            errors, true = _compared(targets, self.probe.std, y[:, 1:], truth, context)
        return Forecast(
            context=context,
            law=conditions,
            latents=rolled[0],
            states=states,
            frames=None if self.decoder is None else self.decode(rolled[0, context:]),
            errors=errors,
            truth=true,
            frame_dt=1.0 / self.env_spec.fps,
            units={quantity.name: quantity.unit for quantity in self.env_spec.state},
        )

    def _law(self, law: Mapping[str, float] | None, truth: Episode | None) -> dict[str, float]:
        """The law that conditions the model: the caller's values, else those of the episode."""
        if law is not None and not isinstance(law, Mapping):
            raise InputError(f"law must be a dict such as {{'gravity': 4.0}}, got {one_line(repr(law), 60)}")
        known = {**(truth.law if truth is not None else {}), **(law or {})}
        for name in law or {}:
            if name not in self.laws:
                raise InputError(
                    f"{self.name} is not conditioned on the law '{name}', only on {', '.join(self.laws) or 'none'}"
                )
        if missing := [name for name in self.laws if name not in known]:
            raise InputError(f"{self.name} is conditioned on {', '.join(self.laws)}: give law={{'{missing[0]}': ...}}")
        checked = laws.check({name: value for name, value in known.items() if name in laws.LAWS})
        return {name: checked.get(name, float(known[name])) for name in self.laws}

    def _controls(self, controls: Any, length: int) -> Tensor:
        """Checked controls (T, A) float32, T >= length; A is 0 in a world without controls."""
        count = self.net.controls
        if controls is None and count:
            raise InputError(f"{self.env_spec.name} is driven: give the controls, ({length}, {count}) or longer")
        values = np.zeros((length, 0), np.float32) if controls is None else np.asarray(controls, np.float32)
        if values.ndim != 2 or values.shape[1] != count or len(values) < length:
            raise InputError(f"controls must be ({length}, {count}) or longer, got {values.shape}")
        return torch.from_numpy(np.array(values)).to(self.device)

    def _needs_probe(self) -> Fitted:
        if self.probe is None:
            raise InputError(
                f"{self.name} has no probe yet: `sgjepa evaluate --probe-only {self.folder}` fits one; then load it again"
            )
        return self.probe

    def __repr__(self) -> str:
        parts = [f"laws {', '.join(self.laws) or 'none'}", f"history {self.history}"]
        parts += ["probe"] * (self.probe is not None) + ["decoder"] * (self.decoder is not None)
        return f"Model {self.name} of {self.env_spec.name}: {', '.join(parts)}"


def _compared(
    targets: Targets, std: Sequence[float], y: np.ndarray, truth: Episode | None, context: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray] | None]:
    """Errors of probed states y (1, n, Y), and the true states; empty and None if the episode ends before them."""
    if truth is None or len(truth.state) < context + y.shape[1]:
        return {}, None
    ahead = targets.of(truth.state[None, context : context + y.shape[1]].astype(np.float64))
    moved = coordinates_moved_by(truth.law)
    errors = {name: error[0] for name, error in metrics.errors(metrics.Guess(targets, y, ahead, std, moved=moved)).items()}
    return errors, targets.to_state(ahead[0])


def load_model(folder: Path, name: str = "") -> Model:
    """Load the model of the finished run in a folder, read only."""
    run, net = checkpoint.load_run(folder)
    record = run_folder.about(folder)
    if not record.worlds:
        raise InputError(f"{folder} does not say which world it was trained in; train it again")
    spec = env_spec_of(record.worlds[0], record.recorded)
    return Model(
        name=name or folder.name,
        folder=folder,
        run=run,
        net=net,
        env_spec=spec,
        laws=laws_of(folder, record.laws, spec, net.laws),
        probe=probe_if_fitted(folder, net, spec),
        decoder=load_decoder(folder, run, net),
    )


def laws_of(folder: Path, recorded: tuple[str, ...], spec: EnvSpec, count: int) -> tuple[str, ...]:
    """The laws that condition a model; a run that records none has those of its world's default dataset."""
    default = tuple(spec.defaults.train) if spec.defaults else tuple(spec.nominal_law)
    for names in (recorded, default):
        if len(names) == count:
            return names
    raise InputError(f"{folder} is conditioned on {count} laws and does not name them; train it again")
