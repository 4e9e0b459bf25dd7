"""Probes and long-horizon evaluation: what is zero for a perfect model, what is never seen, and which frame a horizon is."""

from __future__ import annotations

import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.datasets import small
from fixtures.runs import RUN
from PIL import Image
from torch import Tensor

from sgjepa import cli, laws
from sgjepa.core import artifact, config, files
from sgjepa.core.errors import InputError
from sgjepa.core.run_folder import MODEL, about
from sgjepa.core.stats import bootstrap
from sgjepa.core.tables import read_table, select
from sgjepa.data.collect import collect
from sgjepa.data.config import make_env
from sgjepa.data.probe_targets import Targets, require_targets
from sgjepa.data.store import Dataset, open_dataset
from sgjepa.envs import ENVS
from sgjepa.evaluation.baselines import references, simulate
from sgjepa.evaluation.counterfactual import CounterfactualConfig, counterfactual
from sgjepa.evaluation.evaluate import ForecastConfig, evaluate, non_default_settings
from sgjepa.evaluation.forecast import forecast
from sgjepa.evaluation.metrics import Guess, errors
from sgjepa.evaluation.probes import Fitted, Probe, ProbeConfig, fit, fit_probe
from sgjepa.evaluation.records import EvaluationRecord
from sgjepa.laws import Grid, coordinates_moved_by, in_distribution
from sgjepa.models.base import WorldModel
from sgjepa.models.dino import DinoConfig
from sgjepa.models.encoders.frozen import MobileNetV2
from sgjepa.models.predictors.ssm import SSM
from sgjepa.models.predictors.transformer import Transformer
from sgjepa.recipes.datasets import dataset
from sgjepa.results.evaluations import load_evaluations
from sgjepa.training import checkpoint
from sgjepa.training.latent_cache import latents_of
from sgjepa.training.validation import stack
from sgjepa.training.world_model import train

PROBE = ProbeConfig(window=10, hidden=(16,), epochs=2, windows=400)
STATE = ("x", "z", "vx", "vz", "theta", "omega", "anchor_x", "anchor_z")
PLANAR = Targets(STATE, ("x", "z"), ("vx", "vz"), "theta", "omega", symmetry=4, frame_dt=1 / 16)


@pytest.fixture(scope="module")
def data(finished: Path) -> Dataset:
    return open_dataset(finished)


@pytest.fixture(scope="module")
def run_folder(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run of a few updates, with a picture decoder."""
    short = replace(RUN, name="square_gru", train=replace(RUN.train, epochs=1, frames=64, decoder=True, decoder_width=8))
    return train(short, tmp_path_factory.mktemp("predict") / "gru", finished.parent)


@pytest.fixture(scope="module")
def evaluated(run_folder: Path, data: Dataset) -> Path:
    return evaluate(run_folder, data, ForecastConfig(probe=PROBE))


# --- targets -------------------------------------------------------------------------------------------------------


def test_targets_of_poses_that_look_the_same_are_the_same() -> None:
    state = np.array([1.0, 2.0, 3.0, 4.0, 0.3, 5.0, 0.0, 0.0])
    turned = state.copy()
    turned[4] += 2 * math.pi / 4
    assert np.allclose(PLANAR.of(state), PLANAR.of(turned))
    turned[4] += 0.1
    assert not np.allclose(PLANAR.of(state), PLANAR.of(turned))


def test_errors_have_known_answers() -> None:
    truth = PLANAR.of(np.tile([1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], (1, 3, 1)))
    guess = PLANAR.of(np.tile([4.0, 6.0, 0.0, 2.0, math.radians(10), 2 * math.pi, 0.0, 0.0], (1, 3, 1)))
    found = errors(Guess(PLANAR, guess, truth, [1.0] * 7))
    assert np.allclose(found["position_l2"], 5.0)
    assert np.allclose(found["velocity_l2"], 2.0)
    assert np.allclose(found["angle_deg"], 10.0)
    assert np.allclose(found["rotation_turns"], [[1 / 16, 2 / 16, 3 / 16]]), "a turn a second, summed over frames"
    phase = math.radians(40)
    squares = 9 + 16 + 4 + math.sin(phase) ** 2 + (math.cos(phase) - 1) ** 2 + (2 * math.pi) ** 2
    assert np.allclose(found["nmse"], squares / 7)
    assert all((errors(Guess(PLANAR, truth, truth, [1.0] * 7))[name] == 0).all() for name in found)


def test_errors_along_the_law_and_across_it_have_known_answers() -> None:
    truth = PLANAR.of(np.tile([1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], (1, 3, 1)))
    guess = PLANAR.of(np.tile([4.0, 6.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0], (1, 3, 1)))
    spread = [1.0, 2.0, *[1.0] * 5]
    fall = errors(Guess(PLANAR, guess, truth, spread, moved=coordinates_moved_by(["gravity"])))
    assert {name: fall[name][0, 0] for name in fall if "along" in name or "across" in name} == {
        "along_l2": 4.0,
        "velocity_along_l2": 2.0,
        "along_nmse": 4.0,  # (4 m in units of 2 m) squared
        "across_l2": 3.0,
    }
    both = errors(Guess(PLANAR, guess, truth, spread, moved=coordinates_moved_by(["gravity", "gravity_x"])))
    assert np.allclose(both["along_l2"], both["position_l2"])
    assert "across_l2" not in both, "two laws leave no coordinate of the plane alone"
    assert not {"along_l2", "across_l2"} & set(errors(Guess(PLANAR, guess, truth, spread))), (
        "no law is known to move anything"
    )


def test_the_mean_scores_one_along_the_law() -> None:
    heights = np.random.default_rng(0).normal(0.5, 0.1, size=(400, 20, 1))
    truth = PLANAR.of(np.concatenate([heights * 0, heights, np.zeros((400, 20, 6))], axis=-1))
    mean = np.broadcast_to(truth.mean((0, 1)), truth.shape)
    found = errors(Guess(PLANAR, mean, truth, [1.0, truth[..., 1].std(), *[1.0] * 5], moved=("z",)))
    assert found["along_nmse"].mean() == pytest.approx(1.0)


@pytest.mark.parametrize("world", [name for name, env in ENVS.items() if (it := env.env_spec.defaults) and it.train])
def test_every_world_under_laws_has_positions_that_its_laws_move(world: str) -> None:
    spec = ENVS[world].env_spec
    assert spec.defaults is not None
    assert spec.probed is not None
    assert set(coordinates_moved_by(spec.defaults.train)) & set(spec.probed.position)


def test_an_angle_is_wrong_by_at_most_half_a_symmetry_step() -> None:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2, 500, 1, 8)) * 3
    found = errors(Guess(PLANAR, PLANAR.of(states[0]), PLANAR.of(states[1]), [1.0] * 7))["angle_deg"]
    assert found.max() <= 45
    assert found.max() > 40


def test_a_named_state_comes_back_from_its_targets() -> None:
    state = np.array([1.0, 2.0, 3.0, 4.0, 0.3, 5.0, 0.0, 0.0])
    found = PLANAR.to_state(PLANAR.of(state))
    assert {name: round(float(value), 9) for name, value in found.items()} == {
        "x": 1.0,
        "z": 2.0,
        "vx": 3.0,
        "vz": 4.0,
        "theta": 0.3,
        "omega": 5.0,
    }


def test_a_world_that_declares_nothing_to_read_cannot_be_probed(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    assert require_targets(data.train) == PLANAR
    monkeypatch.setattr(data.train, "env_spec", replace(data.train.env_spec, probed=None))
    with pytest.raises(InputError, match="square cannot be probed"):
        require_targets(data.train)


# --- probes --------------------------------------------------------------------------------------------------------


def test_the_linear_probe_is_least_squares() -> None:
    rng = torch.Generator().manual_seed(0)
    x, weight = torch.randn(400, 12, generator=rng), torch.randn(12, 3, generator=rng)
    y = x @ weight + torch.randn(400, 3, generator=rng) * 0.1 + 5
    probe, _ = fit(ProbeConfig(kind="linear", window=2), x, y, x, y, "test")
    design = np.c_[x.double().numpy(), np.ones(400)]
    best = design @ np.linalg.lstsq(design, y.double().numpy(), rcond=None)[0]
    with torch.no_grad():
        assert np.allclose((probe(x) * probe.std + probe.mean).numpy(), best, atol=1e-4)


def test_the_mlp_probe_learns_what_a_line_cannot() -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(4000, 16, generator=rng)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2].abs()], dim=1)
    scores = {}
    for kind in ("mlp", "linear"):
        cfg = ProbeConfig(kind=kind, window=1, hidden=(64, 64), epochs=15)
        probe, _ = fit(cfg, x[:3000], y[:3000], x[3000:], y[3000:], "test")
        with torch.no_grad():
            scores[kind] = float((probe(x[3000:]) - (y[3000:] - probe.mean) / probe.std).square().mean())
    assert scores["mlp"] < 0.6 < 0.9 < scores["linear"]


def test_a_probe_window_is_oldest_first_and_ends_at_its_frame() -> None:
    features = torch.arange(10.0).view(1, 5, 2)  # frame t holds 2t, 2t + 1
    assert stack(features, 3).tolist() == [[[0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 6, 7], [4, 5, 6, 7, 8, 9]]]


def test_a_probe_is_fitted_once_and_belongs_to_its_model(run_folder: Path, data: Dataset, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", ignore=shutil.ignore_patterns("latents", "probes")))
    first = fit_probe(folder, data, PROBE)
    again = fit_probe(folder, data, PROBE)
    assert first.scores == again.scores
    x = torch.randn(5, PROBE.window * RUN.model.latent)
    assert np.array_equal(first.read_windows(x), again.read_windows(x))
    _run, model = checkpoint.load_run(folder)
    with torch.no_grad():
        next(model.parameters()).add_(1)
    checkpoint.finish(folder, about(folder), {MODEL: model})
    with pytest.raises(InputError, match=r"holds one with settings.model = .*; move it away or delete it"):
        fit_probe(folder, data, PROBE)


def test_a_fresh_predictor_on_a_frozen_encoder_has_the_probe_of_that_encoder(
    run_folder: Path, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fit_probe(run_folder, data, PROBE)
    run = checkpoint.read_config(run_folder)
    alone = replace(run, init=str(run_folder), train=replace(run.train, trains="predictor", decoder=False))
    folder = train(alone, tmp_path / "alone", data.path.parent)
    with monkeypatch.context() as patch:
        patch.setattr("sgjepa.evaluation.probes.fit", lambda *_, **__: pytest.fail("fitted again"))
        again = fit_probe(folder, data, PROBE)
    assert again.scores == first.scores
    x = torch.randn(4, first.probe.layers[0].normalized_shape[0])
    assert torch.equal(first.probe(x), again.probe(x))
    further = replace(run, init=str(run_folder))  # all of it is trained on: another encoder
    other = fit_probe(train(further, tmp_path / "further", data.path.parent), data, PROBE)
    assert other.scores["validation_nmse"] != first.scores["validation_nmse"]


def test_test_episodes_do_not_enter_the_probe(run_folder: Path, data: Dataset, tmp_path: Path) -> None:
    """The same training episodes with another test split give the same probe."""
    other = collect(replace(small(), test=replace(small().test, episodes=25)), tmp_path / "square", workers=1)
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", ignore=shutil.ignore_patterns("latents", "probes")))
    one, two = fit_probe(run_folder, data, PROBE), fit_probe(folder, open_dataset(other), PROBE)
    assert all(
        torch.equal(a, b) for a, b in zip(one.probe.state_dict().values(), two.probe.state_dict().values(), strict=True)
    )


# --- rollouts ------------------------------------------------------------------------------------------------------


class Perfect(torch.nn.Module):
    """Answers with the true next latent; the condition carries the frame number."""

    def __init__(self, true: Tensor):
        super().__init__()
        self.true = true

    def condition(self, control: Tensor, law: Tensor) -> Tensor:
        return torch.arange(control.shape[1]).float().view(1, -1, 1).expand(len(control), -1, 1)

    def predict(self, z: Tensor, c: Tensor) -> Tensor:
        rows = torch.arange(len(z))[:, None]
        return self.true[rows, c[..., 0].long() + 1]

    def features(self, z: Tensor) -> Tensor:
        return z


def untrained_probe(features: int) -> Fitted:
    torch.manual_seed(0)
    return Fitted(Probe(ProbeConfig(hidden=(8,)), features, len(PLANAR.names)).eval(), ProbeConfig(hidden=(8,)), PLANAR, {})


def test_a_perfect_model_has_no_excess_error() -> None:
    z = torch.randn(6, 64, 8)
    before = z.clone()
    control, law = np.zeros((6, 64, 2), np.float32), np.zeros((6, 1), np.float32)
    found = forecast(Perfect(z), untrained_probe(8), z, control, law, context=20, steps=44, history=4)
    for source in ("predicted", "one_step"):
        states, latent_error = found[source]
        assert np.array_equal(states, found["true"][0])
        assert (latent_error == 0).all()
    assert torch.equal(z, before)


def test_one_step_predictions_are_read_in_windows_of_their_own(data: Dataset) -> None:
    """As the rollout's: a probe that saw true frames beside one prediction would make the local error small by itself."""
    torch.manual_seed(0)
    model = RUN.model.build().eval()
    with torch.no_grad():
        z = model.encode(torch.from_numpy(data.test.pixels(np.arange(3))))
        c = model.condition(torch.tensor(data.test.control[:3]), torch.tensor(data.test.law[:3]))
        # frames 21 to 24, each from the four true ones before it
        window = torch.cat([model.predict(z[:, t - 4 : t], c[:, t - 4 : t])[:, -1:] for t in range(21, 25)], dim=1)
    probe = untrained_probe(RUN.model.latent)
    found = forecast(model, probe, z, data.test.control[:3], data.test.law[:3], context=20, steps=9, history=4)
    assert np.allclose(found["one_step"][0][:, 5], probe.read(window)[:, 0], atol=1e-5)
    assert found["one_step"][1].min() > 0


MODELS = {
    "gru": RUN.model,
    "ssm": replace(RUN.model, predictor=SSM(depth=1, width=16, mlp=16)),
    "lewm": replace(RUN.model, predictor=Transformer(depth=1, heads=2, head_dim=8, mlp=16)),
    "dino": DinoConfig(encoder=MobileNetV2(32), controls=2, laws=1, depth=1, heads=2, head_dim=8, mlp=16, history=4),
}


@pytest.mark.parametrize("kind", MODELS)
def test_horizon_h_is_frame_context_minus_one_plus_h(kind: str, data: Dataset) -> None:
    """For every model, the patch grids of DINO-WM included: prediction 1 is made from the last context frames alone."""
    torch.manual_seed(0)
    model: WorldModel = MODELS[kind].build().eval()
    with torch.no_grad():
        z = model.encode(torch.from_numpy(data.test.pixels(np.arange(3))), 64)
        c = model.condition(torch.tensor(data.test.control[:3]), torch.tensor(data.test.law[:3]))
        first = model.predict(z[:, 16:20], c[:, 16:20])[:, -1:]
        window = model.features(torch.cat([z[:, 17:20], first], dim=1))
    probe = untrained_probe(window.shape[2])
    found = forecast(model, probe, z, data.test.control[:3], data.test.law[:3], context=20, steps=3, history=4)
    assert np.allclose(found["predicted"][0][:, 1], probe.read(window)[:, 0], atol=1e-5)
    error = (first[:, 0] - z[:, 20]).square().flatten(1).mean(1)
    assert np.allclose(found["predicted"][1][:, 0], error.numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_frames_after_the_context_are_never_seen(kind: str, data: Dataset) -> None:
    torch.manual_seed(0)
    model = MODELS[kind].build().eval()
    frames = data.test.pixels(np.arange(3))
    spoiled = frames.copy()
    spoiled[:, 20:] = np.random.default_rng(0).integers(0, 256, spoiled[:, 20:].shape)
    found = []
    for pictures in (frames, spoiled):
        with torch.no_grad():
            z = model.encode(torch.from_numpy(pictures), 64)
        probe = untrained_probe(model.features(z).shape[2])
        found.append(forecast(model, probe, z, data.test.control[:3], data.test.law[:3], context=20, steps=44, history=4))
    assert np.array_equal(found[0]["predicted"][0], found[1]["predicted"][0])
    assert not np.allclose(found[0]["true"][0], found[1]["true"][0])


# --- references ----------------------------------------------------------------------------------------------------


def test_the_simulator_from_the_true_state_is_the_truth(data: Dataset) -> None:
    targets, numbers = require_targets(data.train), np.arange(25)
    truth = targets.of(data.test.state[numbers].astype(np.float64))
    found, moved = simulate(data, data.test, numbers, targets, truth[:, 19], truth, context=20, steps=20)
    assert moved <= 2, "float32 may put a body that touches a wall a hair into it"
    error = errors(Guess(targets, found, truth[:, 20:40], [1.0] * 7))["position_l2"]
    assert np.median(error) < 1e-3


@pytest.mark.opengl
def test_the_simulator_knows_where_the_arm_is(tmp_path: Path) -> None:
    """The ball goes on from the probed state, the arm from where its controls had brought it."""
    settings = small("arm_paddle_ball", image_size=8)
    settings = replace(settings, train=replace(settings.train, episodes=2), test=replace(settings.test, episodes=3))
    data = open_dataset(collect(settings, tmp_path / "paddle", workers=1))
    targets, numbers = require_targets(data.train), np.arange(3)
    truth = targets.of(data.test.state[numbers].astype(np.float64))
    found, moved = simulate(data, data.test, numbers, targets, truth[:, 19], truth, context=20, steps=12)
    assert moved == 0
    error = errors(Guess(targets, found, truth[:, 20:32], [1.0] * 6))["position_l2"]
    assert np.median(error) < 5e-3


def test_a_body_is_put_elsewhere_or_stays_where_it_was(data: Dataset) -> None:
    env = make_env(data.settings)
    env.reset(seed=0)
    env.step(env.expert())
    before = env.state()
    with pytest.raises(InputError, match="into a wall"):
        env.put({"x": 40.0})
    assert (env.state() == before).all()
    env.put({"x": 0.25, "vz": 1.5})
    names = [q.name for q in env.env_spec.state]
    after = dict(zip(names, env.state().tolist(), strict=True))
    kept = dict(zip(names, before.tolist(), strict=True)) | {"x": 0.25, "vz": 1.5}
    assert after == pytest.approx(kept)
    assert env.t == 1


def test_constant_velocity_is_right_without_gravity_and_walls() -> None:
    seconds = np.arange(30) / 16
    state = np.zeros((1, 30, 8))
    state[0, :, 0], state[0, :, 2] = 0.5 * seconds, 0.5
    state[0, :, 4], state[0, :, 5] = 0.7 * seconds, 0.7
    truth = PLANAR.of(state)
    found = references(PLANAR, truth[:, 19], truth, context=20, steps=10)
    moving = errors(Guess(PLANAR, found["constant_velocity"], truth[:, 20:], [1.0] * 7))
    assert all(np.allclose(error, 0, atol=1e-9) for error in moving.values())
    staying = errors(Guess(PLANAR, found["stay"], truth[:, 20:], [1.0] * 7))["position_l2"]
    assert np.allclose(staying, 0.5 * np.arange(1, 11) / 16)


# --- the whole evaluation ------------------------------------------------------------------------------------------


def test_every_episode_source_and_horizon_has_a_row(evaluated: Path, data: Dataset) -> None:
    table = read_table(evaluated / "episodes.parquet")
    assert len(table["nmse"]) == 6 * 50 * 44
    one = select(table, source="predicted", episode=7)
    assert one["horizon"].tolist() == list(range(1, 45))
    assert np.allclose(one["law.gravity"], data.test.law[7, 0])
    floor = select(table, source="true", episode=7)
    running = np.cumsum(one["nmse"] - floor["nmse"]) / np.arange(1, 45)
    assert np.allclose(one["excess_nmse"], running), "NMSE over the probe's own, averaged up to the horizon"
    assert (floor["excess_nmse"] == 0).all()


def test_an_evaluation_is_kept_and_says_what_it_is_of(evaluated: Path, run_folder: Path, data: Dataset) -> None:
    before = (evaluated / "episodes.parquet").stat().st_mtime_ns
    assert evaluate(run_folder, data, ForecastConfig(probe=PROBE)) == evaluated
    assert (evaluated / "episodes.parquet").stat().st_mtime_ns == before
    (found,) = load_evaluations(run_folder)
    assert (found.label, found.horizons, len(found.episodes)) == ("SG-JEPA (GRU)", 44, 50)
    assert 1 <= found.about.scores.effective_rank <= RUN.model.latent


def test_evaluations_with_other_settings_stand_side_by_side(
    evaluated: Path, run_folder: Path, data: Dataset, tmp_path: Path
) -> None:
    """Named by what is not usual; nothing is replaced, and notes beside an evaluation stay."""
    folder = Path(shutil.copytree(run_folder, tmp_path / "run"))
    (folder / "evaluations" / "square-test" / "notes.txt").write_text("mine")
    before = files.digests(folder / "evaluations" / "square-test")
    linear = replace(PROBE, kind="linear", window=2)
    other = ForecastConfig(context=30, steps=3, probe=linear)
    place = evaluate(folder, data, other)
    assert place == folder / "evaluations" / "square-test-linear2-context30-steps3"
    told = counterfactual(folder, data, CounterfactualConfig(forecast=other, true=(4.0,), given=(2.0,)))
    assert told == folder / "counterfactual" / "square-linear2-context30-steps3"
    assert files.digests(folder / "evaluations" / "square-test") == before
    assert {one.differs for one in load_evaluations(folder)} == {"", "linear2-context30-steps3"}
    assert non_default_settings(ForecastConfig(probe=replace(PROBE, seed=7)), data.settings) == "seed7"
    mini, paper = (dataset("approach_ball", size) for size in ("mini", "paper"))
    assert non_default_settings(ForecastConfig(probe=ProbeConfig(window=2)), paper) == ""
    assert non_default_settings(ForecastConfig(probe=ProbeConfig(window=2)), mini) == "mlp2", (
        "small pictures take more frames"
    )
    with pytest.raises(InputError, match=r"holds one with settings.config.true = \[4.0\], not None; move it away"):
        counterfactual(folder, data, CounterfactualConfig(forecast=other))


def test_an_evaluation_is_not_replaced_by_one_of_another_dataset_of_that_name(evaluated: Path) -> None:
    settings = artifact.read_record(EvaluationRecord, evaluated).settings
    key = {"settings": config.to_dict(replace(settings, data="another"))}
    with (
        pytest.raises(InputError, match=r"square-test holds one with settings.data = .*, not another; move it away"),
        artifact.artifact(evaluated, key, "sgjepa evaluate", inside=evaluated.parents[1]),
    ):
        pytest.fail("it worked first")


def test_in_distribution_is_two_standard_deviations(evaluated: Path, run_folder: Path) -> None:
    (found,) = load_evaluations(run_folder)
    inside = np.unique(found.law[in_distribution(found.samplers, found.law)])
    assert inside.tolist() == [3.0, 3.5, 4.0, 4.5, 5.0]
    grid = {"gravity": Grid((1.0, 2.0))}
    assert laws.in_distribution(grid, np.array([[0.9], [1.0], [1.5], [2.1]])).tolist() == [False, True, True, False]


def test_decoded_strips_show_true_frames_above(evaluated: Path, data: Dataset) -> None:
    with np.load(evaluated / "strips.npz") as file:
        arrays = dict(file)
    assert arrays["law"].tolist() == [[-2.0], [4.0], [10.0]]
    assert arrays["inside"].tolist() == [False, True, False]
    assert arrays["horizon"][[0, -1]].tolist() == [1, 44]
    frames = data.test.pixels(arrays["episode"])[:, 19 + arrays["horizon"]]
    assert np.array_equal(arrays["truth"], frames)
    assert arrays["decoded"].shape == frames.shape
    assert arrays["decoded"].std() > 0
    with Image.open(evaluated / "strips.png") as sheet:
        assert sheet.size[0] > 11 * 32
    assert (evaluated / "strips.mp4").stat().st_size > 1000


def test_the_true_law_is_one_of_the_counterfactual_ones(run_folder: Path, evaluated: Path, data: Dataset) -> None:
    place = counterfactual(run_folder, data, CounterfactualConfig(forecast=ForecastConfig(probe=PROBE)))
    told = read_table(place / "counterfactual.parquet")
    usual = read_table(evaluated / "episodes.parquet")
    chosen = (usual["source"] == "predicted") & (usual["law.gravity"] == 4.0)
    assert np.allclose(select(told, **{"law.true": 4.0, "law.given": 4.0})["nmse"], usual["nmse"][chosen], atol=1e-6)
    other = select(told, **{"law.true": 4.0, "law.given": 8.0})["nmse"]
    assert not np.allclose(other, usual["nmse"][chosen])


def test_a_blind_model_is_told_nothing() -> None:
    torch.manual_seed(0)
    model = replace(RUN.model, blind=True).build()
    control = torch.randn(2, 5, 2)
    assert torch.equal(model.condition(control, torch.tensor([[1.0], [9.0]])), model.condition(control, torch.zeros(2, 1)))


def test_latents_are_encoded_once(run_folder: Path, data: Dataset) -> None:
    _, model = checkpoint.load_run(run_folder)
    latents = latents_of(model, data.test, run_folder)
    with torch.no_grad():
        z = model.encode(torch.from_numpy(data.test.pixels(np.array([3]))))
    assert np.allclose(latents[3], z[0].numpy(), atol=1e-5)
    (kept,) = (run_folder / "latents").glob("*-test-*.npy")
    before = kept.stat().st_mtime_ns
    latents_of(model, data.test, run_folder)
    assert kept.stat().st_mtime_ns == before


# --- intervals -----------------------------------------------------------------------------------------------------


def test_a_bootstrap_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    columns = rng.exponential(size=(80, 400))  # 400 experiments of 80 episodes with mean 1
    covered = np.mean([one.low <= 1 <= one.high for one in bootstrap(columns, resamples=1000)])
    assert 0.89 < covered < 0.98


def test_three_trainings_are_enough_for_an_interval_that_covers() -> None:
    """Where the spread of trainings is all there is, 95 % is still 95 %."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 1, 500)) + rng.normal(size=(1, 60, 500)) * 0.05  # 500 experiments of 3 trainings, mean 0
    covered = np.mean([one.low <= 0 <= one.high for one in bootstrap(values)])
    assert 0.92 < covered < 0.98


def test_training_seeds_widen_an_interval() -> None:
    values = np.random.default_rng(0).normal(size=(1, 200, 1)) + np.array([0.0, 1.0, 2.0])[:, None, None]
    (together,), (alone,) = bootstrap(values), bootstrap(values.mean(axis=0))
    assert together.mean == pytest.approx(alone.mean)
    assert together.high - together.low > 3 * (alone.high - alone.low)


# --- what goes wrong -----------------------------------------------------------------------------------------------


def refuse(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main([*arguments]) == 3
    text = capsys.readouterr().err.strip()
    assert "\n" not in text
    assert text.startswith("sgjepa: error: ")
    return text


@pytest.mark.opengl
def test_bad_input_gets_one_clear_line(
    capsys: pytest.CaptureFixture[str], run_folder: Path, finished: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert refuse(capsys, "evaluate", str(tmp_path / "empty")).startswith(
        f"sgjepa: error: {tmp_path / 'empty'} is not a run"
    )
    half = tmp_path / "half"
    half.mkdir()
    shutil.copy(run_folder / "artifact.json", half)
    assert "has no finished model" in refuse(capsys, "evaluate", str(half), "--dataset", str(finished))
    assert "does not exist" in refuse(capsys, "evaluate", str(run_folder), "--dataset", str(tmp_path / "nothing"))
    assert "unknown kind of probe" in refuse(
        capsys, "evaluate", str(run_folder), "--probe-only", "--dataset", str(finished), "--probe", "cubic"
    )
    assert "do not fit" in refuse(capsys, "evaluate", str(run_folder), "--dataset", str(finished), "--context", "70")
    ball = collect(replace(small("approach_ball"), train=replace(small().train, episodes=8)), tmp_path / "ball", workers=1)
    large = collect(small(image_size=48), tmp_path / "large", workers=1)
    capsys.readouterr()
    assert "dataset of another world" in refuse(capsys, "evaluate", str(run_folder), "--dataset", str(ball))
    assert "takes 2 and 1" in refuse(capsys, "evaluate", str(run_folder), "--dataset", str(ball), "--transfer")
    house = collect(small("house"), tmp_path / "house", workers=1)
    renamed = collect(small(seed=1), tmp_path / "square", workers=1)  # the name of what the run was trained on
    capsys.readouterr()
    said = refuse(capsys, "evaluate", str(run_folder), "--dataset", str(house))
    assert "house, and" in said
    assert "trained on square" in said
    assert "another dataset square" in refuse(capsys, "evaluate", str(run_folder), "--dataset", str(renamed))
    assert (
        cli.main(["evaluate", str(run_folder), "--probe-only", "--dataset", str(house), "--probe", "linear", "--transfer"])
        == 0
    )
    capsys.readouterr()
    assert "pictures of 48 pixels" in refuse(capsys, "evaluate", str(run_folder), "--dataset", str(large))


def test_the_command_prints_what_its_file_holds(
    capsys: pytest.CaptureFixture[str], run_folder: Path, finished: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", ignore=shutil.ignore_patterns("evaluations")))
    arguments = ["evaluate", str(folder), "--dataset", str(finished), "--probe", "linear"]
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    place = folder / "evaluations" / "square-test-linear10"
    assert text.startswith(f"{place}:\n"), "the place is said first"
    rows = [line.split(",") for line in (place / "summary.csv").read_text().splitlines()]
    head = rows[0]
    (row,) = (
        dict(zip(head, row, strict=True))
        for row in rows
        if row[:2] == ["predicted", "position_l2"] and row[3:5] == ["all", "44"]
    )
    assert f"{float(row['mean']):.3f} ({float(row['low']):.3f} to {float(row['high']):.3f}) m" in text
    assert cli.main(["evaluate", str(folder), "--probe-only", "--dataset", str(finished), "--probe", "linear"]) == 0
    scores = files.read_json(folder / "probes" / "square-linear10-seed42" / "artifact.json")["scores"]
    said = capsys.readouterr().out
    assert f"validation NMSE {scores['validation_nmse']:.4f}" in said
    assert cli.main(["evaluate", str(folder), "--probe-only", "--datasets", str(finished.parent), "--probe", "linear"]) == 0
    assert capsys.readouterr().out == said, "a run's own dataset is found by its name"
    assert f"{tmp_path / 'square'} does not exist" in refuse(capsys, "evaluate", str(folder), "--datasets", str(tmp_path))


def test_a_probe_that_stops_early_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = torch.randn(2, 64, 4, generator=torch.Generator().manual_seed(0))  # nothing to learn
    _, curve = fit(ProbeConfig(window=1, hidden=(64,), epochs=200, patience=2, lr=0.1), x, y, x[:9].flip(0), y[:9], "probe")
    assert len(curve) < 200
    said = capsys.readouterr().err
    assert re.fullmatch(rf"probe: {len(curve)} of 200 epochs, .*, stopped: no better for 2 epochs\n", said)
