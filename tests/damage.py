"""A tiny world on disk with one file of every kind, ways to damage a file, and the commands that read them. For tests."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from conftest import small
from test_train import RUN, train_until

from sgjepa import cli
from sgjepa.core import artifact
from sgjepa.data.collect import collect

ABSURD = (-1, 0, 10**7, 10**12, 1e300, float("nan"), "x", "", None, True, [], {}, [1, "a"], 10**400)


@dataclass(frozen=True)
class World:
    """A dataset, a finished run with probe, evaluation and counterfactual, and a run that stopped at a checkpoint."""

    root: Path
    out: Path  # where commands may write

    @property
    def data(self) -> Path:
        return self.root / "square"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def halted(self) -> Path:
        return self.root / "halted"

    def evaluate(self, *more: str) -> list[str]:
        return ["predict", str(self.run), "--dataset", str(self.data), "--probe", "linear", *more]

    def command(self, path: Path) -> list[str]:
        """The one that reads the file."""
        name = path.relative_to(self.root).as_posix()
        if name.startswith("square/"):
            return ["coverage", str(self.data), "--json", str(self.out / "coverage.json")]
        if name.startswith("halted/"):
            return ["train", "square_gru", "--datasets", str(self.root), "--out", str(self.halted)]
        if "/probes/" in name:
            return ["probe", str(self.run), "--dataset", str(self.data), "--probe", "linear"]
        if "/latents/" in name:  # a probe reads training episodes, a forecast those of the test
            probe = ["probe", str(self.run), "--dataset", str(self.data), "--probe", "linear", "--seed", "7"]
            return probe if "-train-" in name else self.evaluate("--context", "30")
        if name.endswith("decoder.safetensors"):
            return self.evaluate("--context", "30")
        return self.evaluate("--counterfactual")

    def files(self) -> dict[str, list[Path]]:
        """What is read again, by kind."""
        checkpoint = max((self.halted / "checkpoints").iterdir())
        found = {
            "manifest": [self.data / "manifest.json"],
            "lance": sorted(path for path in self.data.glob("*.lance/**/*") if path.is_file()),
            "run.json": [self.run / "run.json"],
            "model": [self.run / "model.safetensors"],
            "decoder": [self.run / "decoder.safetensors"],
            "checkpoint": [checkpoint / name for name in ("learner.safetensors", "optimiser.safetensors", "state.json")],
            "probe": sorted(self.run.glob("probes/*/probe.*")),
            "latents": sorted(self.run.glob("latents/*.npy")),
            "predict.json": sorted(self.run.glob("predict/*/predict.json")),
            "counterfactual.json": sorted(self.run.glob("counterfactual/*/counterfactual.json")),
            "tables": sorted(self.run.glob("*/*/*.parquet")),
            "strips": sorted(self.run.glob("predict/*/strips.npz")),
            "marker": sorted(self.run.glob("predict/*/.sgjepa.json")),
        }
        assert all(found.values()), found
        return found


def build(root: Path) -> World:
    """Seconds: 20 training episodes of 16 pixels, a few updates."""
    base = small(image_size=16)
    few = replace(base, train=replace(base.train, episodes=20), test=replace(base.test, episodes=25))
    data = collect(few, root / "square", workers=1)
    world = World(root, root.parent / "out")
    world.out.mkdir(exist_ok=True)
    encoder = replace(RUN.model.encoder, image_size=16)
    train = replace(RUN.train, epochs=1, frames=64, save_every=2)
    run = replace(RUN, name="square_gru", data=(data.name,), model=replace(RUN.model, encoder=encoder), train=train)
    with commands(run):
        train_until(5, run, world.halted, root)
    with commands(replace(run, train=replace(train, decoder=True, decoder_width=8))):
        assert cli.main(["train", "square_gru", "--datasets", str(root), "--out", str(world.run)]) == 0
        assert cli.main(world.evaluate("--counterfactual")) == 0
    return world


@contextmanager
def commands(run: Any) -> Iterator[None]:
    """The command line with a recipe that is small enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sgjepa.recipes.training.recipe", lambda *_: run)
        yield


def recipe_of(world: World) -> Any:
    """What the halted run trains."""
    from sgjepa.training.checkpoint import read_config

    return read_config(world.halted)


# --- damages: each returns what it did, in words --------------------------------------------------------------------


def flip(path: Path, rng: random.Random) -> str:
    content = bytearray(path.read_bytes())
    place = rng.randrange(len(content))
    content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return f"a bit of byte {place} flipped"


def truncate(path: Path, rng: random.Random) -> str:
    size = rng.randrange(path.stat().st_size)
    path.write_bytes(path.read_bytes()[:size])
    return f"cut after {size} bytes"


def overwrite(path: Path, rng: random.Random) -> str:
    """A hole, as a disk that lost a block leaves it."""
    content = bytearray(path.read_bytes())
    start = rng.randrange(len(content))
    stop = min(len(content), start + rng.randrange(1, 4096))
    content[start:stop] = bytes(1 if byte == 0 else 0 for byte in content[start:stop])
    path.write_bytes(content)
    return f"bytes {start} to {stop} lost"


def edit(path: Path, rng: random.Random, seal: bool = True) -> str:
    """A value or key of a JSON file changed; without its seal it is what an earlier version could have written."""
    whole = json.loads(path.read_text(encoding="utf-8"))
    place, key = rng.choice([*_places(whole)])
    before = place[key]
    action = rng.choice(("set", "set", "remove", "add"))
    if action == "add" and isinstance(place, dict):
        place["stray"] = 1
    elif action == "remove" and not isinstance(place, list):
        del place[key]
    else:
        place[key] = rng.choice([value for value in ABSURD if value != before or type(value) is not type(before)])
    if not seal:
        whole.pop(artifact.SEAL, None)
    path.write_text(json.dumps(whole), encoding="utf-8")
    return f"{action} at {key}, which was {str(before)[:40]}{'' if seal else ', without a seal'}"


def edit_unsealed(path: Path, rng: random.Random) -> str:
    return edit(path, rng, seal=False)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with every key in it; what is said of machines and commands is free."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value)) if isinstance(value, (dict, list)) else []
    for key, item in items:
        if key not in ("provenance", artifact.SEAL):
            yield value, key
            yield from _places(item)


BYTES: tuple[Callable[[Path, random.Random], str], ...] = (flip, truncate, overwrite)


def copy(world: World, root: Path) -> World:
    shutil.copytree(world.root, root)
    (root.parent / "out").mkdir(exist_ok=True)
    return World(root, root.parent / "out")


# --- many of them ---------------------------------------------------------------------------------------------------

WRITTEN = ("summary.csv", ".sgjepa.json")  # by an evaluation that is there already


class Damaged(Protocol):
    """Files of every kind, and the commands that read them."""

    @property
    def root(self) -> Path: ...

    def command(self, path: Path) -> list[str]: ...

    def files(self) -> dict[str, list[Path]]: ...


def run(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> tuple[int, str, list[str]]:
    """Exit code, standard output, and the lines of standard error without progress."""
    capsys.readouterr()
    try:
        code = cli.main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, [line for line in err.splitlines() if line.startswith("sgjepa") or "Traceback" in line]


def fuzz(world: Damaged, capsys: pytest.CaptureFixture[str], per_kind: int, seed: int) -> Counter[str]:
    """So many damages of every kind of file. Returns counts."""
    counts: Counter[str] = Counter()
    rng = random.Random(seed)
    sound: dict[str, str] = {}
    kept = Path(shutil.copytree(world.root, world.root.with_name("kept"), dirs_exist_ok=True))
    for kind, paths in world.files().items():
        for number in range(per_kind):
            path = rng.choice(paths)
            ways = (*BYTES, edit, edit, edit_unsealed) if path.suffix == ".json" else BYTES
            damage = ways[number % len(ways)] if number < len(ways) else rng.choice(ways)
            content, command = path.read_bytes(), world.command(path)
            done = damage(path, rng)
            place = f"{kind}: {path.relative_to(world.root)}, {done}"
            damaged = artifact.digests(world.root)
            code, out, lines = run(capsys, command)
            after = artifact.digests(world.root)
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
