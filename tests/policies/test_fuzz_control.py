"""Random damage to what policies and planners leave: each is refused in one line, or makes no difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.damage import fuzz
from fixtures.datasets import small
from fixtures.planning import Placed, untaught
from fixtures.policies import TINY

from sgjepa import cli
from sgjepa.data.collect import collect
from sgjepa.data.store import open_dataset
from sgjepa.envs import ENVS
from sgjepa.policies.features import open_features
from sgjepa.policies.learned import train_policy
from sgjepa.report import films

torch.set_num_threads(1)


class Anywhere(Placed):
    """As `Placed`; where no place is asked for, nearly any will do: something to learn from, and something to plan for."""

    def _draw_goal(self, rng: np.random.Generator) -> dict[str, float]:
        return {"x": 0.0, "z": -100.0}

    def success(self) -> bool:
        return self.goal["z"] == -100.0 or super().success()

    def decided(self) -> bool:
        return self.goal["z"] != -100.0 and super().success()


@dataclass(frozen=True)
class Played:
    """A dataset, a run that plans its cases and a policy on its features, each with its trial."""

    root: Path
    out: Path  # where commands may write

    @property
    def run(self) -> Path:
        return self.root / "runs" / "placed_gru-mini-seed0"

    @property
    def policy(self) -> Path:
        return self.root / "policies" / "tiny"

    def plan(self) -> list[str]:
        search = ["--candidates", "4", "--iterations", "1", "--elites", "2", "--horizon", "2"]
        cases = ["--episodes", "1", "--offset", "3", "--workers", "1"]
        return [
            "evaluate-policy",
            str(self.run),
            "--dataset",
            str(self.root / "placed"),
            *cases,
            *search,
            "--out",
            str(self.out / "plan"),
        ]

    def control(self) -> list[str]:
        episodes = ["--episodes", "1", "--workers", "1"]
        data = ["--dataset", str(self.root / "placed")]
        return ["evaluate-policy", str(self.policy), *data, *episodes, "--out", str(self.out / "control")]

    def command(self, path: Path) -> list[str]:
        """The one that reads the file."""
        return self.control() if path.is_relative_to(self.policy) else self.plan()

    def files(self) -> dict[str, list[Path]]:
        """What is read again, by kind."""
        found = {
            "record of a policy": [self.policy / "artifact.json"],
            "policy": [self.policy / "policy.safetensors"],
            "trial of a policy": sorted(self.policy.glob("trials/*/artifact.json")),
            "trial of a plan": sorted(self.run.glob("trials/*/artifact.json")),
            "tables": sorted(self.root.glob("*/*/trials/*/*.parquet")),
        }
        assert all(found.values()), found
        assert len(found["tables"]) == 4
        return found


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    root = tmp_path_factory.mktemp("fuzz") / "world"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVS, "placed", Anywhere)
        patch.setattr(films, "SIDE", 16)
        base = small(image_size=32)
        parts = {"train": replace(base.train, episodes=4), "test": replace(base.test, episodes=2)}
        dataset = open_dataset(collect(replace(base, world="placed", **parts), root / "placed", workers=1))
        found = Played(root, root.parent / "out")
        untaught(dataset, root)
        train_policy(TINY, open_features(found.run, Anywhere.env_spec), dataset, found.policy)
        assert cli.main(found.plan()) == 0
        assert cli.main(found.control()) == 0
        yield found


def test_a_sample_of_damages_to_trials_is_refused_in_one_line(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    counts = fuzz(played, capsys, per_kind=2, seed=1)
    assert counts["tried"] == 2 * len(played.files())
    assert counts["refused"] >= counts["tried"] - 2


@pytest.mark.slow
def test_random_damage_to_trials_is_refused_in_one_line(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    counts = fuzz(played, capsys, per_kind=40, seed=2)
    with capsys.disabled():
        print("\n" + ", ".join(f"{name} {count}" for name, count in counts.items()))
    assert counts["refused"] >= 0.8 * counts["tried"]
