"""A kind of learned policy from outside the package is trained, opened and put to trial like ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fixtures.driven import Driven, driven
from fixtures.regression import RegressionConfig

from sgjepa import cli
from sgjepa.core import run_folder
from sgjepa.core.errors import InputError
from sgjepa.policies.evaluate import beginnings, trained, trial
from sgjepa.policies.files import read_policy, read_trial
from sgjepa.policies.learned import load_policy
from sgjepa.recipes.policies import policy

__all__ = ["driven"]  # a fixture


@pytest.mark.opengl
def test_another_kind_of_policy_is_trained_by_its_name_and_drives(driven: Driven, tmp_path: Path) -> None:
    folder, data = tmp_path / "linear", str(driven.dataset.path)
    words = ["train-policy", "state", "--dataset", data, "--kind", "regression", "--updates", "30", "--out", str(folder)]
    assert cli.main(words) == 0
    found = load_policy(folder)
    assert found.config == RegressionConfig(updates=30)
    assert found.how == {"execute": 8}
    losses = [row["loss"] for row in run_folder.read(folder) if row["split"] == "train"]
    assert losses[-1] < 0.9 * losses[0]
    scores = read_policy(folder).scores
    assert scores is not None
    assert (scores.training_loss, scores.validation_loss) == (losses[-1], None)
    about, rows = read_trial(trial(trained(folder, driven.dataset), driven.dataset, 0, beginnings(driven.dataset, 2)))
    assert about.settings.how == {"execute": 8}
    assert np.isin(rows["success"], (0, 1)).all()


def test_a_kind_that_nobody_registered_is_refused() -> None:
    with pytest.raises(InputError, match="unknown kind of policy 'regresion'"):
        policy("mini", "arm_catcher_ball", "regresion")
