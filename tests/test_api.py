"""The front door: what a script or a notebook does with `import sgjepa` alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.datasets import small
from torch import Tensor, nn

import sgjepa
from sgjepa.core.errors import InputError
from sgjepa.data.collect import collect
from sgjepa.data.store import open_dataset
from sgjepa.evaluation.model import Model

NAMES = ["Dataset", "Episode", "Results", "evaluate", "load", "make", "simulate", "train"]
NAMES += [f"register_{what}" for what in ("law", "learned_policy", "model", "planner", "policy", "predictor", "world")]


def run(code: str, folder: Path, *, fails: bool = False) -> str:
    """A script in a process of its own, in that folder."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stdout if not fails else done.stderr


def test_importing_sgjepa_imports_nothing_heavy(tmp_path: Path) -> None:
    code = "import sgjepa, sys; print([m for m in ('torch', 'mujoco', 'numpy', 'gymnasium', 'lance') if m in sys.modules])"
    assert run(code, tmp_path) == "[]\n"


def test_the_front_door_has_the_names_it_lists() -> None:
    assert [name for name in dir(sgjepa) if name != "__version__"] == sorted(NAMES)
    assert all(getattr(sgjepa, name).__doc__ for name in NAMES)
    with pytest.raises(AttributeError, match="it has Dataset, Episode"):
        sgjepa.nothing  # noqa: B018


@pytest.mark.parametrize("order", ["import sgjepa, gymnasium", "import gymnasium, sgjepa"])
def test_gymnasium_knows_our_ids_whichever_is_imported_first(order: str, tmp_path: Path) -> None:
    code = f"{order}; env = gymnasium.make('sgjepa/House-v0', image_size=16); print(env.reset(seed=0)[0].shape, env.spec.id)"
    assert run(code, tmp_path) == "(16, 16, 3) sgjepa/House-v0\n"


# --- models ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> Model:
    loaded = sgjepa.load("zoo:square_sg_jepa")
    assert isinstance(loaded, Model)
    return loaded


@pytest.fixture(scope="module")
def episode(model: Model) -> sgjepa.Episode:
    return sgjepa.simulate("square", law={"gravity": 4.0}, seed=3, image_size=model.image_size)


def test_a_model_knows_what_it_was_trained_on(model: Model) -> None:
    assert (model.laws, model.env_spec.name, model.device.type) == (("gravity",), "square", "cpu")
    assert model.history == model.run.history
    assert model.probe is not None
    assert model.decoder is not None
    assert "square" in repr(model)


def test_imagine_is_the_rollout_that_encode_read_and_decode_make_step_by_step(model: Model, episode: sgjepa.Episode) -> None:
    """The plain way beside the fast one: encode, one prediction at a time, read and decode the whole."""
    forecast = model.imagine(episode, context=20, steps=5)
    z = model.encode(episode.frames[:20])
    c = model.net.condition(torch.from_numpy(episode.control)[None], torch.tensor([[4.0]]))
    with torch.no_grad():
        for t in range(20, 25):
            window = slice(t - model.history, t)
            z = torch.cat([z, model.net.predict(z[None, window], c[:, window])[0, -1:]])
    torch.testing.assert_close(forecast.latents, z, atol=1e-5, rtol=1e-5)
    read = model.read(z)
    for name, values in forecast.states.items():
        np.testing.assert_allclose(values, read[name][-5:], atol=1e-4, err_msg=name)
    assert forecast.frames is not None
    assert np.abs(forecast.frames.astype(int) - model.decode(z[20:])).max() <= 1


def test_an_episode_is_encoded_as_its_pictures_are(model: Model, episode: sgjepa.Episode) -> None:
    assert torch.equal(model.encode(episode), model.encode(episode.frames))


def test_a_forecast_names_states_time_and_truth(model: Model, episode: sgjepa.Episode) -> None:
    forecast = model.imagine(episode, context=20)
    assert forecast.steps == len(forecast.states["x"]) == len(forecast.time) == 44
    assert forecast.truth is not None
    np.testing.assert_allclose(forecast.truth["x"], episode.states["x"][20:], rtol=1e-6)
    gap = np.hypot(*(forecast.states[name] - forecast.truth[name] for name in ("x", "z")))
    np.testing.assert_allclose(forecast.errors["position_l2"], gap, rtol=1e-6)
    assert forecast.time[0] == pytest.approx(1 / 16)


def test_pictures_alone_are_enough_and_another_law_gives_another_future(model: Model, episode: sgjepa.Episode) -> None:
    alone = model.imagine(episode.frames[:20], episode.control, law={"gravity": 4.0})
    assert (alone.steps, alone.truth, alone.errors) == (44, None, {})
    torch.testing.assert_close(alone.latents, model.imagine(episode).latents, atol=1e-5, rtol=1e-5)
    other = model.imagine(episode, law={"gravity": -2.0})
    assert other.law == {"gravity": -2.0}
    assert np.abs(other.states["z"] - alone.states["z"]).max() > 0.2


def test_a_forecast_draws_itself(model: Model, episode: sgjepa.Episode, tmp_path: Path) -> None:
    forecast = model.imagine(episode)
    figure = forecast.plot("z", "position_l2", others={"told 0 m/s²": model.imagine(episode, law={"gravity": 0.0})})
    assert [axis.get_ylabel() for axis in figure.axes] == ["z (m)", "position_l2 (m)"]
    assert [line.get_label() for line in figure.axes[0].lines[:3]] == ["truth", "forecast", "told 0 m/s²"]
    figure.savefig(tmp_path / "z.png")
    assert (tmp_path / "z.png").stat().st_size > 5000


REFUSED: dict[str, tuple[Callable[[Model, sgjepa.Episode], object], str]] = {
    "no such model": (lambda m, e: sgjepa.load("zoo:nope"), "unknown model of the zoo 'nope'"),
    "no run": (lambda m, e: sgjepa.load("nowhere"), "nowhere is not a run"),
    "no such world": (lambda m, e: sgjepa.make("sqare"), "unknown world 'sqare' .did you mean square"),
    "no such option": (lambda m, e: sgjepa.make("square", size=3), "square takes image_size, render_mode"),
    "a foreign law": (
        lambda m, e: m.imagine(e, law={"gravity_x": 1.0}),
        "is not conditioned on the law 'gravity_x', only on gravity",
    ),
    "no law": (lambda m, e: m.imagine(e.frames, e.control), "give law=.'gravity'"),
    "no number": (lambda m, e: m.imagine(e, law={"gravity": float("nan")}), "law 'gravity' must be a finite number"),
    "other pictures": (lambda m, e: m.encode(e.frames[:, :16, :16]), r"takes pictures \(T, 64, 64, 3\) uint8, got"),
    "no context": (lambda m, e: m.imagine(e, context=2), "context must be from 10 to 64 frames, got 2"),
    "nothing left": (lambda m, e: m.imagine(e, context=64), "nothing is left to imagine"),
    "no controls": (lambda m, e: sgjepa.simulate("reacher", policy=np.zeros((3, 2))), r"controls for reacher must be \(63"),
    "no policy": (lambda m, e: sgjepa.simulate("reacher", policy="sleep"), "unknown policy 'sleep'"),
    "no dataset": (lambda m, e: sgjepa.evaluate(m, "nowhere"), "nowhere does not exist"),
    "no prefix": (lambda m, e: sgjepa.load("square_lewm"), "comes with the package: load.'zoo:square_lewm'"),
    "no device": (
        lambda m, e: sgjepa.load("zoo:square_lewm", device="abacus"),
        "cannot compute on 'abacus': Expected one of",
    ),
    "a bare number": (lambda m, e: m.imagine(e, law=4.0), "law must be a dict such as .*, got 4.0"),  # type: ignore[arg-type]
    "another world": (
        lambda m, e: m.imagine(sgjepa.simulate("reacher", image_size=64)),
        "square_sg_jepa was trained in square, and the episode is of another world",
    ),
    "too few to read": (lambda m, e: m.read(m.encode(e.frames[:3])), "needs 10 consecutive frames, got 3"),
    "no dataset of ours": (lambda m, e: sgjepa.Dataset.open("square-small"), "make it: sgjepa data square --size small"),
    "no controls given": (lambda m, e: m.imagine(e.frames, law={"gravity": 4.0}), "give the controls"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_call_is_refused_in_one_line(case: str, model: Model, episode: sgjepa.Episode) -> None:
    call, said = REFUSED[case]
    with pytest.raises(InputError, match=said) as refused:
        call(model, episode)
    assert "\n" not in str(refused.value)


# --- simulate ----------------------------------------------------------------------------------------------------------


def test_simulate_is_the_episode_of_its_seed_and_law() -> None:
    env = sgjepa.make("square", law={"gravity": 2.0}, image_size=16)
    one, two = sgjepa.simulate(env, seed=5), sgjepa.simulate("square", seed=5, law={"gravity": 2.0}, image_size=16)
    np.testing.assert_array_equal(one.frames, two.frames)
    assert one.law == {"gravity": 2.0}
    assert not np.array_equal(one.state, sgjepa.simulate(env, seed=6).state)


@pytest.mark.opengl
def test_whoever_drives_is_recorded() -> None:
    given = np.random.default_rng(0).uniform(-0.5, 0.5, (63, 10)).astype(np.float32)
    played = sgjepa.simulate("reacher", policy=given, image_size=16)
    np.testing.assert_array_equal(played.control[:63], given)
    seen: list[tuple[int, ...]] = []

    def push(frame: np.ndarray) -> list[float]:
        seen.append(frame.shape)
        return [9.0, -9.0] * 5

    pushed = sgjepa.simulate("reacher", policy=push, image_size=16)
    assert set(seen) == {(16, 16, 3)}
    np.testing.assert_array_equal(pushed.control, np.tile(np.float32([1, -1]), (64, 5)))  # as far as the world allows
    still = sgjepa.simulate("reacher", policy="still", image_size=16)
    assert not still.control.any()


@pytest.mark.opengl
def test_a_policy_of_the_zoo_drives() -> None:
    policy = sgjepa.load("zoo:arm_catcher_policy")
    one = sgjepa.simulate("arm_catcher_ball", policy=policy, seed=1, law={"gravity": 4.0}, image_size=policy.pixels)
    two = sgjepa.simulate("arm_catcher_ball", policy=policy, seed=1, law={"gravity": 4.0}, image_size=policy.pixels)
    np.testing.assert_array_equal(one.control, two.control)
    assert np.ptp(one.control, axis=0).max() > 0.1


# --- own data, own model -----------------------------------------------------------------------------------------------


def bounces(episodes: int, frames: int = 30, side: int = 32) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Somebody's recordings: a bright ball falls and bounces; pictures, height and speed, and the gravity of each."""
    rng = np.random.default_rng(0)
    gravity = rng.uniform(1.0, 5.0, episodes)
    z, vz = rng.uniform(0.5, 1.0, episodes), np.zeros(episodes)
    pictures = np.zeros((episodes, frames, side, side, 3), np.uint8)
    states = {"z": np.zeros((episodes, frames)), "vz": np.zeros((episodes, frames))}
    for t in range(frames):
        states["z"][:, t], states["vz"][:, t] = z, vz
        rows = ((1 - np.clip(z, 0, 1)) * (side - 5)).astype(int)
        for episode, row in enumerate(rows):
            pictures[episode, t, row : row + 5, 12:17] = 255
        vz = vz - gravity / 16
        z = z + vz / 16
        vz, z = np.where(z < 0, -vz, vz), np.abs(z)
    return pictures, states, gravity


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> sgjepa.Dataset:
    pictures, states, gravity = bounces(40)
    folder = tmp_path_factory.mktemp("recorded") / "mine"
    return sgjepa.Dataset.from_arrays(
        folder, pictures, None, states, law={"gravity": gravity}, position=["z"], velocity=["vz"], fps=16, units={"z": "m"}
    )


def test_a_dataset_says_in_a_line_what_it_holds(recorded: sgjepa.Dataset) -> None:
    said = "of mine: 32 episodes and 8 held out, laws gravity, 32 pixels, 30 frames each"
    assert repr(recorded) == f"Dataset {recorded.path} {said}"


def test_recordings_come_back_as_they_were_given(recorded: sgjepa.Dataset) -> None:
    pictures, states, gravity = bounces(40)
    again = open_dataset(recorded.path)
    assert (again.train.episodes, again.test.episodes) == (32, 8)
    numbers = {again.train.metadata(i)["seed"] for i in range(32)} | {again.test.metadata(i)["seed"] for i in range(8)}
    assert numbers == set(range(40))
    for split in (again.train, again.test):
        number = split.metadata(3)["seed"]
        np.testing.assert_array_equal(split.pixels(np.array([3]))[0], pictures[number])
        np.testing.assert_array_equal(split.state[3, :, 0], states["z"][number].astype(np.float32))
        assert split.law[3, 0] == np.float32(gravity[number])
    assert again.env_spec.probed is not None
    assert again.env_spec.probed.position == ("z",)


def test_the_same_recordings_are_kept_and_others_are_refused(recorded: sgjepa.Dataset) -> None:
    pictures, states, gravity = bounces(40)
    how = {"law": {"gravity": gravity}, "position": ["z"], "velocity": ["vz"], "fps": 16, "units": {"z": "m"}}
    kept = sgjepa.Dataset.from_arrays(recorded.path, pictures, None, states, **how)
    assert kept.manifest.digest == recorded.manifest.digest
    pictures[0, 0] = 7
    with pytest.raises(InputError, match="holds other episodes of the same form"):
        sgjepa.Dataset.from_arrays(recorded.path, pictures, None, states, **how)


F, U, S = np.zeros((4, 6, 16, 16, 3), np.uint8), np.zeros((4, 6, 2)), np.zeros((4, 6, 3))
BAD_ARRAYS: dict[str, tuple[dict[str, object], str]] = {
    "floats": ({"frames": F.astype(float)}, r"frames of episode 0 must be uint8 \(T, H, W, 3\), got float64"),
    "oblong": ({"frames": F[:, :, :8]}, "frames must be square, got 8 x 16"),
    "one episode": ({"frames": F[:1], "control": U[:1], "state": S[:1]}, "at least two episodes"),
    "unequal": ({"frames": [F[0], F[1, :4]], "control": U[:2]}, "cut episodes to one length"),
    "too few states": ({"state": S[:, :4]}, r"state must be \(4, 6, k\) .* got \(4, 4, 3\)"),
    "no number": ({"state": S + np.nan}, "state of episode 0 holds a value that is not finite"),
    "a law too few": ({"law": {"gravity": [1.0, 2.0]}}, "one for each of the 4 episodes"),
    "a law called state": ({"law": {"state": 1.0}}, "a law cannot be called 'state'"),
    "neither": ({"control": None}, "at least one control or one law"),
    "names": ({"state_names": ["a", "b"]}, "state_names must be 3 different names, got 2"),
    "velocities": ({"position": ["s0", "s1"], "velocity": ["s2"]}, "2 positions need as many velocities"),
    "unknown position": ({"position": ["z"]}, "unknown quantity of the state 'z'"),
    "all held out": ({"test": [0, 1, 2, 3]}, "some of 0 to 3, and not all"),
    "share": ({"test": 1.5}, "a share between 0 and 1"),
    "codec": ({"codec": "gif"}, "unknown codec 'gif'"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_arrays_that_do_not_fit_are_refused_and_nothing_is_left(case: str, tmp_path: Path) -> None:
    changed, said = BAD_ARRAYS[case]
    with pytest.raises(InputError, match=said):
        sgjepa.Dataset.from_arrays(tmp_path / "mine", **{"frames": F, "control": U, "state": S, **changed})
    assert list(tmp_path.iterdir()) == []


def test_recordings_are_trained_on_loaded_imagined_and_evaluated(recorded: sgjepa.Dataset, tmp_path: Path) -> None:
    """Somebody's arrays go the whole way; the probe of a real training reads the height that it was told to."""
    trained = sgjepa.train("sg_jepa", recorded, out=tmp_path / "run", updates=40, settings={"train.batch": 8})
    assert (trained.env_spec.name, trained.laws, trained.probe) == ("mine", ("gravity",), None)
    loaded = sgjepa.load(tmp_path / "run")
    assert loaded.env_spec == recorded.env_spec
    found = sgjepa.evaluate(loaded, recorded)
    assert set(found.sources) == {"predicted", "true", "one_step", "stay", "constant_velocity"}  # nobody can simulate it
    assert len(found.episodes) == recorded.test.episodes
    read = found.values(found.arms[0], "nmse", "true").mean()
    assert read < 1.0, "on true frames the probe should read better than the mean does"
    forecast = loaded.imagine(recorded.test.pixels(np.array([0]))[0], law={"gravity": 3.0}, context=15, steps=10)
    assert forecast.frames is not None
    assert forecast.frames.shape == (10, 32, 32, 3)


class Stranger(nn.Module):
    """A torch module that knows nothing of us: latents are small grey pictures, and nothing ever moves."""

    def encode(self, frames: Tensor) -> Tensor:
        small_ = frames.float().mean(dim=-1).unfold(2, 4, 4).unfold(3, 4, 4).mean(dim=(-1, -2))
        return small_.flatten(2) / 255

    def condition(self, control: Tensor, law: Tensor) -> Tensor:
        return torch.cat([control, law[:, None].expand(-1, control.shape[1], -1)], dim=-1)

    def predict(self, z: Tensor, c: Tensor) -> Tensor:
        return z

    def features(self, z: Tensor) -> Tensor:
        return z


def test_a_strangers_module_is_evaluated_as_it_is(recorded: sgjepa.Dataset) -> None:
    """It repeats its last latent: its forecast at every horizon is what the probe reads in the last true frames."""
    found = sgjepa.evaluate(Stranger(), recorded, history=4, probe="linear", name="frozen")
    assert found.arms == ("frozen",)
    predicted, true = found.values("frozen", "latent_mse"), found.values("frozen", "nmse", "true")
    assert np.isfinite(predicted).all()
    assert true.mean() < 0.5, "a linear probe reads a bright ball's height in small grey pictures"
    assert found.values("frozen", "nmse").mean() > 2 * true.mean()
    assert "position_l2 (m): mean" in str(found.table()), "z is in metres; the speed's unit was not said"
    metres, unknown = ("position_l2", "along_l2"), ("velocity_l2", "velocity_along_l2", "across_l2")
    assert found.about.units == {**dict.fromkeys(metres, "m"), **dict.fromkeys(unknown, "")}
    with pytest.raises(InputError, match=r"needs the methods encode, .* it lacks encode"):
        sgjepa.evaluate(nn.Identity(), recorded)


def test_in_memory_errors_are_those_of_the_command(tmp_path: Path) -> None:
    """`sgjepa.evaluate` and `sgjepa evaluate` measure the same numbers."""
    from sgjepa.evaluation.evaluate import default_forecast, evaluate
    from sgjepa.results.evaluations import load_evaluation

    dataset = open_dataset(collect(small(seed=3), tmp_path / "square-mini", workers=1))
    model = sgjepa.train("gru", dataset, out=tmp_path / "run", updates=2, settings={"train.batch": 2})
    memory = sgjepa.evaluate(model, dataset)
    kept = load_evaluation(evaluate(model.folder, dataset, default_forecast(dataset.settings)))
    for metric in ("position_l2", "rotation_turns", "excess_nmse"):
        np.testing.assert_allclose(memory.values(memory.arms[0], metric)[0], kept.values(metric), rtol=1e-4, atol=1e-5)
    simulated = memory.values(memory.arms[0], "position_l2", "simulator")[0]
    np.testing.assert_allclose(simulated, kept.values("position_l2", "simulator"), rtol=1e-4, atol=1e-5)
