"""The page of the Python interface, from the docstrings: `python docs/make_api.py` writes docs/api.md."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import sgjepa
from sgjepa.data.store import Split
from sgjepa.evaluation.model import Forecast, Model
from sgjepa.results.answer import Answer

PAGE = Path(__file__).parent / "api.md"
HEAD = """# The Python interface

Made from the docstrings by `python docs/make_api.py`. `import sgjepa` is quick: what a name needs is imported when the name
is first used. Wrong input raises `sgjepa.core.errors.InputError`, whose one line says what to do. The examples
on this page are one session, from top to bottom. [The notebook](notebook.ipynb) shows the same with pictures.

In shapes, B is a batch, T frames of an episode, h × w or H × W pixels, A controls, S numbers of state, N and
E episodes, L laws, D the width of a latent. Laws are in their own units, gravity in m/s²."""
# a heading, and what stands below it, in the order of use
SECTIONS: dict[str, tuple[Any, ...]] = {
    "Simulate and imagine": (sgjepa.load, sgjepa.make, sgjepa.simulate, sgjepa.Episode, Model, Forecast),
    "Data": (sgjepa.Dataset, Split),
    "Train and evaluate": (sgjepa.train, sgjepa.evaluate, sgjepa.Results, Answer),
    "Add something of your own": (
        sgjepa.register_world,
        sgjepa.register_law,
        sgjepa.register_predictor,
        sgjepa.register_model,
        sgjepa.register_policy,
        sgjepa.register_learned_policy,
        sgjepa.register_planner,
    ),
}
_WIDTH = 100
_ARGUMENT = re.compile(r"(\w+(?:, \w+)*): (.*)")


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for heading, shown in SECTIONS.items():
        parts.append(f"## {heading}")
        for one in shown:
            name = one.__name__ if one in (Model, Forecast, Split, Answer) else f"sgjepa.{one.__name__}"
            parts += [f"### {name}", *(_class(one) if inspect.isclass(one) else _function(one, name))]
    return "\n\n".join(parts) + "\n"


def _class(kind: type) -> Iterator[str]:
    yield as_markdown(kind)
    for name, member in public(kind):
        called = f"{kind.__name__}.{name}"
        if isinstance(member, (property, cached_property)):
            yield f"#### {called}"
            yield as_markdown(member)
        else:
            yield from (f"#### {called}", *_function(_plain(member), called))


def public(kind: type) -> list[tuple[str, Any]]:
    """The public methods and properties of a class in the order of its source, and then those of its bases."""
    kinds = (property, cached_property, classmethod, staticmethod)
    return [
        (name, member)
        for base in kind.__mro__
        for name, member in vars(base).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, kinds))
    ]


def _plain(member: Any) -> Callable[..., Any]:
    found = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    return inspect.unwrap(found)


def _function(function: Callable[..., Any], name: str) -> Iterator[str]:
    yield f"```\n{signature(function, name)}\n```"
    yield as_markdown(function)


def signature(function: Callable[..., Any], name: str) -> str:
    """As it is written in the source; on one line where it fits."""
    found = inspect.signature(function)
    given, starred = [], False
    for one in found.parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            given.append("*")
        starred = starred or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        default = "" if one.default is one.empty else f" = {_value(one.default)}"
        given.append(f"{stars}{one.name}: {one.annotation}{default}")
    back = f" -> {found.return_annotation}"
    whole = f"{name}({', '.join(given)}){back}"
    if len(whole) <= _WIDTH:
        return whole
    return "\n".join([f"{name}(", *(f"    {one}," for one in given), f"){back}"])


def _value(default: Any) -> str:
    return repr(default).replace("'", '"')


def as_markdown(documented: Any) -> str:
    """A docstring: arguments become a list, indented examples become blocks of Python."""
    text = inspect.cleandoc(documented.__doc__ or "")
    return "\n\n".join(_paragraph(part) for part in _paragraphs(text))


def _paragraphs(text: str) -> list[str]:
    """Parts between empty lines; an example with empty lines is one."""
    found: list[str] = []
    for part in text.split("\n\n"):
        if found and part.startswith("    ") and found[-1].startswith("    "):
            found[-1] += f"\n\n{part}"
        else:
            found.append(part)
    return found


def _paragraph(text: str) -> str:
    if text.startswith("    "):
        return f"```python\n{textwrap.dedent(text)}\n```"
    lines: list[str] = []
    for line in text.split("\n"):
        if argument := _ARGUMENT.fullmatch(line):
            names = ", ".join(f"`{name}`" for name in argument[1].split(", "))
            lines.append(f"- {names}: {argument[2]}")
        elif lines:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"written to {PAGE}")


if __name__ == "__main__":
    main()
