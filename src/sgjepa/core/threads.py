"""Threads and memory allocation of a process that computes with torch; to be set before torch is imported.

Memory. glibc gives every large tensor fresh pages from the kernel and hands them back when it is freed, so a training step
pays for clearing the same gigabytes again and again. With the limits here freed memory stays in the process. Without
them a training step takes 1.1 times as long at mini size and 1.4 times at paper size (benchmarks/train_step.py, one thread).

Threads. One per core. More threads than cores is a cliff, so a user's OMP_NUM_THREADS, or torchrun's, is left alone.

Waiting. Between two operations the threads of libgomp spin for milliseconds, longer than the turn of a process: where
others use the cores too, the one that spins keeps the one it waits for from its work. With a short spin two threads
lose little on a busy machine; with the usual one they were four to seven times slower than with one thread (docs/log.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path
from typing import Any

# glibc's mallopt: number of the option and our value
_MALLOC = {
    "M_MMAP_THRESHOLD": (-3, 2**30),  # bytes; smaller blocks come from the heap and are used again
    "M_TRIM_THRESHOLD": (-1, 2**31 - 1),  # bytes free at the heap's end before any go back to the kernel
    "M_TOP_PAD": (-2, 2**28),  # bytes beyond the request when the heap grows
}
_SPIN = "1000"  # turns of libgomp's waiting loop, some 20 microseconds, before a thread sleeps; it has 300,000
_WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")  # if a user set one of them, it stays
_INSTRUCTIONS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")  # the same


def prepare() -> dict[str, Any]:
    """Set the limits that no user has set, and return those in force. Call it before torch is imported."""
    late = "torch" in sys.modules
    from_user = bool(os.environ.get("OMP_NUM_THREADS"))
    if not from_user and not late:
        os.environ["OMP_NUM_THREADS"] = str(cores())
    if not late and not any(name in os.environ for name in _WAITING):
        os.environ["GOMP_SPINCOUNT"] = _SPIN
    without_amx()
    return {
        "threads": sys.modules["torch"].get_num_threads() if late else _number(os.environ["OMP_NUM_THREADS"]),
        "threads_from": "OMP_NUM_THREADS" if from_user else "torch" if late else "cores",
        "cores": cores(),
        "waiting": {name: os.environ[name] for name in _WAITING if name in os.environ},
        "malloc": _keep_memory(),
    }


def without_amx() -> None:
    """Allow torch's oneDNN all of AVX-512 but no AMX, before its first product: some virtual machines announce AMX and then
    die of an illegal instruction at the first product in bfloat16. In float32 it is of no use."""
    if not any(name in os.environ for name in _INSTRUCTIONS):
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"


def cores() -> int:
    """The number of cores that this process may use, by its affinity and the quota of its container."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="utf-8").split()
        return max(1, min(allowed, int(quota) // int(period)))
    except (OSError, ValueError):  # no such file, or the quota is "max"
        return allowed


def forget_peak_memory() -> None:
    """Reset `peak_memory`; only Linux can do that."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # what earlier work freed was kept, and would count
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_memory() -> float | None:
    """The peak memory of this process in GiB: of the GPU if it uses one, else of the machine; None if unknown."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated()) / 2**30
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    peaks = [line.split()[1] for line in lines if line.startswith("VmHWM:")]  # kB
    return int(peaks[0]) / 2**20 if peaks else None


def _keep_memory() -> dict[str, int]:
    """Set the allocation limits and return them; empty if the C library is not glibc."""
    try:
        library = ctypes.CDLL("libc.so.6")
        mallopt = library.mallopt
    except (OSError, AttributeError):
        return {}
    return {name: value for name, (option, value) in _MALLOC.items() if mallopt(option, value) == 1}


def _number(text: str) -> int:
    """The first number of OMP_NUM_THREADS, which may be a list with one number per nesting level."""
    first = text.split(",")[0].strip()
    return int(first) if first.isdecimal() else cores()


def counted(number: int, name: str) -> str:
    """A number with its noun in singular or plural: 1 thread, 2 threads."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def as_text(settings: dict[str, Any]) -> str:
    """The settings as one line of text."""
    source = {"cores": "one per core", "OMP_NUM_THREADS": "as OMP_NUM_THREADS says", "torch": "as torch was started"}
    memory = "freed memory is kept" if settings["malloc"] else "memory allocation as it comes (no glibc)"
    return f"{counted(settings['threads'], 'thread')} ({source[settings['threads_from']]}), {memory}"
