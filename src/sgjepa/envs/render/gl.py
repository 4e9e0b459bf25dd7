"""Headless OpenGL: choose a backend before MuJoCo is imported, and prove it with a picture.

MuJoCo reads MUJOCO_GL once, at import, and with `egl` or `osmesa` set and that library absent the import itself
fails. So `choose` asks the libraries first, through ctypes. Planar worlds draw their own frames and need none of this.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from sgjepa.core.errors import InputError, MachineError, one_line, unknown

PACKAGES = ("libegl1", "libgl1-mesa-dri")  # Debian's names
_EGL_PLATFORM_DEVICE = 0x313F


def _egl_starts() -> bool:
    """Whether some EGL device, a GPU or Mesa's llvmpipe, can be initialised. The way MuJoCo itself will ask."""
    try:
        egl = ctypes.CDLL("libEGL.so.1")
    except OSError:
        return False
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    find_devices = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    get_display = egl.eglGetProcAddress(b"eglGetPlatformDisplayEXT")
    if not find_devices or not get_display:
        return False
    query = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(find_devices)
    display_of = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p)(get_display)
    devices, count = (ctypes.c_void_p * 16)(), ctypes.c_int(0)
    if not query(len(devices), devices, ctypes.byref(count)):
        return False
    for device in devices[: count.value]:
        display = display_of(_EGL_PLATFORM_DEVICE, device, None)
        # not terminated: MuJoCo shares the display, and may have pictures open on it
        if display and egl.eglInitialize(ctypes.c_void_p(display), None, None):
            return True
    return False


def _osmesa_loads() -> bool:
    for name in ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


PROBES = {"egl": _egl_starts, "osmesa": _osmesa_loads}
_OTHERS = ("glfw", "off", "disable", "disabled", "false", "0")  # a screen, or no pictures at all: MuJoCo's own words
_too_late = False  # MuJoCo was imported before us, with whatever MUJOCO_GL said then
asked = os.environ.get("MUJOCO_GL", "").lower().strip()  # by the user, before we choose


def choose() -> str:
    """Set MUJOCO_GL for this process and return it: the user's own choice if it can work, else EGL, OSMesa or `off`.

    Outside Linux, and once MuJoCo has been imported, the choice is not ours and nothing is changed. A word that MuJoCo does
    not know would end its import, also for those who draw nothing: it counts as `off` here, and `prove` refuses it.
    """
    global _too_late
    if "mujoco" in sys.modules:
        _too_late = True
    if not sys.platform.startswith("linux") or _too_late or asked in _OTHERS:
        return asked
    # llvmpipe's own threads gain nothing at our sizes and slow down several processes on the same cores; a probe starts it
    os.environ.setdefault("LP_NUM_THREADS", "0")
    order = [asked, *(name for name in PROBES if name != asked)] if asked else list(PROBES)
    backend = "off" if not known() else next((name for name in order if PROBES[name]()), "off")
    os.environ["MUJOCO_GL"] = backend
    return backend


def known() -> bool:
    """Whether what the user asked for, if anything, means something to MuJoCo."""
    return asked in ("", *PROBES, *_OTHERS)


_drawn_in = 0  # the process that first drew with OpenGL; 0 until one has


def check_process() -> None:
    """Refuse to draw in a fork of a process that has drawn: it would wait forever for the driver's threads."""
    if _drawn_in not in (0, os.getpid()):
        raise InputError(
            'OpenGL cannot draw in a forked process whose parent has drawn already: start processes with context="spawn"'
        )


def release(context: Any) -> None:
    """Make no OpenGL context current in this thread, so that another one may draw. context: a mujoco.GLContext"""
    backend = sys.modules[type(context).__module__]
    if backend.__name__ == "mujoco.egl":
        none = backend.EGL.EGL_NO_SURFACE
        backend.EGL.eglMakeCurrent(backend.EGL_DISPLAY, none, none, backend.EGL.EGL_NO_CONTEXT)
    elif backend.__name__ == "mujoco.osmesa":
        backend.osmesa.OSMesaMakeCurrent(None, None, backend.GL.GL_FLOAT, 0, 0)
    elif backend.__name__ == "mujoco.glfw":
        backend.glfw.make_context_current(None)


_TEST_SCENE = """<mujoco><worldbody><light pos="0 0 3"/><camera name="c" pos="0 -2 0" xyaxes="1 0 0 0 0 1"/>
<geom type="sphere" size=".5" rgba="1 .2 .1 1"/></worldbody></mujoco>"""


def prove() -> str:
    """Draw a test frame with the chosen backend; return the backend's name, or raise InputError with the remedy."""
    import mujoco  # after choose(), which importing sgjepa.envs has called

    global _drawn_in
    if not known():
        raise unknown("MUJOCO_GL", asked, [*PROBES, *_OTHERS])
    check_process()
    _drawn_in = os.getpid()
    backend = os.environ.get("MUJOCO_GL", "") or "default"
    if _too_late:
        remedy = "MuJoCo was imported before sgjepa.envs: import sgjepa.envs first, or set MUJOCO_GL=egl"
    else:
        remedy = f"install {' '.join(PACKAGES)} (or libosmesa6), or use a world's own raster renderer, which needs no OpenGL"
    try:
        model = mujoco.MjModel.from_xml_string(_TEST_SCENE)
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        with mujoco.Renderer(model, 32, 32) as renderer:
            renderer.update_scene(data, camera="c")
            frame: Any = renderer.render()
    # the backends raise whatever they like: AttributeError, RuntimeError, mujoco.FatalError, OpenGL's own
    except Exception as error:
        raise MachineError(f"MuJoCo cannot draw with MUJOCO_GL={backend} ({one_line(error, 120)}); {remedy}") from error
    if int(frame.max()) == int(frame.min()):
        raise MachineError(f"MuJoCo draws an empty picture with MUJOCO_GL={backend}; {remedy}")
    return backend
