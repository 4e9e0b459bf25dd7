"""Registries: entries by name, filled by the package, by plug-ins and at run time.

An entry may be written "module:attribute": it is imported at its first use, so that a list of names costs nothing.
A plug-in is a module that calls `sgjepa.register_*` when it is imported. Three ways lead to one: the entry-point group
`sgjepa.plugins` of an installed package, `--import MODULE` on the command line, and calls in a running program. Worker
processes import the same modules before they begin.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Generic, TypeVar, cast

from sgjepa.core.errors import InputError, one_line, unknown

T = TypeVar("T")
GROUP = "sgjepa.plugins"
_imported: list[str] = []  # modules that registered something, in their order
_looked = False  # for installed plug-ins


class Registry(MutableMapping[str, T], Generic[T]):
    """Entries of one kind by name. Every access includes the entries of installed plug-ins."""

    def __init__(self, kind: str, entries: Mapping[str, T | str] | None = None):
        self.kind = kind
        self._entries: dict[str, T | str] = dict(entries or {})
        self._by: dict[str, str] = {}  # the module that registered an entry; built-in ones have none

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            load_plugins()
        entry = self._entries[name]
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            entry = cast(T, getattr(importlib.import_module(module), attribute))
            self._entries[name] = entry
        return entry

    def __setitem__(self, name: str, thing: T) -> None:
        self._entries[name] = thing

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        load_plugins()
        return iter(list(self._entries))

    def __len__(self) -> int:
        load_plugins()
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        if name not in self._entries:
            load_plugins()
        return name in self._entries

    def clear(self) -> None:
        """Remove all entries, without importing them first."""
        self._entries.clear()

    def copy(self) -> dict[str, T | str]:
        """The entries as stored; nothing is imported."""
        return dict(self._entries)

    def lookup(self, name: str) -> T:
        """The entry of that name; an InputError with the nearest name if there is none."""
        if name not in self:
            raise unknown(self.kind, name, self)
        return self[name]

    def register(self, name: str, thing: T, module: str) -> None:
        """Add an entry. module: the one that registers it, which worker processes import too.

        A module may register a name again, as a notebook does whose cell is run twice; another one may not.
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(f"the name of a {self.kind} must be letters, digits and _, got {name!r}")
        if name in self._entries and self._by.get(name) != module:
            raise InputError(f"there is a {self.kind} '{name}' already; choose another name")
        self._entries[name], self._by[name] = thing, module
        note(module)


def note(module: str) -> None:
    """Remember a module that registered something."""
    if module not in _imported:
        _imported.append(module)


def modules() -> tuple[str, ...]:
    """The plug-in modules that a worker process has to import. The main program is imported by Python itself."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if "__main__" in _imported and not (main and Path(main).is_file()):
        raise InputError(
            "what was registered in a notebook or a shell cannot be seen by worker processes: put it into a module and "
            "import that, or work in one process (workers=1)"
        )
    return tuple(name for name in _imported if name != "__main__")


def import_plugin(name: str) -> None:
    """Import a module that registers something; the current folder counts, as for `python -m`."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        importlib.import_module(name)
    except InputError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InputError(f"--import {name}: there is no such module here or in the environment") from error
        raise InputError(f"--import {name}: {one_line(error)}") from error
    except Exception as error:
        raise InputError(f"--import {name} failed: {type(error).__name__}: {one_line(error)}") from error
    note(name)


def import_plugins(names: Iterable[str]) -> None:
    """Import the parent's plug-ins in a worker process."""
    for name in names:
        import_plugin(name)


def load_plugins() -> None:
    """Import the plug-ins of installed packages, once."""
    global _looked
    if _looked:
        return
    _looked = True
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            source = entry.dist.name if entry.dist is not None else entry.value
            message = f"the plug-in {entry.value} of {source} failed: {one_line(error)}; fix or uninstall it"
            raise InputError(message) from error
