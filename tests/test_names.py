"""Names say what they hold and docstrings are sentences: words that carry no type stay out of signatures and openings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "sgjepa"
MODULES = sorted(ROOT.rglob("*.py"))

VAGUE = (
    "alone asked beside chosen enough find found given here kept least named once one ours place places said shown theirs "
    "there told usual"
)
WORDS = frozenset(VAGUE.split())
OPENINGS = ("What ", "Of ", "As ", "The same", "Its ", "Who ", "Those ", "Where ")


def faults(source: str) -> Iterator[str]:
    """The line, and the fault, of every name and docstring in a module that breaks the rule."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name.strip("_").lower() in WORDS:
            yield f"{node.lineno}: `{node.name}` does not say what it does or is"
        elif isinstance(node, ast.arg) and node.arg.strip("_") in WORDS:
            yield f"{node.lineno}: the argument `{node.arg}` does not say what it holds"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node, clean=False) or ""
            if text.lstrip().startswith(OPENINGS):
                yield f"{node.body[0].lineno}: a docstring opens with '{text.split()[0]} ...', it should be a sentence"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_names_and_docstrings_stand_alone(path: Path) -> None:
    broken = [f"{path}:{fault}" for fault in faults(path.read_text(encoding="utf-8"))]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    "source",
    [
        "def find(): ...",
        "def _kept(): ...",
        "class One: ...",
        "def price(told): ...",
        "def price(*, given): ...",
        "def price(*, cost):\n    return lambda one: one",
        '"""What it takes."""',
        'def price():\n    """As `cost`, but higher."""',
        'class Price:\n    """The same for prices."""',
    ],
)
def test_the_rule_sees_a_fault(source: str) -> None:
    assert len(list(faults(source))) == 1


def test_the_rule_leaves_longer_names_and_sentences_alone() -> None:
    assert not list(faults('def find_env(one_based):\n    """Whether this holds. What follows is free."""\n    found = 1'))
