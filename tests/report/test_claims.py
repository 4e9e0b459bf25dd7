"""The table of claims says what intervals say, keeps what does not hold, and has a line for what was never run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sgjepa import cli
from sgjepa.core import artifact, config, files
from sgjepa.core.errors import InputError
from sgjepa.core.provenance import provenance
from sgjepa.core.stats import Interval
from sgjepa.experiments import EXPERIMENTS
from sgjepa.report.claims import as_markdown, brief, claims_table
from sgjepa.results.claims import CLAIMS, FILE, ClaimsRecord, Measured, best, measure, read_claims, so_far, write_claims

ROOT = Path(__file__).parents[2]
LESS, MORE, ABOUT = Interval(-0.2, -0.3, -0.1, 250), Interval(0.2, 0.1, 0.3, 250), Interval(0.0, -0.1, 0.1, 250)


def claim(ours: Interval, seeds: int = 3, where: str = "square, h = 44") -> Measured:
    (found,) = measure("below_lewm", where, "position error minus that of LeWM", ours, "below", seeds, unit="m")
    return found


def written(folder: Path, *rows: Measured, size: str = "mini", updates: int | None = None) -> Path:
    place = folder / "predictors-mini" / "report"
    with artifact.artifact(place, {}, "sgjepa study predictors", replace=True) as new:
        (new.path / "index.html").write_text("a page")
    write_claims(place, "predictors", size, updates, "sgjepa study predictors --size mini --seeds 3", rows)
    return folder


@pytest.mark.parametrize(("ours", "verdict"), [(LESS, "holds"), (MORE, "does not hold"), (ABOUT, "not decided")])
def test_a_verdict_follows_from_the_interval(ours: Interval, verdict: str) -> None:
    assert claim(ours).verdict == verdict
    (other,) = measure("below_lewm", "square", "the other way round", ours, "above", 3)
    assert other.verdict == {"holds": "does not hold", "does not hold": "holds"}.get(verdict, verdict)


def test_fewer_than_three_trainings_decide_nothing_and_say_what_they_saw() -> None:
    assert claim(LESS, seeds=2).verdict == "not decided"
    assert so_far(claim(LESS, seeds=1)) == "not decided (one training: holds)"
    assert so_far(claim(ABOUT, seeds=1)) == "not decided"


def test_nothing_is_decided_where_nobody_could_tell_or_without_an_interval() -> None:
    (found,) = measure("below_lewm", "square", "error", LESS, "below", 3, void="little room", note="and a note")
    assert (found.verdict, so_far(found)) == ("not decided", "not decided; little room; and a note")
    (few,) = measure("below_lewm", "square", "error", LESS, "below", 1, void="little room")
    assert so_far(few) == "not decided; little room", "what one training saw there says nothing"
    assert claim(Interval(-0.2, -0.2, -0.2, 250)).verdict == "not decided"
    with pytest.raises(InputError, match="should say why its test has no power"):
        Measured("below_lewm", "", "", LESS, "", 0.0, "below", "", 3, "not decided", void=True)


def test_what_was_not_measured_is_no_claim() -> None:
    assert measure("below_lewm", "nowhere", "", Interval(float("nan"), 0.0, 0.0, 0), "below", 3) == ()


def test_a_claim_that_the_list_does_not_have_and_a_verdict_that_does_not_follow_are_refused() -> None:
    with pytest.raises(InputError, match="unknown claim 'below_lew'"):
        measure("below_lew", "", "", LESS, "below", 3)
    with pytest.raises(InputError, match="does not follow"):
        Measured("below_lewm", "", "", ABOUT, "", 0.0, "below", "", 3, "holds")


def test_every_claim_is_measured_by_a_study_that_there_is() -> None:
    assert {claim.study for claim in CLAIMS.values()} <= set(EXPERIMENTS)
    assert all(claim.statement.endswith(".") and claim.paper for claim in CLAIMS.values())


def test_the_command_writes_a_line_for_every_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = written(tmp_path / "studies", claim(LESS), claim(MORE, where="house, h = 44"))
    out = tmp_path / "docs" / "claims.md"
    assert cli.main(["claims", "--results", str(results), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert (
        f"{len(CLAIMS)} claims: 1 result “does not hold”, 1 result “holds” and {len(CLAIMS) - 1} without a result." in said
    )
    every = out.read_text().partition("## Every result")[2].splitlines()
    lines = [line.split(" | ") for line in every if line.startswith("| ")][2:]
    others = ("approach ball", "right triangle")  # that the paper has this claim of, too
    assert len(lines) == len(CLAIMS) + 1 + len(others)
    first = lines[0]
    assert first[0] == f"| {CLAIMS['below_lewm'].statement}"
    assert first[3:] == [
        "\N{MINUS SIGN}0.200 m (\N{MINUS SIGN}0.300 to \N{MINUS SIGN}0.100)",
        "3",
        "holds",
        "`sgjepa study predictors --size mini --seeds 3` |",
    ]
    assert "house, h = 44, mini size" in out.read_text()
    assert sum(" not run " in line and line.startswith("|") for line in every) == len(CLAIMS) - 1 + len(others)


def test_of_several_results_the_one_from_most_trainings_counts_and_trials_do_not(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    made = provenance()
    trials = [(1, None, {}), (3, None, {}), (5, 10, {}), (6, None, {"optim.lr": "1"})]
    for i, (seeds, updates, settings) in enumerate(trials):
        row = claim(Interval(-0.1 * seeds, -0.2 * seeds, -0.05, 9), seeds)
        record = ClaimsRecord("predictors", "mini", updates, f"sgjepa study --seeds {seeds}", (row,), made, settings)
        files.write_json(kept / f"{i}.json", config.to_dict(record))
    ((record, row),) = best(read_claims([kept]))["below_lewm"]
    assert (row.seeds, record.updates) == (3, None)


def test_an_edited_claim_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, claim(ABOUT)) / "predictors-mini" / "report" / FILE
    text = json.loads(path.read_text())
    text["rows"][0]["interval"]["high"] = -0.05
    path.write_text(json.dumps(text))
    with pytest.raises(
        InputError,
        match=r"claims\.json is damaged: .*; delete it and run `sgjepa study predictors` again",
    ):
        read_claims([tmp_path])


def test_a_file_of_somebody_elses_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("mine")
    assert cli.main(["claims", "--results", str(tmp_path), "--out", str(notes)]) == 3
    assert "was not written by `sgjepa claims`" in capsys.readouterr().err
    assert notes.read_text() == "mine"


def test_a_page_shows_the_claims_that_its_study_measures() -> None:
    assert claims_table(()) is None
    table = claims_table([claim(LESS), claim(MORE, seeds=2)])
    assert table is not None
    assert '<span class="chip undecided">not decided</span>(2 trainings: does not hold)' in table.html
    assert '<span class="chip better">holds</span>' in table.html


def test_in_short_a_claim_names_the_worlds_where_it_holds_and_how_many_results_say_so(tmp_path: Path) -> None:
    places = ("square, h = 5", "square, h = 44", "house, h = 44")
    measured = [claim(one, where=place) for place, one in zip(places, (LESS, ABOUT, MORE), strict=True)]
    lines = {cells[0]: cells[1:] for cells in brief(best(read_claims([written(tmp_path, *measured)])))}
    assert lines[CLAIMS["below_lewm"].statement] == (
        "square (1 of 2)",
        "house (1 of 1)",
        "square (1 of 2); not run: approach ball, right triangle",
    )
    assert lines[CLAIMS["control"].statement] == ("", "", "not run: `sgjepa study control`")


def test_the_table_in_the_documents_is_made_from_the_results_that_are_kept() -> None:
    """`sgjepa claims --results docs/results/claims` finds nothing to change."""
    kept = ROOT / "docs" / "results" / "claims"
    assert (ROOT / "docs" / "claims.md").read_text() == as_markdown(best(read_claims([kept])))
