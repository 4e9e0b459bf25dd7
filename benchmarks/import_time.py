"""`import sgjepa` in a fresh process: its seconds beside an interpreter that imports nothing, and beside `import numpy`.

Every round starts one process of each kind, in turn, and reads the clock inside (the import alone) and around it (the whole
process). Seconds depend on the machine; the ratios of processes do less. `heavy` lists what of torch, MuJoCo, NumPy,
Gymnasium and Lance was imported by `import sgjepa`: nothing.

    python benchmarks/import_time.py        # writes benchmarks/results/import_time.json
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import Any

import record

HEAVY = ("torch", "mujoco", "numpy", "gymnasium", "lance")
WAYS = {"nothing": "pass", "sgjepa": "import sgjepa", "numpy": "import numpy"}
SHOW = """import json, sys, time
began = time.perf_counter()
{statement}
print(json.dumps([time.perf_counter() - began, [name for name in {heavy} if name in sys.modules]]))"""


def fresh(statement: str) -> tuple[float, float, list[str]]:
    """Seconds of the whole process, seconds of the statement in it, and the heavy modules that were then imported."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", SHOW.format(statement=statement, heavy=HEAVY)], capture_output=True, text=True, check=True
    )
    whole = time.perf_counter() - began
    inside, heavy = json.loads(done.stdout)
    return whole, inside, heavy


def measure(rounds: int) -> dict[str, Any]:
    """Medians over the rounds; the first, which reads files from the disk and writes bytecode, is left out."""
    found: dict[str, list[tuple[float, float, list[str]]]] = {name: [] for name in WAYS}
    for number in range(rounds + 1):
        for name, statement in WAYS.items():
            one = fresh(statement)
            if number:
                found[name].append(one)
    return {
        name: {
            "process": statistics.median(one[0] for one in every),
            "import": statistics.median(one[1] for one in every),
            "heavy": sorted({module for one in every for module in one[2]}),
        }
        for name, every in found.items()
    }


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--rounds", type=int, default=15, help="processes of each kind")
    options = parser.parse_args()
    found = measure(options.rounds)
    nothing = found["nothing"]["process"]
    for name, one in found.items():
        one["ratio"] = one["process"] / nothing
        said = f"import {1000 * one['import']:6.1f} ms   process {1000 * one['process']:6.1f} ms   ({one['ratio']:.2f}x)"
        print(f"{name:8s} {said}   heavy: {', '.join(one['heavy']) or 'none'}")
    record.write(options.out, record.settings(options), {"unit": "s", **found})


if __name__ == "__main__":
    main()
