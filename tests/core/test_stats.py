"""Intervals cover what they say they cover: of functions of means, and of whole curves at once."""

from __future__ import annotations

import numpy as np
import pytest

from sgjepa.core.stats import (
    Interval,
    bootstrap,
    bootstrap_known,
    bootstrap_of,
    bootstrap_ratio,
    bootstrap_share,
    newcombe,
    simultaneous,
    student,
)

HORIZONS, REPEATS = 30, 300


def holds(intervals: list[Interval], truth: float) -> bool:
    return all(one.low <= truth <= one.high for one in intervals)


def curves(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Errors around 1 whose neighbouring horizons are alike: (..., HORIZONS)."""
    steps = rng.normal(size=(*shape, HORIZONS + 4))
    return 1 + sum(steps[..., i : i + HORIZONS] for i in range(5)) / np.sqrt(5)


def test_simultaneous_intervals_hold_a_whole_curve_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    drawn = [curves(rng, 80) for _ in range(REPEATS)]
    together = np.mean([holds(simultaneous(one, resamples=800), 1.0) for one in drawn])
    each = np.mean([holds(bootstrap(one, resamples=800), 1.0) for one in drawn])
    assert 0.91 <= together <= 0.98
    assert each < 0.75, "pointwise intervals miss somewhere along the curve"


def test_simultaneous_intervals_know_that_training_could_have_gone_otherwise() -> None:
    """Three trainings whose means differ by as much as those over episodes."""
    rng = np.random.default_rng(1)
    drawn = [curves(rng, 3, 100) + 0.2 * rng.normal(size=(3, 1, 1)) for _ in range(REPEATS)]
    assert 0.91 <= np.mean([holds(simultaneous(one, resamples=800), 1.0) for one in drawn]) <= 0.99


def test_simultaneous_intervals_have_a_column_that_never_varies() -> None:
    values = np.stack([np.full(50, 3.0), np.random.default_rng(0).normal(size=50)], axis=1)
    still, moving = simultaneous(values)
    assert (still.low, still.mean, still.high) == (3.0, 3.0, 3.0)
    assert moving.low < moving.mean < moving.high


def test_a_function_of_means_is_the_plain_bootstrap_where_it_is_a_difference() -> None:
    one, other = np.random.default_rng(0).normal(1.0, 0.5, (2, 3, 40, 2))
    plain = bootstrap(one - other)
    for found, wanted in zip(bootstrap_of(lambda a, b: a - b, one, other), plain, strict=True):
        assert (found.mean, found.low, found.high) == pytest.approx((wanted.mean, wanted.low, wanted.high))


def test_a_function_of_means_is_the_ratio_of_one_training() -> None:
    one, other = np.random.default_rng(0).normal([[[1.0]], [[2.0]]], 0.2, (2, 60, 1))
    (found,), (wanted,) = bootstrap_of(lambda a, b: a / b, one, other), bootstrap_ratio(one, other)
    assert (found.mean, found.low, found.high) == pytest.approx((wanted.mean, wanted.low, wanted.high))


def test_an_interval_of_a_ratio_covers_it_over_trainings() -> None:
    """Each training has a ratio of its own around 2."""
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(REPEATS):
        other = rng.normal(1.0, 0.2, (3, 60, 1))
        one = rng.normal(2.0 + 0.3 * rng.normal(size=(3, 1, 1)), 0.2, (3, 60, 1))
        covered.append(holds(bootstrap_of(lambda a, b: a / b, one, other, resamples=500), 2.0))
    assert 0.91 <= np.mean(covered) <= 0.99


def test_a_mean_of_ratios_of_few_episodes_is_covered_from_the_other_side() -> None:
    """Twenty ratios of ten episodes each, all 0.9 in truth: noise pushes them up, and resamples of them up again."""
    rng, found = np.random.default_rng(0), {False: [], True: []}
    here = np.kron(np.eye(20), np.ones((10, 1)))  # (200 episodes, 20 columns)

    def mean(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # a resample may lack all episodes of a column
            return np.nanmean(one / other, axis=-1, keepdims=True)

    for _ in range(60):
        one, other = (np.exp(0.8 * rng.normal(size=(1, 200, 1))) * here for _ in range(2))
        for mirrored, some in found.items():
            some += bootstrap_of(mean, 0.9 * one, other, mirrored=mirrored)
    middles = {mirrored: np.mean([(one.low + one.high) / 2 for one in some]) for mirrored, some in found.items()}
    assert abs(middles[True] - 0.9) < 0.3 * abs(middles[False] - 0.9)
    assert np.mean([one.low <= 0.9 <= one.high for one in found[True]]) >= 0.93


def test_a_share_of_a_share_is_drawn_with_its_own_trainings() -> None:
    """Two trainings whose ratios agree although both numbers differ."""
    rng = np.random.default_rng(0)
    happened = np.stack([rng.uniform(size=250) < 0.9, rng.uniform(size=250) < 0.5]).astype(float)[..., None]
    both = happened * (rng.uniform(size=happened.shape) < 0.45)
    (share,), (apart,) = bootstrap_share(both, happened), bootstrap_ratio(both, happened[[0, 1, 1]])
    assert share.high - share.low < 0.5 * (apart.high - apart.low), "unequal numbers of trainings are drawn apart"
    assert share.low < 0.45 < share.high
    assert bootstrap_ratio(both, happened) == [share]


def test_a_ratio_of_paired_trainings_is_as_sure_as_their_ratios() -> None:
    """Three pairs of trainings that stray together by half, always in the ratio of 0.95: no draw divides by nothing."""
    strays = np.array([0.5, 1.0, 1.5])[:, None, None]
    other = strays * (1 + 0.1 * np.random.default_rng(0).normal(size=(1, 200, 1)))
    (found,) = bootstrap_ratio(0.95 * other, other)
    assert (found.low, found.high) == pytest.approx((0.95, 0.95))


def test_values_that_some_episodes_lack_have_an_interval_that_covers() -> None:
    rng, covered = np.random.default_rng(0), []
    for _ in range(REPEATS):
        values = rng.normal(2.0 + 0.3 * rng.normal(size=(3, 1)), 1.0, (3, 60))
        values[rng.uniform(size=values.shape) < 0.3] = np.nan
        covered.append(holds([bootstrap_known(values, resamples=500)], 2.0))
    assert 0.91 <= np.mean(covered) <= 0.99
    assert np.isnan(bootstrap_known(np.full((2, 3), np.nan)).mean)


def test_trainings_that_cannot_be_paired_are_refused() -> None:
    with pytest.raises(ValueError, match="must be the same"):
        bootstrap_of(lambda a, b: a - b, np.zeros((2, 5, 1)), np.zeros((3, 5, 1)))


def test_newcombes_interval_is_the_published_one() -> None:
    """9 of 10 against 3 of 10: Newcombe (1998), table II, method 10."""
    assert newcombe(0.9, 0.3, 10) == pytest.approx((0.1705, 0.8090), abs=5e-5)
    low, high = newcombe(0.0, 0.0, 250)
    assert -low == high > 0.01
    alike, apart = (newcombe(0.9, 0.86, 50, correlation) for correlation in (0.9, 0.0))
    assert apart[0] < alike[0] < 0.04 < alike[1] < apart[1], "of the same episodes, most of which agree, it is narrower"


@pytest.mark.parametrize(("freedom", "far"), [(1, 12.7062), (2, 4.3027), (4, 2.7764), (30, 2.0423)])
def test_students_t_has_its_published_ends(freedom: int, far: float) -> None:
    low, middle, high = np.quantile(student(freedom, 20_000), [0.025, 0.5, 0.975])
    assert (low, middle, high) == pytest.approx((-far, 0.0, far), rel=2e-3, abs=1e-6)


def test_three_trainings_have_students_interval() -> None:
    """All episodes alike: the interval is the mean over trainings and Student's t with two degrees of freedom."""
    means = np.array([1.0, 2.0, 4.0])
    (found,) = bootstrap(np.broadcast_to(means[:, None, None], (3, 50, 1)))
    half = 4.3027 * means.std(ddof=1) / np.sqrt(3)
    assert (found.low, found.high) == pytest.approx((means.mean() - half, means.mean() + half), rel=0.02)
