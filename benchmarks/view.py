"""Dragging a law in the viewer: from the request to the last frame of the rollout, 64 frames, for each model of the zoo.

ours    one thread, the decoder's weights in the order of pixels
plain   a thread for every core, weights as they are stored

Each drag is another law of another launch, so nothing is remembered. Seconds of the wall, which other work on the machine
makes longer, and of the processor, which it hardly does; 95th percentiles over the drags of all rounds, interleaved.

    python benchmarks/view.py               # writes benchmarks/results/view.json
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import record

from sgjepa.core import threads

SETTINGS = threads.prepare()

import torch  # noqa: E402

from sgjepa import zoo  # noqa: E402
from sgjepa.view.model_scene import LoadedModel, ModelScenes, open_model  # noqa: E402
from sgjepa.view.request import Request  # noqa: E402
from sgjepa.view.request_queue import RequestQueue  # noqa: E402
from sgjepa.view.viewer import Viewer  # noqa: E402

BUDGET = 0.3  # s for a drag, simulation and imagination
WAYS = {"ours": (1, torch.channels_last), "plain": (threads.cores(), torch.contiguous_format)}


def drag(queue: RequestQueue, scenes: ModelScenes, number: int, rng: np.random.Generator) -> tuple[float, float]:
    """Seconds of the wall and of the processor until all is there to be shown."""
    (scene,) = scenes.names
    law = {slider.name: float(rng.uniform(slider.low, slider.high)) for slider in scenes.sliders[scene]}
    request = Request(number, scene, int(rng.integers(1000)), law, law, tuple(scenes.loaded), explain=False)
    done = threading.Event()
    wall, processor = time.perf_counter(), time.process_time()
    queue.ask(0, request, lambda content: done.set() if b'"kind":"answered"' in content[:200] else None)
    done.wait()
    return time.perf_counter() - wall, time.process_time() - processor


def measure(one: LoadedModel, drags: int, rounds: int) -> dict[str, Any]:
    """Both ways in turn, the first drag of each turn left out: it opens the simulator.

    A thread takes the number of torch's threads when it begins, so every turn has a queue of its own.
    """
    rng = np.random.default_rng(0)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, (count, layout) in WAYS.items():
            torch.set_num_threads(count)
            if one.decoder is not None:
                one.decoder.to(memory_format=layout)
            scenes = ModelScenes([one])
            queue = RequestQueue(Viewer([scenes]))
            drag(queue, scenes, 0, rng)
            found[name] += [drag(queue, scenes, number, rng) for number in range(1, drags // rounds + 1)]
            queue.close()
    times = {name: np.array(values) for name, values in found.items()}  # (drags, 2)
    return {
        name: {
            "median": dict(zip(("wall", "processor"), np.median(values, axis=0).tolist(), strict=True)),
            "p95": dict(zip(("wall", "processor"), np.quantile(values, 0.95, axis=0).tolist(), strict=True)),
            "drags": len(values),
        }
        for name, values in times.items()
    }


def main() -> None:
    parser = record.parser(__doc__, __file__)
    parser.add_argument("--drags", type=int, default=50, help="of each way")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--models", nargs="+", default=[name for name in zoo.names() if not zoo.is_policy(name)], help="of the zoo"
    )
    options = parser.parse_args()
    result: dict[str, Any] = {}
    for name in options.models:
        one = open_model(zoo.folder_of(name), name)
        found = result[name] = measure(one, options.drags, options.rounds)
        ours, plain = found["ours"], found["plain"]
        found["ratio"] = {key: plain["p95"][key] / ours["p95"][key] for key in ("wall", "processor")}
        found["within_budget"] = {key: ours["p95"][key] <= BUDGET for key in ("wall", "processor")}
        print(f"\n{name}: 95th percentile over {ours['drags']} drags, in ms; (x) is how many times ours is faster")
        for way in WAYS:
            wall, processor = (1000 * found[way]["p95"][key] for key in ("wall", "processor"))
            times = "" if way == "ours" else "   ({wall:.1f}x, {processor:.1f}x)".format(**found["ratio"])
            print(f"  {way:6s} wall {wall:6.0f}   processor {processor:6.0f}{times}", flush=True)
    about = {"budget": BUDGET, "machine": SETTINGS, "torch": torch.__version__}
    record.write(options.out, record.settings(options), {"models": result, **about})


if __name__ == "__main__":
    main()
