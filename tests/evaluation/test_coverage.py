"""`sgjepa coverage`: the theory's numbers for the dataset's own gravities, in words and in a file; bad input is one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fixtures.datasets import small
from fixtures.systems import close
from hypothesis import given
from hypothesis import strategies as st

from sgjepa import cli, laws
from sgjepa.core.errors import InputError
from sgjepa.core.stats import spearman
from sgjepa.data.collect import collect
from sgjepa.data.config import Part
from sgjepa.data.store import open_dataset
from sgjepa.evaluation.coverage import coverage_curve, examine
from sgjepa.theory import coverage as theory


def test_command_prints_what_it_writes(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["coverage", str(copied), "--gravity", "12", "4", "-2"]) == 0
    text, found = capsys.readouterr().out, json.loads((copied / "coverage.json").read_text())
    training = open_dataset(copied).train.law[:, 0].astype(float)  # also: the digests still hold
    assert f"30 training gravities, mean {training.mean():.3f}, std {training.std():.3f}" in text
    assert [one["gravity"] for one in found["laws"]] == [12, 4, -2]
    for one in found["laws"]:
        wanted = theory.affine_L_law(one["gravity"], training.mean(), training.std())
        assert one["L_law"] == pytest.approx(wanted, rel=1e-9)
        assert one["L_law_of_distribution"] == pytest.approx(theory.affine_L_law(one["gravity"], 4.0, 0.5), rel=1e-9)
        assert one["error_factor"] == pytest.approx(wanted**0.5)
        assert f"{one['L_law']:.4g}" in text
        assert f"×{one['error_factor']:.3g}" in text
    far, home, below = text.splitlines()[3:6]
    assert "far outside" in far
    assert f"{12 - training.max():.2f} m/s^2 beyond the last training gravity" in far
    assert "well covered" in home
    assert "standard deviations below the mean" in below


def test_without_gravities_it_takes_the_datasets_test_laws(copied: Path, tmp_path: Path) -> None:
    out = tmp_path / "here.json"
    assert cli.main(["coverage", str(copied), "--basis", "quadratic", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert [one["gravity"] for one in found["laws"]] == np.arange(-2, 10.5, 0.5).tolist()
    assert found["mean_L_law_of_training"] == 3
    assert not (copied / "coverage.json").exists()


@pytest.mark.parametrize(
    ("gravity", "verdict"), [(4.0, "well covered"), (5.2, "thinly covered"), (6.0, "outside"), (12.0, "far outside")]
)
def test_verdict_grows_with_distance(finished: Path, gravity: float, verdict: str) -> None:
    assert examine(open_dataset(finished), {"gravity": [gravity]})["laws"][0]["verdict"] == verdict


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gravity", "nan"], "law 'gravity' must be a finite number in m/s^2, got nan"),
        (["--gravity", "4", "inf"], "must be a finite number"),
        (["--gravity", "1e9"], "must lie within ±1000"),
        (["--basis", "afine"], "unknown basis 'afine' (did you mean affine?); choose from affine, quadratic"),
        (["--json", "no/such/folder/c.json"], "no/such/folder does not exist"),
        (["--json", "/"], "--json / is a folder; name a file in it"),
    ],
)
def test_bad_options_are_one_line(
    finished: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert cli.main(["coverage", str(finished), *arguments]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gravity", "strong"], "invalid float value: 'strong'"),
        (["--gravity", "-strong"], "expected at least one argument"),
        (["--gravity"], "expected at least one argument"),
    ],
)
def test_what_is_no_number_is_wrong_usage(
    finished: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["coverage", str(finished), *arguments])
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


@pytest.mark.parametrize("written", ["-1e-3", "-1E+1", "-.5e1", "-2.", "-7"])
def test_a_negative_number_is_no_flag_however_it_is_written(
    finished: Path, capsys: pytest.CaptureFixture[str], written: str
) -> None:
    assert cli.main(["coverage", str(finished), "--gravity", written, "--json"]) == 0
    (law,) = json.loads(capsys.readouterr().out)["laws"]
    assert law["gravity"] == float(written)


def test_a_folder_that_is_no_dataset_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["coverage", str(tmp_path), "--gravity", "12"]) == 3
    assert "was not made by `sgjepa data`" in capsys.readouterr().err
    assert cli.main(["coverage", str(tmp_path / "nowhere"), "--gravity", "12"]) == 3
    assert "does not exist" in capsys.readouterr().err


def test_training_laws_that_do_not_vary_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two laws are enough for the affine basis and too few for the quadratic one; a grid has no closed moments of ours."""

    def made(name: str, values: tuple[float, ...]) -> Path:
        few = Part(episodes=2, laws={"gravity": laws.Grid(values)})
        return collect(replace(small(image_size=16), train=few, test=few), tmp_path / name, workers=1)

    assert cli.main(["coverage", str(made("one", (4.0,))), "--gravity", "12"]) == 3
    assert "do not vary (all 4 m/s^2)" in capsys.readouterr().err
    two = made("two", (3.0, 5.0))
    assert cli.main(["coverage", str(two), "--gravity", "12", "--basis", "quadratic"]) == 3
    assert "2 different training gravities cannot cover the quadratic basis" in capsys.readouterr().err
    (found,) = examine(open_dataset(two), {"gravity": [12.0]})["laws"]
    assert found["L_law"] == pytest.approx(1 + 8**2)
    assert found["L_law_of_distribution"] is None


@given(
    st.lists(st.floats(-1000, 1000), min_size=4, max_size=30).filter(lambda g: np.ptp(g) > 1),
    st.floats(-1000, 1000),
)
def test_curve_in_standard_units_is_the_papers_factor(training: list[float], gravity: float) -> None:
    found = coverage_curve(np.array(training), np.array([gravity]))
    close(found, theory.affine_L_law(np.array([gravity]), np.mean(training), np.std(training)))


def test_curve_in_the_quadratic_basis_is_the_papers_factor() -> None:
    training, gravities = np.random.default_rng(0).normal(4, 2, 50), np.linspace(-2, 12, 9)
    wanted = theory.L_law(theory.quadratic(gravities), theory.M_psi(theory.quadratic(training)))
    np.testing.assert_allclose(coverage_curve(training, gravities, "quadratic"), wanted, rtol=1e-9)
    with pytest.raises(InputError, match="unknown basis"):
        coverage_curve(training, gravities, "cubic")


def test_rank_correlation_counts_order_and_nothing_else() -> None:
    x = np.array([1.0, 5.0, 2.0, 9.0])
    assert spearman(x, np.exp(x)) == (1.0, 4)
    assert spearman(x, -x) == (-1.0, 4)
    # ties share their mean rank; by hand: ranks (1.5, 1.5, 3) and (1, 2, 3), covariance 1.5 over √(1.5 · 2)
    assert spearman(np.array([0.0, 0.0, 7.0]), np.array([1.0, 2.0, 3.0]))[0] == pytest.approx(1.5 / 3**0.5)
    assert np.isnan(spearman(np.ones(5), np.arange(5.0))[0])


def test_coverage_and_an_error_that_grows_with_distance_are_ranked_alike() -> None:
    training, gravities = np.random.default_rng(0).normal(4, 0.5, 2000), np.arange(-2, 10.5, 0.5)
    curve = coverage_curve(training, gravities)
    error = np.abs(gravities - training.mean()) ** 1.5
    assert spearman(curve, error) == (pytest.approx(1.0), 25)
