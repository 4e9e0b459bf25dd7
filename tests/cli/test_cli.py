"""The command line as a newcomer meets it: help, the demo, and every command that the documents show."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sgjepa import cli
from sgjepa.cli import doctor
from sgjepa.core import threads
from sgjepa.envs import ENVS
from sgjepa.experiments import EXPERIMENTS

ROOT = Path(__file__).parents[2]
COMMANDS = [
    "doctor",
    "demo",
    "data",
    "preview",
    "coverage",
    "describe",
    "train",
    "evaluate",
    "train-policy",
    "evaluate-policy",
    "report",
    "view",
    "study",
    "claims",
    "zoo",
]
HEAVY = ("torch", "mujoco", "lance", "matplotlib")
ELSEWHERE = (
    "demo",
    "train",
    "evaluate",
    "train-policy",
    "evaluate-policy",
    "report",
    "view",
    "study",
)  # they take minutes, and run small in tests of their own


def test_help_of_data_names_every_world(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["data", "--help"])
    text = capsys.readouterr().out
    assert [world for world in ENVS if world not in text] == []


def test_help_says_how_many_frames_a_probe_reads(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "--help"])
    (said,) = re.findall(r"frames that the probe reads \(default: (.*?)\)", " ".join(capsys.readouterr().out.split()))
    sizes = [size for env in ENVS.values() if env.env_spec.defaults for size in env.env_spec.defaults.sizes.values()]
    assert set(map(int, re.findall(r"\d+", said))) == {size.probe_window for size in sizes}


def test_help_lists_the_commands_in_the_order_of_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    assert re.findall(r"^    ([\w-]+)(?: |$)", text, re.MULTILINE) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_that_it_accepts(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    example = re.search(r"^example: (.*)$", capsys.readouterr().out, re.MULTILINE)
    assert example
    program, *arguments = shlex.split(example[1])
    assert program == "sgjepa"
    assert cli.parser().parse_args(arguments).run


@pytest.mark.parametrize(
    "command", [["--help"], ["train", "--help"], ["data"], ["data", "square", "--seed", "x"]], ids=" ".join
)
def test_help_and_a_wrong_argument_answer_before_anything_heavy_is_imported(command: list[str]) -> None:
    code = f"""import sys
from sgjepa import cli
try:
    cli.main({command})
except SystemExit:
    print("heavy:", [name for name in {HEAVY} if name in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_json_alone_is_all_that_is_printed(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(finished.iterdir())
    commands = {
        "cores": ["doctor", "--json"],
        "training": ["coverage", str(finished), "--gravity", "12", "--json"],
        "basis": ["coverage", str(finished), "--gravity", "12", "--json", "-"],
    }
    for name, command in commands.items():
        assert cli.main(command) == 0
        assert name in json.loads(capsys.readouterr().out)
    assert sorted(finished.iterdir()) == before, "what goes to standard output is not also written beside the data"


def test_study_without_a_name_lists_every_study_with_its_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["study"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    assert all("?" in line for line in lines)


@pytest.mark.parametrize("allowed", [True, False])
def test_a_browser_is_installed_where_we_may_and_else_the_line_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], allowed: bool
) -> None:
    """Neither way is an error, not even an installation that fails."""
    ran: list[list[str]] = []
    monkeypatch.setattr(doctor, "find_browser", lambda: None)
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 0 if allowed else 1000)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(doctor, "_runs", lambda command: bool(ran.append(command)))
    doctor.install_browser()
    said = capsys.readouterr().err
    assert ("apt-get install -y chromium" if allowed else "sudo apt-get install -y chromium") in said
    assert (["apt-get", "install", "-y", "chromium"] in ran) == allowed


def test_a_browser_that_is_there_is_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_browser", lambda: "/usr/bin/chromium")
    monkeypatch.setattr(doctor, "_runs", lambda command: pytest.fail(f"ran {command}"))
    doctor.install_browser()


def test_doctor_reports_and_writes_what_it_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["doctor", "--json", str(tmp_path / "d.json")]) == 0
    text, found = capsys.readouterr().out, json.loads((tmp_path / "d.json").read_text())
    assert f"{threads.counted(found['cores'], 'core')}," in text
    assert f"mujoco {found['packages']['mujoco']}" in text
    assert found["packages"]["mujoco"].startswith("3.")
    assert set(found["opengl"]) == {"egl", "osmesa"}
    for backend, state in found["opengl"].items():
        assert f"{backend}: {state}" in text


@pytest.mark.opengl
def test_doctor_draws_with_every_backend_that_it_says_works() -> None:
    assert "works" in doctor.examine_machine()["opengl"].values()


def shown_commands() -> list[str]:
    """Every `sgjepa` line in a shell block of the README and the documents."""
    found = []
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for block in re.findall(r"```bash\n(.*?)```", path.read_text(), re.DOTALL):
            found += [line.split("#")[0].strip() for line in block.splitlines() if line.startswith("sgjepa ")]
    return found


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_commands_in_the_documents_run(whole: bool, tmp_path: Path) -> None:
    """Paper-size commands are only parsed: they take minutes. All else really runs, in one folder, as a reader types it;
    but datasets have as many episodes as it says in the slow test alone."""
    commands = shown_commands()
    assert any(command.startswith("sgjepa data square") for command in commands)
    for command in dict.fromkeys(commands):
        _, *arguments = shlex.split(command)
        if "paper" in arguments or arguments[0] in ELSEWHERE:
            assert cli.parser().parse_args(arguments).run, command
            continue
        if arguments[0] == "data" and not whole:
            arguments += ["--train-episodes", "50", "--test-episodes", "50"]  # the last word counts
        done = subprocess.run(
            [sys.executable, "-m", "sgjepa", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"


def test_the_index_of_the_documents_says_which_commands_are_run() -> None:
    (said,) = re.findall(r"Of the `sgjepa` commands, those of (.*?) are run", (ROOT / "docs" / "README.md").read_text())
    assert re.findall(r"`([\w-]+)`", said) == [command for command in COMMANDS if command not in ELSEWHERE]


def test_data_prints_what_its_manifest_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "few" / "square-mini"
    arguments = ["data", "square", "--train-episodes", "20", "--test-episodes", "25", "--out", str(out)]
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert "20 train, 25 test episodes, 2880 frames" in text
    last = text.splitlines()[-1]
    assert last == f"next: sgjepa train square_gru --size mini --datasets {out.parent} --data square-mini"
    assert cli.parser().parse_args(shlex.split(last)[2:]).run
    for part in json.loads((out / "artifact.json").read_text())["parts"].values():  # every printed number is in the file
        found = part["laws"]["gravity"]
        assert f"mean {found['mean']:.3f}, std {found['std']:.3f}" in text
    assert cli.main(["preview", str(out)]) == 0
    with Image.open(out / "preview/preview.webp") as film:
        assert film.n_frames == 64
    with Image.open(out / "preview/contact_sheet.png") as sheet:
        picture = np.asarray(sheet)
    assert (np.abs(picture.astype(int)[..., 0] - picture[..., 1]) > 80).sum() > 5000, "the sheet shows no red body"
