"""The specification of a world: names and units of what it records, and the datasets that are usual."""

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
    """What a probe can read, by names of the state: positions, as many velocities, and an angle with its rate."""

    position: tuple[str, ...]
    velocity: tuple[str, ...]
    angle: str = ""  # empty where nothing turns
    rate: str = ""
    symmetry: int = 1  # a turn by 1/symmetry looks the same


@dataclass(frozen=True)
class Size:
    """How large a dataset is: pixels of a picture's side, episodes of its splits. window: frames that a probe of it sees."""

    pixels: int
    train: int
    test: int
    window: int = 4  # two of a flying ball tell its velocity, four also how a body turns; small pictures take more


@dataclass(frozen=True)
class Measure:
    """What a task counts of a whole episode, by the events of the simulation.

    unit: "" for what happened (1) or not (0), "1" for a count, else a unit; what there is none of is not-a-number.
    """

    name: str
    about: str
    unit: str = ""
    better: int = 1  # 1 if more is better, -1 if less is
    given: str = ""  # another one, an event: the share among the episodes in which that happened tells something too


@dataclass(frozen=True)
class Usual:
    """The usual dataset of a world: what recipes are made from."""

    train: Mapping[str, Sampler]  # laws of the training episodes
    test: Mapping[str, Sampler]
    sizes: Mapping[str, Size]  # by name, the smallest first: mini, perhaps small, paper


@dataclass(frozen=True)
class EnvSpec:
    """Everything that is fixed about a world."""

    name: str  # on the command line, and the dataset's task
    gym_id: str
    state: tuple[Quantity, ...]
    control: tuple[Quantity, ...]
    control_limit: float | tuple[float, ...]  # |control| stays within it: one for all channels, or one each
    phys: tuple[Quantity, ...]
    nominal_law: Mapping[str, float]  # what holds when neither constructor nor reset is given a law
    laws: tuple[str, ...] = ()  # the only ones it takes; empty if it takes any
    succeeds: bool = False  # whether there is a task, so that success() can become True
    measures: tuple[Measure, ...] = ()  # of the task, "success" first, then in the order of their weight
    actions: int = 1  # that a control is made of, one after the other: of benchmarks that act more often than they show
    still: tuple[float, ...] = ()  # the control under which a robot stays as it starts; zeros where it is empty
    goal: tuple[str, ...] = ()  # quantities of the state that make up a goal; empty where there is none to reach
    # two places that the task is to bring together, each by names of `seen`; empty where the task is another
    meets: tuple[tuple[str, ...], ...] = ()
    probed: Probed | None = None  # None if it cannot be probed
    usual: Usual | None = None  # None if it has no recipes
    image_size: int = 128
    fps: float = 16
    frames: int = 64
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # constructor choices, the default first
    # more vectors per frame, a dataset column each: an arm's joints, contact flags (of the interval that ended here)
    records: Mapping[str, tuple[Quantity, ...]] = field(default_factory=dict)
    # those of the records that tell the robot's own pose, or the goal: what it may know besides the state
    own: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # words for a whole episode, and all they can be
    # what demonstrations are meant to come to, as often as listed; datasets go through it in turn
    plans: tuple[str, ...] = ()
    to_succeed: str = ""  # the plan under which the demonstrator does its task; empty in worlds without plans
    outcome: str = ""  # the label that says what an episode came to; empty in worlds without a task

    @property
    def frame_dt(self) -> float:
        return 1.0 / self.fps

    @property
    def seen(self) -> tuple[Quantity, ...]:
        """What one who needs no pictures is shown of a frame: the state, then the robot's own pose and the goal."""
        return (*self.state, *(quantity for name in self.own for quantity in self.records[name]))

    def check_laws(self, names: Iterable[str]) -> None:
        """Refuse a law that this world does not take."""
        for name in names:
            if self.laws and name not in self.laws:
                raise InputError(f"{self.name} does not take the law '{name}', only {', '.join(self.laws)}")


NARROW: dict[str, Sampler] = {"gravity": ClippedNormal(mean=4.0, std=0.5, floor=0.1)}
EARTH: dict[str, Sampler] = {"gravity": ClippedNormal(mean=9.8, std=2.0, floor=0.0)}
BODIES = (0.62, 1.63, 3.72, 8.87)  # m/s^2: Pluto, Moon, Mars, Venus
PLANETS: dict[str, Sampler] = {"gravity": Grid((*evenly(0.0, 20.0, 1.0).values, *BODIES))}  # 25 values

# the probes of small pictures see ten frames: chosen on validation episodes, the same for every method (docs/log.md)
SMALL_WINDOW = 10
# mini is a prefix of paper: the same episodes, fewer and smaller
IN_SPACE = {
    "mini": Size(pixels=64, train=1000, test=250, window=SMALL_WINDOW),
    "paper": Size(pixels=256, train=8000, test=1600),
}
# conventional benchmarks: 224 px as LeWM has them. The paper does not give its episodes; its 127,000 held-out clips would be
# 127 of each of 1,000, a tenth of LeWM's 10,000
BENCHMARK = {
    "mini": Size(pixels=64, train=1000, test=250, window=SMALL_WINDOW),
    "paper": Size(pixels=224, train=9000, test=1000),
}
