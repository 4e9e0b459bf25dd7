"""The specification of a world: names and units of its records, its task, and its default datasets.

It depends on neither simulator nor model: datasets, results and reports read specifications without either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sgjepa.core.errors import InputError
from sgjepa.laws import ClippedNormal, Grid, Sampler, evenly


@dataclass(frozen=True)
class Quantity:
    """A named number in a record, with its unit."""

    name: str
    unit: str


@dataclass(frozen=True)
class Probed:
    """The names of the states that a probe reads: positions, as many velocities, and an angle with its rate."""

    position: tuple[str, ...]
    velocity: tuple[str, ...]
    angle: str = ""  # empty where nothing turns
    rate: str = ""
    symmetry: int = 1  # a turn by 1/symmetry looks the same


@dataclass(frozen=True)
class Measure:
    """A metric of a whole episode, counted from the events of the simulation.

    unit: "" for an event that happened (1) or did not (0), "1" for a count, else a unit; NaN where it is not defined.
    """

    name: str
    about: str
    unit: str = ""
    better: int = 1  # 1 if more is better, -1 if less is
    condition: str = ""  # another measure, an event: the share among the episodes with it is reported too


@dataclass(frozen=True)
class DatasetSize:
    """The size of a default dataset."""

    pixels: int  # of a picture's side
    train: int  # episodes
    test: int
    # frames that a probe sees: two of a flying ball tell its velocity, four also how a body turns; small pictures take more
    probe_window: int = 4


@dataclass(frozen=True)
class DatasetDefaults:
    """The default datasets of a world."""

    train: Mapping[str, Sampler]  # laws of the training episodes
    test: Mapping[str, Sampler]
    sizes: Mapping[str, DatasetSize]  # by name, the smallest first: mini, perhaps small, paper


@dataclass(frozen=True)
class EnvSpec:
    """Everything that is fixed about a world."""

    # names and units of its numbers
    name: str  # on the command line, and the dataset's task
    gym_id: str
    state: tuple[Quantity, ...]
    control: tuple[Quantity, ...]
    control_limit: float | tuple[float, ...]  # |control| stays within it: one for all channels, or one each
    phys: tuple[Quantity, ...]  # constants of an episode
    # the law
    nominal_law: Mapping[str, float]  # holds when neither constructor nor reset names a law
    laws: tuple[str, ...] = ()  # the only ones it takes; empty if it takes any
    # the task
    has_task: bool = False  # whether success() can become True
    measures: tuple[Measure, ...] = ()  # of the task, "success" first, then in the order of their weight
    goal: tuple[str, ...] = ()  # quantities of the state that make up a goal; empty where there is none to reach
    # two positions that the task is to bring together, by names of `state_observation`; empty in other tasks
    interception: tuple[tuple[str, ...], ...] = ()
    actions_per_frame: int = 1  # benchmarks act more often than they show: a control is that many actions in a row
    rest_control: tuple[float, ...] = ()  # under which a robot stays as it starts; zeros where it is empty
    # outcomes that the expert aims at, as often as listed; datasets go through them in turn
    expert_plans: tuple[str, ...] = ()
    success_plan: str = ""  # the plan under which the expert does its task; empty in worlds without plans
    outcome_label: str = ""  # the label that says how an episode ended; empty in worlds without a task
    # data
    probed: Probed | None = None  # None if it cannot be probed
    defaults: DatasetDefaults | None = None  # None if it has no recipes
    image_size: int = 128
    fps: float = 16
    frames: int = 64
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # constructor choices, the default first
    # more vectors per frame, a dataset column each: an arm's joints, contact flags (of the interval that ended here)
    records: Mapping[str, tuple[Quantity, ...]] = field(default_factory=dict)
    observed_records: tuple[str, ...] = ()  # records observed besides the state: the robot's own pose, or the goal
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # words for a whole episode, and all they can be

    @property
    def frame_dt(self) -> float:
        """Seconds from frame to frame."""
        return 1.0 / self.fps

    @property
    def state_observation(self) -> tuple[Quantity, ...]:
        """An observation without pictures: the state, then the robot's own pose or the goal."""
        return (*self.state, *(quantity for name in self.observed_records for quantity in self.records[name]))

    def check_laws(self, names: Iterable[str]) -> None:
        """Refuse a law that this world does not take."""
        for name in names:
            if self.laws and name not in self.laws:
                raise InputError(f"{self.name} does not take the law '{name}', only {', '.join(self.laws)}")


NARROW_GRAVITY: dict[str, Sampler] = {"gravity": ClippedNormal(mean=4.0, std=0.5, floor=0.1)}
EARTH_GRAVITY: dict[str, Sampler] = {"gravity": ClippedNormal(mean=9.8, std=2.0, floor=0.0)}
BODY_GRAVITIES = (0.62, 1.63, 3.72, 8.87)  # m/s^2: Pluto, Moon, Mars, Venus
PLANET_GRAVITIES: dict[str, Sampler] = {"gravity": Grid((*evenly(0.0, 20.0, 1.0).values, *BODY_GRAVITIES))}  # 25 values

# tuned on validation episodes, the same for every method (docs/log.md)
SMALL_PROBE_WINDOW = 10
# mini is a prefix of paper: the same episodes, fewer and smaller
SIZES_3D = {
    "mini": DatasetSize(pixels=64, train=1000, test=250, probe_window=SMALL_PROBE_WINDOW),
    "paper": DatasetSize(pixels=256, train=8000, test=1600),
}
# conventional benchmarks: 224 px as LeWM has them. The paper does not give its episodes; its 127,000 held-out clips would be
# 127 of each of 1,000, a tenth of LeWM's 10,000
BENCHMARK_SIZES = {
    "mini": DatasetSize(pixels=64, train=1000, test=250, probe_window=SMALL_PROBE_WINDOW),
    "paper": DatasetSize(pixels=224, train=9000, test=1000),
}
