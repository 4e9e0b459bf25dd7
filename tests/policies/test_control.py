"""Trials of policies: kept, gone on with, compared; what the numbers and films on their page are, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.answers import cells, drawn, table
from fixtures.datasets import small
from fixtures.policies import TINY
from fixtures.runs import RUN
from fixtures.waves import drive_in_waves

from sgjepa import cli
from sgjepa.core import artifact, config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.provenance import provenance
from sgjepa.core.run_folder import Continued, RunRecord
from sgjepa.core.stats import bootstrap_difference, wilson
from sgjepa.data.collect import collect
from sgjepa.data.store import Dataset, open_dataset, split_episodes
from sgjepa.envs import ENVS, get_env
from sgjepa.envs.spec import Measure
from sgjepa.experiments.answer import Evidence
from sgjepa.experiments.control import summary
from sgjepa.policies import evaluate as stage
from sgjepa.policies.evaluate import Subject, beginnings, family, trained, trial, untrained
from sgjepa.policies.features import open_features
from sgjepa.policies.files import CONTROLS, ROWS, TRIAL, Driver, read_controls, read_policy, read_trial
from sgjepa.policies.learned import load_policy, train_policy
from sgjepa.policies.scripted import HoldStill, Random
from sgjepa.report import films
from sgjepa.report.closed_loop import closed_loop_page, difference_records, differences
from sgjepa.report.films import films_of, replay
from sgjepa.report.page import write_page
from sgjepa.results.statistics import BOOTSTRAP, WILSON
from sgjepa.results.table import Results
from sgjepa.results.trials import Driven, Trial, source_label
from sgjepa.training import checkpoint

pytestmark = pytest.mark.opengl
torch.set_num_threads(1)

CATCHER = "arm_catcher_ball"
WORLD = get_env(CATCHER).env_spec
SUCCESS = WORLD.measures[0]


@pytest.fixture(autouse=True)
def _small_films(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(films, "SIDE", 32)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("control")


@pytest.fixture(scope="module")
def dataset(place: Path) -> Dataset:
    settings = small(CATCHER, seed=1)
    few = replace(settings, train=replace(settings.train, episodes=4), test=replace(settings.test, episodes=4))
    return open_dataset(collect(few, place / "datasets" / "caught", workers=1))


@pytest.fixture(scope="module")
def policy(dataset: Dataset, place: Path) -> Path:
    """A policy on the frames of a model that was never trained: nothing here depends on how well it does."""
    torch.manual_seed(0)
    settings = replace(RUN, data=(dataset.path.name,), model=replace(RUN.model, controls=3))
    run = place / "runs" / "tiny"
    run.mkdir(parents=True)
    about = RunRecord(config.to_dict(settings), {dataset.path.name: dataset.manifest.digest}, provenance(), (CATCHER,))
    checkpoint.finish(run, about, {run_folder.MODEL: settings.model.build()})
    (place / "policies").mkdir()
    return train_policy(TINY, open_features(run, WORLD), dataset, place / "policies" / "tiny")


@pytest.fixture(scope="module")
def posed(dataset: Dataset, policy: Path, place: Path) -> Path:
    """One that is told the catcher's own pose beside the same frames."""
    features = open_features(place / "runs" / "tiny", WORLD, pose=True)
    return train_policy(TINY, features, dataset, place / "policies" / "posed")


@pytest.fixture(scope="module")
def still(dataset: Dataset, place: Path) -> Path:
    return trial(untrained("still", dataset, place / "out"), dataset, 0)


@pytest.fixture(scope="module")
def chance(dataset: Dataset, place: Path) -> Path:
    return trial(untrained("random", dataset, place / "out"), dataset, 0)


# --- the trial -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["policy", "posed"])
def test_a_learned_policy_does_the_same_alone_and_side_by_side(
    dataset: Dataset, which: str, request: pytest.FixtureRequest
) -> None:
    driver, settings = load_policy(request.getfixturevalue(which)), dataset.settings
    together = drive_in_waves(driver, settings, "test", [0, 2, 3], 1, processes=2)
    alone = drive_in_waves(driver, settings, "test", [3], 1)
    for mine, all_ in ((alone.rows, together.rows), (alone.controls, together.controls)):
        rows = all_["episode"] == 3
        for name in mine:
            np.testing.assert_array_equal(mine[name], all_[name][rows], err_msg=name)
    other = drive_in_waves(driver, settings, "test", [3], 2)
    name = f"control.{WORLD.control[0].name}"
    assert not np.array_equal(other.controls[name][:8], alone.controls[name][:8]), "another seed is another try"


def test_a_trial_is_kept_and_other_settings_stand_beside_it(dataset: Dataset, policy: Path) -> None:
    subject = trained(policy, dataset)
    first = trial(subject, dataset, 0, beginnings(dataset, 2))
    assert first == policy / "trials" / "caught-seed0-first2"
    about, table = read_trial(first)
    assert table["episode"].tolist() == [0, 1]
    assert about.settings.how == {"execute": 8, "sampler": "ddim", "steps": 4}
    assert about.scores["success"] == table["success"].mean()

    class Untouchable(HoldStill):
        def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
            raise AssertionError("the work was done before")

    assert trial(replace(subject, policy=Untouchable(WORLD)), dataset, 0, beginnings(dataset, 2)) == first
    shorter = trial(trained(policy, dataset, execute=3), dataset, 0, beginnings(dataset, 2))
    assert shorter.name == "caught-seed0-execute3-first2"
    assert read_trial(shorter)[0].settings.how["execute"] == 3


def test_a_trial_that_was_killed_goes_on_after_its_last_wave(
    dataset: Dataset, chance: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "WAVE", 2)
    begun: list[int] = []

    class Killed(Random):
        def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
            begun.append(len(seeds))
            if len(begun) == 2:
                raise KeyboardInterrupt
            super().reset(laws, seeds)

    subject = replace(untrained("random", dataset, tmp_path), policy=Killed(WORLD))
    with pytest.raises(KeyboardInterrupt):
        trial(subject, dataset, 0)
    assert not list(subject.folder.glob(f"*/{TRIAL}")), "a half made trial is not there to be read"
    (spent,) = subject.folder.glob("*/.partial/.waves/*-seconds.json")
    files.write_json(spent, 1000.0)  # as if it had taken that long
    made = trial(subject, dataset, 0)
    assert begun == [2, 2, 2], "the first wave was kept"
    assert 1000 < read_trial(made)[0].seconds < 1900
    for name in (ROWS, CONTROLS):  # waves of another size, and a kill, make no difference
        assert files.file_digest(made / name) == files.file_digest(chance / name)
    assert [entry.name for entry in subject.folder.iterdir()] == [made.name]


def test_a_damaged_trial_is_one_line(dataset: Dataset, tmp_path: Path) -> None:
    made = trial(untrained("still", dataset, tmp_path), dataset, 0, beginnings(dataset, 1))
    (made / ROWS).write_bytes((made / ROWS).read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match=r"episodes.parquet is damaged.*delete"):
        read_trial(made)
    text = (made / TRIAL).read_text()
    (made / TRIAL).write_text(text.replace('"success": 0.0', '"success": 1.0'))
    with pytest.raises(InputError, match="was edited"):
        Results.of_trials([made])


def test_a_film_shows_what_the_policy_saw(dataset: Dataset, policy: Path) -> None:
    made = trial(trained(policy, dataset), dataset, 0, beginnings(dataset, 2))
    about, rows = read_trial(made)
    film = replay(about, rows, read_controls(made), [1], dataset.settings.image_size)
    driver, shown = load_policy(policy), []
    look = driver.act
    driver.act = lambda seen, laws: shown.append(seen["frame"][0].copy()) or look(seen, laws)  # type: ignore[method-assign]
    drive_in_waves(driver, dataset.settings, "test", [1], 0)
    assert film.shape[:2] == (1, WORLD.frames)
    np.testing.assert_array_equal(film[0, : len(shown)], np.stack(shown))


# --- the numbers ---------------------------------------------------------------------------------------------------


def made_up(still: Path, values: dict[str, list[float]], seed: int = 0, name: str = "p", run: int = 3) -> Trial:
    """A trial with other measures than were measured."""
    about, table = read_trial(still)
    driver = Driver(name, f"arm_catcher_ball_gru-mini-seed{run}", seed, {"law": True}, weights=f"{name}{seed}")
    count = len(next(iter(values.values())))
    rows = {key: np.resize(column, count) for key, column in table.items()} | {k: np.array(v) for k, v in values.items()}
    return Trial(still, replace(about, settings=replace(about.settings, driver=driver)), rows)


def tried(*trainings: Trial | tuple[Trial, ...], **others: tuple[Trial, ...]) -> Results:
    """An arm "p" of these trainings, each of one try or several, and others of one try each."""
    ours = Driven(tuple(one if isinstance(one, tuple) else (one,) for one in trainings))
    return Results.of_driven({"p": ours, **{name: Driven(tuple((one,) for one in each)) for name, each in others.items()}})


def test_tries_are_averaged_and_trainings_are_not(still: Path) -> None:
    one, two = made_up(still, {"success": [1, 0, 0, 1]}), made_up(still, {"success": [0, 0, 1, 1]})
    results = tried((one, two), made_up(still, {"success": [1, 1, 1, 1]}, seed=1))
    assert results.values("p", "success")[..., 0].tolist() == [[0.5, 0, 0.5, 1], [1, 1, 1, 1]]
    found = results.estimate("p", SUCCESS)
    assert (found.interval.mean, found.interval.count, found.how) == (0.75, 4, BOOTSTRAP)
    alike = [made_up(still, {"success": values}, seed) for seed, values in enumerate(([1, 0.5], [0.5, 1]))]
    sure = tried(*alike).estimate("p", SUCCESS)
    assert sure.how == WILSON
    assert sure.interval.low < 0.4, "two episodes that two trainings agree on still are two"


def test_a_count_knows_that_trainings_differ(still: Path) -> None:
    count = Measure("bounces", "flights", unit="flights")
    few, many = ([0.2] * 30 + [0.3] * 30), ([2.0] * 30 + [2.1] * 30)
    trainings = [made_up(still, {"bounces": values}, seed) for seed, values in enumerate((few, many))]
    found = tried(*trainings).estimate("p", count).interval
    assert found.mean == pytest.approx(1.15)
    assert found.high - found.low > 1.8


def test_no_count_is_below_zero(still: Path) -> None:
    """Three trainings of which one ever bounces a ball: by the spread of their means alone the interval would go below."""
    trainings = [made_up(still, {"bounces": [float(seed == 0)] * 2 + [0.0] * 58}, seed) for seed in range(3)]
    found = tried(*trainings).estimate("p", Measure("bounces", "", unit="1"))
    assert found.interval.low == 0 < found.interval.mean < found.interval.high


def test_a_rare_share_given_another_event_is_no_surer_than_wilsons(still: Path) -> None:
    """As that of all episodes: of 240 with the event, one success in each of three trainings."""
    values = [{"success": [1.0] + [0.0] * 249, "missed": [1.0] * 240 + [0.0] * 10} for _ in range(3)]
    results = tried(*(made_up(still, one, seed) for seed, one in enumerate(values)))
    given = results.estimate("p", Measure("success", "", condition="missed"), conditional=True)
    assert given.how == WILSON
    assert (given.interval.low, given.interval.high) == pytest.approx(wilson(1, 240))


def test_an_interval_that_ends_at_none_is_compared_with_wilsons_as_it_is_told(still: Path) -> None:
    """Two successes of one of three trainings: by bootstrap -2.6 to 3.9 %, of which 0 to 3.9 would be told."""
    values = [{"success": [float(seed == 0)] * 2 + [0.0] * 88} for seed in range(3)]
    found = tried(*(made_up(still, one, seed) for seed, one in enumerate(values))).estimate("p", SUCCESS)
    assert found.how == WILSON
    assert (found.interval.low, found.interval.high) == pytest.approx(wilson(2 / 3, 90))


def test_trainings_are_paired_by_their_seeds_in_whatever_order_they_come(still: Path) -> None:
    rng = np.random.default_rng(0)
    values = [(rng.uniform(size=60) < share).astype(float).tolist() for share in (0.2, 0.5, 0.8)]

    def trainings(shift: int = 0) -> tuple[Trial, ...]:
        return tuple(made_up(still, {"success": values[seed]}, seed + shift) for seed in range(3))

    results = tried(*trainings(), same=trainings(), other=trainings(shift=5))
    same, other = (results.gap("p", name, "success") for name in ("same", "other"))
    assert same.high - same.low < 0.2
    assert other.high - other.low > 0.5, "trainings with other seeds are not pairs"


def test_episodes_that_nothing_learned_from_can_be_driven(dataset: Dataset, tmp_path: Path) -> None:
    begun = beginnings(dataset, held_out=True)
    assert [start.number for start in begun.starts] == split_episodes(dataset.train.episodes)[1].tolist()
    made = trial(untrained("still", dataset, tmp_path), dataset, 0, begun)
    about, table = read_trial(made)
    assert made.name.endswith("-held-out")
    assert (about.settings.split, about.settings.data) == ("train", dataset.train.digest)
    gravity = dataset.train.law[int(table["episode"][0]), 0]
    assert table["law.gravity"][0] == pytest.approx(float(gravity), rel=1e-6)


def test_what_was_held_out_from_a_policy_is_known_of_its_own_dataset_alone(
    dataset: Dataset, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(policy, dataset, held_out=True)
    settings = dataset.settings
    other = collect(replace(settings, train=replace(settings.train, episodes=6)), tmp_path / "longer", workers=1)
    trained(policy, open_dataset(other))
    assert (
        cli.main(["evaluate-policy", str(policy), "--dataset", str(other), "--held-out", "--out", str(tmp_path / "page")])
        == 3
    )
    said = capsys.readouterr().err
    assert (
        "the training episodes of longer that were held out from the policy are not known: it was trained on caught" in said
    )
    made = trial(untrained("still", dataset, tmp_path), dataset, 0, beginnings(dataset, held_out=True))
    page = write_page(closed_loop_page(Results.of_trials([made]), WORLD, {}), tmp_path / "held", "a test")
    assert "1 held-out training episode<" in page.read_text()
    assert not (tmp_path / "held" / "figures").exists(), "every training episode has a law of its own"


def test_what_was_held_out_from_the_run_that_a_policy_sees_through_is_asked_too(
    dataset: Dataset, policy: Path, place: Path
) -> None:
    run = place / "runs" / "tiny"
    about = run_folder.about(run)
    try:
        artifact.write_record(run, replace(about, data={"a longer one": "0" * 12}))
        with pytest.raises(InputError, match="held out from tiny are not known: it was trained on a longer one"):
            trained(policy, dataset, held_out=True)
        artifact.write_record(run, replace(about, data={"another": "0" * 12}, worlds=("square",)))
        trained(policy, dataset, held_out=True)  # of this world it knows nothing
    finally:
        artifact.write_record(run, about)


def test_a_policy_is_not_shown_pictures_of_another_size(dataset: Dataset, policy: Path, tmp_path: Path) -> None:
    larger = collect(replace(dataset.settings, image_size=2 * dataset.settings.image_size), tmp_path / "larger", workers=1)
    with pytest.raises(InputError, match=r"larger has pictures of .* pixels, and the policy's encoder tiny takes"):
        trained(policy, open_dataset(larger))


def test_a_dataset_of_a_world_that_has_changed_since_is_refused(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    real = get_env(CATCHER).state
    monkeypatch.setattr(get_env(CATCHER), "state", lambda env: real(env) + 0.01)
    with pytest.raises(InputError, match=r"was made with another simulator.*make it again with `sgjepa data"):
        beginnings(dataset)


def test_an_interval_says_how_it_was_found(still: Path) -> None:
    rng = np.random.default_rng(0)
    many = tried(made_up(still, {"success": (rng.uniform(size=200) < 0.3).astype(float).tolist()}))
    assert many.estimate("p", SUCCESS).how == BOOTSTRAP
    few = many.estimate("p", SUCCESS, np.arange(200) < 10)
    assert few.how == WILSON
    assert 0 <= few.interval.low < few.interval.mean < few.interval.high <= 1
    never = tried(made_up(still, {"success": [0.0] * 200})).estimate("p", SUCCESS)
    assert (never.how, never.interval.low) == (WILSON, 0)
    assert never.interval.high == pytest.approx(0.0188, abs=1e-3), "200 failures do not prove that it never succeeds"


def test_an_interval_does_not_shrink_when_a_first_success_comes(still: Path) -> None:
    """A bootstrap of one success in 250 would say 0 to 1.2 %, where 250 failures allow 1.5 %."""

    def successes(count: int) -> Trial:
        return made_up(still, {"success": [1.0] * count + [0.0] * (250 - count)})

    found = [tried(successes(count)).estimate("p", SUCCESS) for count in range(12)]
    assert [one.how for one in found] == [WILSON] * 10 + [BOOTSTRAP] * 2
    ends = [(one.interval.low, one.interval.high) for one in found[:10]]
    assert ends == sorted(ends), "more successes never lower an end"
    results = tried(successes(2), more=(successes(13),))
    apart = results.gap("p", "more", "success")
    assert apart.mean == pytest.approx(-0.044)
    (plain,) = bootstrap_difference(results.values("p", "success"), results.values("more", "success"))
    assert apart.low < plain.low < plain.high <= apart.high, "so few successes leave more open than their resamples"
    assert tried(successes(100), more=(successes(150),)).gap("p", "more", "success").high < -0.1


def test_policies_of_one_seed_on_runs_of_several_are_paired_by_the_run(still: Path) -> None:
    def trainings(*runs: int) -> tuple[Trial, ...]:
        return tuple(made_up(still, {"success": [0.0] * 4}, run=run) for run in runs)

    results = tried(*trainings(0, 1, 2), others=trainings(3, 4, 5))
    assert results.driven("p").pairs == ((0, 0), (1, 0), (2, 0))
    assert results.driven("others").pairs != results.driven("p").pairs
    assert (results.seeds("p"), results.seeds("others")) == ((0, 1, 2), (3, 4, 5))


def test_a_time_is_of_the_episodes_that_have_one_and_a_share_may_be_given_another(still: Path) -> None:
    nan = float("nan")
    values = {"success": [1.0, 0, 1, 0], "missed": [1.0, 0, 1, 1], "time_to_capture": [2.0, nan, 3.0, nan]}
    results = tried(made_up(still, values))
    seconds = results.estimate("p", WORLD.measures[2]).interval
    assert (seconds.mean, seconds.count) == (2.5, 2)
    assert results.estimate("p", WORLD.measures[2], np.array([False, True, False, True])).interval.count == 0
    when_missed = Measure("success", "", condition="missed")
    given = results.estimate("p", when_missed, conditional=True).interval
    assert (given.mean, given.count) == (2 / 3, 3)
    rare = {"success": [0.0, 0, 0, 0], "missed": [0.0, 0, 0, 1]}
    several = tried(made_up(still, values), made_up(still, rare, seed=1))
    found = several.estimate("p", when_missed, conditional=True)
    assert found.interval.mean == pytest.approx(2 / 4)
    assert 0 <= found.interval.low < found.interval.high <= 1
    seldom = tried((made_up(still, rare), made_up(still, {**rare, "missed": [0.0] * 4})))
    assert seldom.estimate("p", when_missed, conditional=True).how == WILSON


def test_differences_are_of_the_same_episodes(still: Path, chance: Path) -> None:
    results = Results.of_trials([still, chance])
    assert results.arms == ("holding still", "random controls")
    assert results.regions == ("all",), "four of 23 gravities, all below the training ones"
    found = results.gap(*results.arms, "missed")
    one, other = (results.values(arm, "missed") for arm in results.arms)
    assert found.mean == pytest.approx(float((one - other).mean()))


def test_no_share_and_no_difference_of_shares_is_beyond_all_and_nothing(still: Path) -> None:
    trainings = [made_up(still, {"success": values}, seed) for seed, values in enumerate(([1.0, 1, 1, 0], [0.0] * 4))]
    (real,) = Results.of_trials([still]).driven("holding still").all
    results = tried(*trainings, still=(real,), once=(made_up(still, {"success": [1.0] * 4}),))
    share = results.estimate("p", SUCCESS).interval
    assert (share.low, share.high) == (0, 1), "two trainings that disagree say next to nothing"
    found = results.gap("p", "still", "success")
    assert (found.low, found.high) == (-1, 1)
    sure = results.gap("once", "still", "success")
    assert sure.mean == sure.high == 1
    assert sure.low < 0.1, "four of four episodes do not prove that it is always so"


def test_counts_are_compared_too_and_are_no_shares(still: Path) -> None:
    """One policy bounces the ball four times more than the other in every episode, with one more in some."""

    def counted(bounces: list[float], name: str) -> Driven:
        trial = made_up(still, {"bounces": bounces}, name=name)
        measures = (*trial.about.measures, Measure("bounces", "flights", unit="1"))
        return Driven(((replace(trial, about=replace(trial.about, measures=measures)),),))

    results = Results.of_driven({"many": counted([5.0, 6, 5, 6], "many"), "few": counted([1.0, 1, 1, 1], "few")})
    assert [measure.name for measure in results.compared] == ["success", "bounces"], "a time is no count"
    found = results.gap("many", "few", "bounces")
    assert found.mean == 4.5
    assert 4 <= found.low < 4.5 < found.high <= 5
    rows = [row for row in difference_records(results) if row["measure"] == "bounces"]
    assert [(row["policy"], row["minus"], row["mean"]) for row in rows] == [("many", "few", 4.5)]
    html = "".join(block.html for block in differences(results))
    assert "Difference of bounces on the same episodes" in html
    assert "+4.50" in html


def test_trials_of_other_episodes_are_compared_apart(dataset: Dataset, still: Path, tmp_path: Path) -> None:
    fewer = trial(untrained("still", dataset, tmp_path), dataset, 0, beginnings(dataset, 2))
    with pytest.raises(InputError, match="different episodes"):
        Results.of_trials([still, fewer])


# --- the page and the command --------------------------------------------------------------------------------------


def test_the_page_has_its_tables_figures_and_films(still: Path, chance: Path, tmp_path: Path) -> None:
    results = Results.of_trials([still, chance])
    page = write_page(closed_loop_page(results, WORLD, films_of(results)), tmp_path / "page", "sgjepa evaluate-policy")
    text = page.read_text()
    assert text.count("data:image/webp") == 2
    assert "<script" not in text
    names = {path.relative_to(page.parent).as_posix() for path in page.parent.rglob("*") if path.is_file()}
    assert names >= {f"tables/{name}.csv" for name in ("measures", "by_gravity", "differences", "outcomes")}
    assert names >= {"figures/success_by_gravity.png", "films/holding_still.webp", "films/random_controls.webp"}
    rows = (page.parent / "tables" / "measures.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * len(WORLD.measures)


def test_the_study_draws_success_and_has_the_papers_beside_it(still: Path, chance: Path) -> None:
    found = summary(Evidence([], {CATCHER: Results.of_trials([still, chance])}, Path()))
    assert [row[1] for row in cells(found)] == ["holding still", "random controls"]
    assert table(found).columns[-1] == "paper, all (%)"
    assert drawn(found) == ["control_success"]


def test_the_command_drives_compares_and_does_nothing_twice(
    dataset: Dataset, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page"
    command = [
        "evaluate-policy",
        str(policy),
        "random",
        "--episodes",
        "1",
        "--seeds",
        "2",
        "--workers",
        "1",
        "--out",
        str(out),
    ]
    assert cli.main(command) == 0
    said = capsys.readouterr().out
    assert "random controls" in said
    assert str(out / "index.html") in said
    records = sorted((out / "references").rglob(TRIAL))
    assert [path.parent.name for path in records] == ["caught-seed0-first1", "caught-seed1-first1"]
    before = [path.stat().st_mtime_ns for path in records]
    assert cli.main(command) == 0
    assert [path.stat().st_mtime_ns for path in records] == before


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["expert"], "can act in any world: name one with --dataset"),
        (["expert", "--dataset", "{place}/nothing"], "nothing does not exist"),
        (["expert", "--dataset", "{square}"], "square has no task"),
        (
            ["exprt", "--dataset", "{data}"],
            "there is no policy 'exprt': give a folder that `sgjepa train-policy` made, a run, or expert",
        ),
        (["{data}", "--dataset", "{data}"], "was made by `sgjepa data`, not by `sgjepa train-policy`"),
        (["{policy}", "--dataset", "{square}"], "the policy was trained for arm_catcher_ball"),
        (["{policy}", "--execute", "9"], "plans 8 controls: it can execute 1 to 8, not 9"),
        (["still", "--dataset", "{data}", "--episodes", "6"], "has 4 test episodes, not 6"),
        (["still", "--dataset", "{data}", "--execute", "4"], "--execute is for policies that plan, not for still"),
        (["still", "still", "--dataset", "{data}"], "still is given twice"),
        (["still", "--dataset", "{data}", "--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["still", "--dataset", "{data}", "--workers", "0"], "--workers must be at least 1, got 0"),
        (["still", "--dataset", "{data}", "--out", "{data}"], "was made by `sgjepa data`, not by `sgjepa evaluate-policy`"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    line: str,
    dataset: Dataset,
    policy: Path,
    finished: Path,
    place: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = {"data": dataset.path, "policy": policy, "square": finished, "place": place}
    given = [word.format(**names) for word in arguments]
    out = [] if "--out" in given else ["--out", str(tmp_path / "page")]
    assert cli.main(["evaluate-policy", *given, *out]) == 3
    said = capsys.readouterr().err
    assert line in said
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "page").exists()


def test_a_policy_that_is_told_its_pose_is_called_so(dataset: Dataset, policy: Path, posed: Path) -> None:
    labels = [source_label(trained(place, dataset).driver, CATCHER) for place in (policy, posed)]
    assert labels[1] == f"{labels[0]}, with proprioception"


def test_no_world_is_forgotten() -> None:
    assert all(env.env_spec.measures for env in ENVS.values() if env.env_spec.has_task)


def test_a_subject_says_what_trainings_share(dataset: Dataset, policy: Path) -> None:
    subject: Subject = trained(policy, dataset)
    assert "seed" not in subject.driver.settings
    assert subject.driver.seed == 0
    assert subject.driver.source == "tiny"


def test_world_models_belong_together_if_only_their_seeds_differ(dataset: Dataset, policy: Path) -> None:
    driver = trained(policy, dataset).driver
    run = checkpoint.read_config(policy / read_policy(policy).settings.source.run)
    mine = family("tiny-seed0", run)
    assert mine.items() <= driver.settings.items()  # what a trial remembers, by which policies are put together
    assert family("tiny-seed1", replace(run, seed=1)) == mine
    longer = replace(run, train=replace(run.train, epochs=run.train.epochs + 1))
    assert family("tiny-seed1", longer) != mine
    assert family("tiny-seed1", run, (Continued(30, 1, 30),)) != mine, "one that was finished at 30 updates and went on"
