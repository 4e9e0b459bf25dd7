"""The paper's gravities and dataset sizes that several worlds have in common; what a world has alone is in its own file."""

from __future__ import annotations

from sgjepa.envs.world import Size
from sgjepa.laws import ClippedNormal, Grid, Sampler, evenly

NARROW: dict[str, Sampler] = {"gravity": ClippedNormal(mean=4.0, std=0.5, floor=0.1)}
EARTH: dict[str, Sampler] = {"gravity": ClippedNormal(mean=9.8, std=2.0, floor=0.0)}
BODIES = (0.62, 1.63, 3.72, 8.87)  # m/s^2: Pluto, Moon, Mars, Venus
PLANETS: dict[str, Sampler] = {"gravity": Grid((*evenly(0.0, 20.0, 1.0).values, *BODIES))}  # 25 values

# the probes of small pictures see ten frames: chosen on validation episodes, the same for every method (docs/log.md)
SMALL_WINDOW = 10
# mini is a prefix of paper: the same episodes, fewer and smaller
IN_SPACE = {
    "mini": Size(pixels=64, train=1000, test=250, window=SMALL_WINDOW),
    "paper": Size(pixels=256, train=8000, test=1600),
}
# conventional benchmarks: 224 px as LeWM has them. The paper does not give its episodes; its 127,000 held-out clips would be
# 127 of each of 1,000, a tenth of LeWM's 10,000
BENCHMARK = {
    "mini": Size(pixels=64, train=1000, test=250, window=SMALL_WINDOW),
    "paper": Size(pixels=224, train=9000, test=1000),
}
