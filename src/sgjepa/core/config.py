"""Configs are frozen dataclasses; this file turns them into plain JSON values and back, strictly.

A field whose type is a union of dataclasses, or `Annotated[..., registry]` with a registry of dataclasses by class name,
carries the class name under the key "type".
An unknown key, a missing key or a value of the wrong kind is an InputError that names its path.

`override` gives a config other values at dotted paths, such as {"optim.lr": "1e-3"}, by the same rules.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sgjepa.core.errors import InputError, one_line
from sgjepa.core.registry import Registry

T = TypeVar("T")


def to_dict(config: Any) -> Any:
    """A config as JSON values: dicts, lists, strings, numbers, booleans, None."""
    if is_dataclass(config):
        values = {f.name: to_dict(getattr(config, f.name)) for f in fields(config)}
        return {"type": type(config).__name__, **values}
    if isinstance(config, Mapping):
        return {str(key): to_dict(value) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [to_dict(value) for value in config]
    return config


def from_dict(cls: type[T], data: Any) -> T:
    """The config of type `cls` that `to_dict` wrote."""
    return _build(cls, data, cls.__name__)


def difference(first: Any, second: Any, where: str = "") -> tuple[str, Any, Any] | None:
    """The first path at which two JSON values differ, with both values; None if they are equal."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in [*first, *(k for k in second if k not in first)]:
            result = difference(first.get(key), second.get(key), f"{where}.{key}" if where else key)
            if result:
                return result
        return None
    return None if first == second else (where, first, second)


def require_same(old: Any, new: Any, where: str, advice: str = "choose another --out or delete it") -> None:
    """Refuse settings that differ from the recorded ones. where: the start of the message, such as a folder's name."""
    if differs := difference(old, new):
        key, before, after = differs
        raise InputError(f"{where} with {key} = {one_line(before, 60)}, not {one_line(after, 60)}; {advice}")


def override(config: T, settings: Mapping[str, Any]) -> T:
    """The config with other values at dotted paths, such as {"optim.lr": "1e-3"}. Text is read as the field's type."""
    tree: dict[str, Any] = {}
    for where, value in settings.items():
        node, (*way, last) = tree, where.split(".")
        for name in way:
            node = node.setdefault(name, {})
            if not isinstance(node, dict):
                raise InputError(f"{where}: a value is set above it, too; leave one out")
        if last in node:
            raise InputError(f"{where}: a value is set below it, too; leave one out")
        node[last] = _Value(value)
    changed: T = _changed(config, tree, "", config)
    return changed


def flatten(config: Any, above: str = "") -> dict[str, Any]:
    """Every value of a config by its dotted path; nested configs are flattened."""
    result: dict[str, Any] = {}
    for field in fields(config):
        where, value = f"{above}{field.name}", getattr(config, field.name)
        result |= flatten(value, f"{where}.") if is_dataclass(value) else {where: value}
    return result


def changes(config: Any, default: Any) -> str:
    """The settings in which a config differs from a default one, for a file's name: "lr0.001-batch20"; empty if equal.

    A path is named by its last word, or by as many of its last words as no other path ends with.
    """
    values, before = flatten(config), flatten(default)
    parts = []
    for where in sorted(name for name in values if values[name] != before.get(name, MISSING)):
        words = where.split(".")
        ends = (".".join(words[-count:]) for count in range(1, len(words) + 1))
        short = next(end for end in ends if sum(f".{path}".endswith(f".{end}") for path in values) == 1)
        parts.append(f"{short}{_as_name(values[where])}")
    return "-".join(parts)


class _Value:
    """A value for a setting; it marks a mapping that is itself a value, not a level of further settings."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _changed(config: Any, tree: Mapping[str, Any], above: str, whole: Any) -> Any:
    names, hints, result = [f.name for f in fields(config)], get_type_hints(type(config)), {}
    for name, below in tree.items():
        where, value = f"{above}{name}", getattr(config, name, None)
        if name not in names:
            inside = difflib.get_close_matches(name, names, n=1)
            near = [path for path in flatten(whole) if path.split(".")[-1] == name] or [above + match for match in inside]
            hint = f" (did you mean {' or '.join(near)}?)" if near else ""
            raise InputError(f"there is no setting {where}{hint}; {above.rstrip('.') or 'it'} has {', '.join(names)}")
        if isinstance(below, _Value) and is_dataclass(value):
            inner = ", ".join(f"{where}.{f.name}" for f in fields(value))
            raise InputError(f"{where} is not one value; set one of {inner}")
        if isinstance(below, _Value):
            result[name] = _build(hints[name], _read(hints[name], below.value, where), where)
        elif is_dataclass(value):
            result[name] = _changed(value, below, f"{where}.", whole)
        else:
            raise InputError(f"{where} is one value, {one_line(value, 60)}, and has nothing below it")
    return replace(config, **result)


def _read(hint: Any, value: Any, where: str) -> Any:
    """Text parsed as a value of that type; anything that cannot be parsed is returned unchanged and refused later."""
    if not isinstance(value, str):
        _check_literal(hint, value, where)
        return value
    if get_origin(hint) in (Union, types.UnionType):
        if type(None) in get_args(hint) and value.lower() in ("none", "null"):
            return None
        for choice in get_args(hint):
            if not isinstance(result := _read(choice, value, where), str):
                return result
        return value
    if get_origin(hint) is tuple:
        return tuple(_read(get_args(hint)[0], part, where) for part in value.split(",")) if value else ()
    if hint is bool:
        return {"true": True, "false": False}.get(value.lower(), value)
    if hint in (int, float):
        with contextlib.suppress(ValueError):
            return hint(value)
    _check_literal(hint, value, where)
    return value


def _check_literal(hint: Any, value: Any, where: str) -> None:
    if get_origin(hint) is Literal and value not in get_args(hint):
        raise InputError(f"{where} should be one of {', '.join(map(str, get_args(hint)))}, got {one_line(repr(value), 60)}")


def _as_name(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "_".join(map(_as_name, value))
    if isinstance(value, float):
        value = f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return "".join(char if char.isalnum() or char in "._+-" else "_" for char in str(value).lower())


def check_bounds(config: Any, **limits: tuple[float, float]) -> None:
    """Refuse numbers outside of [low, high], or not finite, in the named fields: for `__post_init__`. None is accepted.

    Limits are generous: they guard against typing errors and damaged files that would exhaust memory or run for ever.
    """
    for name, (low, high) in limits.items():
        value = getattr(config, name)
        for number in value if isinstance(value, tuple) else () if value is None else (value,):
            where = f"{type(config).__name__}.{name}"
            if not isinstance(number, (int, float)) or (isinstance(number, float) and not math.isfinite(number)):
                raise InputError(f"{where} must be a finite number, got {one_line(number, 60)}")
            if number < low:
                raise InputError(f"{where} must be at least {low:g}, got {one_line(number, 60)}")
            if number > high:
                raise InputError(f"{where} must be at most {high:g}, got {one_line(number, 60)}")


def _build(hint: Any, data: Any, where: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _build_registered(args[1], data, where)
    if origin in (Union, types.UnionType):
        return _build_union(args, data, where)
    if is_dataclass(hint):
        return _build_dataclass(hint, data, where)
    if origin in (dict, Mapping):
        _expect(isinstance(data, Mapping), "an object", data, where)
        return {key: _build(args[1], value, f"{where}.{key}") for key, value in data.items()}
    if origin is tuple:
        _expect(isinstance(data, (list, tuple)), "a list", data, where)
        return tuple(_build(args[0], value, f"{where}[{i}]") for i, value in enumerate(data))
    if hint is float:
        _expect(isinstance(data, (int, float)) and not isinstance(data, bool), "a number", data, where)
        return _float(data, where)
    if hint in (int, str, bool):
        right = isinstance(data, hint) and not (hint is int and isinstance(data, bool))
        _expect(right, f"a value of type {hint.__name__}", data, where)
    return data


def _build_dataclass(cls: Any, data: Any, where: str) -> Any:
    _expect(isinstance(data, Mapping), "an object", data, where)
    hints, names = get_type_hints(cls, include_extras=True), [f.name for f in fields(cls)]
    unknown = set(data) - set(names) - {"type"}
    if unknown:
        raise InputError(f"{where} has no field {', '.join(sorted(unknown))}; it has {', '.join(names)}")
    required = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}
    missing = required - set(data)
    if missing:
        raise InputError(f"{where} lacks the field {', '.join(sorted(missing))}")
    return cls(**{name: _build(hints[name], data[name], f"{where}.{name}") for name in names if name in data})


def _build_registered(classes: Registry[Any], data: Any, where: str) -> Any:
    kind = str(data.get("type")) if isinstance(data, Mapping) else one_line(repr(data), 60)
    if kind not in classes:
        known = ", ".join(classes)
        raise InputError(
            f'{where} should be a {classes.kind} of "type" {known}, got {kind}; if it is one of your own, '
            "give the module that registers it: --import MODULE"
        )
    return _build_dataclass(classes[kind], data, where)


def _build_union(choices: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in choices:
        return None
    classes = {c.__name__: c for c in choices if isinstance(c, type) and is_dataclass(c)}
    if isinstance(data, Mapping) and classes:
        kind = str(data.get("type"))
        _expect(kind in classes, f'"type" to be one of {", ".join(classes)}', kind, where)
        return _build_dataclass(classes[kind], data, where)
    if float in choices and type(data) is int:
        return _float(data, where)
    for choice in choices:
        if choice in (int, float, str, bool) and type(data) is choice:
            return data
    for choice in choices:
        if get_origin(choice) in (tuple, dict, Mapping) and isinstance(data, (list, Mapping)):
            return _build(choice, data, where)
    raise InputError(f"{where} got {one_line(repr(data), 60)}, which fits none of {', '.join(map(_name, choices))}")


def _name(hint: Any) -> str:
    return "null" if hint is type(None) else getattr(hint, "__name__", str(hint))


def _float(data: float, where: str) -> float:
    try:
        return float(data)
    except OverflowError as error:  # JSON's integers have no end
        raise InputError(f"{where} should be a number, got one that is too large") from error


def _expect(right: bool, wanted: str, data: Any, where: str) -> None:
    if not right:
        raise InputError(f"{where} should be {wanted}, got {one_line(repr(data), 60)}")
