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
from sgjepa.core import artifact
from sgjepa.core.errors import InputError
from sgjepa.data.collect import collect
from sgjepa.data.preview import preview
from sgjepa.data.store import open_dataset
from sgjepa.experiments import demo, factorial
from sgjepa.experiments.engine import Request

MADE_BY = "sgjepa report"


def write(path: Path, names: dict[str, str], made_by: str = MADE_BY) -> None:
    """As a command does: a page, and files in folders."""
    with artifact.output_folder(path, made_by, "index.html") as place:
        for name, text in names.items():
            (place / name).parent.mkdir(exist_ok=True)
            artifact.write_bytes(place / name, text.encode())


def content(path: Path) -> dict[str, str]:
    """Every file but the marker, hidden ones included."""
    found = (p for p in path.rglob("*") if p.is_file() and p.name != artifact.MARKER)
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


def test_a_folder_from_before_there_were_markers_is_ours_if_it_holds_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("old")
    known = ("index.html", "errors.csv")
    assert artifact.check_output(tmp_path, MADE_BY, known) == {"index.html": None}
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        artifact.check_output(tmp_path, MADE_BY, known)


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
    artifact.add_output(out, "study.json", b"more")
    write(out, SECOND)
    assert not (out / "study.json").exists(), "what was added is ours too"


def test_what_somebody_changed_is_kept_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    write(out, FIRST)
    (out / "index.html").write_text("page 1, with my remarks")
    (out / "tables" / "by_gravity.csv").write_text("mine now")
    (out / "figures").write_text("a file where we want a folder")
    write(out, SECOND)
    kept = {"index.yours.html": "page 1, with my remarks", "figures.yours": "a file where we want a folder"}
    assert content(out) == SECOND | kept | {"tables/by_gravity.csv": "mine now"}
    assert "is kept as index.yours.html" in capsys.readouterr().err
    (out / "index.html").write_text("again")
    write(out, FIRST)
    assert (out / "index.yours.html").read_text() == "page 1, with my remarks"
    assert (out / "index.yours1.html").read_text() == "again"


def test_a_marker_that_lists_what_lies_elsewhere_deletes_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    out = tmp_path / "out"
    write(out, FIRST)
    listed = {"../precious.txt": None, str(tmp_path / "precious.txt"): artifact.file_digest(tmp_path / "precious.txt")}
    artifact.write_json(out / artifact.MARKER, {"made_by": MADE_BY, "files": listed})
    write(out, SECOND)
    assert (tmp_path / "precious.txt").read_text() == "mine"
    (out / artifact.MARKER).write_text("[]")
    with pytest.raises(InputError, match="was edited"):
        write(out, FIRST)


def test_a_failure_leaves_the_old_files_together(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, FIRST)
    marker = (out / artifact.MARKER).read_text()
    with pytest.raises(AttributeError):
        write(out, SECOND | {"tables/broken.csv": None})  # type: ignore[dict-item]
    assert content(out) == FIRST
    assert (out / artifact.MARKER).read_text() == marker
    with pytest.raises(AttributeError):
        write(tmp_path / "new", {"index.html": None})  # type: ignore[dict-item]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("there", [True, False])
def test_a_kill_leaves_the_old_files_and_what_it_left_is_cleared(tmp_path: Path, there: bool) -> None:
    out = tmp_path / "out"
    if there:
        write(out, FIRST)
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom sgjepa.core import output\n"
        "with output.output_folder(Path(sys.argv[1]), 'sgjepa report', 'index.html') as place:\n"
        "    (place / 'index.html').write_text('half')\n    print('ready', flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(out)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    (left,) = tmp_path.rglob("*.tmp")
    write(out, SECOND)
    assert left.is_dir(), "a process that is still writing is left alone"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert content(out) == SECOND | ({f"{left.name}/index.html": "half"} if there else {})
    write(out, FIRST)
    assert content(out) == FIRST
    assert not left.exists()


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
    with pytest.raises(InputError, match="is not a dataset"):  # the folder we stand in would be swapped away
        collect(few, Path(), workers=1)


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
    manifest = (copied / "manifest.json").read_text()
    assert "holds something else" in refuse(capsys, "coverage", copied, "--json", copied / "manifest.json")
    assert (copied / "manifest.json").read_text() == manifest
    (tmp_path / "notes.txt").write_text("mine")
    assert "holds something else" in refuse(capsys, "coverage", copied, "--json", tmp_path / "notes.txt")
    for _ in range(2):
        assert cli.main(["coverage", str(copied), "--json", str(tmp_path / "numbers.json")]) == 0
