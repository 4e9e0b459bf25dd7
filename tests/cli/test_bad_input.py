"""Everything a person can get wrong: one clear line, an exit code by whose fault it was, and what was there is untouched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from fixtures.datasets import small

from sgjepa import cli
from sgjepa.cli import errors
from sgjepa.core import files
from sgjepa.data.collect import collect
from sgjepa.data.store import open_dataset

FEW = ["--train-episodes", "2", "--test-episodes", "2", "--image-size", "16", "--workers", "1"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure of the machine leaves a log in the current folder."""
    monkeypatch.chdir(tmp_path)


def fails(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = errors.INPUT) -> str:
    """Run the command, expect failure, return its single line."""
    try:
        ended = cli.main([str(a) for a in arguments])
    except SystemExit as stop:  # argparse
        ended = stop.code
    said = capsys.readouterr().err.splitlines()
    lines = [line for line in said if line and not re.search("episodes per s|s per episode", line)]
    assert ended == code
    assert len(lines) == 1, lines
    assert lines[0].startswith("sgjepa: error: ")
    return lines[0]


def snapshot(folder: Path) -> dict[str, str]:
    return files.digests(folder)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data", "sqare"], "unknown world 'sqare' (did you mean square?)"),
        (["data", "square", "--size", "huge"], "unknown size 'huge'"),
        (["data", "square", "--law", "wind=3"], "unknown law 'wind'"),
        (["data", "square", "--law", "gravity=nan"], "must be a finite number in m/s^2, got 'nan'"),
        (["data", "square", "--law", "gravity=4,inf"], "must be a finite number"),
        (["data", "square", "--law", "gravity=1e9"], "must lie within ±1000 m/s^2"),
        (["data", "square", "--law", "gravity=1", "--law", "gravity=2"], "--law gravity is given twice"),
        (["data", "square", "--law", "gravity"], "--law takes KEY=VALUE, got 'gravity'"),
        (["data", "square", "--env", "contact=soft"], "unknown contact 'soft'"),
        (["data", "square", "--env", "colour=red"], "unknown option of square 'colour'"),
        (
            ["data", "arm_catcher_ball", "--env", "contact=elastic"],
            "arm_catcher_ball has no options, so none called 'contact'",
        ),
        (["data", "square", "--codec", "png"], "unknown codec 'png'"),
        (["data", "square", "--image-size", "3"], "image_size must be a whole number from 8"),
        (["data", "square", "--workers", "0"], "workers must be at least 1"),
        (["study", "control", "--size", "small", "--only", "x"], "study control has nothing to train at size small"),
        (["describe", "square"], "did you mean square_gru?"),
        (["study", "sigreg", "--workers", "0"], "--workers must be at least 1, got 0"),
        (["study", "perception_error", "--workers", "0"], "--workers must be at least 1, got 0"),
        (["study", "hyperparameters_policy", "--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["data", "square", "--seed", "-1"], "seed must not be negative"),
        (["data", "square", "--train-episodes", "0"], "at least one train episode"),
        (["data", "square", "--train-episodes", "-5"], "at least one train episode"),
        (["preview", "nowhere"], "nowhere does not exist"),
        (["coverage", "nowhere", "--gravity", "3", "--law", "gravity=5"], "gravity is given twice"),
        (["claims", "--results", ".", "--out", "claims.md"], "no study's claims lie in ."),
        (["report", "."], ". is not a run"),
        (["train", "square_gru", "--epochs", "0"], "error: --epochs must be at least 1, got 0"),
        (["train", "square_gru", "--save-every", "-2"], "error: --save-every must be at least 1, got -2"),
        (["train", "square_gru", "--seed", "-3"], "seeds must not be negative, got -3"),
    ],
)
def test_a_wrong_argument_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], words: str
) -> None:
    assert words in fails(capsys, *arguments)
    assert not list(tmp_path.iterdir()), "a refused command left something behind"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data", "square", "--seed", "one"], "invalid int value: 'one'"),
        (["data"], "the following arguments are required: world"),
        (["dta"], "invalid choice: 'dta'"),
    ],
)
def test_wrong_usage_is_one_line_with_a_code_of_its_own(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert words in fails(capsys, *arguments, code=errors.USAGE)


def test_a_folder_that_is_not_a_dataset_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    mine = tmp_path / "thesis"
    mine.mkdir()
    (mine / "chapter1.txt").write_text("precious")
    before = snapshot(mine)
    assert "is not empty and was not made by `sgjepa data`" in fails(capsys, "data", "square", "--out", mine, *FEW)
    assert "was not made by `sgjepa data`" in fails(capsys, "preview", mine)
    assert snapshot(mine) == before


def test_a_file_in_the_way_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    assert "is not a folder" in fails(capsys, "data", "square", "--out", tmp_path / "file", *FEW)
    assert (tmp_path / "file").read_text() == "precious"


# --- damaged datasets ----------------------------------------------------------------------------------------------


def lance_file(folder: Path) -> Path:
    return next((folder / "test.lance/data").iterdir())


def truncate(folder: Path) -> None:
    path = lance_file(folder)
    os.truncate(path, path.stat().st_size // 2)


def edit_a_byte(folder: Path) -> None:
    path = lance_file(folder)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)


def delete_a_file(folder: Path) -> None:
    lance_file(folder).unlink()


def append_rows(folder: Path) -> None:
    table = lance.dataset(str(folder / "test.lance"))
    lance.write_dataset(table.to_table(limit=3), folder / "test.lance", mode="append")


def add_a_file(folder: Path) -> None:
    (folder / "test.lance/data/stray.lance").write_bytes(b"stray")


def break_the_manifest(folder: Path) -> None:
    (folder / "artifact.json").write_text('{"format": ')


def other_format(folder: Path) -> None:
    edited(lambda m: m.update(format="sgjepa-99"))(folder)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (truncate, "is damaged: it is not what was written; delete it and run `sgjepa data` again"),
        (edit_a_byte, "is damaged: it is not what was written; delete it and run `sgjepa data` again"),
        (delete_a_file, "is missing; run `sgjepa data` again"),
        (append_rows, "is damaged: it is not what was written; delete it and run `sgjepa data` again"),
        (add_a_file, "stray.lance does not belong to the dataset"),
        (break_the_manifest, "cannot be read as JSON"),
        (other_format, "is not of format sgjepa-1"),
    ],
)
def test_a_damaged_dataset_is_refused_and_left_as_it_is(
    capsys: pytest.CaptureFixture[str], copied: Path, damage: object, words: str
) -> None:
    damage(copied)  # type: ignore[operator]
    before = snapshot(copied)
    assert words in fails(capsys, "preview", copied)
    assert snapshot(copied) == before


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Damage: a change to the manifest's JSON."""

    def damage(folder: Path) -> None:
        manifest = json.loads((folder / "artifact.json").read_text())
        change(manifest)
        files.write_json(folder / "artifact.json", manifest)

    return damage


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            edited(lambda m: m.pop("parts")),
            "was edited, or written by other code: Manifest lacks the field parts",
        ),
        (edited(lambda m: m["parts"].pop("test")), "artifact.json was edited: it lacks the part test"),
        (edited(lambda m: m["parts"]["test"].pop("digest")), "Manifest.parts.test lacks the field digest"),
        (edited(lambda m: m["parts"]["test"].update(episodes="x")), "Manifest.parts.test.episodes should be"),
        (edited(lambda m: m["config"].update(colour=1)), "Manifest.config has no field colour"),
        (lambda folder: files.write_json(folder / "artifact.json", [1]), "was edited: it should be an object"),
    ],
)
def test_an_edited_manifest_is_one_line_for_every_command(
    capsys: pytest.CaptureFixture[str], copied: Path, damage: Callable[[Path], None], words: str
) -> None:
    damage(copied)
    assert words in fails(capsys, "preview", copied)


def seal_again(folder: Path) -> None:
    """Make the manifest agree with the files, as a careless tool would: only the content is wrong now."""
    manifest = json.loads((folder / "artifact.json").read_text())
    content = {name: digest for name, digest in files.digests(folder).items() if name != "artifact.json"}
    files.write_json(folder / "artifact.json", manifest | {"files": content})


def rewrite(folder: Path, table: pa.Table) -> None:
    lance.write_dataset(table, folder / "test.lance", mode="overwrite")
    seal_again(folder)


def test_a_corrupt_jpeg_in_the_middle_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = collect(small(codec="jpeg"), tmp_path / "jpeg", workers=1)
    table = lance.dataset(str(folder / "test.lance")).to_table()
    pixels = table["pixels"].to_pylist()
    pixels[24 * 64 + 30] = b"\xff\xd8 not a picture"  # episode 24 has the largest gravity: the preview shows it
    rewrite(folder, table.set_column(table.schema.get_field_index("pixels"), "pixels", pa.array(pixels, pa.binary())))
    before = snapshot(folder)
    line = fails(capsys, "preview", folder)
    assert "episode 24, frame 30: the jpeg picture is corrupt" in line
    assert snapshot(folder) == before


def test_a_corrupt_lz4_frame_is_named(copied: Path) -> None:
    table = lance.dataset(str(copied / "test.lance")).to_table()
    pixels = table["pixels"].to_pylist()
    pixels[5] = pixels[5][:20]
    rewrite(copied, table.set_column(table.schema.get_field_index("pixels"), "pixels", pa.array(pixels, pa.binary())))
    with pytest.raises(ValueError, match="episode 0, frame 5: the lz4 picture is corrupt"):
        open_dataset(copied).test.pixels(np.array([0]))


def test_rows_that_are_not_whole_episodes_are_refused(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    rewrite(copied, lance.dataset(str(copied / "test.lance")).to_table().slice(1))
    assert "does not hold 50 whole episodes of 64 frames" in fails(capsys, "preview", copied)


def test_a_missing_column_is_named(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    rewrite(copied, lance.dataset(str(copied / "test.lance")).to_table().drop_columns(["state", "phys"]))
    assert "lacks the column phys, state" in fails(capsys, "preview", copied)


def test_a_value_that_is_not_finite_is_named(copied: Path) -> None:
    table = lance.dataset(str(copied / "test.lance")).to_table()
    state = np.array(table["state"].to_pylist(), np.float32)
    state[64 * 3 + 2, 1] = np.nan
    column = pa.FixedSizeListArray.from_arrays(pa.array(state.ravel()), 8)
    rewrite(copied, table.set_column(table.schema.get_field_index("state"), "state", column))
    with pytest.raises(ValueError, match="column state of episode 3 holds a value that is not finite"):
        _ = open_dataset(copied).test.state


# --- disks ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[tuple[Path, object]]:
    """A mount point, and a function that puts a small disk on it."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(options: str) -> Path:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("mounting a small disk needs root")
        return disk

    yield disk, mount
    subprocess.run(["umount", str(disk)], capture_output=True, check=False)


@pytest.mark.parametrize("phase", ["episodes", "lance"])
def test_a_full_disk_keeps_what_was_finished_and_the_command_goes_on(
    capsys: pytest.CaptureFixture[str], mounted: tuple[Path, object], phase: str
) -> None:
    """The disk fills up while episodes are made, or when all are made and Lance is written."""
    _, mount = mounted
    disk = mount({"episodes": "size=900k", "lance": "size=1800k"}[phase])  # type: ignore[operator]
    out = disk / "square"
    arguments = ["data", "square", "--train-episodes", "30", "--test-episodes", "50", "--image-size", "32", "--workers", "1"]
    line = fails(capsys, *arguments, "--out", out, code=errors.MACHINE)
    assert "No space left on device" in line
    assert not (out / "artifact.json").exists()
    kept = sorted(p.name for p in disk.glob("square/.partial/.chunks/*.arrow"))
    assert len(kept) == 4 if phase == "lance" else 1 <= len(kept) < 4, "the chunks that were whole are gone"
    assert not list(disk.glob("square/.partial/**/.*.tmp")), "a half-written file was left"
    subprocess.run(["mount", "-o", "remount,size=40m", str(disk)], check=True)
    assert cli.main([*arguments, "--out", str(out)]) == 0
    assert open_dataset(out).manifest.parts["train"].episodes == 30


@pytest.mark.parametrize("command", [["data", "square", *FEW, "--out"], ["demo", "--out"]])
def test_a_read_only_folder_is_said(
    capsys: pytest.CaptureFixture[str], mounted: tuple[Path, object], command: list[str]
) -> None:
    _, mount = mounted
    disk = mount("ro")  # type: ignore[operator]
    line = fails(capsys, *command, disk / "deep" / "square", code=errors.MACHINE)
    assert "Read-only file system" in line
    assert str(disk) in line


def test_a_preview_to_a_full_disk_leaves_no_half_picture(
    capsys: pytest.CaptureFixture[str], mounted: tuple[Path, object], finished: Path
) -> None:
    _, mount = mounted
    disk = mount("size=8k")  # type: ignore[operator]
    assert "No space left on device" in fails(capsys, "preview", finished, "--out", disk / "pictures", code=errors.MACHINE)
    assert not [p for p in disk.rglob("*") if p.is_file()]


def test_the_console_command_prints_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-m", "sgjepa", "data", "circle"], capture_output=True, text=True, check=False)
    assert done.returncode == errors.INPUT
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
