"""A failure of any kind is one line with a code for scripts, and the command runs in any terminal, however poor."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pty
import re
import resource
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.datasets import small

from sgjepa import cli
from sgjepa.cli import arguments as shared
from sgjepa.cli import data, doctor, errors
from sgjepa.core import files, threads
from sgjepa.core.errors import InputError, MachineError, expected
from sgjepa.core.progress import pace, progress
from sgjepa.data.collect import collect
from sgjepa.data.store import open_dataset

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "sgjepa"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of failures go to the current folder."""
    monkeypatch.chdir(tmp_path)


def environment(**more: str) -> dict[str, str]:
    """With this source, and nothing that this machine's user has set."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **more}


# --- what a failure becomes ----------------------------------------------------------------------------------------


class SafetensorError(Exception):
    """As the library's own, which is known by its name: this room does without torch."""


class OutOfMemoryError(RuntimeError):
    """torch's."""


class ArrowError(ValueError):
    """As those of pyarrow, which are known by their module."""

    __module__ = "pyarrow.lib"


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def broken(error: BaseException) -> Any:
    """A function that fails in this way."""

    def fails(*_: object, **__: object) -> None:
        raise error

    return fails


FAULTS: list[tuple[BaseException, int, str]] = [
    (InputError("the law is wrong"), errors.INPUT, "the law is wrong"),
    (MachineError("no package"), errors.MACHINE, "no package"),
    (OSError(errno.ENOSPC, "No space left on device", "x"), errors.MACHINE, "No space left on device: x; fix it"),
    (OSError("No space left on device: y.lance"), errors.MACHINE, "No space left on device: y.lance"),
    (
        PermissionError(errno.EACCES, "Permission denied", "/a/.x.json.0123456789ab.tmp"),
        errors.MACHINE,
        "denied: /a/x.json;",
    ),
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "z"), errors.INPUT, "No such file or directory: z"),
    (OSError(errno.ENAMETOOLONG, "File name too long", "n" * 300), errors.INPUT, "File name too long"),
    (SafetensorError("I/O error: No space left on device (os error 28)"), errors.MACHINE, "No space left on device"),
    (SafetensorError("Error while deserializing header: HeaderTooLarge"), errors.INPUT, "HeaderTooLarge"),
    (ArrowError("Parquet magic bytes not found in footer"), errors.INPUT, "Parquet magic bytes not found"),
    (ValueError("LanceError(IO): Generic LocalFileSystem: No space left"), errors.MACHINE, "No space left"),
    (MemoryError(), errors.MACHINE, "out of memory (builtins.MemoryError); free some"),
    (OutOfMemoryError("CUDA tried to allocate 2 GiB"), errors.MACHINE, "out of memory (CUDA tried to allocate 2 GiB)"),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"), errors.MACHINE, "out of memory"),
    (RuntimeError("CUDA error: device-side assert\ntriggered"), errors.MACHINE, "device-side assert triggered"),
    (RuntimeError("No CUDA GPUs are available"), errors.MACHINE, "No CUDA GPUs"),
    (RuntimeError("can't start new thread"), errors.MACHINE, "can't start new thread"),
    (ModuleNotFoundError("No module named 'lance'", name="lance"), errors.MACHINE, "the package lance cannot be used"),
    (ImportError("cannot import name 'x'", name="sgjepa.core"), errors.BUG, "a bug in sgjepa (ImportError: "),
    (caused(RuntimeError("it failed"), OSError(errno.EIO, "Input/output error")), errors.MACHINE, "Input/output error"),
    (KeyError("x"), errors.BUG, "a bug in sgjepa (KeyError: 'x'); please report it, with sgjepa-error.log"),
    (RecursionError("maximum recursion depth exceeded"), errors.BUG, "please report it"),
    (AssertionError(), errors.BUG, "please report it"),
]


@pytest.mark.parametrize(("error", "code", "words"), FAULTS, ids=lambda value: type(value).__name__)
def test_every_failure_is_one_line_with_a_code_by_whose_fault_it_was(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, words: str
) -> None:
    monkeypatch.setattr(doctor, "examine_machine", broken(error))
    assert cli.main(["doctor"]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sgjepa: error: ")
    assert words in line
    ours = isinstance(error, InputError)
    assert Path("sgjepa-error.log").exists() != ours, "the traceback of our own message tells a user nothing"
    assert ours or ("Traceback" in Path("sgjepa-error.log").read_text(encoding="utf-8") and "sgjepa-error.log" in line)


def mounted(place: Path, options: str) -> None:
    """Put a disk of one's own on a folder. No test may write to a device instead: who renames a file replaces it."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting a disk needs root")


def test_real_weights_on_a_full_disk_are_the_machines_fault(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from sgjepa.models.weights import save_tensors

    disk = tmp_path / "disk"
    disk.mkdir()
    mounted(disk, "size=8k")
    try:
        with pytest.raises(Exception, match="No space left") as raised:
            save_tensors(disk / "w.safetensors", {"w": torch.zeros(9999)})
        assert isinstance(expected(raised.value), MachineError)
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_tracebacks_are_added_to_the_log_with_time_and_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sgjepa", "doctor", "--law", "größe \udc80"])
    for number in range(2):
        monkeypatch.setattr(doctor, "examine_machine", broken(KeyError(f"ä{number}")))
        assert cli.main(["doctor"]) == errors.BUG
    text = Path("sgjepa-error.log").read_text(encoding="utf-8")
    heads = re.findall(r"^--- (\d{4}-\d\d-\d\dT.*), sgjepa \S+: sgjepa doctor --law 'größe \\udc80'$", text, re.MULTILINE)
    assert len(heads) == 2
    assert text.index("ä0") < text.index("ä1")


def test_the_log_of_a_run_lies_in_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for there in (False, True):  # a folder that is not a run yet would be refused as somebody's own if a log lay in it
        if there:
            (run / "artifact.json").write_text('{"made_by": "sgjepa train"}')
        monkeypatch.setattr(shared, "open_dataset_for", broken(MemoryError()))
        assert cli.main(["evaluate", str(run), "--probe-only"]) == errors.MACHINE
        assert (run / "sgjepa-error.log").exists() == there
        assert f"the whole story: {run / 'sgjepa-error.log' if there else 'sgjepa-error.log'}" in capsys.readouterr().err


def test_where_no_log_can_be_written_the_line_stands_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("sgjepa-error.log").mkdir()
    monkeypatch.setattr(errors.tempfile, "mkstemp", broken(FileNotFoundError(errno.ENOENT, "No usable temporary directory")))
    monkeypatch.setattr(doctor, "examine_machine", broken(KeyError("x")))
    assert cli.main(["doctor"]) == errors.BUG
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("please report it")


def test_a_log_that_does_not_fit_is_not_left_behind(tmp_path: Path) -> None:
    assert not errors._appended(tmp_path / "nowhere" / "log", b"x")
    before = tmp_path / "log"
    before.write_bytes(b"before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, limits[1]))
    try:
        assert not errors._appended(before, b"more than fits")
        assert not errors._appended(tmp_path / "new", b"more than fits")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert before.read_bytes() == b"before"
    assert not (tmp_path / "new").exists()


def test_written_files_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_json(tmp_path / "a.json", {"path": "/x/\udc80"})
        assert errors._appended(tmp_path / "log", b"x")
    finally:
        os.umask(before)
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a.json", "log")} == {0o640}
    assert files.read_json(tmp_path / "a.json") == {"path": "/x/\udc80"}, "a path that is no UTF-8 can be kept"


# --- interrupts ----------------------------------------------------------------------------------------------------

# sends the signal when Python looks for the module: in the middle of the imports that lead there
AT_IMPORT = """
import os, runpy, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {signal})
sys.meta_path.insert(0, Finder())
sys.argv = ["sgjepa", *{arguments}]
runpy.run_module("sgjepa", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("sgjepa.cli", ["doctor"]),
        ("argparse", ["doctor"]),
        ("sgjepa.cli.train", ["doctor"]),
        ("numpy", ["doctor"]),
        ("mujoco", ["data", "square", "--train-episodes", "1", "--test-episodes", "1", "--workers", "1"]),
        ("torch", ["describe", "square_gru"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_interrupt_in_the_middle_of_any_import_is_one_line(
    module: str, arguments: list[str], number: int, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", AT_IMPORT.format(module=module, signal=int(number), arguments=arguments)]
    done = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "sgjepa: stopped; run the same command again to go on\n")


def handles_sigterm(pid: int) -> bool:
    """Whether our first lines have run: Python itself leaves that signal alone."""
    found = re.search(r"^SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(found and int(found[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux what the process handles")
@pytest.mark.parametrize("delay", [0.0, 0.02, 0.1, 0.3, 0.8])
def test_ctrl_c_at_any_moment_after_the_start_is_one_line(delay: float) -> None:
    command = [*COMMAND, "data", "square", "--image-size", "16", "--workers", "2"]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not handles_sigterm(process.pid):
        time.sleep(0.001)
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    _, said = process.communicate(timeout=60)
    lines = [line for line in re.split(r"[\r\n]", said) if line and not re.match("square: ", line)]
    assert lines == ["sgjepa: stopped; run the same command again to go on"]
    assert process.returncode == 130


def test_an_interrupt_that_a_stage_answers_with_words_is_said_in_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(doctor, "examine_machine", broken(KeyboardInterrupt("step 7 is saved")))
    assert cli.main(["doctor"]) == 130
    assert capsys.readouterr().err == "sgjepa: step 7 is saved; run the same command again to go on\n"
    assert signal.getsignal(signal.SIGTERM) is before, "a program that calls us has its handlers back"


def test_what_fails_because_of_an_interrupt_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A killed worker, a library that turns the exception into another one: no bug, no log."""

    def swallowed() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        except KeyboardInterrupt:
            raise SystemError("returned a result with an exception set") from None

    monkeypatch.setattr(doctor, "examine_machine", swallowed)
    assert cli.main(["doctor"]) == 130
    assert capsys.readouterr().err == "sgjepa: stopped; run the same command again to go on\n"
    assert not Path("sgjepa-error.log").exists()


def test_a_signal_that_the_user_ignores_stays_ignored() -> None:
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + AT_IMPORT.format(
        module="sgjepa.cli", signal=int(signal.SIGINT), arguments=["--version"]
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- terminals -----------------------------------------------------------------------------------------------------


def shell(line: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A command line of ours, in which SGJEPA is the command."""
    whole = line.replace("SGJEPA", f"'{sys.executable}' -m sgjepa")
    return subprocess.run(["sh", "-c", whole], env=environment(**more), capture_output=True, text=True, check=False)


POOR = {  # no HOME among them
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONIOENCODING": "ascii",
    "COLUMNS": "40",
    "TMPDIR": "/nonexistent",
    "MUJOCO_GL": "nonsense",
}


@pytest.mark.parametrize("stage", cli.COMMANDS)
def test_help_is_shown_in_the_poorest_terminal(
    stage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    with pytest.raises(SystemExit, match="0"):
        cli.main([stage, "--help"])
    text = capsys.readouterr().out
    options = text[text.index("options:") : text.index("example:")]
    assert [line for line in options.splitlines() if len(line) > 40] == []
    assert text.isascii()


FEW = "--train-episodes 2 --test-episodes 2 --image-size 16 --workers 1"


def test_a_poor_terminal_is_enough_for_work() -> None:
    """Worlds in the plane draw without OpenGL, so a MUJOCO_GL that means nothing does not stop them."""
    done = shell(f"SGJEPA data --help && SGJEPA data square {FEW} --out made", **POOR)
    assert done.returncode == 0, done.stderr
    assert "train gravity  " in done.stdout


def test_the_doctor_says_that_a_backend_is_nonsense() -> None:
    done = shell("SGJEPA doctor", **POOR)
    assert done.returncode == 0, done.stderr
    assert "nonsense: unknown MUJOCO_GL 'nonsense'; choose from egl, osmesa" in done.stdout
    assert "MuJoCo will use none" in done.stdout


def test_what_draws_with_a_backend_that_is_nonsense_refuses_it(tmp_path: Path) -> None:
    done = shell(f"SGJEPA data square {FEW} --env renderer=mujoco --out made", **POOR)
    assert done.returncode == errors.INPUT
    assert "unknown MUJOCO_GL 'nonsense'" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("closed", ["2>&- <&-", ">&- 2>&-"])
def test_closed_streams_are_no_error_and_no_file_gets_their_numbers(tmp_path: Path, closed: str) -> None:
    done = shell(f"SGJEPA data square {FEW} --out made {closed}")
    assert done.returncode == 0
    assert open_dataset(tmp_path / "made").manifest.parts["test"].episodes == 2, "and every file is as it was written"


def test_nobody_to_talk_to_does_not_change_the_exit_code() -> None:
    assert shell("SGJEPA data nowhere 2>&-").returncode == errors.INPUT
    assert shell("SGJEPA nonsense 2>&-").returncode == errors.USAGE
    assert shell("SGJEPA --help >&-").returncode == 0


def test_output_that_nobody_can_take_is_said_and_a_reader_who_leaves_is_not() -> None:
    done = shell("SGJEPA doctor --json > /dev/full")
    assert done.returncode == errors.MACHINE
    assert done.stderr.startswith("sgjepa: error: No space left on device")
    assert done.stderr.count("\n") == 1
    left = shell("(SGJEPA doctor --json; echo $? >&2) | true")
    assert left.stderr == "0\n"


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder in which nobody can write, not even root."""
    place = tmp_path / "read_only"
    place.mkdir(mode=0o555)
    root = os.geteuid() == 0
    if (
        root
        and subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", place], capture_output=True, check=False).returncode
    ):
        pytest.skip("root may write everywhere, and cannot mount here")
    yield place
    if root:
        subprocess.run(["umount", place], check=True)


def test_in_a_folder_that_cannot_be_written_the_log_is_a_temporary_file(read_only: Path, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    done = shell(f"cd {read_only} && SGJEPA data square {FEW}", TMPDIR=str(tmp_path / "temporary"))
    assert done.returncode == errors.MACHINE
    (line,) = done.stderr.splitlines()
    (log,) = (tmp_path / "temporary").iterdir()
    assert line.endswith(f"datasets/square-mini; fix it and run the same command again; the whole story: {log}")
    assert "Traceback" in log.read_text()


def test_a_folder_that_was_deleted_does_not_stop_the_doctor() -> None:
    done = shell("mkdir gone && cd gone && rmdir ../gone && SGJEPA doctor --json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["disk_free_gib"] > 0


# --- small things --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stage", [["doctor"], ["describe", "square_gru"], ["coverage", "DATASET"]], ids=lambda stage: stage[0]
)
def test_json_that_cannot_be_written_is_refused_before_the_work(
    stage: list[str], finished: Path, read_only: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def worked(*_: object, **__: object) -> None:
        pytest.fail("the work was done first")

    monkeypatch.setattr("sgjepa.cli.doctor.examine_machine", worked)
    monkeypatch.setattr("sgjepa.training.profile.describe", worked)
    monkeypatch.setattr("sgjepa.evaluation.coverage.examine", worked)
    command = [str(finished) if word == "DATASET" else word for word in stage]
    for place, code, words in (
        (Path.cwd(), errors.INPUT, f"--json {Path.cwd()} is a folder; name a file in it"),
        (Path("no/x.json"), errors.INPUT, "--json no/x.json: the folder no does not exist"),
        (read_only / "x.json", errors.MACHINE, f"{read_only / 'x.json'}; fix it"),
    ):
        assert cli.main([*command, "--json", str(place)]) == code
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line


def test_json_to_a_device_does_not_put_a_file_in_its_place(finished: Path) -> None:
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert cli.main(["coverage", str(finished), "--json", "pipe"]) == 0
    assert json.loads(os.read(reader, 1 << 20))["basis"] == "affine"
    os.close(reader)
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)


def test_the_doctor_lists_every_extra_and_what_installs_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = [
        "numpy>=1",
        "torch>=2; extra == 'train'",
        'absent-one<3,>=2; extra == "train"',
        'sgjepa[train]; extra == "dev"',
    ]
    monkeypatch.setattr(doctor, "requires", lambda _: metadata)
    monkeypatch.setattr(doctor, "drawing_backends", lambda: {"egl": "works"})
    found = doctor.examine_machine()
    assert found["packages"].keys() == {"numpy"}
    assert found["extras"].keys() == {"train"}
    assert found["extras"]["train"]["absent-one"] is None
    text = doctor.as_text(found)
    assert re.search(r"^  train:  torch .*, absent-one MISSING$", text, re.MULTILINE)
    assert "missing:  absent-one (extra `train`): pip install 'sgjepa[train]'" in text


@pytest.mark.parametrize(("number", "words"), [(1, "1 thread ("), (2, "2 threads (")])
def test_one_thread_is_not_called_threads(number: int, words: str) -> None:
    assert threads.as_text({"threads": number, "threads_from": "cores", "malloc": {}}).startswith(words)


@pytest.mark.parametrize(
    ("rate", "words"), [(12.34, "12.3 steps per s"), (1 / 1.13, "1.13 s per step"), (0.0, "? s per step")]
)
def test_a_rate_reads_as_one_would_say_it(rate: float, words: str) -> None:
    assert pace(rate, "steps") == words


WORK = """
import time
from sgjepa.core import progress
progress._APART = 0.1
with progress.progress(10, 4, "train", "steps") as bar:
    for _ in range(6):
        time.sleep(0.05)
        bar.update(1)
"""


def in_a_terminal(code: str, columns: int, **more: str) -> str:
    """What Python code writes to standard error, which is a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24 if columns else 0, columns, 0, 0))
    subprocess.run([sys.executable, "-c", code], env=environment(**more), stderr=theirs, check=True)
    os.close(theirs)
    found = b""
    with contextlib.suppress(OSError):  # nobody writes any more
        while chunk := os.read(ours, 65536):
            found += chunk
    os.close(ours)
    return found.decode()


def test_a_progress_bar_shows_count_rate_and_time_left() -> None:
    last = in_a_terminal(WORK, 90).strip().split("\r")[-1]
    assert re.search(r"^train: 100%\|█+\| 10/10 \[\d\d:\d\d<00:00, [\d.]+ steps per s\]$", last)


def test_no_bar_is_drawn_where_the_terminal_has_no_columns() -> None:
    piped = subprocess.run([sys.executable, "-c", WORK], env=environment(), capture_output=True, text=True, check=True)
    for said in (in_a_terminal(WORK, 0), in_a_terminal(WORK, 90, COLUMNS="0"), piped.stderr):
        lines = said.replace("\r\n", "\n").splitlines()
        assert 2 <= len(lines) <= 5, "long work says something, and not at every step"
        for line in lines:
            assert re.fullmatch(r"train: \d+ of 10 steps, 00:00 gone, 00:00 left, [\d.]+ steps per s", line)
        assert lines[-1].startswith("train: 10 of 10")
    short = WORK.replace("= 0.1", "= 30.0")
    assert in_a_terminal(short, 0) == "", "short work says nothing"


def test_a_progress_bar_needs_no_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with progress(2, 0, "train", "steps") as bar:
        bar.update(1)


def test_a_grid_looks_even_when_each_value_occurs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small(image_size=16)
    few = replace(settings, train=replace(settings.train, episodes=2), test=replace(settings.test, episodes=25))
    counts = json.loads((collect(few, tmp_path / "grid", 1) / "artifact.json").read_text())["parts"]["test"]["laws"][
        "gravity"
    ]["counts"]
    assert counts == [1] * 25
    assert data._bars(counts) == "▅" * 25
    monkeypatch.setattr(errors, "can_print", lambda _: False)
    assert data._bars([0, 1, 7]) == " 28"


@pytest.mark.parametrize("names", [["a", "a"], ["a", "b", "./a"], ["a", "link"]])
def test_a_dataset_named_twice_is_refused(names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        Path("datasets", name).mkdir(parents=True)
    Path("datasets/link").symlink_to("a")
    flags = [word for name in names for word in ("--data", name)]
    assert cli.main(["train", "square_gru", *flags]) == errors.INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("name each dataset once")


def test_updates_and_epochs_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["train", "square_gru", "--updates", "3", "--epochs", "1"])
    assert "not allowed with" in capsys.readouterr().err
