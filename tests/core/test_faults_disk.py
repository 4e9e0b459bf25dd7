"""What lies on disk: checked before it is used, written by one process at a time, and not lost when a command is stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixtures.damage import World, build, commands, copy, recipe_of
from fixtures.datasets import small
from fixtures.runs import same
from safetensors.torch import load_file, save_file

from sgjepa import cli
from sgjepa.cli import errors
from sgjepa.core import artifact, config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.provenance import provenance
from sgjepa.core.run_folder import RunRecord
from sgjepa.data import memmap
from sgjepa.data.collect import collect
from sgjepa.data.config import DatasetConfig
from sgjepa.data.manifest import read_manifest
from sgjepa.data.store import open_dataset
from sgjepa.evaluation.probes import ProbeConfig, fit_probe
from sgjepa.evaluation.records import read_evaluation
from sgjepa.models.dino import DinoConfig
from sgjepa.results.counterfactual import counterfactuals
from sgjepa.results.evaluations import load_evaluations
from sgjepa.results.table import Results
from sgjepa.training import checkpoint, losses
from sgjepa.training.config import Run
from sgjepa.training.world_model import train

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build(tmp_path_factory.mktemp("faults") / "world")


@pytest.fixture
def world(built: World, tmp_path: Path) -> World:
    return copy(built, tmp_path / "world")


def edit(path: Path, change: Change, sealed: bool = False) -> None:
    """Change a record as an editor would, or (sealed) as code of ours would."""
    found = json.loads(path.read_text())
    change(found)
    if sealed:
        files.write_json(path, found)
    else:
        path.write_text(json.dumps(found))


# --- seals and digests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run", "run/evaluations/*", "square"])
def test_one_changed_number_is_noticed(world: World, name: str) -> None:
    (folder,) = world.root.glob(name)
    edit(folder / "artifact.json", lambda found: found["provenance"].update(made="yesterday"))
    read = {world.run: run_folder.about, world.data: read_manifest}.get(folder, read_evaluation)
    with pytest.raises(InputError, match=r"was edited: its digest does not fit its content; delete .* and run") as caught:
        read(folder)
    assert str(folder / "artifact.json") in str(caught.value)


def test_white_space_and_the_order_of_keys_are_free(world: World) -> None:
    path = world.run / "artifact.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(found.items())), indent=7))
    assert run_folder.about(world.run).data == found["data"]


@pytest.mark.parametrize("name", ["run/model.safetensors", "run/probes/*/probe.safetensors"])
def test_weights_that_are_not_finite_are_refused_also_with_a_digest_that_fits(world: World, name: str) -> None:
    (path,) = world.root.glob(name)
    tensors = load_file(path)
    next(value for value in tensors.values() if value.is_floating_point()).view(-1)[0] = torch.nan
    save_file(tensors, path)
    edit(path.with_name("artifact.json"), lambda found: found["files"].update(digest_of(path)), sealed=True)
    data = open_dataset(world.data)
    with pytest.raises(InputError, match=rf"{path} is damaged: .* holds a number that is not finite"):
        fit_probe(world.run, data, ProbeConfig(kind="linear", window=10))  # loads the model first


def digest_of(path: Path) -> dict[str, str]:
    return {path.name: files.file_digest(path)}


def test_every_bit_of_a_small_cache_is_checked(tmp_path: Path) -> None:
    path, shape = tmp_path / "frames.npy", (2, 3)

    def fill(array: np.ndarray) -> None:
        array[:] = 7

    memmap.memory_map(path, shape, np.uint8, fill, sampled=True)
    assert (np.load(path) == 7).all(), "NumPy reads it as any other array"
    content = path.read_bytes()
    for place in range(0, len(content), 5):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(InputError, match="delete that file"):
            memmap.memory_map(path, shape, np.uint8, fill, sampled=True)
    for size in (*range(0, len(content), 11), len(content) - memmap._TAIL):
        path.write_bytes(content[:size])
        with pytest.raises(InputError, match="delete that file"):
            memmap.memory_map(path, shape, np.uint8, fill, sampled=True)


def test_a_large_cache_of_frames_is_checked_at_both_ends_and_between() -> None:
    size = 40 * 2**30
    starts = list(memmap._starts(size, sampled=True))
    assert starts[0] == 0
    assert starts[-1] == size - memmap._BLOCK
    assert len(starts) == memmap._SAMPLED
    assert len(list(memmap._starts(size, sampled=False))) == size // memmap._BLOCK


def test_a_file_is_read_once_per_process_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with artifact.artifact(tmp_path / "one", {}, "sgjepa test") as new:
        (new.path / "file").write_bytes(b"content")
    path, asked = tmp_path / "one" / "file", []
    real = files.file_digest
    monkeypatch.setattr(artifact, "file_digest", lambda path: asked.append(path) or real(path))
    for _ in range(3):
        assert artifact.checked(path.parent, path.name) == path
    assert len(asked) == 1
    path.write_bytes(b"kontent")
    later = path.stat().st_mtime_ns + 10**9  # clocks of files may tick slowly
    os.utime(path, ns=(later, later))
    with pytest.raises(
        InputError, match="file is damaged: it is not what was written; delete it and run `sgjepa test` again"
    ):
        artifact.checked(path.parent, path.name)


# --- datasets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("called", ["absolute", "relative", "by name"])
def test_a_swapped_dataset_is_noticed_whatever_it_was_called(world: World, called: str, tmp_path: Path) -> None:
    name = {"absolute": str(world.data), "relative": "../world/square", "by name": "square"}[called]
    run = replace(recipe_of(world), data=(name,))
    folder = train(run, tmp_path / "other", world.root)
    assert not cli.main(["evaluate", str(folder), "--probe-only", "--dataset", str(world.data), "--probe", "linear"])
    moved = world.data.rename(world.root / "renamed")
    assert not cli.main(["evaluate", str(folder), "--probe-only", "--dataset", str(moved), "--probe", "linear"]), (
        "the same under another name"
    )
    base = small(image_size=16, seed=5)
    collect(replace(base, train=replace(base.train, episodes=20)), world.data, workers=1)
    with pytest.raises(InputError, match="was trained on another dataset"):
        train(run, folder, world.root)
    assert (
        cli.main(["evaluate", str(folder), "--probe-only", "--dataset", str(world.data), "--probe", "linear"])
        == errors.INPUT
    )


# --- records and bounds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r.pop("data"), "RunRecord lacks the field data"),
        (lambda r: r.update(colour=1), "RunRecord has no field colour"),
        (lambda r: r.update(worlds="square"), "RunRecord.worlds should be a list, got 'square'"),
        (lambda r: r.update(data={"square": 3}), "RunRecord.data.square should be a value of type str"),
        (lambda r: r["provenance"].pop("command"), "provenance lacks command"),
        (lambda r: r["config"].update(data=[]), "a run needs at least one dataset"),
        (lambda r: r["config"]["model"]["encoder"].update(depth=10_000_000), "ViT.depth must be at most 1000, got 10000000"),
        (lambda r: r["config"]["model"]["predictor"].update(width=-4), "GRU.width must be at least 1, got -4"),
        (lambda r: r["config"]["model"].update(history=10**400), "JEPAConfig.history must be at most 10000"),
        (lambda r: r["config"]["train"].update(batch=0), "Train.batch must be at least 1, got 0"),
        (lambda r: r["config"]["optim"].update(lr=float("nan")), "OptimConfig.lr must be a finite number"),
        (lambda r: r["config"]["loss"].update(discount=10**400), "Run.loss.discount should be a number"),
    ],
)
def test_a_run_that_cannot_be_is_one_line_that_names_file_and_key(world: World, change: Change, words: str) -> None:
    edit(world.run / "artifact.json", change, sealed=True)
    with pytest.raises(InputError, match=words) as caught:
        checkpoint.load_run(world.run)
    assert str(world.run / "artifact.json") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"null", b"\xff\xfe{}", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_what_is_no_json_object_is_one_line(world: World, content: bytes) -> None:
    (world.run / "artifact.json").write_bytes(content)
    with pytest.raises(InputError, match=r"artifact\.json (cannot be read as JSON|was edited)") as caught:
        checkpoint.load_run(world.run)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.update(step=-1), "_Saved.step must be at least 0"),
        (lambda s: s.update(step=5), "it says step 5"),
        (lambda s: s.update(best="low"), "_Saved.best got 'low'"),
        (lambda s: s["files"].update({"learner.safetensors": "0"}), "learner.safetensors is damaged"),
    ],
)
def test_a_checkpoint_that_cannot_be_names_the_one_to_delete(world: World, change: Change, words: str) -> None:
    newest = checkpoint.newest(world.halted)
    assert newest is not None
    edit(newest / "artifact.json", change, sealed=True)
    with pytest.raises(InputError, match=rf"{words}.*; delete {newest} to use the one before"):
        train(recipe_of(world), world.halted, world.root)
    shutil.rmtree(newest)
    train(recipe_of(world), world.halted, world.root)  # the one before is whole


def test_an_absurd_dataset_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Part.episodes must be at most 1e\+08, got 1000000000000"):
        replace(small().train, episodes=10**12)
    with pytest.raises(InputError, match=r"DatasetConfig.image_size must be at least 1, got -3"):
        config.from_dict(DatasetConfig, {**config.to_dict(small()), "image_size": -3})


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("episodes.parquet", lambda run: load_evaluations(run)),
        ("states.parquet", lambda run: load_evaluations(run)[0].states()),
        ("strips.npz", lambda run: load_evaluations(run)[0].checked("strips.npz")),
        ("counterfactual.parquet", lambda run: counterfactuals(Results.of_runs([run]))),
    ],
)
def test_a_report_believes_no_damaged_table(world: World, name: str, read: Callable[[Path], object]) -> None:
    (path,) = world.run.glob(f"*/*/{name}")
    read(world.run)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=rf"{path} is damaged: it is not what was written; delete it and run `sgjepa evaluate` again"
    ):
        read(world.run)


def test_an_evaluation_lacks_no_column(world: World) -> None:
    from sgjepa.core.tables import read_table, write_table

    (path,) = world.run.glob("evaluations/*/episodes.parquet")
    table = read_table(path)
    write_table(path, {name: column for name, column in table.items() if name != "law.gravity"})
    edit(path.with_name("artifact.json"), lambda found: found["files"].update(digest_of(path)), sealed=True)
    with pytest.raises(InputError, match=r"lacks the column law.gravity; delete it and run `sgjepa evaluate` again"):
        load_evaluations(world.run)


# --- one writer ----------------------------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from sgjepa.core import artifact, files
from sgjepa.core.provenance import provenance
with files.locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_writer_is_told_who_the_first_is_and_a_dead_one_is_forgotten(world: World) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(world.halted)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        before = files.digests(world.root)
        words = rf"halted is in use by process {holder.pid} on .*; wait for it or stop it"
        with pytest.raises(InputError, match=words):
            train(recipe_of(world), world.halted, world.root)
        assert files.digests(world.root) == before
    finally:
        holder.kill()
        holder.wait()
    assert (world.halted / files.LOCK).exists(), "what a kill leaves"
    train(recipe_of(world), world.halted, world.root)
    assert not (world.halted / files.LOCK).exists()


def test_an_evaluation_waits_for_no_other_but_says_so(world: World) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(world.run)], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            holder.stdout.readline()
            assert cli.main(world.evaluate()) == 0, "what is done already needs no lock"
            assert cli.main(world.evaluate("--context", "30")) == errors.INPUT
            assert (
                cli.main(["evaluate", str(world.run), "--probe-only", "--dataset", str(world.data), "--seed", "3"])
                == errors.INPUT
            )
        finally:
            holder.kill()


def test_a_lock_leaves_no_folder_behind_and_may_be_held_twice_by_its_process(tmp_path: Path) -> None:
    with files.locked(tmp_path / "a" / "b"), files.locked(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b" / files.LOCK).read_text().startswith(f"process {os.getpid()} on ")
    assert list(tmp_path.iterdir()) == []


def test_what_killed_writers_left_is_cleared_and_what_others_write_is_not(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    mine = files.temporary(tmp_path / "train.latents.npy")
    theirs = mine.name.replace(f".{os.getpid()}.", f".{os.getppid()}.")
    left = mine.name.replace(f".{os.getpid()}.", f".{dead.pid}.")
    elsewhere = mine.name.replace(files._host(), "another-machine")
    older = ".train.latents.npy.0123456789ab.tmp"  # not a name of ours
    for name in (mine.name, theirs, left, elsewhere, older):
        (tmp_path / name).write_bytes(b"half")
    memmap.memory_map(tmp_path / "frames.npy", (1,), np.uint8, lambda _: None)
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {mine.name, theirs, elsewhere, older, "frames.npy"}
    yesterday = time.time() - 2 * 24 * 3600
    for name in (theirs, elsewhere, older):
        os.utime(tmp_path / name, (yesterday, yesterday))
    files.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {mine.name, theirs, older, "frames.npy"}


def test_an_encoding_that_was_killed_leaves_nothing_for_ever(world: World) -> None:
    """A real kill, in the middle of a cache."""
    code = (
        "import sys, time; from pathlib import Path; from sgjepa.data import memmap\n"
        "def fill(array): print('filling', flush=True); time.sleep(600)\n"
        "memmap.memory_map(Path(sys.argv[1]), (1000, 1000), 'u1', fill)"
    )
    path = world.run / "latents" / "other.npy"
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    assert len(list(path.parent.glob(".*.tmp"))) == 1
    for latents in path.parent.glob("*-train-*.npy"):
        latents.unlink()
    assert (
        cli.main(
            ["evaluate", str(world.run), "--probe-only", "--dataset", str(world.data), "--seed", "3", "--probe", "linear"]
        )
        == 0
    )
    assert not list(path.parent.glob(".*.tmp"))


# --- stopping ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_training_that_is_stopped_saves_its_last_update_and_ends_in_the_same_weights(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    run = replace(recipe_of(world), train=replace(recipe_of(world).train, save_every=1000))
    whole = train(run, tmp_path / "whole", world.root)
    real, calls = losses.compute, []

    def interrupted(*arguments: Any, **keywords: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), number)
        return real(*arguments, **keywords)

    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patch:
        patch.setattr(losses, "compute", interrupted)
        with commands(run):
            command = ["train", "square_gru", "--datasets", str(world.root), "--out", str(tmp_path / "stopped")]
            assert cli.main(command) == 130
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers
    said = f"{tmp_path / 'stopped'}: stopped after step 3 of 6, which is saved; run the same command again to go on"
    assert capsys.readouterr().err.count(said) == 1
    newest = checkpoint.newest(tmp_path / "stopped")
    assert newest is not None
    assert newest.name == "step-0000003"
    assert not list((tmp_path / "stopped").rglob(".*")), "no lock, nothing half written"
    assert same(train(run, tmp_path / "stopped", world.root), whole)
    steps = [row["step"] for row in run_folder.read(tmp_path / "stopped") if row["split"] == "train"]
    assert steps == [1, 2, 3, 4, 5, 6]


def test_a_second_interrupt_is_obeyed_at_once(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the update went on")

    monkeypatch.setattr(losses, "compute", twice)
    with pytest.raises(KeyboardInterrupt):
        train(recipe_of(world), tmp_path / "stopped", world.root)
    assert checkpoint.newest(tmp_path / "stopped") is None


def test_a_stop_in_the_last_update_finishes_the_run(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = checkpoint.save

    def late(folder: Path, modules: Any, optimiser: Any, state: checkpoint.State, about: RunRecord) -> Path:
        if state.step == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(folder, modules, optimiser, state, about)

    monkeypatch.setattr(checkpoint, "save", late)
    with pytest.raises(KeyboardInterrupt):
        train(recipe_of(world), tmp_path / "late", world.root)
    checkpoint.load_run(tmp_path / "late")


STOPPED = """
import json, os, signal, sys
from pathlib import Path
from sgjepa.core import config
from sgjepa.training import losses
from sgjepa.training.world_model import train
from sgjepa.training.config import Run
real, calls = losses.compute, []
def compute(*arguments, **keywords):
    calls.append(1)
    if len(calls) == 3 and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGTERM)
    return real(*arguments, **keywords)
losses.compute = compute
run = config.from_dict(Run, json.loads(Path(sys.argv[1]).read_text()))
train(run, Path(sys.argv[2]), Path(sys.argv[3]))
"""


def test_processes_of_one_training_stop_together_whichever_is_asked(world: World, tmp_path: Path) -> None:
    run = replace(recipe_of(world), train=replace(recipe_of(world).train, batch=2, save_every=1000))
    (tmp_path / "artifact.json").write_text(json.dumps(config.to_dict(run)))
    (tmp_path / "go.py").write_text(STOPPED)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launch, *map(str, (tmp_path / "go.py", tmp_path / "artifact.json", tmp_path / "two", world.root))],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode != 0
    assert "stopped after step 3 of 9, which is saved" in done.stderr
    newest = checkpoint.newest(tmp_path / "two")
    assert newest is not None
    assert newest.name == "step-0000003"


# --- modes and letters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_written_files_follow_the_umask(world: World, tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        folder = train(recipe_of(world), tmp_path / "run", world.root)
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    assert modes == {0o666 & ~mask}


def test_records_are_utf8_whatever_the_locale(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from sgjepa.core import files\n"
        "path = Path(sys.argv[1]); files.write_json(path, {'a': '4 ± 0.5 m/s²'})\n"
        "assert files.read_json(path) == {'a': '4 ± 0.5 m/s²'.encode('utf-8').decode('utf-8')}"
    )
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    script = tmp_path / "go.py"
    script.write_text(code, encoding="utf-8")
    subprocess.run([sys.executable, str(script), str(tmp_path / "f.json")], check=True, env=plain)
    assert "±".encode() in (tmp_path / "f.json").read_bytes()


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    record = RunRecord({"a": 1}, {"square": "0"}, provenance(), ("square",), None, {"model.safetensors": "1"})
    artifact.write_record(tmp_path, record)
    assert artifact.read_record(RunRecord, tmp_path) == record


def test_models_of_every_recipe_lie_within_the_bounds() -> None:
    from sgjepa.recipes.training import recipe, recipes

    for name in recipes():
        for size in ("mini", "paper"):
            run = recipe(name, size)
            assert isinstance(config.from_dict(Run, config.to_dict(run)), Run)
            assert not isinstance(run.model, DinoConfig) or run.model.depth <= 1000
