"""The runner: tasks of a graph in their order, another executor in its seam, and how long all will still take."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from sgjepa.core.errors import InputError
from sgjepa.experiments.runner import Remaining, Task, duration, exact, run


class Here:
    """An executor that does everything at once, in this process; a cluster's would have the same three methods."""

    def __init__(self) -> None:
        self.stopped = self.closed = False

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self.closed = True


def test_a_task_begins_when_all_that_it_comes_after_are_over() -> None:
    order: list[str] = []

    def work(name: str) -> str:
        order.append(name)
        return name.upper()

    after = {"policy": ("model", "decoder"), "decoder": ("model",), "model": (), "reference": ()}
    tasks = [Task(name, work, (name,), before) for name, before in after.items()]
    executor = Here()
    assert run(tasks, "tasks", executor=executor) == {name: name.upper() for name in after}
    assert order.index("model") < order.index("decoder") < order.index("policy")
    assert not executor.closed, "its owner may have more work for it"
    assert not executor.stopped
    with pytest.raises(ValueError, match="a waits for a task that is not there, or for itself"):
        run([Task("a", work, ("a",), ("b",)), Task("b", work, ("b",), ("a",))], "tasks", executor=Here())


def test_a_task_that_fails_is_named_in_a_line_and_the_others_are_stopped(tmp_path: Path) -> None:
    def fail(error: Exception) -> None:
        print("on the way")
        raise error

    for error, line in (
        (InputError("no such law"), "unfit: no such law"),
        (ZeroDivisionError("by zero"), rf"unfit: ZeroDivisionError: by zero \(the whole story: {tmp_path / 'unfit.log'}\)"),
    ):
        executor = Here()
        with pytest.raises((InputError, RuntimeError), match=line):
            run([Task("unfit", fail, (error,), log=tmp_path / "unfit.log")], "tasks", executor=executor)
        assert executor.stopped
    log = (tmp_path / "unfit.log").read_text()
    assert log.count("on the way") == 2
    assert "Traceback" in log


A, B, C = Path("a"), Path("b"), Path("c")


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def remaining(workers: int, *runs: Path, evaluated: bool = True, done: int = 0) -> tuple[Remaining, Clock]:
    clock = Clock()
    return Remaining(dict.fromkeys(runs, (done, 100)), workers, evaluated, clock), clock


def test_nothing_is_said_before_updates_were_timed() -> None:
    left, clock = remaining(1, A)
    assert left.seconds is None
    assert left.words() == ""
    clock.now = 30.0  # the process starts, data are read
    left.look({A: 20})
    assert left.words() == "", "how long those updates took, nobody saw"
    clock.now = 50.0
    left.look({A: 40})
    assert left.seconds == pytest.approx(60.0)
    assert left.words() == "about 60 seconds of training to go, then probes and evaluations"


def test_a_run_that_waits_counts_as_one_like_those_at_work() -> None:
    left, clock = remaining(2, A, B, C)
    left.look({A: 10, B: 10, C: 0})
    clock.now = 10.0
    left.look({A: 20, B: 30, C: 0})  # 1 and 2 updates per second
    # A needs 80 s; B 35 s, and then C, at the mean of 1 and 0.5 s for an update, 75 s
    assert left.seconds == pytest.approx(110.0)


def test_what_follows_a_training_is_counted_once_it_was_seen() -> None:
    left, clock = remaining(1, A, B)
    left.look({A: 50, B: 0})
    clock.now = 50.0
    left.look({A: 100, B: 0})
    assert not left.whole
    clock.now = 70.0
    left.look({A: 100, B: 0}, [A])  # 20 s of probe and evaluation
    assert left.whole
    assert left.seconds == pytest.approx(100.0 + 20.0)
    assert left.words() == "about 2 minutes to go"


def test_an_estimate_shrinks_while_updates_are_on_their_way_to_the_disk() -> None:
    left, clock = remaining(1, A)
    left.look({A: 20})
    clock.now = 20.0
    left.look({A: 40})
    clock.now = 30.0
    left.look({A: 40})
    assert left.seconds == pytest.approx(50.0)
    clock.now = 1000.0
    left.look({A: 40})
    assert left.seconds == 0.0, "never below nothing"


def test_a_run_that_goes_on_is_timed_from_where_it_was() -> None:
    left, clock = remaining(1, A, done=60)
    assert left.seconds is None
    clock.now = 10.0
    left.look({A: 70})
    clock.now = 20.0
    left.look({A: 80})
    assert left.seconds == pytest.approx(20.0)


def test_trainings_that_nothing_follows_are_the_whole() -> None:
    left, clock = remaining(1, A, evaluated=False)
    left.look({A: 20})
    clock.now = 20.0
    left.look({A: 40})
    assert left.words() == "about 60 seconds to go"


@pytest.mark.parametrize(
    ("seconds", "said", "measured"),
    [
        (1.2, "1 second", "1 s"),
        (75.0, "75 seconds", "1 min 15 s"),
        (545.4, "9 minutes", "9 min 5 s"),
        (7205.0, "2.0 hours", "2 h 0 min 5 s"),
    ],
)
def test_a_time_is_said_in_words_and_a_measured_one_to_the_second(seconds: float, said: str, measured: str) -> None:
    assert duration(seconds) == said
    assert exact(seconds) == measured
