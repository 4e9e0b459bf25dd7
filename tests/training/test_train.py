"""Training on real episodes, small: exact resume, warm starts, several datasets, several processes, honest failure."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from fixtures.datasets import small
from fixtures.runs import RUN, same, train_until, weights

from sgjepa import cli
from sgjepa.core import artifact, config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.run_folder import MODEL, Continued
from sgjepa.data.collect import collect
from sgjepa.data.store import open_dataset
from sgjepa.models.dino import DinoConfig
from sgjepa.models.encoders.frozen import MobileNetV2
from sgjepa.models.jepa import JEPA, JEPAConfig
from sgjepa.models.predictors.gru import GRU
from sgjepa.models.predictors.transformer import Transformer
from sgjepa.recipes.training import recipe, recipes
from sgjepa.training import checkpoint
from sgjepa.training.config import Run, Train
from sgjepa.training.data import total_updates
from sgjepa.training.latent_cache import latents_of
from sgjepa.training.losses import OneStepLoss, RolloutLoss
from sgjepa.training.optim import schedule
from sgjepa.training.world_model import train


@pytest.fixture(scope="module")
def fitting(finished: Path) -> Run:
    """Few updates: whole stretches of 12 frames from 27 episodes make hundreds of an epoch, so take long stretches."""
    return replace(RUN, train=replace(RUN.train, frames=64))


@pytest.fixture(scope="module")
def trained(fitting: Run, finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(fitting, tmp_path_factory.mktemp("runs") / "tiny", finished.parent)


# --- resume --------------------------------------------------------------------------------------------------------

TRAIN = """
import json, os, signal, sys
from pathlib import Path
from sgjepa.core import config
from sgjepa.training import losses
from sgjepa.training.config import Run
from sgjepa.training.world_model import train
run = config.from_dict(Run, json.loads(Path(sys.argv[1]).read_text()))
train(run, Path(sys.argv[2]), Path(sys.argv[3]))
"""
DEADLY = """
ask, at, calls = losses.compute, int(sys.argv[4]), []
def deadly(*given, **named):
    calls.append(1)
    if len(calls) == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return ask(*given, **named)
losses.compute = deadly
"""


def test_a_run_killed_at_any_moment_ends_in_the_same_weights(
    fitting: Run, finished: Path, trained: Path, tmp_path: Path
) -> None:
    (tmp_path / "artifact.json").write_text(json.dumps(config.to_dict(fitting)))
    (tmp_path / "go.py").write_text(TRAIN.replace("run = ", DEADLY + "run = "))
    folder = tmp_path / "killed"
    command = [sys.executable, str(tmp_path / "go.py"), str(tmp_path / "artifact.json"), str(folder), str(finished.parent)]
    threads = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    begun = []
    for at in (3, 12, 1, 6):  # when the loss is asked for the so manieth time: before and after checkpoints
        begun.append(checkpoint.newest(folder))
        killed = subprocess.run([*command, str(at)], env=threads, stderr=subprocess.DEVNULL, check=False)
        assert killed.returncode == -signal.SIGKILL
    assert begun[0] is begun[1] is None
    assert None not in begun[2:], "it goes on from a checkpoint"
    subprocess.run([*command, "0"], env=threads, stderr=subprocess.DEVNULL, check=True)
    assert same(folder, trained)
    kept = {path.name for path in checkpoint.newest(folder).iterdir()}  # type: ignore[union-attr]
    assert "learner.safetensors" in kept, "its keys are the learner's; a run's model.safetensors has the model's"
    steps = [row["step"] for row in run_folder.read(folder) if row["split"] == "train"]
    assert steps == list(range(1, 19)), "every update has exactly one row"


def test_a_finished_run_is_not_trained_again(fitting: Run, finished: Path, trained: Path) -> None:
    before = (trained / MODEL).stat().st_mtime_ns
    train(fitting, trained, finished.parent)
    assert (trained / MODEL).stat().st_mtime_ns == before


def test_another_seed_trains_other_weights_on_the_same_split(
    fitting: Run, finished: Path, trained: Path, tmp_path: Path
) -> None:
    other = train(replace(fitting, seed=1), tmp_path / "other", finished.parent)
    assert not same(other, trained)
    assert torch.equal(weights(other)["law_mean"], weights(trained)["law_mean"]), "normalisers come from the same episodes"


def test_a_loaded_run_answers_like_the_trained_one(trained: Path) -> None:
    run, model = checkpoint.load_run(trained)
    assert run.name == "tiny"
    assert not model.training
    frames = torch.zeros(1, 3, 32, 32, 3, dtype=torch.uint8)
    z = model.encode(frames)
    c = model.condition(torch.zeros(1, 3, 2), torch.full((1, 1), 4.0))
    assert torch.isfinite(model.predict(z, c)).all()
    there, kept = model.state_dict(), weights(trained)
    assert kept.keys() <= there.keys()
    assert all(torch.equal(there[name], value) for name, value in kept.items())


@pytest.fixture
def halted(fitting: Run, finished: Path, tmp_path: Path) -> Path:
    """A run that stopped after its first checkpoint, that of step 7."""
    (tmp_path / "data").mkdir()
    shutil.copytree(finished, tmp_path / "data" / "square")
    train_until(9, fitting, tmp_path / "halted", tmp_path / "data")
    return tmp_path / "halted"


# --- more updates --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def longer(fitting: Run) -> Run:
    """Twice the updates: 36 instead of 18."""
    return replace(fitting, train=replace(fitting.train, epochs=4))


@pytest.fixture(scope="module")
def continued(longer: Run, finished: Path, trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(trained, tmp_path_factory.mktemp("longer") / "tiny"))
    (folder / "evaluations" / "square-test").mkdir(parents=True)
    (folder / "evaluations" / "square-test" / "summary.csv").write_text("of 18 updates")
    return train(longer, folder, finished.parent)


def test_a_finished_run_goes_on_to_more_updates_by_the_rates_of_the_new_length(
    fitting: Run, longer: Run, finished: Path, trained: Path, continued: Path, tmp_path: Path
) -> None:
    about = run_folder.about(continued)
    assert config.from_dict(Run, about.config) == longer
    assert about.continued == (Continued(18, 2, None),)
    saved = artifact.read_json_record(checkpoint.newest(continued))["trained"]  # type: ignore[arg-type]
    assert config.from_dict(run_folder.RunRecord, saved).continued == about.continued
    rows = [row for row in run_folder.read(continued) if row["split"] == "train"]
    assert [row["step"] for row in rows] == list(range(1, 37))
    before = {row["step"]: row["loss"] for row in run_folder.read(trained) if row["split"] == "train"}
    assert {row["step"]: row["loss"] for row in rows[:18]} == before, "the first part is the shorter training"
    assert not same(continued, trained)
    assert not same(continued, train(longer, tmp_path / "at_once", finished.parent)), "its rates had gone down at the 18th"

    seen: list[float] = []
    again = Path(shutil.copytree(trained, tmp_path / "again"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sgjepa.training.world_model.schedule", lambda *given: (seen.append(given[1]), schedule(*given))[1])
        train(longer, again, finished.parent)
    assert seen == [36] * 18, "the schedule is that of all updates, from where it goes on"
    assert same(again, continued)


def test_what_was_made_of_the_shorter_run_stays_a_run_of_its_own(fitting: Run, trained: Path, continued: Path) -> None:
    before = continued / "before" / "step-0000018"
    assert same(before, trained)
    assert checkpoint.load_run(before)[0] == fitting
    assert (before / "evaluations" / "square-test" / "summary.csv").read_text() == "of 18 updates"
    assert not (continued / "evaluations").exists(), "an evaluation of the shorter run would pass for one of the longer"


def test_going_on_killed_at_any_moment_ends_in_the_same_weights(
    longer: Run, finished: Path, trained: Path, continued: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(trained, tmp_path / "killed"))
    for place, name in (
        (Path, "replace"),
        (artifact, "write_record"),
    ):  # while it is set aside, and when the record is written
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(place, name, mock.Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                train(longer, folder, finished.parent)
    assert checkpoint.read_config(folder) != longer
    (tmp_path / "artifact.json").write_text(json.dumps(config.to_dict(longer)))
    (tmp_path / "go.py").write_text(TRAIN.replace("run = ", DEADLY + "run = "))
    command = [sys.executable, str(tmp_path / "go.py"), str(tmp_path / "artifact.json"), str(folder), str(finished.parent)]
    threads = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    for at in (1, 8):  # before anything was saved, and after a checkpoint
        killed = subprocess.run([*command, str(at)], env=threads, stderr=subprocess.DEVNULL, check=False)
        assert killed.returncode == -signal.SIGKILL
    assert checkpoint.newest(folder).name == "step-0000021"  # type: ignore[union-attr]
    subprocess.run([*command, "0"], env=threads, stderr=subprocess.DEVNULL, check=True)
    assert same(folder, continued)
    assert run_folder.about(folder).continued == run_folder.about(continued).continued


def test_a_run_goes_on_to_more_updates_alone(
    fitting: Run, longer: Run, finished: Path, halted: Path, trained: Path, continued: Path, tmp_path: Path
) -> None:
    before = files.digests(continued)
    with pytest.raises(InputError, match=r"holds a training of 36 updates, and 18 are asked for: .* never back"):
        train(fitting, continued, finished.parent)
    other = replace(longer, train=replace(longer.train, epochs=5), optim=replace(longer.optim, lr=1.0))
    with pytest.raises(InputError, match=r"holds a run with train.epochs = 4, not 5"):
        train(other, continued, finished.parent)
    assert files.digests(continued) == before
    with pytest.raises(InputError, match=r"is not finished \(step 7 of 18\); finish it with its own command"):
        train(longer, halted, halted.parent / "data")
    bare = Path(shutil.copytree(trained, tmp_path / "bare", ignore=shutil.ignore_patterns("checkpoints")))
    with pytest.raises(InputError, match=r"its last checkpoint is gone; start from its weights: --init"):
        train(longer, bare, finished.parent)
    assert (bare / MODEL).is_file()


def test_seconds_go_on_where_the_checkpoint_was(fitting: Run, halted: Path, trained: Path) -> None:
    place = checkpoint.newest(halted)
    assert place is not None
    state = json.loads((place / "artifact.json").read_text())
    assert state["seconds"] > 0
    files.write_json(place / "artifact.json", {**state, "seconds": 1000.0})
    train(fitting, halted, halted.parent / "data")
    seconds = [row["seconds"] for row in run_folder.read(halted) if row["split"] == "train"]
    assert max(seconds[:7]) < 1000 <= min(seconds[7:])
    assert same(halted, trained)


def test_a_checkpoint_says_where_it_came_from(fitting: Run, halted: Path) -> None:
    place = checkpoint.newest(halted)
    assert place is not None
    about = json.loads((place / "artifact.json").read_text())["trained"]
    assert config.from_dict(Run, about["config"]) == fitting
    assert about["data"] == {"square": open_dataset(halted.parent / "data" / "square").manifest.digest}
    assert about["provenance"]["threads"] == torch.get_num_threads()
    assert about["provenance"]["libraries"]["torch"] == torch.__version__


def test_a_dataset_of_another_world_is_one_line(fitting: Run, halted: Path, tmp_path: Path) -> None:
    other = replace(fitting, model=replace(fitting.model, controls=3))
    with pytest.raises(InputError, match=r"square is a dataset of another world: \d controls and 1 laws, .* takes 3 and 1"):
        train(other, tmp_path / "run", halted.parent / "data")


@pytest.mark.parametrize("done", [False, True])
def test_a_dataset_made_anew_is_noticed(fitting: Run, halted: Path, done: bool) -> None:
    data = halted.parent / "data"
    if done:
        train(fitting, halted, data)
    shutil.rmtree(data / "square")
    collect(small(seed=1), data / "square", workers=1)
    with pytest.raises(InputError, match=r"was trained on another dataset square: its digest was \w+ and is now \w+"):
        train(fitting, halted, data)
    shutil.rmtree(data / "square")
    collect(small(), data / "square", workers=1)  # the same again, byte for byte
    train(fitting, halted, data)


def test_what_a_kill_left_half_written_goes_when_the_run_goes_on(fitting: Run, halted: Path) -> None:
    half = halted / "checkpoints" / "step-0000009"
    with suppress(KeyboardInterrupt), artifact.artifact(half, {"step": 9}, "sgjepa train", resumable=True):
        raise KeyboardInterrupt
    files.temporary(halted / "artifact.json").write_text("{")
    files.temporary(halted / "model.safetensors").write_bytes(b"half")
    (halted / ".model.safetensors.mine.tmp").write_text("not a name of ours")
    train(fitting, halted, halted.parent / "data")
    assert not half.exists()
    assert [path.name for path in halted.rglob(".*")] == [".model.safetensors.mine.tmp"]


def test_a_run_that_is_not_finished_is_no_start_for_another(fitting: Run, halted: Path) -> None:
    with pytest.raises(InputError, match="has no finished model; run its `sgjepa train` command again first"):
        train(replace(fitting, init=str(halted)), halted.parent / "next", halted.parent / "data")


def test_reading_the_loss_now_and_then_changes_nothing(
    fitting: Run, finished: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU the loss terms stay there for ten updates."""
    monkeypatch.setattr("sgjepa.training.loop._READ_LOSS", {"cpu": 10})
    folder = train(fitting, tmp_path / "seldom", finished.parent)
    assert same(folder, trained)
    seldom, often = ([(r["step"], r["split"], r["loss"]) for r in run_folder.read(f)] for f in (folder, trained))
    assert seldom == often


# --- learning ------------------------------------------------------------------------------------------------------


def test_rows_hold_training_and_validation(trained: Path) -> None:
    found = list(run_folder.read(trained))
    assert {row["split"] for row in found} == {"train", "validation"}
    validation = [row for row in found if row["split"] == "validation"]
    assert [row["step"] for row in validation] == [9, 18]
    assert all(np.isfinite(row["rollout"]) and 1 <= row["rank"] <= 8 for row in validation)
    assert list((trained / "tensorboard").iterdir())


def test_the_decoder_changes_nothing_in_the_world_model(fitting: Run, finished: Path, trained: Path, tmp_path: Path) -> None:
    beside = replace(fitting, train=replace(fitting.train, decoder=True, decoder_frames=4, decoder_width=16))
    assert same(train(beside, tmp_path / "decoder", finished.parent), trained)
    assert (tmp_path / "decoder" / "decoder.safetensors").is_file()


def test_encoding_in_chunks_trains_the_same(fitting: Run, finished: Path, trained: Path, tmp_path: Path) -> None:
    chunked = train(replace(fitting, train=replace(fitting.train, chunk=50)), tmp_path / "chunked", finished.parent)
    losses = [[row["loss"] for row in run_folder.read(folder) if row["split"] == "train"] for folder in (chunked, trained)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_the_predictor_can_be_trained_alone(fitting: Run, finished: Path, trained: Path, tmp_path: Path) -> None:
    alone = replace(fitting, seed=3, init=str(trained), train=replace(fitting.train, trains="predictor"))
    folder = train(alone, tmp_path / "alone", finished.parent)
    before, after = weights(trained), weights(folder)
    for name in before:
        kept = name.startswith(("encoder.", "projector.", "control_", "law_"))
        assert torch.equal(before[name], after[name]) or not kept, f"{name} of the frozen encoder moved"
    assert not torch.equal(before["predictor.input.weight"], after["predictor.input.weight"])


def test_a_frozen_encoder_sees_each_frame_once(
    fitting: Run, finished: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the losses are those of encoding at every step."""
    alone = replace(fitting, seed=3, init=str(trained), train=replace(fitting.train, trains="predictor"))
    with monkeypatch.context() as patch:
        patch.setattr("sgjepa.training.data.latents_of", lambda *_: None)
        every = train(alone, tmp_path / "every", finished.parent)
    seen: list[int] = []
    real = JEPA._see
    monkeypatch.setattr(JEPA, "_see", lambda model, frames: seen.append(len(frames)) or real(model, frames))
    once = train(alone, tmp_path / "once", finished.parent)
    assert sum(seen) == 30 * 64
    for term in ("loss", "rollout", "sigreg"):
        one, other = ([row[term] for row in run_folder.read(folder)] for folder in (once, every))
        assert one == pytest.approx(other, rel=1e-4)
    assert {row["frozen_encoder"] for row in run_folder.read(once)} == {f"encoder of {trained}"}


def test_probe_and_forecast_find_the_latents_that_training_made(
    fitting: Run, finished: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = replace(fitting, init=str(trained), train=replace(fitting.train, trains="predictor", epochs=1))
    folder = train(alone, tmp_path / "alone", finished.parent)
    _, model = checkpoint.load_run(folder)
    monkeypatch.setattr(JEPA, "_see", lambda *_: pytest.fail("a frame was encoded again"))
    assert latents_of(model, open_dataset(finished).train, folder).shape == (30, 64, 8)


def test_an_encoder_of_another_kind_is_refused(fitting: Run, finished: Path, trained: Path, tmp_path: Path) -> None:
    assert isinstance(fitting.model, JEPAConfig)
    deeper = replace(fitting.model, encoder=replace(fitting.model.encoder, depth=2))
    run = replace(fitting, init=str(trained), model=deeper, train=replace(fitting.train, trains="predictor"))
    with pytest.raises(InputError, match="is of another kind than this recipe's"):
        train(run, tmp_path / "x", finished.parent)


def test_a_fresh_predictor_of_another_kind_fits_a_trained_encoder(
    fitting: Run, finished: Path, trained: Path, tmp_path: Path
) -> None:
    """The paper's crossover: a Transformer with another history on the encoder that was trained with a GRU."""
    assert isinstance(fitting.model, JEPAConfig)
    other = replace(fitting.model, predictor=Transformer(depth=1, heads=2, head_dim=8, mlp=16), history=6)
    crossed = replace(fitting, init=str(trained), model=other, train=replace(fitting.train, trains="predictor", epochs=1))
    folder = train(crossed, tmp_path / "crossed", finished.parent)
    kept = [name for name in weights(trained) if name.startswith(("encoder.", "projector.", "law_"))]
    assert all(torch.equal(weights(trained)[name], weights(folder)[name]) for name in kept)


def test_rows_are_not_doubled_when_a_run_ends_before_its_first_checkpoint(
    fitting: Run, finished: Path, tmp_path: Path
) -> None:
    late = replace(fitting, train=replace(fitting.train, save_every=1000))
    train_until(6, late, tmp_path / "late", finished.parent)
    train(late, tmp_path / "late", finished.parent)
    steps = [row["step"] for row in run_folder.read(tmp_path / "late") if row["split"] == "train"]
    assert steps == list(range(1, 19))


def test_the_predictor_alone_needs_an_encoder(fitting: Run, finished: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a trained encoder: --init RUN"):
        train(replace(fitting, train=replace(fitting.train, trains="predictor")), tmp_path / "x", finished.parent)


def test_several_datasets_are_trained_on_together(fitting: Run, finished: Path, tmp_path: Path) -> None:
    (tmp_path / "square").symlink_to(finished)
    collect(small("right_triangle"), tmp_path / "triangle", workers=1)
    both = replace(fitting, data=("square", "triangle"), train=replace(fitting.train, epochs=1))
    folder = train(both, tmp_path / "both", tmp_path)
    steps = [row["step"] for row in run_folder.read(folder) if row["split"] == "train"]
    assert steps[-1] == 2 * 27 // 3


def test_patience_ends_a_run_that_stopped_improving(fitting: Run, finished: Path, tmp_path: Path) -> None:
    still = replace(
        fitting,
        optim=replace(fitting.optim, lr=0.0, lr_matrix=0.0),
        train=replace(fitting.train, epochs=50, patience=2),
    )
    folder = train(still, tmp_path / "still", finished.parent)
    assert len([row for row in run_folder.read(folder) if row["split"] == "validation"]) < 20


def test_one_step_training_and_a_frozen_encoder(fitting: Run, finished: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    try:
        MobileNetV2(32).build()
    except InputError as error:
        pytest.skip(str(error))
    (tmp_path / "square").symlink_to(finished)
    dino = replace(
        fitting,
        model=DinoConfig(encoder=MobileNetV2(32), controls=2, laws=1, depth=1, heads=2, head_dim=8, mlp=16, history=4),
        loss=OneStepLoss(sigreg=0.0, windows="dense"),
        train=replace(fitting.train, epochs=1),
    )
    folder = train(dino, tmp_path / "dino", tmp_path)
    cached = list(finished.parent.glob("square/train.latents-*.npy"))
    assert len(cached) == 1
    made = cached[0].stat().st_mtime_ns
    train(replace(dino, seed=1), tmp_path / "again", tmp_path)
    assert cached[0].stat().st_mtime_ns == made, "features were computed twice"
    _, model = checkpoint.load_run(folder)
    assert model.frozen_encoder == "MobileNetV2 (ImageNet)"
    assert json.loads((folder / run_folder.CONFIG).read_text())["frozen_encoder"] == "MobileNetV2 (ImageNet)"
    assert {row["frozen_encoder"] for row in run_folder.read(folder)} == {"MobileNetV2 (ImageNet)"}
    cached[0].unlink()


# --- several processes ---------------------------------------------------------------------------------------------


COUNTED = """
from sgjepa.data.store import Split
real = Split.pixels
def counted(self, numbers, out=None):
    with open(f"{sys.argv[2]}.rank{os.environ['RANK']}", "a") as file:
        print(*numbers, file=file)
    return real(self, numbers, out)
Split.pixels = counted
"""


def in_two_processes(run: Run, folder: Path, datasets: Path) -> subprocess.CompletedProcess[str]:
    """torchrun with 2 gloo processes; each writes the episodes it decodes to FOLDER.rankN."""
    settings, script = folder.with_suffix(".json"), folder.with_suffix(".py")
    settings.write_text(json.dumps(config.to_dict(run)))
    script.write_text(TRAIN.replace("run = ", COUNTED + "run = "))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [*launch, str(script), str(settings), str(folder), str(datasets)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def decoded(folder: Path, rank: int) -> list[int]:
    path = folder.with_name(f"{folder.name}.rank{rank}")
    return sorted(map(int, path.read_text().split())) if path.exists() else []


def test_two_processes_train_as_one(fitting: Run, finished: Path, tmp_path: Path) -> None:
    """Half the batch each. Dropout is off: its masks belong to a process."""
    assert isinstance(fitting.model, JEPAConfig)
    still = replace(fitting.model, predictor=GRU(depth=1, width=16, mlp=16, dropout=0.0))
    run = replace(fitting, model=still, train=replace(fitting.train, epochs=1, batch=4))
    alone = train(run, tmp_path / "alone", finished.parent)
    (tmp_path / "data").mkdir()
    shutil.copytree(finished, tmp_path / "data" / "square")  # the memory map goes beside the dataset
    done = in_two_processes(run, tmp_path / "two", tmp_path / "data")
    assert done.returncode == 0, done.stderr[-2000:]
    assert decoded(tmp_path / "two", 0) == list(range(30)), "a frame was decoded twice, or not at all"
    assert decoded(tmp_path / "two", 1) == [], "the second process did not take the first one's memory map"
    one, two = ([r for r in run_folder.read(f) if r["split"] == "train"] for f in (alone, tmp_path / "two"))
    assert two[0]["sigreg"] == pytest.approx(one[0]["sigreg"], rel=1e-5), "SIGReg does not see the whole batch"
    assert two[0]["rollout"] == pytest.approx(one[0]["rollout"], rel=1e-5), "the row tells of one process only"
    for name in ("rollout", "sigreg"):
        assert [row[name] for row in two] == pytest.approx([row[name] for row in one], rel=2e-2)
    matrices = [name for name, value in weights(alone).items() if value.dim() == 2]
    for name in matrices:  # not biases in front of a BatchNorm: their gradient is rounding, which AdamW makes large
        torch.testing.assert_close(weights(tmp_path / "two")[name], weights(alone)[name], rtol=1e-2, atol=1e-3)


def test_two_processes_go_on_from_the_checkpoint_that_the_first_finds(fitting: Run, halted: Path) -> None:
    """And agree that a finished run is finished."""
    even = replace(fitting, train=replace(fitting.train, batch=2, save_every=7))
    folder, data = halted.parent / "even", halted.parent / "data"
    train_until(9, even, folder, data)
    done = in_two_processes(even, folder, data)
    assert done.returncode == 0, done.stderr[-2000:]
    steps = [row["step"] for row in run_folder.read(folder) if row["split"] == "train"]
    assert steps == list(range(1, 27))
    about = json.loads((checkpoint.newest(folder) / "artifact.json").read_text())["trained"]  # type: ignore[operator]
    assert about["provenance"]["processes"] == 2
    assert in_two_processes(even, folder, data).returncode == 0


def test_two_processes_share_the_frozen_encoding(fitting: Run, finished: Path, trained: Path, tmp_path: Path) -> None:
    """Of an encoder that a run trained, half of the episodes each."""
    frozen = replace(fitting.train, trains="predictor", batch=2, epochs=1)
    done = in_two_processes(replace(fitting, init=str(trained), train=frozen), tmp_path / "two", finished.parent)
    assert done.returncode == 0, done.stderr[-2000:]
    shares = [decoded(tmp_path / "two", rank) for rank in range(2)]
    assert sorted(shares[0] + shares[1]) == list(range(30))
    assert min(len(share) for share in shares) > 10


def test_two_processes_share_the_work_of_a_foreign_encoder(fitting: Run, finished: Path, tmp_path: Path) -> None:
    """And write what one process would."""
    model = DinoConfig(encoder=MobileNetV2(32), controls=2, laws=1, depth=1, heads=2, head_dim=8, mlp=16, history=4)
    try:
        alone = model.build()
    except InputError as error:
        pytest.skip(str(error))
    (tmp_path / "data").mkdir()
    shutil.copytree(finished, tmp_path / "data" / "square", ignore=shutil.ignore_patterns("*.npy"))
    loss, short = OneStepLoss(sigreg=0.0, windows="dense"), replace(fitting.train, batch=2, epochs=1)
    done = in_two_processes(replace(fitting, model=model, loss=loss, train=short), tmp_path / "two", tmp_path / "data")
    assert done.returncode == 0, done.stderr[-2000:]
    shares = [decoded(tmp_path / "two", rank) for rank in range(2)]
    assert sorted(shares[0] + shares[1]) == list(range(30))
    (shared,) = (tmp_path / "data" / "square").glob("train.latents-*.npy")
    shared.rename(tmp_path / "shared.npy")
    expected = latents_of(alone, open_dataset(tmp_path / "data" / "square").train, tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "shared.npy"), expected)


def test_two_processes_say_why_the_first_refused(fitting: Run, halted: Path) -> None:
    done = in_two_processes(replace(fitting, seed=9), halted, halted.parent / "data")
    assert done.returncode != 0
    assert "holds a run with seed = 0, not 9" in done.stderr


# --- failure -------------------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_stops_with_the_episodes(
    fitting: Run, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wild = replace(fitting, optim=replace(fitting.optim, kind="adamw", lr=1e30, clip=1e30, warmup=0.0))
    words = r"is not finite at step \d+ \(episodes \[.*\]\); last good checkpoint: "
    with pytest.raises(InputError, match=words) as at_once:
        train(wild, tmp_path / "wild", finished.parent)
    monkeypatch.setattr("sgjepa.training.loop._READ_LOSS", {"cpu": 10})  # found later, the same step is named
    with pytest.raises(InputError, match=words) as later:
        train(wild, tmp_path / "later", finished.parent)
    assert str(later.value).split(";")[0] == str(at_once.value).split(";")[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": ("nowhere-mini",)}, "make it: sgjepa data nowhere --size mini"),
        ({"train": Train(epochs=1, batch=999, frames=64)}, "must fit into the 27 there are"),
        ({"train": Train(epochs=1, batch=2, frames=65)}, "1 to 64 frames"),
        ({"train": Train(epochs=1, batch=2, frames=5)}, "a stretch needs at least 6 frames"),
        ({"loss": RolloutLoss(steps=2)}, "a stretch needs exactly 6 frames"),
        ({"seed": -1}, "seeds must not be negative"),
    ],
)
def test_a_run_that_cannot_be_is_refused(
    fitting: Run, finished: Path, tmp_path: Path, change: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        train(replace(fitting, **change), tmp_path / "x", finished.parent)  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists(), "a refused run left a folder behind"


def test_other_settings_in_the_same_folder_are_refused(fitting: Run, finished: Path, trained: Path) -> None:
    with pytest.raises(InputError, match="holds a run with seed = 0, not 9"):
        train(replace(fitting, seed=9), trained, finished.parent)


def test_a_model_that_does_not_fit_is_named(fitting: Run, finished: Path, trained: Path, tmp_path: Path) -> None:
    assert isinstance(fitting.model, JEPAConfig)
    wider = replace(fitting, init=str(trained), model=replace(fitting.model, latent=12))
    with pytest.raises(InputError, match="does not fit this recipe"):
        train(wider, tmp_path / "x", finished.parent)


@pytest.mark.opengl
def test_a_world_without_controls_trains_on_its_law_alone(fitting: Run, tmp_path: Path) -> None:
    base = small("approach_ball")
    few = replace(base, train=replace(base.train, episodes=20), test=replace(base.test, episodes=2))
    collect(few, tmp_path / "approach_ball", workers=1)
    assert isinstance(fitting.model, JEPAConfig)
    run = replace(fitting, data=("approach_ball",), model=replace(fitting.model, controls=0))
    _, model = checkpoint.load_run(train(run, tmp_path / "run", tmp_path))
    c = model.condition(torch.zeros(1, 3, 0), torch.tensor([[4.0]]))
    assert not torch.allclose(c, model.condition(torch.zeros(1, 3, 0), torch.tensor([[9.0]])))


# --- recipes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", recipes())
@pytest.mark.parametrize("size", ["mini", "paper"])
def test_every_recipe_survives_json(name: str, size: str) -> None:
    run = recipe(name, size)
    assert run.name == name
    assert config.from_dict(Run, json.loads(json.dumps(config.to_dict(run)))) == run


@pytest.mark.parametrize("world", ["square", "approach_ball"])
def test_methods_that_are_compared_have_the_same_budget_at_mini_size(world: str) -> None:
    runs = [recipe(f"{world}_{method}", "mini") for method in ("gru", "ssm", "transformer", "lewm", "dino")]
    assert len({(run.train, run.optim, run.data, run.history) for run in runs}) == 1


def test_shapes_that_are_trained_on_together_are_one_recipe() -> None:
    for size in ("mini", "paper"):
        run = recipe("triangle_square_gru", size)
        assert run.data == (f"right_triangle-{size}", f"square-{size}")
        assert replace(run, name="square_gru", data=(f"square-{size}",)) == recipe("square_gru", size)
    larger = recipe("triangle_square_pentagon_gru_small", "paper")
    assert isinstance(larger.model, JEPAConfig)
    assert (larger.model.encoder.width, larger.model.encoder.heads, len(larger.data)) == (384, 6, 3)


def test_the_command_line_trains_on_the_datasets_it_is_given(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Run] = []
    monkeypatch.setattr("sgjepa.training.world_model.train", lambda run, *_: asked.append(run) or finished)
    monkeypatch.setattr("sgjepa.cli.train._say_trained", lambda _: None)
    for name in "ab":
        shutil.copytree(finished, tmp_path / name)
    names = ["--data", "a", "--data", "b", "--datasets", str(tmp_path)]
    assert cli.main(["train", "square_gru", *names, "--out", str(tmp_path / "run")]) == 0
    assert asked[0].data == ("a", "b")


def test_the_command_line_takes_updates_in_all_and_how_often_to_save(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Run] = []
    monkeypatch.setattr("sgjepa.training.world_model.train", lambda run, *_: asked.append(run) or finished)
    monkeypatch.setattr("sgjepa.cli.train._say_trained", lambda _: None)
    usual = recipe("square_gru", "mini").train
    data = ["--data", finished.name, "--datasets", str(finished.parent), "--out", str(tmp_path)]
    assert cli.main(["train", "square_gru", *data, "--updates", "30", "--save-every", "7"]) == 0
    assert total_updates(asked[0], finished.parent) == 30
    assert (asked[0].train.save_every, asked[0].train.batch) == (7, usual.batch)
    assert cli.main(["train", "square_gru", *data, "--updates", "0"]) == 3


def test_settings_of_the_command_line_are_the_runs_and_name_its_folder(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[Run, Path]] = []
    monkeypatch.setattr("sgjepa.training.world_model.train", lambda run, folder, *_: asked.append((run, folder)) or finished)
    monkeypatch.setattr("sgjepa.cli.train._say_trained", lambda *_: None)
    command = ["train", "square_gru", "--data", finished.name, "--datasets", str(finished.parent), "--updates", "30"]
    assert cli.main([*command, "--set", "optim.lr=3e-3", "--set", "train.batch=20"]) == 0
    ((run, folder),) = asked
    assert (run.optim.lr, run.train.batch) == (0.003, 20)
    assert total_updates(run, finished.parent) == 30, "updates are counted in batches of the size that was set"
    assert folder == Path("runs/square_gru-mini-lr0.003-batch20-seed0")
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"next: sgjepa evaluate {finished} --dataset {finished}", "the training's data lie elsewhere than usual"
    assert cli.parser().parse_args(shlex.split(last)[2:]).run
    for setting, words in {
        "seed=3": "--set seed: use --seed",
        "train.epochs=3": "the length is given by --updates, too",
        "train.bach=3": "did you mean train.batch?",
    }.items():
        assert cli.main([*command, "--set", setting]) == 3
        assert words in capsys.readouterr().err
    assert cli.main([*command, "--chunk", "5", "--set", "train.chunk=6"]) == 3
    assert "given by --chunk, too" in capsys.readouterr().err


def test_another_setting_in_the_same_folder_is_refused_by_its_place(fitting: Run, finished: Path, trained: Path) -> None:
    other = config.override(fitting, {"optim.lr": "2e-3"})
    with pytest.raises(InputError, match=r"holds a run with optim.lr = 0.001, not 0.002"):
        train(other, trained, finished.parent)


def test_processes_that_cannot_share_a_batch_are_told_which_they_can(fitting: Run, finished: Path, tmp_path: Path) -> None:
    """Mini recipes have 21 stretches in a batch."""
    done = in_two_processes(replace(fitting, train=replace(fitting.train, batch=21)), tmp_path / "two", finished.parent)
    assert done.returncode != 0
    assert "2 processes cannot share a batch of 21 stretches; add --set train.batch=20" in done.stderr
    assert not (tmp_path / "two").exists()


def test_an_unknown_recipe_is_told_the_worlds_and_methods() -> None:
    with pytest.raises(InputError, match=r"did you mean triangle_square_gru\?.*worlds: square.*methods: gru") as error:
        recipe("triangle_squar_gru", "mini")
    assert "\n" not in str(error.value)


def test_paper_recipes_are_the_papers_table() -> None:
    for world, weight in [("square", 0.72), ("approach_ball", 0.18), ("arm_paddle_ball", 0.72), ("franka_basket", 0.09)]:
        run = recipe(f"{world}_gru", "paper")
        assert isinstance(run.loss, RolloutLoss)
        assert (run.loss.steps, run.loss.discount, run.loss.sigreg) == (5, 0.95, weight)
        assert (run.train.epochs, run.train.batch, run.history) == (20, 64, 20)
        assert (run.optim.lr_matrix, run.optim.lr, run.optim.weight_decay) == (1e-4, 5e-5, 1e-3)
