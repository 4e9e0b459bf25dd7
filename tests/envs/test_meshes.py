"""Menagerie's meshes change a robot's look: a dataset says that it was made with them, the doctor whether they are there."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.datasets import small

from sgjepa.cli import doctor
from sgjepa.core import artifact
from sgjepa.core.errors import InputError
from sgjepa.data.collect import collect, key_of, schema_of
from sgjepa.data.config import DatasetConfig, make_env, with_mesh_digest
from sgjepa.envs.robots import MENAGERIE

XML = """<mujoco><compiler meshdir="assets"/><asset><mesh name="stone" file="stone.obj"/></asset><worldbody>
<body name="link00"><geom type="mesh" mesh="stone" group="2"/></body></worldbody></mujoco>"""


@pytest.fixture
def menagerie(tmp_path: Path) -> Path:
    """A folder with Menagerie's layout and a mesh for the Z1's base; none for the Panda."""
    assets = tmp_path / "menagerie" / "unitree_z1" / "assets"
    assets.mkdir(parents=True)
    write_mesh(assets, 0.1)
    (assets.parent / "z1.xml").write_text(XML)
    return tmp_path / "menagerie"


def write_mesh(assets: Path, size: float) -> None:
    corners = f"v 0 0 0\nv {size} 0 0\nv 0 {size} 0\nv 0 0 {size}\n"
    (assets / "stone.obj").write_text(corners + "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MENAGERIE, raising=False)


def catcher() -> DatasetConfig:
    return small("arm_catcher_ball", image_size=16)


def test_only_meshes_that_are_shown_enter_the_settings(menagerie: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = catcher()
    assert with_mesh_digest(plain) == plain, "without meshes a dataset's settings and bytes are what they always were"
    monkeypatch.setenv(MENAGERIE, str(menagerie))
    assert with_mesh_digest(small("square")) == small("square"), "no robot there"
    dressed = with_mesh_digest(plain)
    assert list(dressed.env) == [MENAGERIE]
    assert with_mesh_digest(dressed) == dressed
    assert not schema_of(plain, "train").equals(schema_of(dressed, "train"), check_metadata=True), "chunks do not mix"
    write_mesh(menagerie / "unitree_z1" / "assets", 0.2)
    os.utime(menagerie / "unitree_z1" / "assets" / "stone.obj", (0, 0))  # MuJoCo keeps a mesh that is no newer by a second
    assert with_mesh_digest(plain).env != dressed.env, "another mesh is another look"
    monkeypatch.delenv(MENAGERIE)
    assert make_env(dressed).model.nmesh == 0, "the simulator alone needs no meshes"
    with pytest.raises(InputError, match="set SGJEPA_MENAGERIE to their folder"):
        with_mesh_digest(dressed)


@pytest.mark.opengl
def test_a_dataset_does_not_go_on_in_another_look(menagerie: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path / "catcher", catcher())
    monkeypatch.setenv(MENAGERIE, str(menagerie))
    with pytest.raises(InputError, match="was begun without Menagerie's meshes; unset SGJEPA_MENAGERIE to go on") as caught:
        collect(catcher(), tmp_path / "catcher")
    assert "\n" not in str(caught.value)
    shutil.rmtree(tmp_path / "catcher")
    begin(tmp_path / "catcher", with_mesh_digest(catcher()))
    monkeypatch.delenv(MENAGERIE)
    with pytest.raises(InputError, match="was begun with Menagerie's meshes; set SGJEPA_MENAGERIE to go on"):
        collect(catcher(), tmp_path / "catcher")
    with pytest.raises(InputError, match="set SGJEPA_MENAGERIE to their folder"):
        collect(replace(catcher(), env={MENAGERIE: "0123456789ab"}), tmp_path / "other")
    assert not list(tmp_path.rglob("*.arrow"))


def begin(out: Path, settings: DatasetConfig) -> None:
    """A dataset that an interrupted command began."""
    with suppress(KeyboardInterrupt), artifact.artifact(out, key_of(settings), "sgjepa data", resumable=True):
        raise KeyboardInterrupt


def test_the_doctor_says_which_meshes_are_there(menagerie: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "drawing_backends", lambda: {"egl": "works"})  # not what is asked about here
    assert "meshes" not in doctor.examine_machine()
    monkeypatch.setenv(MENAGERIE, str(menagerie))
    found = doctor.examine_machine()
    assert found["meshes"]["z1"] == "found"
    assert "panda_nohand.xml cannot be used" in found["meshes"]["panda"]
    lines = [line for line in doctor.as_text(found).splitlines() if line.startswith("meshes:")]
    assert len(lines) == 1
    assert f"{MENAGERIE}: {menagerie}, z1: found, panda: " in lines[0]
