"""Nothing of a user's is lost: output folders are new, empty or ours, and what is ours is replaced whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.datasets import small

from sgjepa import cli
from sgjepa.core import artifact, files
from sgjepa.core.errors import InputError
from sgjepa.data.collect import collect
from sgjepa.data.preview import preview
from sgjepa.data.store import open_dataset
from sgjepa.experiments import demo, factorial
from sgjepa.experiments.engine import Request

MADE_BY = "sgjepa report"


def write(path: Path, names: dict[str, str], made_by: str = MADE_BY) -> None:
    """As a command does: a page, and files in folders."""
    with artifact.artifact(path, {}, made_by, replace=True) as new:
        for name, text in names.items():
            (new.path / name).parent.mkdir(exist_ok=True)
            files.write_bytes(new.path / name, text.encode())


def content(path: Path) -> dict[str, str]:
    """Every file but the record, hidden ones included."""
    found = (p for p in path.rglob("*") if p.is_file() and p.name != artifact.RECORD)
    return {p.relative_to(path).as_posix(): p.read_text() for p in found}


FIRST = {"index.html": "page 1", "tables/errors.csv": "1", "tables/by_gravity.csv": "1"}
SECOND = {"index.html": "page 2", "tables/errors.csv": "2", "figures/new.svg": "2"}


# --- whose folder it is --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [[], ["."], [".git/config", ".hidden"]], ids=["new", "empty", "hidden files only"])
def test_a_folder_that_is_new_or_empty_is_taken(tmp_path: Path, there: list[str]) -> None:
    out = tmp_path / "a" / "out"
    for name in there:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        if name == ".":
            out.mkdir(parents=True)
        else:
            (out / name).write_text("mine")
    write(out, FIRST)
    assert content(out) == FIRST | {name: "mine" for name in there if name != "."}
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_folder_of_somebody_elses_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    mine = {"index.html": "my page", "figures/mine.svg": "my figure", "tables/errors.csv": "my numbers"}
    for name, text in mine.items():
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text(text)
    with pytest.raises(InputError, match="is not empty and was not made by `sgjepa report`; choose another"):
        write(tmp_path / "out", FIRST)
    assert content(tmp_path / "out") == mine
    with pytest.raises(InputError, match="is not a folder"):
        write(tmp_path / "out" / "index.html", FIRST)
    with pytest.raises(InputError, match="cannot be made"):
        write(tmp_path / "out" / "index.html" / "report", FIRST)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is not a folder"):
        write(tmp_path / "link", FIRST)
    write(tmp_path / "evaluation", FIRST, made_by="sgjepa evaluate")
    with pytest.raises(InputError, match="was made by `sgjepa evaluate`, not by `sgjepa report`"):
        write(tmp_path / "evaluation", SECOND)
    assert content(tmp_path / "evaluation") == FIRST


def test_a_folder_of_nothing_but_artefacts_is_taken(tmp_path: Path) -> None:
    """A page lies above the trials of what it compares with."""
    write(tmp_path / "out" / "references" / "still", FIRST)
    write(tmp_path / "out", FIRST)
    (tmp_path / "two" / "references").mkdir(parents=True)
    (tmp_path / "two" / "references" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        write(tmp_path / "two", FIRST)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "evaluations").symlink_to(mine)
    key = {"settings": {}}
    with (
        pytest.raises(InputError, match="evaluations is a link"),
        artifact.artifact(tmp_path / "run" / "evaluations" / "one", key, MADE_BY, inside=tmp_path / "run"),
    ):
        pytest.fail("it worked first")
    (tmp_path / "out").mkdir()
    for name in (artifact.PARTIAL, files.LOCK):
        (tmp_path / "out" / name).symlink_to(mine / "target")
        with pytest.raises((InputError, OSError)):
            write(tmp_path / "out", FIRST)
        (tmp_path / "out" / name).unlink()
    (mine / "target").mkdir()
    (mine / "target" / "precious.arrow").write_text("mine")
    (tmp_path / "out" / artifact.PARTIAL).symlink_to(mine / "target")
    with pytest.raises(InputError, match="is in the way"):
        write(tmp_path / "out", FIRST)
    assert content(mine) == {"target/precious.arrow": "mine"}


def test_a_folder_called_partial_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    partial = tmp_path / "out" / artifact.PARTIAL
    partial.mkdir(parents=True)
    (partial / "train-000000.arrow").write_text("mine")
    with pytest.raises(InputError, match="is in the way: it was not made by `sgjepa report`"):
        write(tmp_path / "out", FIRST)
    assert content(tmp_path / "out") == {".partial/train-000000.arrow": "mine"}


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\x1b[31mb", "a\udc80b"])
def test_what_cannot_be_a_name_is_refused_before_the_work(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot be a folder's name") as caught:
        write(tmp_path / name, FIRST)
    assert str(caught.value).isprintable()
    assert list(tmp_path.iterdir()) == []


# --- what happens inside ours --------------------------------------------------------------------------------------


def test_only_what_we_wrote_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, FIRST)
    (out / "notes.txt").write_text("mine")
    (out / "tables" / "mine.csv").write_text("mine")
    write(out, SECOND)
    assert content(out) == SECOND | {"notes.txt": "mine", "tables/mine.csv": "mine"}
    write(out, FIRST)
    assert not (out / "figures").exists(), "a folder that we emptied goes"
    artifact.add(out, "study.json", b"more")
    write(out, SECOND)
    assert not (out / "study.json").exists(), "what was added is ours too"


def test_what_somebody_changed_is_refused_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, FIRST)
    (out / "tables" / "by_gravity.csv").write_text("mine now")
    with pytest.raises(InputError, match=r"by_gravity.csv is not as `sgjepa report` left it; move it away or delete it"):
        write(out, SECOND)
    (out / "tables" / "by_gravity.csv").unlink()
    (out / "figures").write_text("a file where we want a folder")
    with pytest.raises(InputError, match="figures is in the way: it was not made by `sgjepa report`; move it away"):
        write(out, SECOND)
    assert content(out) == {name: FIRST[name] for name in ("index.html", "tables/errors.csv")} | {
        "figures": "a file where we want a folder"
    }
    (out / "figures").unlink()
    write(out, SECOND)
    assert content(out) == SECOND
    (out / "study.json").write_text("mine")
    with pytest.raises(InputError, match=r"study.json is in the way"):
        artifact.add(out, "study.json", b"more")


def test_a_record_that_lists_what_lies_elsewhere_deletes_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    out = tmp_path / "out"
    write(out, FIRST)
    record = artifact.read_json_record(out)
    for name in ("../precious.txt", str(tmp_path / "precious.txt")):
        files.write_json(out / artifact.RECORD, record | {"files": {name: None}})
        with pytest.raises(InputError, match="is not the record of an artefact"):
            write(out, SECOND)
    assert (tmp_path / "precious.txt").read_text() == "mine"
    (out / artifact.RECORD).write_text("[]")
    with pytest.raises(InputError, match="was edited"):
        write(out, FIRST)


def test_a_failure_leaves_the_old_files_together(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, FIRST)
    record = (out / artifact.RECORD).read_text()
    with pytest.raises(AttributeError):
        write(out, SECOND | {"tables/broken.csv": None})  # type: ignore[dict-item]
    assert content(out) == FIRST
    assert (out / artifact.RECORD).read_text() == record
    with pytest.raises(AttributeError):
        write(tmp_path / "new", {"index.html": None})  # type: ignore[dict-item]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("there", [True, False])
def test_a_kill_leaves_the_old_files_and_what_it_left_is_cleared(tmp_path: Path, there: bool) -> None:
    out = tmp_path / "out"
    if there:
        write(out, FIRST)
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom sgjepa.core.artifact import artifact\n"
        "with artifact(Path(sys.argv[1]), {}, 'sgjepa report', replace=True) as new:\n"
        "    (new.path / 'index.html').write_text('half')\n    print('ready', flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(out)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with pytest.raises(InputError, match=rf"out is in use by process {process.pid} on .*; wait for it or stop it"):
        write(out, SECOND)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert {name for name in content(out) if not name.startswith(".")} == (set(FIRST) if there else set())
    write(out, SECOND)
    assert content(out) == SECOND


def test_a_kill_between_two_renames_never_shows_a_page_beside_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off after each rename and removal in turn; the page, if it is there, has its own tables, and a rerun mends."""
    cut = 0
    while True:
        out = tmp_path / str(cut)
        write(out, FIRST)
        (out / "notes.txt").write_text("mine")
        with monkeypatch.context() as patched:
            left = [cut]
            for name in ("replace", "unlink"):
                patched.setattr(Path, name, _counting(getattr(Path, name), left))
            try:
                write(out, SECOND)
                done = True
            except KeyboardInterrupt:
                done = False
        found = {name: text for name, text in content(out).items() if not name.startswith(".")}
        if "index.html" in found:
            assert found in (FIRST | {"notes.txt": "mine"}, SECOND | {"notes.txt": "mine"})
        write(out, SECOND)
        assert content(out) == SECOND | {"notes.txt": "mine"}, "nothing is set aside: all of it was ours"
        if done:
            break
        cut += 1
    assert cut > 5


def _counting(method: object, left: list[int]):  # type: ignore[no-untyped-def]
    def counted(self: Path, *arguments: object, **how: object) -> object:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        return method(self, *arguments, **how)  # type: ignore[operator]

    return counted


# --- the commands --------------------------------------------------------------------------------------------------


def refuse(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert cli.main([str(argument) for argument in arguments]) in (2, 3)
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_dataset_can_be_made_in_a_folder_that_is_there_and_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(small(), train=replace(small().train, episodes=2), test=replace(small().test, episodes=2))
    (tmp_path / "empty").mkdir()
    assert open_dataset(collect(few, tmp_path / "empty", workers=1)).train.episodes == 2
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert open_dataset(collect(few, Path(), workers=1)).train.episodes == 2, "also the one we stand in"


@pytest.mark.parametrize("name", ["~", "file:x", "memory:x", "s3:b", "a b%20#?", "ä"])
def test_a_dataset_lies_where_its_name_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Lance and Arrow take such names for addresses."""
    few = replace(small(), train=replace(small().train, episodes=2), test=replace(small().test, episodes=2))
    monkeypatch.chdir(tmp_path)
    assert open_dataset(collect(few, Path(name), workers=1)).train.episodes == 2
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_preview_goes_to_a_folder_of_its_own(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "contact_sheet.png").write_text("my own")
    (tmp_path / "thesis.tex").write_text("my own")
    monkeypatch.chdir(tmp_path)
    assert "is not empty and was not made by `sgjepa preview`" in refuse(capsys, "preview", finished, "--out", ".")
    assert (tmp_path / "contact_sheet.png").read_text() == "my own"
    data = open_dataset(finished)
    preview(data, tmp_path / "out", rows=1)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    before = (tmp_path / "out" / "contact_sheet.png").read_bytes()
    preview(data, tmp_path / "out", rows=2)
    assert (tmp_path / "out" / "contact_sheet.png").read_bytes() != before
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_a_study_and_the_demo_refuse_a_page_of_somebody_elses_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("report", "report-quick"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text("mine")
    monkeypatch.setattr("sgjepa.experiments.engine.collect", lambda *_: pytest.fail("it worked first"))
    monkeypatch.setattr(demo, "collect", lambda *_: pytest.fail("it worked first"))
    with pytest.raises(InputError, match="was not made by `sgjepa study factorial`"):
        factorial.EXPERIMENT.run(Request("mini", tmp_path, tmp_path / "datasets"))
    assert "report-quick is not empty" in refuse(capsys, "demo", "--quick", "--methods", "gru", "--out", tmp_path)
    (tmp_path / "report-quick" / "index.html").unlink()
    (tmp_path / "preview").mkdir()
    (tmp_path / "preview" / "mine.png").write_text("mine")
    assert "preview is not empty" in refuse(capsys, "demo", "--quick", "--methods", "gru", "--out", tmp_path)


def test_numbers_do_not_go_over_a_file_that_is_something_else(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = (copied / "artifact.json").read_text()
    assert "holds something else" in refuse(capsys, "coverage", copied, "--json", copied / "artifact.json")
    assert (copied / "artifact.json").read_text() == manifest
    (tmp_path / "notes.txt").write_text("mine")
    assert "holds something else" in refuse(capsys, "coverage", copied, "--json", tmp_path / "notes.txt")
    for _ in range(2):
        assert cli.main(["coverage", str(copied), "--json", str(tmp_path / "numbers.json")]) == 0
