"""docs/api.md is made from the docstrings of the public names, and every one of them has one that names its arguments."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sgjepa

ROOT = Path(__file__).parents[2]


@pytest.fixture
def make_api(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """docs/make_api.py."""
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(ROOT / "docs"))
        import make_api

        yield make_api
        sys.modules.pop("make_api")


def test_the_page_is_what_the_docstrings_say(make_api: ModuleType) -> None:
    assert make_api.PAGE.read_text(encoding="utf-8") == make_api.page(), "python docs/make_api.py"


def test_every_public_name_stands_on_the_page(make_api: ModuleType) -> None:
    shown = {one.__name__ for section in make_api.SECTIONS.values() for one in section}
    assert {name for name in sgjepa.__all__ if name != "__version__"} - shown == set()


def documented(make_api: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions, classes and their members by the names that the page gives them."""
    for one in (one for section in make_api.SECTIONS.values() for one in section):
        yield one.__name__, one
        if inspect.isclass(one):
            yield from ((f"{one.__name__}.{name}", member) for name, member in make_api.public(one))


def test_every_argument_is_explained(make_api: ModuleType) -> None:
    """Where a function has one that its first line does not name."""
    missing = []
    for name, one in documented(make_api):
        text = one.__doc__ or ""
        assert text, name
        function = getattr(one, "__func__", one)
        if inspect.isclass(one) or not inspect.isfunction(function):
            continue
        names = [given for given in inspect.signature(function).parameters if given not in ("self", "cls")]
        missing += [f"{name}: {given}" for given in names if not re.search(rf"\b{given}s?\b", text)]
    assert missing == []


def test_a_signature_is_shown_as_it_is_written(make_api: ModuleType) -> None:
    assert make_api.signature(sgjepa.load, "sgjepa.load") == (
        'sgjepa.load(source: str | Path, device: str = "cpu") -> Model | LearnedPolicy'
    )
    lines = make_api.signature(sgjepa.train, "sgjepa.train").splitlines()
    assert lines[3:5] == ["    *,", "    out: str | Path | None = None,"]
