"""The learned policy from demonstrations to controls: what it learns from, how it goes on after a kill, what it refuses."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.datasets import small
from fixtures.runs import RUN

from sgjepa import cli
from sgjepa.core import config, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.provenance import provenance
from sgjepa.core.run_folder import RunRecord
from sgjepa.data.collect import collect
from sgjepa.data.config import make_env
from sgjepa.data.probe_targets import state_observations
from sgjepa.data.store import Dataset, open_dataset, split_episodes
from sgjepa.envs import ENVS, get_env
from sgjepa.models.dino import DinoConfig
from sgjepa.models.encoders.frozen import DINOv2
from sgjepa.models.weights import load_tensors
from sgjepa.policies import diffusion
from sgjepa.policies import learned as learned_policies
from sgjepa.policies.base import Observation
from sgjepa.policies.demonstrations import demonstrations
from sgjepa.policies.diffusion import DiffusionConfig, follow, rate
from sgjepa.policies.diffusion_model import Diffusion, NetworkConfig
from sgjepa.policies.features import ModelFeatures, StateFeatures, in_blocks, open_features
from sgjepa.policies.files import RECORD, WEIGHTS, read_policy
from sgjepa.policies.learned import LearnedPolicy, load_policy, train_policy
from sgjepa.policies.tasks import executable, learned
from sgjepa.recipes.policies import SIZES, policy
from sgjepa.training import checkpoint

pytestmark = pytest.mark.opengl
torch.set_num_threads(1)

CATCHER, FRANKA = "arm_catcher_ball", "franka_basket"
TINY = DiffusionConfig(
    network=NetworkConfig(history=5, horizon=8, hidden=8, layers=1, widths=(8, 16), step_width=8),
    diffusion=Diffusion(steps=10, sampler="ddim", sampled=4),
    updates=12,
    batch=16,
    lr=1e-3,
    warmup=3,
    log_every=1,
    validate_every=6,
    save_every=4,
)


def made(world: str, train: int, seed: int, place: Path) -> Dataset:
    settings = small(world, seed=seed)
    few = replace(settings, train=replace(settings.train, episodes=train), test=replace(settings.test, episodes=1))
    return open_dataset(collect(few, place / f"{world}-tiny", workers=1))


@pytest.fixture(scope="module")
def caught(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Seven episodes of the catcher: some of the six that are learned from are failures, the one held out is a success."""
    return made(CATCHER, 7, 1, tmp_path_factory.mktemp("datasets"))


@pytest.fixture(scope="module")
def state(caught: Dataset) -> StateFeatures:
    return StateFeatures(get_env(CATCHER).env_spec)


@pytest.fixture(scope="module")
def trained(caught: Dataset, state: StateFeatures, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_policy(TINY, state, caught, tmp_path_factory.mktemp("policies") / "tiny")


@pytest.fixture(scope="module")
def run(caught: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the catcher's world; its model was never trained, which nothing here depends on."""
    torch.manual_seed(0)
    settings = replace(RUN, data=(caught.path.name,), model=replace(RUN.model, controls=3))
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    folder.mkdir()
    data = {caught.path.name: caught.manifest.digest}
    about = RunRecord(config.to_dict(settings), data, provenance(), worlds=(CATCHER,))
    checkpoint.finish(folder, about, {run_folder.MODEL: settings.model.build()})
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_tensors(folder / WEIGHTS)


# --- what is learned from ------------------------------------------------------------------------------------------


def test_a_window_is_the_last_frames_and_the_next_controls_of_a_successful_episode(
    caught: Dataset, state: StateFeatures
) -> None:
    scaling, windows, _ = demonstrations(TINY, state, 42, caught)
    split, (fitting, _) = caught.train, split_episodes(7)
    good = [number for number in fitting if split.success[number]]
    assert 0 < len(good) < len(fitting)
    frames, last = scaling.features(state_observations(split)), split.frames - TINY.network.horizon - 1
    assert sorted(zip(windows.row.tolist(), windows.start.tolist(), strict=True)) == [
        (row, t) for row in range(len(good)) for t in range(last + 1)
    ]
    assert last + TINY.network.horizon - 1 == split.frames - 2, "the last stored control is never a target"
    features, law, control = windows.batch(np.arange(len(windows)))
    for number in (0, 2, 30, len(windows) - 1):
        episode, t = good[windows.row[number]], int(windows.start[number])
        back = [max(frame, 0) for frame in range(t - TINY.network.history + 1, t + 1)]
        assert np.array_equal(features[number].numpy(), frames[episode][back])
        assert np.array_equal(control[number].numpy(), scaling.control(split.control[episode, t : t + 8]))
        assert np.array_equal(law[number].numpy(), scaling.law(split.law[episode]))


def test_scaled_numbers_are_what_a_network_likes(caught: Dataset, state: StateFeatures) -> None:
    scaling, windows, held_out = demonstrations(TINY, state, 42, caught)
    moving = np.asarray(scaling.features.std) != 1.0  # the spread that what never varies gets
    assert moving.sum() > 15
    np.testing.assert_allclose(windows.features.flatten(0, 1).mean(0).numpy(), 0, atol=1e-3)
    np.testing.assert_allclose(windows.features.flatten(0, 1).std(0).numpy()[moving], 1, atol=1e-2)
    assert windows.control.amin((0, 1)).tolist() == [-1, -1, -1]
    assert windows.control.amax((0, 1)).tolist() == [1, 1, 1]
    assert len(held_out.features) == 1
    assert float(held_out.control.abs().max()) <= 1


def test_batches_are_a_function_of_seed_and_step_and_every_window_comes_once_in_an_epoch(
    caught: Dataset, state: StateFeatures
) -> None:
    _, windows, _ = demonstrations(TINY, state, 42, caught)
    size = len(windows) // 4
    epoch = [windows.drawn(0, step, size) for step in range(4)]
    assert sorted(np.concatenate(epoch).tolist()) == list(range(4 * size))
    assert np.array_equal(windows.drawn(0, 2, size), epoch[2])
    assert not np.array_equal(windows.drawn(1, 2, size), epoch[2])
    assert len(windows.drawn(0, 3, 3 * len(windows) + 1)) == 3 * len(windows) + 1, "a batch may be larger than an epoch"


def test_the_strike_is_learned_from_what_comes_before_it(tmp_path: Path) -> None:
    dataset = made(FRANKA, 3, 0, tmp_path)
    _, windows, _ = demonstrations(TINY, StateFeatures(get_env(FRANKA).env_spec), 42, dataset)
    fitting, _ = split_episodes(3)
    good = [number for number in fitting if dataset.train.success[number]]
    struck = dataset.train.record("event")[good][..., 1] > 0
    first = struck.argmax(axis=1)
    assert struck.any(axis=1).all()
    for row, strike in enumerate(first):
        assert windows.start[windows.row == row].tolist() == list(range(strike))
    before = first[windows.row[windows.urgent]] - windows.start[windows.urgent]
    assert sorted(set(before.tolist())) == list(range(1, 17))
    for step in range(3):
        assert np.isin(windows.drawn(0, step, 16)[8:], windows.urgent).all()


@pytest.mark.parametrize("world", [name for name, env in ENVS.items() if env.env_spec.has_task])
def test_controls_survive_being_learned_and_stay_within_the_worlds_limits(world: str) -> None:
    declared, rng = get_env(world).env_spec, np.random.default_rng(0)
    limit = np.broadcast_to(np.asarray(declared.control_limit), len(declared.control))
    control = rng.uniform(-limit, limit, (500, len(limit))).astype(np.float32)
    if len(limit) == 5:
        control[:, 4] = np.abs(control[:, 4]) * 0.99  # a lean is not negative
    np.testing.assert_allclose(executable(declared, learned(declared, control)), control, atol=2e-3)
    wild = executable(declared, 10 * rng.normal(size=(500, len(limit))))
    assert wild.dtype == np.float32
    assert (np.abs(wild) <= limit * (1 + 1e-6)).all()


def test_a_face_that_leans_a_little_to_either_side_is_learned_as_nearly_the_same() -> None:
    declared = get_env("arm_paddle_ball").env_spec
    left, right = np.array([0, 0, 0, 0.0, 0.01]), np.array([0, 0, 0, np.pi, 0.01])
    assert np.abs(learned(declared, left) - learned(declared, right)).max() < 0.021


# --- training ------------------------------------------------------------------------------------------------------


def interrupted(count: int, caught: Dataset, state: StateFeatures, folder: Path) -> None:
    """Train, and be stopped dead when the loss is asked for the time number `count`."""
    real, calls = diffusion.noise_loss, []

    def stopping(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == count:
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diffusion, "noise_loss", stopping)
        with pytest.raises(KeyboardInterrupt):
            train_policy(TINY, state, caught, folder)


@pytest.mark.parametrize("count", [3, 10])
def test_a_training_that_was_killed_ends_in_the_same_weights(
    count: int, caught: Dataset, state: StateFeatures, trained: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    interrupted(count, caught, state, folder)
    assert not (folder / WEIGHTS).exists()
    with pytest.raises(InputError, match="no finished policy"):
        load_policy(folder)
    train_policy(TINY, state, caught, folder)
    one, other = weights(folder), weights(trained)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    steps = [row["step"] for row in run_folder.read(folder) if row["split"] == "train"]
    assert steps == list(range(1, 13)), "every update has exactly one row"


def test_a_finished_policy_is_not_trained_again_and_another_seed_is_refused_there(
    caught: Dataset, state: StateFeatures, trained: Path
) -> None:
    before = (trained / WEIGHTS).stat().st_mtime_ns
    train_policy(TINY, state, caught, trained)
    assert (trained / WEIGHTS).stat().st_mtime_ns == before
    with pytest.raises(InputError, match=r"holds a policy with config\.seed = 0, not 1"):
        train_policy(replace(TINY, seed=1), state, caught, trained)


def test_a_folder_of_somebody_else_is_left_alone(caught: Dataset, state: StateFeatures, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty and was not made by"):
        train_policy(TINY, state, caught, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_record_tells_what_was_learned_from(caught: Dataset, trained: Path) -> None:
    there = read_policy(trained)
    assert there.settings.data == {caught.path.name: caught.manifest.digest}
    assert there.counts.held_out_episodes == 1
    assert there.scores is not None
    assert there.scores.validation_loss == [r["loss"] for r in run_folder.read(trained) if r["split"] == "validation"][-1]
    assert config.from_dict(DiffusionConfig, there.settings.config) == TINY


def test_an_edited_record_and_damaged_weights_are_refused(trained: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(trained, tmp_path / "copy"))
    text = (copy / RECORD).read_text()
    (copy / RECORD).write_text(text.replace('"batch": 16', '"batch": 17'))
    with pytest.raises(InputError, match="its digest does not fit"):
        load_policy(copy)
    (copy / RECORD).write_text(text)
    content = bytearray((copy / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (copy / WEIGHTS).write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        load_policy(copy)


def test_the_running_mean_copies_first_and_forgets_ever_more_slowly() -> None:
    mean, network = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
    expected = 0.0
    for step in range(5):
        with torch.no_grad():
            network.weight.fill_(step + 1.0)
        follow(mean, network, step, 0.9999)
        keep = 1 - (1 + step) ** -0.75
        expected = keep * expected + (1 - keep) * (step + 1)
        assert mean.weight.item() == pytest.approx(expected, rel=1e-6)
        if step == 0:
            assert mean.weight.item() == 1.0
    follow(mean, network, 10**9, 0.5)
    assert mean.weight.item() == pytest.approx((expected + 5) / 2, rel=1e-6)


def test_the_learning_rate_rises_in_a_line_and_falls_as_a_cosine_to_nothing() -> None:
    cfg = DiffusionConfig(updates=1500, warmup=500)
    assert [rate(step, cfg) for step in (0, 249, 499, 500, 1000)] == pytest.approx([0.002, 0.5, 1.0, 1.0, 0.5])
    assert 0 < rate(1499, cfg) < 1e-5


@pytest.mark.slow
def test_a_policy_learns_to_follow_its_demonstrations(caught: Dataset, state: StateFeatures, tmp_path: Path) -> None:
    """On episodes that it knows, controls come closer to what was shown than the mean of all that was shown."""
    network = replace(TINY.network, hidden=32, widths=(32, 64), step_width=16)
    cfg = replace(TINY, network=network, updates=1000, batch=32, lr=3e-3, save_every=1000, validate_every=1000)
    found = load_policy(train_policy(cfg, state, caught, tmp_path / "longer"), execute=1)
    split, (fitting, _) = caught.train, split_episodes(7)
    good = [number for number in fitting if split.success[number]]
    laws, seen = split.law[good], state_observations(split)[good]
    found.reset(laws, range(len(good)))
    answered = np.stack([found.act({"state": seen[:, t]}, laws) for t in range(50)], axis=1)
    shown = split.control[good][:, :50]
    assert np.mean((answered - shown) ** 2) < 0.5 * np.mean((shown - shown.mean((0, 1))) ** 2)


# --- at work -------------------------------------------------------------------------------------------------------


def drive(
    policy: LearnedPolicy, shown: Observation | np.ndarray, laws: np.ndarray, seeds: list[int], frames: int = 9
) -> np.ndarray:
    """shown: what is observed in every frame, (N, T, ...) by part; an array is the policy's only part."""
    parts = shown if isinstance(shown, dict) else {policy.observes[0]: shown}
    policy.reset(laws, seeds)
    return np.stack([policy.act({part: parts[part][:, t] for part in parts}, laws) for t in range(frames)], axis=1)


def test_an_episode_does_not_depend_on_those_beside_it(caught: Dataset, trained: Path) -> None:
    found, seen, laws = load_policy(trained, execute=4), state_observations(caught.train), caught.train.law
    together = drive(found, seen, laws, list(range(7)))
    for number in (0, 3, 6):
        alone = drive(found, seen[[number]], laws[[number]], [number])
        assert np.array_equal(alone[0], together[number])
    assert not np.array_equal(drive(found, seen[[3]], laws[[3]], [4])[0], together[3]), "chance comes from the seed"


def test_what_the_policy_sees_at_work_is_what_it_was_trained_on(
    caught: Dataset, state: StateFeatures, trained: Path
) -> None:
    _, windows, _ = demonstrations(TINY, state, 42, caught)
    found, (fitting, _) = load_policy(trained), split_episodes(7)
    good = [number for number in fitting if caught.train.success[number]]
    seen, laws = state_observations(caught.train)[good], caught.train.law[good]
    found.reset(laws, range(len(good)))
    for t in range(8):
        found.act({"state": seen[:, t]}, laws)
        expected = windows.batch(np.flatnonzero(windows.start == t))[0]
        assert np.array_equal(found._episodes.history, expected.numpy())


def test_a_plan_is_followed_for_as_long_as_asked(caught: Dataset, trained: Path) -> None:
    """Until the next planning, what is seen changes nothing."""
    found, seen, laws = load_policy(trained, execute=4), state_observations(caught.train)[:2], caught.train.law[:2]
    usual, changed = drive(found, seen, laws, [0, 1]), seen.copy()
    changed[:, 1:] += 1.0
    other = drive(found, changed, laws, [0, 1])
    assert np.array_equal(usual[:, :4], other[:, :4])
    assert not np.array_equal(usual[:, 4], other[:, 4])


def test_a_policy_drives_its_world(caught: Dataset, trained: Path) -> None:
    found, env = load_policy(trained), make_env(caught.settings)
    env.reset(seed=0)
    laws = np.array([[env.law["gravity"]]], np.float32)
    found.reset(laws, [0])
    for _ in range(10):
        env.step(found.act({"state": env.state_observation()[None]}, laws)[0])
    assert env.t == 10
    assert found.observes == ("state",)


def test_frames_are_seen_through_the_run_as_in_training(caught: Dataset, run: Path, tmp_path: Path) -> None:
    features = open_features(run, get_env(CATCHER).env_spec)
    found = load_policy(train_policy(TINY, features, caught, tmp_path / "seeing"))
    assert found.observes == ("frame",)
    frames = caught.train.pixels(np.arange(3))
    stored = features.of_split(caught.train, np.arange(3))
    np.testing.assert_allclose(features.of_observation({"frame": frames[:, 5]}), stored[:, 5], atol=1e-5)
    together = drive(found, frames, caught.train.law[:3], [0, 1, 2], frames=3)
    assert np.array_equal(drive(found, frames[[1]], caught.train.law[[1]], [1], frames=3)[0], together[1])


def test_a_pose_is_seen_beside_the_frames_as_in_training(caught: Dataset, run: Path, tmp_path: Path) -> None:
    """What the loop shows is what was stored; a pose that moves changes what is done, the ball's state is not seen."""
    spec, three = get_env(CATCHER).env_spec, np.arange(3)
    features, alone = (open_features(one, spec, pose=True) for one in (run, None))
    frames, states, laws = caught.train.pixels(three), state_observations(caught.train)[three], caught.train.law[:3]
    own = states[:, :, len(spec.state) :]
    shown: Observation = {"frame": frames, "pose": own}
    stored = features.of_split(caught.train, three)
    np.testing.assert_allclose(
        features.of_observation({part: values[:, 2] for part, values in shown.items()}), stored[:, 2], atol=1e-5
    )
    assert np.array_equal(stored[..., -alone.width :], alone.of_split(caught.train, three))
    assert np.array_equal(alone.of_observation({"pose": own[:, 2]}), own[:, 2])
    found = load_policy(train_policy(TINY, features, caught, tmp_path / "posed"))
    blind = load_policy(train_policy(TINY, alone, caught, tmp_path / "alone"))
    assert (found.observes, blind.observes) == (("frame", "pose"), ("pose",))
    moved: Observation = {"frame": frames, "pose": own + 0.1}
    assert not np.array_equal(drive(found, shown, laws, [0, 1, 2], 1), drive(found, moved, laws, [0, 1, 2], 1))
    with pytest.raises(InputError, match="square has no robot with proprioception"):
        open_features(None, get_env("square").env_spec, pose=True)


def test_patches_of_a_foreign_encoder_are_seen_as_they_were_stored(caught: Dataset, run: Path, tmp_path: Path) -> None:
    """They are kept in half precision, so a policy learned from rounded ones."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 56, "patch_size": 14}
    transformers.Dinov2Model(transformers.Dinov2Config(**sizes)).save_pretrained(tmp_path)
    foreign = DinoConfig(
        encoder=DINOv2(str(tmp_path), image_size=28), controls=3, laws=1, depth=1, heads=2, head_dim=8, mlp=16
    )
    model = foreign.build().eval()
    frames = caught.train.pixels(np.arange(3))[:, 5]
    patches = in_blocks(lambda some: model.encode(some[:, None])[:, 0], torch.from_numpy(frames))  # (3, P, C)
    seen = ModelFeatures(run, checkpoint.load_run(run)[0], model).of_observation({"frame": frames})
    assert np.array_equal(seen, patches.half().float().mean(dim=1).numpy())
    assert not np.array_equal(seen, patches.mean(dim=1).numpy())


def test_a_run_that_changed_or_is_gone_is_noticed(caught: Dataset, run: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(run, tmp_path / "run"))
    folder = train_policy(replace(TINY, updates=1), open_features(moved, get_env(CATCHER).env_spec), caught, tmp_path / "p")
    settings, model = checkpoint.load_run(moved)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    checkpoint.finish(moved, run_folder.about(moved), {run_folder.MODEL: model})
    with pytest.raises(InputError, match="trained on other weights of run"):
        load_policy(folder)
    assert isinstance(load_policy(folder, run=run), LearnedPolicy), "the same weights elsewhere"
    shutil.rmtree(moved)
    with pytest.raises(InputError, match="does not exist; restore that run"):
        load_policy(folder)
    assert settings.name == "tiny"


def test_pictures_of_another_size_are_refused(run: Path) -> None:
    with pytest.raises(InputError, match="takes pictures of 32 pixels, got 64"):
        ModelFeatures(run, *checkpoint.load_run(run)).of_observation({"frame": np.zeros((1, 64, 64, 3), np.uint8)})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"execute": 9}, "plans 8 controls: it can execute 1 to 8, not 9"),
        ({"execute": 0}, "not 0"),
        ({"sampler": "ddpm", "steps": 4}, "ddpm takes all 10 steps"),
        ({"sampler": "heun"}, "unknown sampler 'heun'"),
        ({"steps": 11}, "ddim takes at most 10 steps"),
    ],
)
def test_a_policy_that_cannot_act_so_says_why(trained: Path, settings: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_policy(trained, **settings)  # type: ignore[arg-type]


def test_features_of_another_width_are_refused(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A world that shows more, or less, than when the policy was trained."""
    fewer = open_features(None, get_env(CATCHER).env_spec, pose=True)
    monkeypatch.setattr(learned_policies, "open_features", lambda *_, **__: fewer)
    with pytest.raises(InputError, match=rf"takes \d+ features of a frame, and state has {fewer.width}"):
        load_policy(trained)


def test_both_samplers_drive_the_same_policy(caught: Dataset, trained: Path) -> None:
    seen, laws = state_observations(caught.train)[:2], caught.train.law[:2]
    driven = [drive(load_policy(trained, sampler=sampler), seen, laws, [0, 1]) for sampler in ("ddim", "ddpm")]
    assert all(np.isfinite(controls).all() for controls in driven)
    assert not np.isclose(*driven).all()


def test_another_world_other_laws_or_a_swapped_dataset_are_refused(caught: Dataset, trained: Path, finished: Path) -> None:
    found = load_policy(trained)
    found.check(caught)
    with pytest.raises(InputError, match="a dataset of square, and the policy was trained for arm_catcher_ball"):
        found.check(open_dataset(finished))
    with pytest.raises(InputError, match="the laws gravity of each of 2 episodes"):
        found.reset(np.zeros((2, 2), np.float32), [0, 1])
    swapped = replace(found.record.settings, data={caught.path.name: "another"})
    found.record = replace(found.record, settings=swapped)
    with pytest.raises(InputError, match="trained on another dataset arm_catcher_ball-tiny"):
        found.check(caught)


def test_a_policy_that_is_not_told_the_law_does_not_depend_on_it(
    caught: Dataset, state: StateFeatures, trained: Path, tmp_path: Path
) -> None:
    blind = load_policy(train_policy(replace(TINY, law=False, updates=2), state, caught, tmp_path / "blind"))
    seen, laws = state_observations(caught.train)[:2], caught.train.law[:2]
    assert np.array_equal(drive(blind, seen, laws, [0, 1]), drive(blind, seen, laws + 5, [0, 1]))
    told = load_policy(trained)
    assert not np.array_equal(drive(told, seen, laws, [0, 1]), drive(told, seen, laws + 5, [0, 1]))


def test_a_world_without_a_task_and_a_dataset_without_success_are_refused(
    caught: Dataset, state: StateFeatures, finished: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="square has no task"):
        train_policy(TINY, StateFeatures(get_env("square").env_spec), open_dataset(finished), tmp_path / "none")
    failed = open_dataset(caught.path)
    failed.train.success = np.zeros(7, bool)
    with pytest.raises(InputError, match="no successful training episode"):
        train_policy(TINY, state, failed, tmp_path / "none")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("task", [name for name, env in ENVS.items() if env.env_spec.has_task])
def test_every_recipe_survives_json(size: str, task: str) -> None:
    made = policy(size, task)
    assert config.from_dict(DiffusionConfig, config.to_dict(made)) == made


def test_the_command_line_trains_on_the_state_and_on_a_run(
    caught: Dataset, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["--updates", "1", "--save-every", "1"]
    assert cli.main(["train-policy", "state", "--dataset", str(caught.path), *few]) == 0
    assert "policies/arm_catcher_ball_state-mini-seed0: the policy is policy.safetensors" in capsys.readouterr().out
    assert cli.main(["train-policy", str(run), "--datasets", str(caught.path.parent), "--no-law", "--seed", "3", *few]) == 0
    there = read_policy(tmp_path / "policies" / "tiny-mini-nolaw-seed3")
    assert (there.settings.config["law"], there.settings.config["seed"]) == (False, 3)
    assert there.settings.source.name == "tiny"
    assert cli.main(["train-policy", "state"]) == 3
    assert "--dataset" in capsys.readouterr().err
    assert cli.main(["train-policy", str(run), "--datasets", str(caught.path.parent), "--pose", *few]) == 0
    assert read_policy(tmp_path / "policies" / "tiny-mini-pose-seed0").settings.source.pose
    assert cli.main(["train-policy", "pose", "--dataset", str(caught.path), *few]) == 0
    assert read_policy(tmp_path / "policies" / "arm_catcher_ball_pose-mini-seed0").settings.source.name == "pose"
    assert cli.main(["train-policy", "pose", "--dataset", str(caught.path), "--pose"]) == 3
    assert "--pose goes with a RUN" in capsys.readouterr().err
