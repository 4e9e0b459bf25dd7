"""Random damage to every kind of file: each is refused in one line, or makes no difference, and nothing else is touched.

The seed is fixed, so a failure comes back. `-s` shows how many were tried, and how many of them refused.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from damage import BYTES, World, build, commands, edit, edit_unsealed, recipe_of

from sgjepa import cli
from sgjepa.core import files

WRITTEN = ("summary.csv", ".sgjepa.json")  # by an evaluation that is there already


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build(tmp_path_factory.mktemp("fuzz") / "world")


def run(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> tuple[int, str, list[str]]:
    """Exit code, standard output, and the lines of standard error without progress."""
    capsys.readouterr()
    try:
        code = cli.main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, [line for line in err.splitlines() if line.startswith("sgjepa") or "Traceback" in line]


def fuzz(world: World, capsys: pytest.CaptureFixture[str], per_kind: int, seed: int) -> Counter[str]:
    """So many damages of every kind of file. Returns counts."""
    counts: Counter[str] = Counter()
    rng, recipe = random.Random(seed), recipe_of(world)
    sound: dict[str, str] = {}
    kept = Path(shutil.copytree(world.root, world.root.with_name("kept"), dirs_exist_ok=True))
    for kind, paths in world.files().items():
        for number in range(per_kind):
            path = rng.choice(paths)
            ways = (*BYTES, edit, edit, edit_unsealed) if path.suffix == ".json" else BYTES
            damage = ways[number % len(ways)] if number < len(ways) else rng.choice(ways)
            content, command = path.read_bytes(), world.command(path)
            with commands(recipe):
                done = damage(path, rng)
                place = f"{kind}: {path.relative_to(world.root)}, {done}"
                damaged = files.digests(world.root)
                code, out, lines = run(capsys, command)
                after = files.digests(world.root)
                if path.read_bytes() != content:
                    path.write_bytes(content)
                counts["tried"] += 1
                if code:
                    counts["refused"] += 1
                    counts[f"refused, {kind}"] += 1
                    assert code in (2, 3), f"{place}: exit {code}"
                    assert len(lines) == 1, f"{place}: {lines}"
                    assert lines[0].startswith("sgjepa: error: "), f"{place}: {lines}"
                    assert after == damaged, f"{place}: a refused command changed {_changed(damaged, after)}"
                    continue
                counts["no difference"] += 1
                if damage is not edit_unsealed:  # which may as well be what an earlier version wrote
                    assert path.suffix == ".json", f"{place}: was believed"
                    assert damage is not edit, f"{place}: was believed"
                    touched = [name for name in _changed(damaged, after) if not name.endswith(WRITTEN)]
                    assert not touched, f"{place}: changed {touched}"
                    if " ".join(command) not in sound:
                        sound[" ".join(command)] = run(capsys, command)[1]
                    assert out == sound[" ".join(command)], f"{place}: another result"
                shutil.rmtree(world.root)
                shutil.copytree(kept, world.root)
    return counts


def _changed(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def test_a_sample_of_damages_is_refused_in_one_line(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    counts = fuzz(world, capsys, per_kind=1, seed=1)
    assert counts["tried"] == len(world.files())
    assert counts["refused"] >= counts["tried"] - 1


@pytest.mark.slow
def test_random_damage_is_refused_in_one_line(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    counts = fuzz(world, capsys, per_kind=40, seed=2)
    with capsys.disabled():
        print("\n" + ", ".join(f"{name} {count}" for name, count in counts.items()))
    assert counts["tried"] >= 500
    assert counts["refused"] >= 0.9 * counts["tried"]
