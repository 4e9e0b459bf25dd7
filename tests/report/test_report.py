"""The page of forecasts on real runs, small: its pictures and tables, and verdicts that say what the intervals say."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.evaluated import digests_in, thrice

from sgjepa import cli
from sgjepa.cli.doctor import find_browser
from sgjepa.core import files
from sgjepa.core.stats import Interval
from sgjepa.core.tables import read_table, write_table
from sgjepa.evaluation.metrics import MAIN
from sgjepa.report import forecast, words
from sgjepa.report.blocks import Section, Table, Text
from sgjepa.report.forecast import answers, forecast_page, report
from sgjepa.report.page import POLICY, write_page
from sgjepa.results.claims import verdict
from sgjepa.results.evaluations import load_evaluations
from sgjepa.results.paper_numbers import published
from sgjepa.results.table import Results
from sgjepa.results.training import cost

BROWSER = find_browser()


@pytest.fixture(scope="session")
def runs(evaluated_runs: list[Path]) -> list[Path]:
    return evaluated_runs


@pytest.fixture(scope="session")
def made(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    report(runs, out)
    return out


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


class Page(HTMLParser):
    """Everything the tests ask about a page."""

    def __init__(self, text: str):
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.attributes += found
        self.ids += [str(found["id"])] if "id" in found else []
        self.addresses += [str(found[name]) for name in ("src", "href") if name in found]
        self.images += [found] if tag == "img" else []
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="session")
def page(made: Path) -> Page:
    return Page((made / "index.html").read_text())


# --- the page ------------------------------------------------------------------------------------------------------


def test_the_page_is_whole_and_needs_nothing_else(page: Page, made: Path) -> None:
    assert not page.open, "a tag was left open"
    assert len(page.ids) == len(set(page.ids))
    assert page.images
    assert all(image.get("alt") for image in page.images)
    assert all(address.startswith(("data:", "#")) for address in page.addresses)
    assert {address[1:] for address in page.addresses if address.startswith("#")} <= set(page.ids)
    text = (made / "index.html").read_text()
    assert "@import" not in text
    assert "url(" not in text
    assert "<script" not in text


def test_every_part_of_the_contract_is_there(page: Page, made: Path) -> None:
    wanted = {"pictures", "numbers", "along", "more", "horizon", "law", "relative", "counterfactual", "scale", "tables"}
    assert wanted | {"training", "origin"} <= set(page.ids)
    names = {path.stem for path in (made / "figures").iterdir()}
    assert {"position_l2_by_horizon_in", "position_l2_by_gravity", "relative_out", "strips_1", "training_sigreg"} <= names
    assert {"training_rank", "counterfactual_1", "references_2", "along_l2_by_gravity", "across_l2_by_gravity"} <= names
    for name in names:
        assert (made / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (made / "figures" / f"{name}.svg").read_bytes()
    assert len(page.images) == len(names)


def test_the_foot_says_where_it_comes_from(page: Page, runs: list[Path]) -> None:
    about = load_evaluations(runs[0])[0].about
    assert about.settings.data in page.words
    for run in runs:
        assert run.name in page.words
        assert f"{cost(load_evaluations(run)[0]).seconds:,.0f} s" in page.words
    assert f"torch {about.provenance['libraries']['torch']}" in page.words


def test_strips_are_followed_by_the_command_that_opens_their_run_in_the_viewer(page: Page, runs: list[Path]) -> None:
    assert f"sgjepa view {runs[0]}" in page.words
    assert f"sgjepa view {runs[1]}" not in page.words, "it has no strips"


@pytest.mark.skipif(BROWSER is None, reason="no browser: sgjepa doctor --fix browser")
def test_a_real_browser_shows_it_without_complaint(made: Path, tmp_path: Path) -> None:
    """Everything is loaded when the page says so by its title; a request to anywhere would fail and be logged."""
    watching = POLICY.replace("default-src", "script-src 'unsafe-inline'; default-src")
    probe = """<script>addEventListener("load", () => { const images = [...document.images];
      document.title = "loaded " + images.filter(i => i.complete && i.naturalWidth > 0).length + " of " + images.length
        + ", requests " + performance.getEntriesByType("resource").filter(r => !r.name.startsWith("data:")).length
        + ", wider than the window " + (document.documentElement.scrollWidth > innerWidth); })</script>"""
    watched = tmp_path / "watched.html"
    text = (made / "index.html").read_text().replace(POLICY, watching)
    assert watching in text, "the page forbids scripts, also the one that watches"
    watched.write_text(text.replace("</head>", probe + "</head>"))
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--disable-background-networking", "--no-first-run"]
    command += ["--enable-logging=stderr", "--window-size=500,900", "--dump-dom", watched.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    count = len(Page((made / "index.html").read_text()).images)
    title = re.search("<title>(.*)</title>", done.stdout)
    assert title
    assert title[1] == f"loaded {count} of {count}, requests 0, wider than the window false"
    assert "CONSOLE" not in done.stderr


@pytest.mark.skipif(BROWSER is None, reason="no browser: sgjepa doctor --fix browser")
def test_a_script_that_got_into_the_page_would_not_run(made: Path, tmp_path: Path) -> None:
    spoiled = tmp_path / "spoiled.html"
    script = '<script>document.title = "taken"</script><img src="data:," onerror="document.title = \'taken\'">'
    spoiled.write_text((made / "index.html").read_text().replace("<main>", f"<main>{script}"))
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--disable-background-networking", "--no-first-run", "--dump-dom", spoiled.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert "<title>Does it stay right when gravity changes? square</title>" in done.stdout


# --- texts from files ----------------------------------------------------------------------------------------------

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'& $\\frac$ ../../x"


def _spoil(value: Any, keep: set[str], place: str = "") -> Any:
    """The same JSON with markup for every text, but what the places in `keep` hold. Numbers cannot be texts: refused."""
    if place in keep or place.endswith("type") or not isinstance(value, (dict, list, str)):
        return value
    if isinstance(value, dict):
        return {key: _spoil(one, keep, f"{place}.{key}" if place else key) for key, one in value.items()}
    if isinstance(value, list):
        return [_spoil(one, keep, place) for one in value]
    return MARKUP


def test_no_text_of_a_file_becomes_a_tag(runs: list[Path], tmp_path: Path) -> None:
    """Records, the table's columns, the folders' names: markup in every field arrives as the text it is."""
    keep = {"made_by", "settings.split", "settings.config", "targets", "target_names", "laws.gravity.training"}
    name = MARKUP.replace("/", "")
    spoiled = []
    for number, run in enumerate(runs):
        copy = Path(shutil.copytree(run, tmp_path / f"{number} {name}"))
        about = files.read_json(copy / "artifact.json")
        config_ = about["config"] | {"name": MARKUP, "data": [MARKUP]}
        files.write_json(copy / "artifact.json", _spoil(about, {"config", "files", "made_by"}) | {"config": config_})
        place = (copy / "evaluations" / "square-test").rename(copy / "evaluations" / name)
        said = _spoil(files.read_json(place / "artifact.json"), keep)
        said["laws"] = {MARKUP: said["laws"]["gravity"]}
        said["name"] += str(number // 2)  # as before: two seeds of one method, and another
        table = read_table(place / "episodes.parquet")
        write_table(place / "episodes.parquet", {key.replace("gravity", MARKUP): v for key, v in table.items()})
        files.write_json(place / "artifact.json", said | {"files": digests_in(place)})
        if (copy / "counterfactual").exists():
            (copy / "counterfactual" / "square-test").rename(copy / "counterfactual" / name)
            rows = read_table(copy / "counterfactual" / name / "counterfactual.parquet")
            rows["law"] = np.full(len(rows["law"]), MARKUP)
            write_table(copy / "counterfactual" / name / "counterfactual.parquet", rows)
            told = copy / "counterfactual" / name / "artifact.json"
            settings = files.read_json(told)["settings"] | dict.fromkeys(("model", "data"), MARKUP)
            files.write_json(told, files.read_json(told) | {"settings": settings, "files": digests_in(told.parent)})
        spoiled.append(copy)
    own = Section(MARKUP, [Text(MARKUP), Table((MARKUP, "b"), ((MARKUP, MARKUP),), MARKUP)], name="finding")
    spoiled_page = forecast_page(Results.of_runs(spoiled), MARKUP, MARKUP, [MARKUP], [own])
    page_ = write_page(spoiled_page, tmp_path / "out", "a test")
    found = Page(page_.read_text())
    assert "script" not in found.tags
    assert set(found.attributes) <= {"src", "alt", "class", "id", "style", "href", "colspan", "aria-label", "lang"} | {
        "charset",
        "content",
        "http-equiv",
        "name",
        "rel",
    }
    assert all(address.startswith(("data:", "#")) for address in found.addresses)
    assert found.words.count("<script>alert(1)</script>") > 20
    assert {"counterfactual", "pictures", "law", "finding"} <= set(found.ids)
    assert not found.open
    for picture in (tmp_path / "out" / "figures").glob("*.svg"):
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(picture).iter()}
        assert not tags & {"script", "img", "foreignObject", "a"}, picture
    assert {p.name for p in tmp_path.iterdir()} == {"out", *(copy.name for copy in spoiled)}, "a name led elsewhere"


# --- the numbers ---------------------------------------------------------------------------------------------------


def test_the_tables_in_the_page_are_the_csv_and_agree_with_plain_means(made: Path, runs: list[Path]) -> None:
    text = (made / "index.html").read_text()
    seeds = [read_table(run / "evaluations" / "square-test" / "episodes.parquet") for run in runs[:2]]
    checked = 0
    for row in read_csv(made / "tables" / "errors.csv"):
        mean = float(row["mean"])
        shown = words.fixed(mean, words.decimals_of(row["metric"]))
        assert f">{shown}<" in text
        if row["method"] == "SG-JEPA (GRU)":
            values = []
            for table in seeds:  # row by row, the plain way
                for i in range(len(table["nmse"])):
                    inside = 3.0 <= table["law.gravity"][i] <= 5.0
                    wanted = {"all": True, "in": inside, "out": not inside}[row["region"]]
                    if table["source"][i] == "predicted" and table["horizon"][i] == int(row["horizon"]) and wanted:
                        values.append(table[row["metric"]][i])
            assert mean == pytest.approx(sum(values) / len(values))
            assert int(row["episodes"]) * 2 == len(values)
            assert float(row["low"]) <= mean <= float(row["high"])
            checked += 1
            if checked == 4:
                break
    assert checked == 4


def test_the_papers_numbers_stand_beside_ours_and_are_called_so(made: Path, page: Page) -> None:
    rows_ = [row for row in read_csv(made / "tables" / "errors.csv") if row["kind"] == "paper"]
    found = {(row["method"], row["metric"], row["horizon"]): float(row["mean"]) for row in rows_}
    assert found["paper: SG-JEPA (GRU)", "position_l2", "44"] == 1.034
    assert found["paper: LeWM", "velocity_l2", "16"] == 1.545
    assert {row["region"] for row in rows_} == {"all"}, "the paper averages over all gravities"
    assert "at paper size" in page.words
    assert published("house") is None
    triangle = published("right_triangle")
    assert triangle
    assert triangle.values["rotation_turns"]["DINO-WM"][44] == 0.875


def test_a_wrong_law_that_doubles_the_error_is_in_the_table(made: Path, page: Page) -> None:
    for row in read_csv(made / "tables" / "counterfactual.csv"):
        if row["law.true"] == row["law.given"]:
            assert float(row["rise"]) == 0
        else:
            assert row["verdict"] == "worse"
            assert f"+{float(row['rise']):.3f}" in page.words


# --- the words -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("difference", "said"),
    [
        (Interval(-0.41, -0.52, -0.30, 500), "A is significantly better than B: −0.41 m, 95 % interval −0.52 to −0.30"),
        (Interval(0.41, 0.30, 0.52, 500), "A is significantly worse than B: +0.41 m, 95 % interval 0.30 to 0.52"),
        (Interval(-0.05, -0.20, 0.10, 500), "A is not significantly better than B: −0.05 m, 95 % interval −0.20 to 0.10"),
        (Interval(0.0, 0.0, 0.0, 1), "A is not significantly better than B: 0.000 m, 95 % interval 0.000 to 0.000"),
        (Interval(0.6, 0.003, 1.2, 9), "A is significantly worse than B: +0.600 m, 95 % interval 0.003 to 1.200"),
    ],
)
def test_a_sentence_says_what_the_interval_says_and_no_end_reads_as_zero(difference: Interval, said: str) -> None:
    assert words.compare("A", "B", difference, "position_l2", decides=True) == said
    few = words.compare("A", "B", difference, "position_l2", decides=False)
    assert few.startswith("A minus B: "), "without trainings enough there is no verdict"
    assert few.endswith(said.partition(": ")[2])


def test_every_comparison_has_a_sentence_with_its_verdict(runs: list[Path], tmp_path: Path) -> None:
    results = Results.of_runs(thrice(runs, tmp_path))
    assert results.baseline == "LeWM"
    for arm in results.others:
        for region in ("out", "in"):
            gap = results.gap(arm, "LeWM", MAIN, region=region)
            assert words.SIGNIFICANT[verdict(gap)] in words.compare(arm, "LeWM", gap, "position_l2", decides=True)
            assert any(
                words.compare(arm, "LeWM", gap, "position_l2", decides=True) in sentence for sentence in answers(results)
            )


def test_one_training_shows_numbers_and_no_verdict(runs: list[Path], tmp_path: Path) -> None:
    page_ = report([runs[0], runs[2]], tmp_path / "out")
    text = page_.read_text()
    style = re.compile("<style>.*</style>", re.DOTALL)
    shown = Page(style.sub("", text)).words.replace("lower is better", "")
    assert "One training of each method: no verdict, which needs 3." in shown
    assert "95 % interval" in shown.replace("\N{NO-BREAK SPACE}", " ")
    assert 'class="chip' not in text
    assert "<td><b>" not in text
    for word in ("better", "worse", "significantly", "Bold"):
        assert word not in shown, word
    assert {row["verdict"] for row in read_csv(page_.parent / "tables" / "comparisons.csv")} == {""}


def test_three_trainings_of_each_method_are_enough_for_a_verdict(runs: list[Path], tmp_path: Path) -> None:
    page_ = report(thrice(runs, tmp_path), tmp_path / "out")
    text = page_.read_text()
    assert "no verdict" not in text
    assert 'class="chip' in text
    assert "<td><b>" in text
    assert {row["verdict"] for row in read_csv(page_.parent / "tables" / "comparisons.csv")} >= {"undecided"}


def test_the_page_begins_with_how_well_sg_jepa_predicts(page: Page, runs: list[Path], made: Path) -> None:
    error = Results.of_runs(runs).mean("SG-JEPA (GRU)", MAIN, [44], region="out")[44]
    said = f"SG-JEPA (GRU) predicts where the object is 44 steps ahead with a mean error of {error.mean:.2f} m"
    assert (made / "answer.txt").read_text().startswith(said)
    heading = "Does it stay right when gravity changes?\n"  # the title has the world's name behind it
    assert page.words.replace("\N{NO-BREAK SPACE}", " ").split(heading)[1].startswith(said)


def test_pictures_and_one_table_come_first_and_everything_else_is_folded(made: Path) -> None:
    text = (made / "index.html").read_text()
    places = [text.index(f'id="{name}"') for name in ("pictures", "numbers", "more", "horizon", "tables")]
    assert places == sorted(places)
    assert "<details" not in text[: places[2]]
    assert "<img" in text[places[0] : places[1]]
    assert text.count("<details ") == text.count("<summary><h3>") == 7


def test_intervals_from_few_episodes_are_marked(page: Page) -> None:
    """The test split has 50 episodes, 10 of them in distribution, 2 for each gravity."""
    assert "Some values have fewer than 10 episodes: their bands cover less often" in page.words
    assert "true one; 2 episodes each, 2 seeds. † From fewer than 10 episodes" in page.words
    assert "Errors in distribution (g from 3 to 5, 10 episodes); lower is better. †" not in page.words


def test_what_intervals_do_not_cover_is_said(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results.of_runs(runs)
    said = "In distribution (g from 3 to 5, 9 episodes): intervals from fewer than 10 episodes cover the truth less often."
    assert said not in forecast.cautions(results)
    assert "LeWM was trained once: the intervals cover the choice of episodes" in " ".join(forecast.cautions(results))
    monkeypatch.setattr(Results, "count", lambda _, region: 9 if region == "in" else 40)
    assert said in forecast.cautions(results)


def test_fewer_than_three_points_are_no_curve(page: Page, made: Path) -> None:
    assert "Measured fewer than 3 times, and not drawn: prediction term: rollout of SG-JEPA (GRU)" in page.words
    assert not (made / "figures" / "training_rollout.svg").exists()
    assert (made / "figures" / "training_one_step.svg").is_file()


# --- what is there already -----------------------------------------------------------------------------------------


def test_a_report_over_somebody_elses_files_is_refused(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = [tmp_path / name for name in ("index.html", "figures/mine.svg", "tables/mine.csv")]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Results, "of_runs", lambda *_: pytest.fail("it read the runs first"))
    assert "is not empty and was not made by `sgjepa report`" in fails(capsys, *runs, "--out", ".")
    assert "was made by `sgjepa train`, not by `sgjepa report`" in fails(capsys, *runs, "--out", runs[0])
    assert "was made by `sgjepa evaluate`" in fails(capsys, *runs, "--out", runs[1] / "evaluations" / "square-test")
    assert [path.read_text() for path in mine] == ["mine"] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures", "index.html", "tables"]


def test_a_second_report_replaces_the_first_whole_or_not_at_all(
    made: Path, runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Path(shutil.copytree(made, tmp_path / "report"))
    (out / "notes.txt").write_text("mine")
    before = files.digests(out)
    for stage in ("forecast.lines", "page.to_csv"):
        with monkeypatch.context() as patched:
            patched.setattr(f"sgjepa.report.{stage}", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                report(runs[2:], out)
    assert files.digests(out) == before
    report(runs[2:], out)
    assert (out / "notes.txt").read_text() == "mine"
    assert not list((out / "figures").glob("relative_*")), "one method alone has no such figure"
    assert (out / "figures" / "position_l2_by_gravity.svg").is_file()


# --- refusals ------------------------------------------------------------------------------------------------------


def fails(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 3) -> str:
    assert cli.main(["report", *map(str, arguments)]) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_what_cannot_be_reported_is_one_line(
    capsys: pytest.CaptureFixture[str], runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ["--out", tmp_path / "out"]
    assert "no runs given" in fails(capsys, *out)
    assert "nowhere is not a run" in fails(capsys, "nowhere", *out)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "empty is not a run" in fails(capsys, empty, *out)
    shutil.copy(runs[0] / "artifact.json", empty)
    assert f"has not been evaluated; run: sgjepa evaluate {empty}" in fails(capsys, empty, *out)
    said = fails(capsys, *runs, "--baseline", "LeVM", *out)
    assert "unknown baseline 'LeVM' (did you mean LeWM?)" in said
    assert "is given twice" in fails(capsys, runs[0], runs[0], *out)
    assert "was not evaluated on 'house-test' but on square-test" in fails(capsys, runs[0], "--data", "house-test", *out)

    other = shutil.copytree(runs[2], tmp_path / "other")
    (other / "evaluations" / "square-test").rename(other / "evaluations" / "house-test")
    assert "report different datasets separately" in fails(capsys, runs[0], other, *out)
    (other / "evaluations" / "house-test").rename(other / "evaluations" / "square-test")
    settings = other / "evaluations" / "square-test" / "artifact.json"
    about = files.read_json(settings)
    about["settings"]["data"] = "0123456789ab"
    files.write_json(settings, about)
    assert "are of different datasets or horizons" in fails(capsys, runs[0], other, *out)
    assert not (tmp_path / "out").exists(), "a refused report left something behind"

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'sgjepa[report]'" in fails(capsys, *runs, *out, code=4), "the machine lacks something"


def test_one_run_alone_and_a_world_without_an_angle_make_a_report(runs: list[Path], tmp_path: Path) -> None:
    ball = shutil.copytree(runs[2], tmp_path / "ball")
    place = ball / "evaluations" / "square-test"
    table = read_table(place / "episodes.parquet")
    write_table(place / "episodes.parquet", {k: v for k, v in table.items() if k not in ("angle_deg", "rotation_turns")})
    files.write_json(place / "artifact.json", files.read_json(place / "artifact.json") | {"files": digests_in(place)})
    text = report([ball], tmp_path / "out").read_text()
    assert "rotation" not in Page(text).words
    assert 'id="relative"' not in text
    assert "object stays put" in Page(text).words


def test_a_report_is_written_without_torch_and_simulator(runs: list[Path], tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['mujoco'] = None\n"  # importing either would fail
        "from pathlib import Path; from sgjepa.report.forecast import report\n"
        "import sgjepa.report.claims, sgjepa.report.closed_loop\n"
        "report([Path(p) for p in sys.argv[2:]], Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "out"), *map(str, runs[2:])], check=True)
