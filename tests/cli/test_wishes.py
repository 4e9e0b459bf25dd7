"""What a newcomer types first, and is told to type instead: one line that names the right help."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sgjepa import cli, laws, zoo
from sgjepa.cli import errors, suggestions
from sgjepa.core import config
from sgjepa.recipes.training import recipe, recipes

FIRST_WORDS = {  # what a stage needs before its flags
    **dict.fromkeys(("train", "describe"), "square_gru"),
    **dict.fromkeys(("evaluate", "train-policy", "report", "view"), "runs/none"),
    **dict.fromkeys(("preview", "coverage"), "datasets/none"),
    "data": "square",
    "study": "factorial",
    "evaluate-policy": "expert",
}
DATA, TRAIN = "sgjepa data square --size mini", "sgjepa train square_gru"
RUN = "runs/square_gru-mini-seed0"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], line: str, code: int) -> str:
    """The one line that a command answers with."""
    try:
        ended = cli.main(shlex.split(line))
    except SystemExit as stop:  # argparse
        ended = int(stop.code or 0)
    (said,) = capsys.readouterr().err.strip().splitlines()
    assert ended == code, said
    assert said.endswith(f"(see `sgjepa {line.split()[0]} --help`)"), "another help than that of the stage"
    return said


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train square_gru --lr 1e-3", "train has no --lr; type: --set optim.lr=1e-3; of Muon's"),
        ("train --learning-rate=2e-4 square_gru", "train has no --learning-rate; type: --set optim.lr=2e-4"),
        ("train square_gru --batch-size 32", "train has no --batch-size; type: --set train.batch=32"),
        ("train square_gru --batch 32", "train has no --batch; type: --set train.batch=32"),
        ("train square_gru --gpu", "train has no --gpu: it runs on the GPU where torch sees one"),
        ("train square_gru --device cuda", "train has no --device: it runs on the GPU where torch sees one"),
        ("train square_gru --workers 2", "torchrun --nproc-per-node 2 -m sgjepa train"),
        ("train square_gru --lr 1 --gpu", "optim.lr=1; of Muon's matrices it is optim.lr_matrix; train has no --gpu: it"),
        ("data square --gravity 4", "type: --law gravity=4 for the test, --train-law gravity=4:0.5 for training"),
        ("data square --gravity-x 1", "type: --law gravity_x=1 for the test"),
        ("data square --gravity -3", "type: --law gravity=-3 for the test"),
        ("evaluate runs/none --gravity 4", "type: --dataset datasets/NAME; made by: sgjepa data WORLD --law gravity=4"),
        ("study factorial --lr 3e-3", "study has no --lr; type: --set optim.lr=3e-3"),
        ("train --lr", "train has no --lr; type: --set optim.lr=VALUE"),
        ("train --gpu square_gru", "train has no --gpu: it runs on the GPU where torch sees one"),
        ("train --gpu", "train has no --gpu: it runs on the GPU where torch sees one"),
        ("data --gravity", "type: --law gravity=VALUE for the test"),
        ("train --size mini", "the following arguments are required: recipe (see"),
        ("train --siz mini", "the following arguments are required: recipe (see"),
        ("train square_gru --sede 3", "train has no --sede (did you mean --seed?)"),
        ("train square_gru --frobnicate", "train has no --frobnicate (see"),
        ("train square_gru square_lewm", "unrecognized arguments: square_lewm (see"),
    ],
)
def test_a_flag_of_other_programs_is_answered_with_what_to_type(
    capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    assert words in refused(capsys, line, errors.USAGE)


WISHES = [(stage, flag, wish) for stage, known in suggestions.FLAGS.items() for flag, wish in known.items()]


@pytest.mark.parametrize(("stage", "flag", "wish"), WISHES, ids=[f"{stage} {flag}" for stage, flag, _ in WISHES])
def test_what_is_said_to_type_is_taken(stage: str, flag: str, wish: suggestions.Suggestion) -> None:
    parser = cli.parser()
    typed = shlex.split(wish.type.format(value="3"))
    options = parser.parse_args([stage, *FIRST_WORDS.get(stage, "").split(), *typed])
    for setting in getattr(options, "set", None) or []:
        place, _, _ = setting.partition("=")
        assert place in config.flatten(recipe("square_gru", "mini"))
    assert wish.words("3")
    with pytest.raises(SystemExit):  # a flag that the stage has, or that argparse takes for one, needs no answer
        parser.parse_args([stage, *FIRST_WORDS.get(stage, "").split(), flag, "3"])


def test_every_law_is_answered_where_datasets_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    for name in laws.LAWS:
        said = refused(capsys, f"data square --{name.replace('_', '-')} 2", errors.USAGE)
        assert f"--law {name}=2 for the test" in said


def a_run(name: str) -> None:
    Path("runs", name).mkdir(parents=True)
    Path("runs", name, "artifact.json").write_text('{"made_by": "sgjepa train"}')


def a_dataset(name: str) -> None:
    Path("datasets", name).mkdir(parents=True)
    Path("datasets", name, "artifact.json").write_text('{"made_by": "sgjepa train"}')


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("evaluate square_gru", f"type: {DATA}, then {TRAIN}, then sgjepa evaluate {RUN} (see"),
        ("evaluate runs/square_gru", "square_gru is a recipe, and nothing is trained by it here"),
        ("report square_gru", f"{TRAIN}, then sgjepa evaluate {RUN}, then sgjepa report {RUN} (see"),
        ("evaluate square", f"square is a world, and nothing is trained by it here; type: {DATA}, then {TRAIN}, then"),
        (
            "evaluate-policy square_gru",
            f"sgjepa train-policy {RUN}, then sgjepa evaluate-policy policies/square_gru-mini-seed0-mini-seed0",
        ),
        (
            "evaluate triangle_square_gru",
            f"{DATA.replace('square', 'right_triangle')}, then {DATA}, then sgjepa train triangle",
        ),
        ("train square_gru --init square_ssm", "then sgjepa train square_ssm, then --init runs/square_ssm-mini-seed0"),
        ("preview square", f"square is a world; type: {DATA}, then sgjepa preview datasets/square-mini"),
        ("coverage square_gru", f"square_gru is a recipe; type: {DATA}, then sgjepa coverage datasets/square-mini"),
        ("preview datasets/square-mini", f"square-mini is a dataset's name; type: {DATA}, then sgjepa preview"),
        ("train square", "square is a world; did you mean square_gru? type: sgjepa train square_gru (methods: gru, "),
        ("train datasets/square-small", "is a dataset; type: sgjepa train square_gru --size small"),
        ("train square_gru --data square", "type: sgjepa data square --size mini, then --data square-mini (see"),
        ("data square_gru", "square_gru is a recipe; type: sgjepa data square --size mini (see"),
        ("data square-small", "square-small is a dataset's name; type: sgjepa data square --size small (see"),
    ],
)
def test_a_name_of_another_kind_is_answered_with_what_to_type(
    capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    assert words in refused(capsys, line, errors.INPUT)


def test_models_of_the_package_are_named_with_their_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [name for name in zoo.names() if not zoo.is_policy(name)]
    assert runs
    for name in runs:
        said = refused(capsys, f"evaluate {name}", errors.INPUT)
        assert f"{name} comes with the package; type: sgjepa evaluate zoo:{name} (see" in said
    alone = next(name for name in runs if name not in recipes())
    assert f"type: sgjepa evaluate zoo:{alone}, or start" in refused(capsys, f"train {alone}", errors.INPUT)


def test_the_viewer_names_a_model_of_the_package_with_its_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    name = next(name for name in zoo.names() if not zoo.is_policy(name))
    said = refused(capsys, f"view {name} --no-browser --port 0", errors.INPUT)
    assert f"type: sgjepa view zoo:{name} (see" in said


def test_what_is_there_is_named_first(capsys: pytest.CaptureFixture[str]) -> None:
    a_run("square_gru-mini-seed0")
    a_run("square_gru-mini-lr0.002-seed0")
    a_dataset("square-mini")
    said = refused(capsys, "evaluate square_gru", errors.INPUT)
    folders = ["runs/square_gru-mini-lr0.002-seed0", "runs/square_gru-mini-seed0"]
    assert f"type: {' or '.join(f'sgjepa evaluate {folder}' for folder in folders)} (see" in said
    said = refused(capsys, "evaluate square_gru-mini-seed0", errors.INPUT)
    assert "type: sgjepa evaluate runs/square_gru-mini-seed0 (see" in said
    assert "type: sgjepa preview datasets/square-mini (see" in refused(capsys, "preview square", errors.INPUT)
    assert "sgjepa data" not in refused(capsys, "evaluate square_ssm", errors.INPUT), "its data are there"


def test_an_error_about_something_else_is_not_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    Path("square").mkdir()
    assert cli.main(["preview", "square"]) == errors.INPUT
    assert "square is a world" not in capsys.readouterr().err, "it is a folder too"
    a_run("none")
    assert cli.main(["report", "runs/none", "--data", "square"]) == errors.INPUT
    assert "runs/none has not been evaluated" in capsys.readouterr().err
    a_dataset("square-mini")
    assert cli.main(["train", "square_gru", "--data", "square-mini"]) == errors.INPUT
    assert "datasets/square-mini/artifact.json was edited" in capsys.readouterr().err


def test_a_flag_that_is_unknown_is_answered_before_anything_heavy_is_imported() -> None:
    code = """import sys
from sgjepa import cli
try:
    cli.main(["train", "square_gru", "--lr", "1"])
except SystemExit:
    print([name for name in ("torch", "mujoco") if name in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
