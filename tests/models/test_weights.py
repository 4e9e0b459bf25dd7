"""Tensors on disk: exact, whole or not there, and one line when a file is not what it should be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from sgjepa.core.errors import InputError
from sgjepa.models import weights
from sgjepa.models.weights import load_metadata, load_tensors, load_weights, save_tensors, save_weights


def test_weights_come_back_exactly_with_their_buffers(tmp_path: Path) -> None:
    one, other = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    one(torch.randn(8, 3))
    save_weights(tmp_path / "w", one)
    load_weights(tmp_path / "w", other)
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def test_text_travels_with_the_tensors(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6).view(2, 3).T}  # not contiguous
    save_tensors(tmp_path / "t", tensors, {"plan": "[1]"})
    assert torch.equal(load_tensors(tmp_path / "t")["a"], tensors["a"])
    assert load_metadata(tmp_path / "t") == {"plan": "[1]"}


def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_weights(tmp_path / "w", nn.Linear(2, 2))
    before = (tmp_path / "w").read_bytes()

    def half(_: object, path: Path, *__: object) -> None:
        path.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(weights, "save_file", half)
    with pytest.raises(OSError, match="no space"):
        save_weights(tmp_path / "w", nn.Linear(2, 2))
    assert [path.name for path in tmp_path.iterdir()] == ["w"]
    assert (tmp_path / "w").read_bytes() == before


@pytest.mark.parametrize("content", [None, b"", b"not safetensors at all"])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "w").write_bytes(content)
    for read in (load_tensors, load_metadata):
        with pytest.raises(InputError, match=r"w cannot be read \(.*\)$") as caught:
            read(tmp_path / "w")
        assert "\n" not in str(caught.value)


def test_weights_of_another_model_are_named(tmp_path: Path) -> None:
    save_weights(tmp_path / "w", nn.Linear(2, 2))
    with pytest.raises(InputError, match=r"holds another model \(.*size mismatch.*\)$"):
        load_weights(tmp_path / "w", nn.Linear(2, 3))
