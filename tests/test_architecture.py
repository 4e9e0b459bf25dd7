"""The house rules that a machine can check: who imports whom, and that every module says what it is for."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "sgjepa"
MODULES = sorted(ROOT.rglob("*.py"))

# from left to right; a module imports from its own room or from the left
ROOMS = ("core", "theory", "laws", "envs", "data", "models", "training", "evaluation", "policies", "planning")
ROOMS += ("results", "report", "recipes", "experiments", "zoo", "api", "view", "cli")
NO_TORCH = {"core", "theory", "laws", "envs", "data", "results", "report", "zoo", "cli"}


def test_the_contributors_guide_shows_the_same_rooms() -> None:
    """Both ways, so that neither drifts: what CONTRIBUTING.md says is what is enforced here."""
    guide = (ROOT.parent.parent / "CONTRIBUTING.md").read_text()
    drawn = re.findall(r"```\n([^`]*→[^`]*)```", guide)
    assert [tuple(block.replace("→", " ").split()) for block in drawn] == [ROOMS]
    sentence = re.search(r"^No torch in ([^:]*):", guide, re.MULTILINE)
    assert sentence
    assert set(re.findall(r"`(\w+)`", sentence[1])) == NO_TORCH


def test_every_module_lies_in_a_room() -> None:
    """A room that the list does not know could be imported by anybody."""
    assert {name_of(path) for path in MODULES} - {"__init__", "__main__"} <= set(ROOMS)


def place_of(room: str) -> int:
    """The package's own `__init__`, the lazy front door, and `python -m sgjepa` are right of all."""
    return {"__init__": len(ROOMS), "__main__": len(ROOMS)}.get(room, ROOMS.index(room) if room in ROOMS else -1)


def imports(path: Path) -> set[str]:
    """Every imported module, as a dotted name; imports inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def modules_of(room: str) -> list[str]:
    """The dotted names of a room's modules."""
    names = (".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in MODULES if name_of(path) == room)
    return [name.removesuffix(".__init__") for name in names]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_go_left(path: Path) -> None:
    for imported in imports(path):
        if imported.startswith("sgjepa."):
            assert place_of(imported.split(".")[1]) <= place_of(name_of(path)), f"{path} imports {imported} from its right"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", [p for p in MODULES if name_of(p) in NO_TORCH], ids=lambda p: p.name)
def test_simulating_and_reading_work_without_torch(path: Path) -> None:
    assert not any(name.split(".")[0] == "torch" for name in imports(path))


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import sgjepa", ("torch", "mujoco", "gymnasium", "lance", "numpy")),
        ("import sgjepa; sgjepa.Dataset.open({dataset!r}).train.state", ("torch", "mujoco")),
        ("from sgjepa import experiments; assert 'factorial' in experiments.listing()", ("torch", "mujoco")),
        *((f"import {', '.join(modules_of(room))}", ("torch", "mujoco")) for room in sorted(NO_TORCH - {"envs"})),
        (f"import {', '.join(modules_of('envs'))}", ("torch",)),
    ],
    ids=["sgjepa", "a dataset", "the experiments", *sorted(NO_TORCH - {"envs"}), "envs"],
)
def test_what_is_not_needed_is_not_imported(code: str, absent: tuple[str, ...], finished: Path) -> None:
    """In a fresh process, by whatever way: every module of a room without torch, and what a user opens."""
    check = f"import sys; found = [name for name in {absent!r} if name in sys.modules]; assert not found, found"
    done = subprocess.run(
        [sys.executable, "-c", f"{code.format(dataset=str(finished))}\n{check}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", [p for p in MODULES if name_of(p) == "theory"], ids=lambda p: p.name)
def test_theory_needs_numpy_and_nothing_else(path: Path) -> None:
    """Small enough to copy into somebody's notebook: NumPy, the standard library, and the two modules named here."""
    ours = {".".join(name.split(".")[:2]) for name in imports(path) if name.startswith("sgjepa.")}
    assert ours <= {"sgjepa.theory", "sgjepa.core"}
    others = {name.split(".")[0] for name in imports(path)} - {"sgjepa", "numpy"}
    assert others <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", [p for p in MODULES if name_of(p) != "envs"], ids=lambda p: p.name)
def test_only_envs_import_mujoco(path: Path) -> None:
    """Importing sgjepa.envs chooses the OpenGL backend first; a direct import would come too early."""
    assert not any(name.split(".")[0] == "mujoco" for name in imports(path))


@pytest.mark.parametrize(
    "path", [p for p in MODULES if name_of(p) != "models"], ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_nobody_asks_which_world_model_it_is(path: Path) -> None:
    """A run names the configs there are, and recipes make them; all others know models/base.py alone."""
    if path.relative_to(ROOT).as_posix() != "training/config.py" and name_of(path) != "recipes":
        assert not any(
            name.startswith(("sgjepa.models.jepa", "sgjepa.models.dino", "sgjepa.models.mean_patch"))
            for name in imports(path)
        )
