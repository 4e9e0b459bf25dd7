"""The base class of every world: one Gymnasium environment for data and for control.

frame 0 --control[0]--> frame 1 --control[1]--> frame 2 ... frame 63
control[t] acts between frame t and frame t + 1; the law holds for the whole episode.
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np

from sgjepa import laws
from sgjepa.core.errors import InputError, one_line, unknown
from sgjepa.envs.render.opengl import load_mujoco
from sgjepa.envs.spec import EnvSpec


class Env(gymnasium.Env[np.ndarray, np.ndarray]):
    """A world whose laws can be changed. The observation is the RGB frame; info holds the named state, law and physics.

    A world defines `env_spec` and the abstract methods below; this class owns the Gymnasium protocol and the checks.
    `spec` is Gymnasium's own, the arguments of `gymnasium.make`.

    law: holds in every episode whose reset names none; laws that it leaves out are those of `EnvSpec.nominal_law`.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 16}  # noqa: RUF012  # as Gymnasium declares it
    env_spec: ClassVar[EnvSpec]
    model: Any  # mujoco.MjModel, to which laws are applied
    _painter: (
        Any  # draws the model with OpenGL and has a close(), from the first frame on; None in worlds that need no OpenGL
    )

    def __init__(
        self,
        image_size: int | None = None,
        render_mode: str | None = None,
        terminate_on_success: bool = False,
        law: Mapping[str, float] | None = None,
    ):
        try:
            self.image_size = self.env_spec.image_size if image_size is None else operator.index(image_size)
        except TypeError:
            self.image_size = 0
        if not 8 <= self.image_size <= 4096:
            raise InputError(f"image_size must be a whole number from 8 to 4096, got {image_size!r}")
        self.metadata = {**self.metadata, "render_fps": self.env_spec.fps}
        if render_mode not in (None, "rgb_array"):
            raise unknown("render_mode", render_mode, ["rgb_array"])
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(0, 255, (self.image_size, self.image_size, 3), np.uint8)
        self._limit = np.broadcast_to(np.asarray(self.env_spec.control_limit, float), len(self.env_spec.control))
        self.action_space = gymnasium.spaces.Box(np.float32(-self._limit), np.float32(self._limit), dtype=np.float32)
        self.terminate_on_success = terminate_on_success
        self.default_law = {**self.env_spec.nominal_law, **laws.check({} if law is None else law)}
        self.env_spec.check_laws(self.default_law)
        self.law: dict[str, float] = {}
        self.plan = ""
        self.goal: dict[str, float] = {}  # the quantities that `env_spec.goal` names, as they should become
        self.t = -1  # frame number; -1 until the first reset has succeeded
        self._rewarded = False  # whether a step of this episode has ended in success
        self._painter = None
        load_mujoco()  # also for worlds that import it themselves: its own Renderer then draws without a screen
        self._build()

    # --- methods of a world ---------------------------------------------------------------------------------------

    @abstractmethod
    def _build(self) -> None:
        """Make `self.model` and all that depends on it, with no law applied."""

    @abstractmethod
    def _launch(self, rng: np.random.Generator) -> None:
        """Draw the initial condition of an episode, under the law already in `self.model`."""

    @abstractmethod
    def _set_state(self, state: Mapping[str, float]) -> None:
        """Overwrite the named quantities of the present state."""

    @abstractmethod
    def _advance(self, control: np.ndarray) -> None:
        """Simulate one frame interval under the control, (A,) float64."""

    @abstractmethod
    def _frame(self) -> np.ndarray:
        """The picture of exactly the present state, (H, W, 3) uint8."""

    @abstractmethod
    def state(self) -> np.ndarray:
        """The present state in the order of `env_spec.state`, (S,) float64."""

    @abstractmethod
    def phys(self) -> np.ndarray:
        """The episode's physics vector in the order of `env_spec.phys`, (P,) float64."""

    @abstractmethod
    def expert(self) -> np.ndarray:
        """The scripted expert's control for this step, (A,) float32."""

    def _draw_goal(self, rng: np.random.Generator) -> dict[str, float]:
        """A goal for an episode just launched, by the names of `env_spec.goal`; empty in a world without goals."""
        return {}

    def success(self) -> bool:
        """Whether the task is achieved so far (in worlds with a goal: in the present state); False without a task."""
        return False

    def measures(self) -> dict[str, float]:
        """The values of `env_spec.measures` for the episode so far."""
        return {}

    def decided(self) -> bool:
        """Whether measures and outcome can no longer change."""
        return False

    def records(self) -> dict[str, np.ndarray]:
        """The vectors of `env_spec.records` at the present frame, (R,) float64 each."""
        return {}

    def state_observation(self) -> np.ndarray:
        """The present frame without a picture, in the order of `env_spec.state_observation`, (S,) float32."""
        records = self.records()
        return np.concatenate([self.state(), *(records[name] for name in self.env_spec.observed_records)]).astype(np.float32)

    def labels(self) -> dict[str, str]:
        """The words of `env_spec.labels` for the episode so far; datasets keep those of the last frame."""
        return {}

    def outline(self, state: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """The outline of the object in the picture, for states by name, (...) each -> closed curves (..., K, 2).

        In picture widths from the top left corner; NaN for points that the camera cannot see, None without outlines.
        """
        return None

    # --- the Gymnasium protocol ---------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode. options: {"law": {"gravity": 4.0}, "state": {"x": 0.0, "vz": -2.0}}, both optional.

        Worlds with `expert_plans` also take {"plan": "success"}, the aim of launch and expert. Worlds with a `goal` take
        {"goal": {"x": 0.4, "y": 0.1, "z": 0.02}}, a value for each name of `env_spec.goal`. Else the seed decides.

        A reset with a seed begins anew: the episode is a function of the seed and the options, and without a law among them
        `default_law` holds. A reset without a seed continues the random numbers and keeps the law: the last one set holds
        until another is set, also through the automatic resets of vector environments. A law is completed from
        `default_law`, so {"law": {}} goes back to it. State, plan and goal are for one episode.
        """
        self.begin(seed, options)
        return self._frame(), self._info()

    def begin(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Reset without rendering."""
        options = options or {}
        known = [
            "law",
            "state",
            *(["plan"] if self.env_spec.expert_plans else []),
            *(["goal"] if self.env_spec.goal else []),
        ]
        for key in options:
            if key not in known:
                raise unknown("reset option", key, known)
        if "plan" in options and options["plan"] not in self.env_spec.expert_plans:
            raise unknown("plan", options["plan"], dict.fromkeys(self.env_spec.expert_plans))
        goes_on = seed is None and "law" not in options
        law = dict(self.law or self.default_law) if goes_on else {**self.default_law, **laws.check(options.get("law", {}))}
        self.env_spec.check_laws(law)
        state = self._check_state(options.get("state", {}))
        goal = self._check_goal(options["goal"]) if "goal" in options else None
        super().reset(seed=seed)
        if self.law and law.keys() != self.law.keys():  # a law that no longer holds must leave no trace
            self.close()
            self._build()
        self._apply_law(law)
        self.law, self.t, self._rewarded = law, -1, False
        if self.env_spec.expert_plans:
            plans = self.env_spec.expert_plans
            drawn = plans[self.np_random.integers(len(plans))]  # also when not used: a seed is a launch
            self.plan = options.get("plan", drawn)
        self._launch(self.np_random)
        drawn_goal = self._draw_goal(self.np_random)  # also when not used
        self.goal = drawn_goal if goal is None else goal
        if state:
            self._set_state(state)
        self.t = 0

    def _apply_law(self, law: Mapping[str, float]) -> None:
        """Set the law in the model."""
        for name, value in law.items():
            laws.LAWS[name].apply(self.model, value)

    def put(self, state: Mapping[str, float]) -> None:
        """Overwrite the named quantities of the present state; the frame number stays."""
        self._require_reset("put")
        self._set_state(self._check_state(state))

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advance one frame under `action`, the world's control. The reward is 1 for the first step that ends in success."""
        reward, terminated, truncated = self.advance(action)
        return self._frame(), reward, terminated, truncated, self._info()

    def advance(self, action: np.ndarray) -> tuple[float, bool, bool]:
        """Step without rendering: reward, terminated, truncated."""
        self._require_reset("step")
        if self.t >= self.env_spec.frames - 1 or (self.terminate_on_success and self._rewarded):
            raise InputError(f"{self.env_spec.name}: the episode ended at frame {self.t}; call reset to start another")
        self._advance(self._check_control(action))
        self.t += 1
        first = self.success() and not self._rewarded
        self._rewarded |= first
        return float(first), first and self.terminate_on_success, self.t == self.env_spec.frames - 1

    def picture_of(self, other: Env) -> np.ndarray:
        """The present frame of another environment of this world and size, (H, W, 3) uint8.

        Worlds that draw with OpenGL use the painter of this environment: many episodes side by side share one context.
        """
        return other._frame()

    def _require_reset(self, call: str) -> None:
        if self.t < 0:
            raise InputError(f"{self.env_spec.name}: call reset before {call}")

    def render(self) -> np.ndarray | None:
        return self._frame() if self.render_mode == "rgb_array" and self.t >= 0 else None

    def close(self) -> None:
        """Free the OpenGL context; the next frame makes another."""
        if self._painter is not None:
            self._painter.close()
            self._painter = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_painter": None}  # an OpenGL context cannot be copied; the copy makes its own

    def _info(self) -> dict[str, Any]:
        names = (q.name for q in self.env_spec.state)
        return {
            "state": dict(zip(names, self.state().tolist(), strict=True)),
            "law": dict(self.law),
            **({"goal": dict(self.goal)} if self.goal else {}),
            "phys": dict(zip((q.name for q in self.env_spec.phys), self.phys().tolist(), strict=True)),
            "success": self.success(),
            "records": self.records(),
            "labels": self.labels(),
        }

    def _check_control(self, control: np.ndarray) -> np.ndarray:
        names = ", ".join(q.name for q in self.env_spec.control) or "no channels"
        try:
            array = np.asarray(control)
        except (TypeError, ValueError):  # rows of different lengths
            array = np.array(None)
        if array.dtype.kind not in "iuf":
            raise InputError(f"control must be numbers ({names}), got {one_line(repr(control), 60)}")
        array = array.astype(np.float64)
        if array.shape != self.action_space.shape:
            raise InputError(f"control must have the shape {self.action_space.shape} ({names}), got {array.shape}")
        if not np.isfinite(array).all():
            raise InputError(f"control ({names}) must be finite, got {array.tolist()}")
        if (np.abs(array) > self._limit * (1 + 1e-6)).any():  # float32 rounding of the limit itself is no error
            shared = np.ndim(self.env_spec.control_limit) == 0
            limits = ", ".join(f"{limit:g}" for limit in (self._limit[:1] if shared else self._limit))
            raise InputError(f"control ({names}) must lie within ±{limits}, got {array.tolist()}")
        return array

    def _check_fixed(self, state: Mapping[str, float], fixed: Mapping[str, float]) -> None:
        """Refuse a state in which a constant of the world has another value."""
        for name, value in fixed.items():
            if not math.isclose(state.get(name, value), value, abs_tol=1e-6):
                raise InputError(f"state '{name}' is fixed at {value:g} in {self.env_spec.name}, got {state[name]:g}")

    def _check_state(self, state: Mapping[str, Any]) -> dict[str, float]:
        return _named_numbers("state", state, [q.name for q in self.env_spec.state])

    def _check_goal(self, goal: Mapping[str, Any]) -> dict[str, float]:
        values = _named_numbers("goal", goal, self.env_spec.goal)
        if missing := [name for name in self.env_spec.goal if name not in values]:
            raise InputError(
                f"a goal of {self.env_spec.name} needs {', '.join(self.env_spec.goal)}; {', '.join(missing)} missing"
            )
        return {name: values[name] for name in self.env_spec.goal}


def _named_numbers(kind: str, values: Any, names: Sequence[str]) -> dict[str, float]:
    """Finite numbers, checked to have known names. kind: their name in errors"""
    if not isinstance(values, Mapping):
        raise InputError(f"{kind} must be a dict of named quantities ({', '.join(names)}), got {one_line(repr(values), 60)}")
    for name, value in values.items():
        if name not in names:
            raise unknown(f"{kind} quantity", name, names)
        if not math.isfinite(laws.number(value)):
            raise InputError(f"{kind} '{name}' must be a finite number, got {value!r}")
    return {name: float(value) for name, value in values.items()}
