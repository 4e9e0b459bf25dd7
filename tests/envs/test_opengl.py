"""The choice of an OpenGL backend, each case in a process of its own: a display is opened once, at the first draw."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from sgjepa.envs.render import opengl

HIDE = """
import ctypes
real = ctypes.CDLL
def hidden(name, *args, **kwargs):
    if name and ("EGL" in str(name) or "OSMesa" in str(name)):
        raise OSError("hidden")
    return real(name, *args, **kwargs)
ctypes.CDLL = hidden
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "LP_NUM_THREADS")}  # ours, set here
    return subprocess.run(
        [sys.executable, "-c", code], env={**clean, **environment}, capture_output=True, text=True, check=False, timeout=600
    )


LIBRARIES = """
def libraries():
    lines = open("/proc/self/maps").read().splitlines()
    return [line for line in lines if any(name in line for name in ("EGL", "Mesa", "LLVM", "libGL", "_dri"))]
"""
BALL = """
import mujoco
model = mujoco.MjModel.from_xml_string(
    "<mujoco><worldbody><light pos='0 0 3'/><geom type='sphere' size='.5' rgba='1 0 0 1'/></worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
def own():
    with mujoco.Renderer(model, 16, 16) as renderer:
        renderer.update_scene(data)
        return renderer.render().max()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux which libraries a process has loaded")
@pytest.mark.parametrize("asked", ["", "egl", "osmesa"])
def test_neither_import_nor_a_world_in_the_plane_touches_opengl(asked: str) -> None:
    done = run(
        LIBRARIES + "import os, sgjepa.envs\nenv = sgjepa.envs.ENVS['square'](); env.reset(seed=0); env.step(env.expert())\n"
        "print(libraries(), repr(os.environ.get('MUJOCO_GL')))",
        **({"MUJOCO_GL": asked} if asked else {}),
    )
    assert done.stdout.strip() == f"[] {asked or None!r}", done.stderr


@pytest.mark.opengl
def test_a_draw_opens_the_library_that_the_import_left_alone() -> None:
    """So the test above looks for the right names."""
    done = run(LIBRARIES + "from sgjepa.envs.render import opengl; opengl.prove(); print(bool(libraries()))")
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.opengl
@pytest.mark.parametrize("first", ["import mujoco", "import sgjepa.envs"])
def test_worlds_draw_whether_mujoco_or_sgjepa_was_imported_first(first: str) -> None:
    done = run(
        f"{first}\nfrom sgjepa.envs import ENVS\nprint(ENVS['approach_ball'](image_size=16).reset(seed=0)[0].max() > 0)"
    )
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.opengl
def test_mujocos_own_renderer_works_beside_a_world() -> None:
    done = run("from sgjepa.envs import ENVS\nenv = ENVS['square']()" + BALL + "print(own() > 0)")
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.parametrize("asked", ["", "egl", "osmesa"])
def test_without_any_library_planar_worlds_still_run(asked: str) -> None:
    """With MUJOCO_GL=egl and no libEGL, `import mujoco` alone would fail."""
    done = run(
        HIDE + "from sgjepa.envs import ENVS; from sgjepa.envs.render import opengl\n"
        "env = ENVS['square'](); env.reset(seed=0); env.step(env.expert()); print(opengl.choose())",
        MUJOCO_GL=asked,
    )
    assert done.stdout.strip() == "off", done.stderr


def test_without_any_library_mujocos_renderer_names_the_packages() -> None:
    done = run(HIDE + "from sgjepa.envs import ENVS\nENVS['square'](renderer='mujoco').reset(seed=0)")
    last = done.stderr.strip().splitlines()[-1]
    assert "MachineError: MuJoCo cannot draw with MUJOCO_GL=off" in last
    assert "install libegl1 libgl1-mesa-dri (or libosmesa6)" in last


def test_an_absent_choice_falls_back_to_one_that_works() -> None:
    working = [name for name, starts in opengl.PROBES.items() if starts()]
    absent = [name for name in opengl.PROBES if name not in working]
    if not working or not absent:
        pytest.skip("this machine has all backends or none")
    done = run("from sgjepa.envs.render import opengl; print(opengl.prove())", MUJOCO_GL=absent[0])
    assert done.stdout.strip() == working[0], done.stderr


@pytest.mark.opengl
def test_a_cpu_draws_without_threads_of_its_own() -> None:
    """llvmpipe reads its setting once, when it first starts: in our probe."""
    done = run(
        "from pathlib import Path\nfrom sgjepa.envs import ENVS\nENVS['approach_ball'](image_size=16).reset(seed=0)\n"
        "print(*(task.read_text().strip() for task in Path('/proc/self/task').glob('*/comm')))"
    )
    assert done.returncode == 0, done.stderr
    assert "llvmpipe" not in done.stdout


def test_a_constant_picture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A black frame must not pass for a working backend."""
    empty = "<mujoco><worldbody><camera name='c'/></worldbody></mujoco>"
    monkeypatch.setattr(opengl, "_TEST_SCENE", empty)
    with pytest.raises(opengl.InputError, match=r"empty picture|cannot draw"):
        opengl.prove()


def test_a_deliberate_choice_is_kept() -> None:
    done = run(
        "from sgjepa.envs.render import opengl; import os; print(opengl.choose(), os.environ['MUJOCO_GL'])", MUJOCO_GL="off"
    )
    assert done.stdout.strip() == "off off", done.stderr
    done = run("from sgjepa.envs.render import opengl; opengl.prove()", MUJOCO_GL="off")
    assert "cannot draw with MUJOCO_GL=off (MUJOCO_GL forbids pictures); unset MUJOCO_GL" in done.stderr


@pytest.mark.opengl
def test_asking_for_backends_harms_no_open_picture() -> None:
    from sgjepa.envs import ENVS

    env = ENVS["approach_ball"](image_size=16)
    before, _ = env.reset(seed=0)
    for starts in opengl.PROBES.values():
        starts()
    assert (env._frame() == before).all()
    env.close()


VECTOR = """
import gymnasium
from sgjepa.envs import ENVS
env = ENVS["approach_ball"](image_size=16)
frame, _ = env.reset(seed=0)
many = gymnasium.make_vec(
    "sgjepa/ApproachBall-v0", 2, vectorization_mode="async", vector_kwargs={"context": CONTEXT}, image_size=16
)
frames, _ = many.reset(seed=0)
print((frames[0] == frame).all())
many.close()
"""


@pytest.mark.opengl
def test_a_fork_of_a_process_that_has_drawn_says_what_to_do_and_does_not_hang() -> None:
    done = run(VECTOR.replace("CONTEXT", "'fork'"))
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith(
        'OpenGL cannot draw in a forked process whose parent has drawn already: start processes with context="spawn"'
    )
    assert "InputError" in last


@pytest.mark.opengl
def test_spawned_processes_draw_the_same_frames() -> None:
    done = run(VECTOR.replace("CONTEXT", "'spawn'"))
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.opengl
def test_any_thread_may_draw_an_environment() -> None:
    """Reset in this one, a step in another, a picture in this one again."""
    from sgjepa.envs import ENVS

    env = ENVS["approach_ball"](image_size=16)
    env.reset(seed=0)
    with ThreadPoolExecutor(1) as other:
        stepped = other.submit(lambda: env.step(env.expert())[0]).result(timeout=60)
        assert (env._frame() == stepped).all()
        other.submit(env.close).result(timeout=60)
    assert (env._frame() == stepped).all(), "a closed environment draws again"
    env.close()
