"""Headless OpenGL: a backend is chosen and its display opened at the first draw, never at import; then it is proved.

MuJoCo reads MUJOCO_GL once, at import, and with `egl` or `osmesa` set and that library absent the import itself fails. So
`load_mujoco` imports it without a backend, and contexts are made here, of a backend whose library was tried through ctypes.
Planar worlds draw their own frames and need none of this.

Mesa brings an LLVM of its own. A process that loads triton's LLVM after it dies without a message, so triton comes first.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.core.errors import InputError, MachineError, one_line, unknown

PACKAGES = ("libegl1", "libgl1-mesa-dri")  # Debian's names
_EGL_PLATFORM_DEVICE = 0x313F


def _egl_starts() -> bool:
    """Whether some EGL device, a GPU or Mesa's llvmpipe, can be initialised; uses the same calls as MuJoCo."""
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
_OFF = ("off", "disable", "disabled", "false", "0")  # no pictures at all: MuJoCo's own words
_OTHERS = ("glfw", *_OFF)
REQUESTED = os.environ.get("MUJOCO_GL", "").lower().strip()  # by the user, before a backend is chosen


def load_mujoco() -> Any:
    """MuJoCo, imported without touching an OpenGL library; its own Renderer then takes the backend that `choose` finds.

    If it was imported before, the backend that it chose, which may need a screen, is replaced. Outside Linux, and with a
    user's `glfw` or `off`, MuJoCo decides for itself. A name that MuJoCo does not know would end its import, also for
    commands that draw nothing: `prove` refuses it.
    """
    if not _chooses_backend():
        return import_module("mujoco")
    before = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = "off"
    try:
        import mujoco
        from mujoco.rendering.classic import gl_context
    finally:
        del os.environ["MUJOCO_GL"]
        if before is not None:
            os.environ["MUJOCO_GL"] = before
    mujoco.GLContext = gl_context.GLContext = context  # absent after an import with `off`
    return mujoco


def _chooses_backend() -> bool:
    """Whether this module chooses the backend."""
    return sys.platform.startswith("linux") and REQUESTED not in _OTHERS


@cache
def choose() -> str:
    """Find a backend and return it: the user's own choice if it can work, else EGL, OSMesa or `off`. Opens its display.

    MUJOCO_GL then tells it to processes that this one starts, and to other libraries.
    """
    load_triton()
    if not _chooses_backend():
        return REQUESTED
    # llvmpipe's own threads gain nothing at our sizes and slow down several processes on the same cores; a probe starts it
    os.environ.setdefault("LP_NUM_THREADS", "0")
    order = [REQUESTED, *(name for name in PROBES if name != REQUESTED)] if REQUESTED else list(PROBES)
    backend = "off" if not known() else next((name for name in order if PROBES[name]()), "off")
    if backend != "off":
        os.environ["MUJOCO_GL"] = backend
    return backend


def load_triton() -> None:
    """Import triton, which CUDA builds of torch bring, if it is installed and Mesa's LLVM is not yet there."""
    if "triton" not in sys.modules and find_spec("triton") is not None and not _llvm_is_loaded():
        with suppress(Exception):  # a broken one is no reason not to draw
            import_module("triton")


def _llvm_is_loaded() -> bool:
    """Whether Mesa has drawn in this process."""
    try:
        return "/libLLVM" in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        return False


def context(width: int, height: int) -> Any:
    """An OpenGL context of the chosen backend (a mujoco.GLContext)."""
    backend = choose()
    if backend in _OFF:
        raise RuntimeError("no OpenGL library was found" if _chooses_backend() else "MUJOCO_GL forbids pictures")
    if not _chooses_backend():
        return import_module("mujoco").GLContext(width, height)
    return import_module(f"mujoco.{backend}").GLContext(width, height)


def known() -> bool:
    """Whether MuJoCo knows the requested backend, if one is requested."""
    return REQUESTED in ("", *PROBES, *_OTHERS)


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
    global _drawn_in
    if not known():
        raise unknown("MUJOCO_GL", REQUESTED, [*PROBES, *_OTHERS])
    check_process()
    _drawn_in = os.getpid()
    backend = choose() or "default"
    remedy = f"install {' '.join(PACKAGES)} (or libosmesa6), or use a world's own raster renderer, which needs no OpenGL"
    if REQUESTED in _OFF:
        remedy = "unset MUJOCO_GL, or use a world's own raster renderer, which needs no OpenGL"
    try:
        frame = _test_frame()
    # backends raise errors of many kinds: AttributeError, RuntimeError, mujoco.FatalError, OpenGL's own
    except Exception as error:
        raise MachineError(f"MuJoCo cannot draw with MUJOCO_GL={backend} ({one_line(error, 120)}); {remedy}") from error
    if int(frame.max()) == int(frame.min()):
        raise MachineError(f"MuJoCo draws an empty picture with MUJOCO_GL={backend}; {remedy}")
    return backend


def _test_frame() -> np.ndarray:
    """A red ball before black, (32, 32, 3) uint8."""
    import mujoco  # already imported, by load_mujoco

    model = mujoco.MjModel.from_xml_string(_TEST_SCENE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    camera, scene = mujoco.MjvCamera(), mujoco.MjvScene(model, 10)
    camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, model.camera("c").id
    mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, camera, mujoco.mjtCatBit.mjCAT_ALL, scene)
    frame, viewport, canvas = np.empty((32, 32, 3), np.uint8), mujoco.MjrRect(0, 0, 32, 32), context(32, 32)
    canvas.make_current()
    try:
        buffers = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, buffers)
        mujoco.mjr_render(viewport, scene, buffers)
        mujoco.mjr_readPixels(frame, None, viewport, buffers)
        buffers.free()
    finally:
        release(canvas)
        canvas.free()
    return frame
