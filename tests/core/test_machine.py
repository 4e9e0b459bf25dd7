"""Thread and memory settings, each in a process of its own: they count only before torch starts."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from typing import Any

import pytest

from sgjepa.core import threads

OURS = ("OMP_NUM_THREADS", "GOMP_SPINCOUNT", "ONEDNN_MAX_CPU_ISA")
SHOW = "import json; from sgjepa.core import threads; found = threads.prepare(); "


def run(code: str, **environment: str) -> dict[str, Any]:
    kept = {key: value for key, value in os.environ.items() if key not in OURS}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**kept, **environment}, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_torch_gets_one_thread_per_core() -> None:
    found = run(SHOW + "import torch; print(json.dumps({**found, 'torch': torch.get_num_threads()}))")
    assert found["threads"] == found["torch"] == threads.cores()
    assert found["threads_from"] == "cores"


def test_the_users_number_of_threads_is_kept() -> None:
    """torchrun sets the same variable."""
    found = run(SHOW + "import torch; print(json.dumps({**found, 'torch': torch.get_num_threads()}))", OMP_NUM_THREADS="1")
    assert found["threads"] == found["torch"] == 1
    assert found["threads_from"] == "OMP_NUM_THREADS"


def test_a_torch_that_runs_already_is_reported_as_it_is() -> None:
    found = run("import torch; torch.set_num_threads(1); " + SHOW + "print(json.dumps(found))")
    assert found["threads"] == 1
    assert found["threads_from"] == "torch"


def test_threads_wait_briefly_unless_the_user_says_how() -> None:
    show = SHOW + "import os; print(json.dumps({**found, 'set': os.environ.get('GOMP_SPINCOUNT')}))"
    found = run(show)
    assert found["set"] == found["waiting"]["GOMP_SPINCOUNT"] == "1000"
    found = run(show, OMP_WAIT_POLICY="ACTIVE")
    assert (found["set"], found["waiting"]) == (None, {"OMP_WAIT_POLICY": "ACTIVE"})
    assert run("import torch; " + show)["set"] is None, "too late: the threads have started"


def test_products_in_bfloat16_do_not_take_instructions_that_a_machine_only_announces() -> None:
    """A virtual machine may name AMX and refuse it; what a user says of instructions stays."""
    product = (
        "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); y = float(torch.nn.functional.linear(x, x)[0, 0]); "
    )
    show = "import os; print(json.dumps({'y': y, 'set': os.environ['ONEDNN_MAX_CPU_ISA']}))"
    assert run(SHOW + product + show) == {"y": 64.0, "set": "AVX512_CORE_FP16"}
    assert run(SHOW + product + show, ONEDNN_MAX_CPU_ISA="AVX2") == {"y": 64.0, "set": "AVX2"}


def test_preparing_does_not_start_torch() -> None:
    found = run(SHOW + "import sys; print(json.dumps({'torch': 'torch' in sys.modules}))")
    assert not found["torch"]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the limits are glibc's")
def test_freed_memory_stays_in_the_process() -> None:
    """256 MB, used and freed: resident afterwards with the settings, gone without them."""
    code = (
        "import json, sys, psutil\nfrom sgjepa.core import threads\nif {prepared}: threads.prepare()\n"
        "process = psutil.Process(); before = process.memory_info().rss\n"
        "block = bytearray(b'x') * 2**28; del block\n"
        "print(json.dumps({{'kept': process.memory_info().rss - before}}))"
    )
    assert run(code.format(prepared=True))["kept"] > 2**27
    assert run(code.format(prepared=False))["kept"] < 2**25


def test_another_c_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        raise OSError

    monkeypatch.setattr("ctypes.CDLL", absent)
    found = threads.prepare()
    assert found["malloc"] == {}
    assert "no glibc" in threads.as_text(found)


def test_the_doctor_shows_them() -> None:
    from sgjepa.cli import doctor

    found = doctor.examine_machine()
    assert threads.as_text(found["compute"]) in doctor.as_text(found)
