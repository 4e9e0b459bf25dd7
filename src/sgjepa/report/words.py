"""Plain sentences about intervals. What they say follows from the numbers; nothing is written by hand for a result."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sgjepa.core.stats import Interval
from sgjepa.laws import find
from sgjepa.results.claims import LEAST
from sgjepa.results.compare import Method, against, decides, paired, verdict
from sgjepa.results.counterfactual import Counterfactual
from sgjepa.results.gather import MAIN, Axis, Results, unit

_MINUS = "\N{MINUS SIGN}"
FEW = 10  # episodes; an interval from fewer is marked
DAGGER = "\N{DAGGER}"
DECIMALS = {"angle_deg": 1}  # of a table's numbers; 3 otherwise, as in the paper


def fixed(value: float, decimals: int) -> str:
    """A number with a real minus sign, and no minus before zero."""
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", _MINUS)


def with_sign(value: float, decimals: int) -> str:
    """As `fixed`, with a plus before what is above zero: a difference."""
    text = fixed(value, decimals)
    return text if float(f"{value:.{decimals}f}") <= 0 else f"+{text}"


def difference_of(one: Interval, decimals: int) -> tuple[str, str, str]:
    """A difference: its mean with a sign, and the ends of its interval."""
    return with_sign(one.mean, decimals), fixed(one.low, decimals), fixed(one.high, decimals)


def with_interval(one: Interval, decimals: int = 3) -> str:
    """A number and where it lies: "0.412 (0.300 to 0.520)"."""
    return f"{fixed(one.mean, decimals)} ({fixed(one.low, decimals)} to {fixed(one.high, decimals)})"


def table_number(value: float, metric: str) -> str:
    """As the tables show it."""
    return fixed(value, DECIMALS.get(metric, 3))


def digits(interval: Interval, metric: str) -> int:
    """So many decimals that the width of an interval has two digits, and that no end but a true zero reads as zero."""
    width = interval.high - interval.low
    least = DECIMALS.get(metric, 3) - 1
    found = max(least, 1 - math.floor(math.log10(width))) if width > 0 else least + 1
    while found < 4 and any(end != 0 and float(f"{end:.{found}f}") == 0 for end in (interval.low, interval.high)):
        found += 1
    return min(found, 4)


def size_of(difference: Interval, metric: str) -> str:
    """The size of a difference and its interval, without the sign: "0.41 m (95 % interval 0.30 to 0.52)"."""
    if difference.mean < 0:
        difference = Interval(-difference.mean, -difference.high, -difference.low, difference.count)
    n = digits(difference, metric)
    mean, low, high = (fixed(value, n) for value in (difference.mean, difference.low, difference.high))
    return f"{_with_unit(mean, metric)} (95 % interval {low} to {high})"


def signed(difference: Interval, metric: str) -> str:
    """The difference with its sign: "+0.05 m, 95 % interval −0.10 to 0.20"."""
    n = digits(difference, metric)
    mean, low, high = difference_of(difference, n)
    return f"{_with_unit(mean, metric)}, 95 % interval {low} to {high}"


def _with_unit(number: str, metric: str) -> str:
    name = unit(metric)
    return number + ("" if name == "°" or not name else " ") + name


def capital(text: str) -> str:
    """The first letter as a capital, the rest as it is."""
    return text[:1].upper() + text[1:]


def count(number: int, noun: str) -> str:
    """1 episode, 1,250 episodes."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def few(episodes: int) -> str:
    """What a caption must add where intervals rest on so few episodes; nothing where they do not."""
    if episodes >= FEW:
        return ""
    return f" {DAGGER} From fewer than {FEW} episodes: such an interval covers the truth less often than 95 %."


def join(parts: Sequence[str]) -> str:
    """One, two and three."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


REGIONS = {"in": "in distribution", "out": "out of distribution", "all": "over all episodes"}


def place(results: Results, region: str) -> str:
    """Where a region's episodes lie, and how many they are."""
    episodes = count(results.episodes(region), "episode")
    if region == "all":
        return f"over all {results.tested} ({episodes})" if results.axes else f"over all {episodes}"
    where = ", ".join([*(axis.inside for axis in results.axes), episodes])
    return f"in distribution ({where})" if region == "in" else f"out of distribution ({episodes})"


def compare(one: str, other: str, difference: Interval, metric: str = MAIN) -> str:
    """What an error of `one` minus that of `other` says."""
    found = verdict(difference)
    if found == "undecided":
        return (
            f"{one} is not better than {other} as far as {count(difference.count, 'episode')} can tell, nor worse: "
            f"the difference is {signed(difference, metric)}"
        )
    if metric == MAIN:
        word = "closer to the truth" if found == "better" else "further from the truth"
    else:
        word = "more accurate" if found == "better" else "less accurate"
    return f"{one} is {word} than {other} by {size_of(difference, metric)}"


def difference(one: str, other: str, found: Interval, metric: str = MAIN) -> str:
    """An error of `one` minus that of `other`, without a verdict."""
    return f"{one} minus {other}: {signed(found, metric)}"


def too_few(several: Sequence[Method]) -> str:
    """That these were trained too seldom for a verdict on them; nothing where they were not."""
    seldom = [method for method in several if not decides(method)]
    if not seldom:
        return ""
    if all(len(method.seeds) == 1 for method in several):
        return f"One training{' of each method' if len(several) > 1 else ''}: no verdict, which needs {LEAST}."
    return f"Fewer than {LEAST} trainings of {join([method.label for method in seldom])}: no verdict there."


def against_baseline(results: Results, method: Method) -> list[str]:
    """A sentence for each region: the method against the chosen baseline, at the last horizon."""
    found, base = [], results.baseline
    say = compare if decides(method, base) else difference
    for region in results.regions:
        gap = paired(method, base, MAIN, [results.last], region)[results.last]
        where = place(results, region)
        found.append(f"{where[0].upper()}{where[1:]}, {say(method.label, base.label, gap)}.")
    return found


def _asked(results: Results) -> list[str]:
    """Out of distribution and in it, in this order: the question is what comes of a law that training did not have."""
    return [region for region in reversed(results.regions) if region != "all"] or ["all"]


def first(results: Results) -> str:
    """How well SG-JEPA, or what the page is about in its place, predicts: the page's first sentence."""
    one, asked = results.subject, _asked(results)
    parts = []
    for region in asked:
        error = one.at(MAIN, [results.last], region=region)[results.last]
        held_out = count(results.episodes(region), "held-out episode")
        where = held_out if region == "all" else f"{held_out} {REGIONS[region]}"
        parts.append(f"{size_of(error, MAIN)} on {where}")
    far = count(results.last, "step")
    return f"{one.label} predicts where the object is {far} ahead with a mean error of {', and '.join(parts)}."


def beside(results: Results) -> str:
    """The errors of the baselines, learned and not, where the first sentence begins."""
    region = _asked(results)[0]
    found = [
        (method.label, method.at(MAIN, [results.last], region=region)[results.last])
        for method in results.methods
        if method is not results.subject
    ]
    said = [f"{label} {size_of(error, MAIN).replace('95 % interval ', '')}" for label, error in found]
    stay = results.baseline.at(MAIN, [results.last], "stay", region)[results.last]
    said.append(f"an object that stays put {_with_unit(fixed(stay.mean, digits(stay, MAIN)), MAIN)}")
    where = "" if region == "all" else f" {REGIONS[region]}"
    return f"Baselines{where}: {', '.join(said)}."


def answer(results: Results) -> list[str]:
    """The short answer: SG-JEPA's error, that of the baselines, and the verdict if there are trainings enough for one."""
    found = [first(results), beside(results)]
    asked, few = _asked(results), too_few(results.methods)
    if few:
        found.append(f"{few} The intervals cover the choice of episodes, not of the training seed.")
    words = {
        "better": "closer to the truth",
        "worse": "further from the truth",
        "undecided": "not better, as far as one can tell,",
    }
    for method in results.others:
        gaps = {region: paired(method, results.baseline, MAIN, results.horizons, region) for region in asked}
        if not decides(method, results.baseline):
            parts = [f"{REGIONS[region]} {signed(gap[results.last], MAIN)}" for region, gap in gaps.items()]
            found.append(f"{method.label} minus {results.baseline.label} on the same episodes: {'; '.join(parts)}.")
            continue
        parts = [
            f"{words[verdict(gap[results.last])]} {REGIONS[region]} ({signed(gap[results.last], MAIN)})"
            for region, gap in gaps.items()
        ]
        found.append(f"Compared with {results.baseline.label}, {method.label} is {' and '.join(parts)}.")
        if earlier := results.horizons[:-1]:
            verdicts = " / ".join(verdict(gaps[asked[0]][h]) for h in earlier)
            found[-1] += f" Earlier, {REGIONS[asked[0]]}, at h = {' / '.join(map(str, earlier))}: {verdicts}."
    enough = [method for method in results.methods if decides(method)]
    beat = [m.label for m in enough if verdict(against(m, "stay", MAIN, asked[0])[-1]) == "better"]
    where = REGIONS[asked[0]]
    if beat:
        found.append(
            f"{join(beat)} {'is' if len(beat) == 1 else 'are'} better than guessing that the object stays put, {where}."
        )
    elif len(enough) == len(results.methods):
        subject = "No method is" if len(results.methods) > 1 else f"{results.methods[0].label} is not"
        found.append(f"{subject} better than guessing that the object stays put, {where}.")
    return found


def breaks(results: Results, method: Method, axis: Axis) -> str:
    """Where along a law a method breaks: twice its error in distribution, or worse than an object that stays put."""
    error, stay = (method.by_law(MAIN, results.last, [axis.name], source) for source in ("predicted", "stay"))
    home = method.at(MAIN, [results.last], region="in")[results.last].mean
    twice = [value for (value,), one in error.items() if one.low > 2 * home]
    useless = [value for (value,), one in error.items() if one.low > stay[value,].mean]
    said = [f"{method.label} errs by more than twice its error in distribution ({_with_unit(fixed(home, 2), MAIN)})"]
    said[0] += f" at {axis.symbol} = {_values(twice)}" if twice else f" at no {axis.name} that was tested"
    if useless:
        how = "is worse than" if decides(method) else "has a larger error in this training than"
        said.append(f"it {how} an object that stays put at {axis.symbol} = {_values(useless)}")
    return "; ".join(said) + "."


def _values(values: Sequence[float]) -> str:
    return join([f"{value:g}".replace("-", _MINUS) for value in values])


def in_scale(results: Results, method: Method) -> list[str]:
    """Sentences that put a method's error in scale: staying put, and the simulator from what the probe saw."""
    found = []
    outside = "out" if "out" in results.regions else "all"
    say = compare if decides(method) else difference
    for region in dict.fromkeys(("all", outside)):
        gap = against(method, "stay", MAIN, region)[-1]
        where = "" if region == "all" else " Out of distribution"
        name = method.label if region == "all" else "it"
        sentence = say(name, "an object that stays where it was last seen", gap)
        found.append(f"{where.strip()}{', ' if where else ''}{sentence}.")
    perfect = method.by_horizon(MAIN, "simulator")[-1]
    gap = against(method, "simulator", MAIN)[-1]
    start = (
        "The simulator itself, started from what its probe sees, is off by "
        f"{_with_unit(fixed(perfect.mean, digits(perfect, MAIN)), MAIN)}"
    )
    if not decides(method):
        found.append(f"{start}; {difference('the rollout', 'the simulator', gap)}.")
    elif verdict(gap) == "worse":
        found.append(f"{start}; the rollout adds {size_of(gap, MAIN)}.")
    elif verdict(gap) == "better":
        found.append(f"{start}, more than the rollout by {size_of(gap, MAIN)}: here the probe limits, not the dynamics.")
    else:
        found.append(f"{start}; it is not certain whether the rollout does better or worse ({signed(gap, MAIN)}).")
    return found


def counterfactual(found: Counterfactual) -> str:
    """Whether a model uses the law it is given."""
    symbol = find(found.law).short
    right: list[str] = []
    undecided: list[str] = []
    wrong: list[str] = []
    for true in found.true:
        verdicts = {verdict(found.rise[true, given]) for given in found.given(true) if given != true}
        name = f"{symbol} = {true:g}"
        (wrong if "better" in verdicts else undecided if "undecided" in verdicts else right).append(name)
    parts = []
    if right:
        parts.append(f"at true {join(right)} every other value makes the error larger")
    if undecided:
        parts.append(f"at true {join(undecided)} the error with some other value is not certainly larger")
    if wrong:
        parts.append(f"at true {join(wrong)} a wrong value gives a smaller error than the true one")
    least = min(one.count for one in found.area.values())
    caution = f" That rests on {count(least, 'episode')} for each value, too few to be certain." if few(least) else ""
    return f"{found.label}: {'; '.join(parts)}.{caution}"


def cautions(results: Results) -> list[str]:
    """What the intervals do not cover."""
    seeds = {method.label: len(method.seeds) for method in results.methods}
    once = [label for label, n in seeds.items() if n == 1]
    found = []
    if len(once) == len(seeds):
        found.append("Each method was trained once: the intervals cover the choice of episodes, not of the training seed.")
    elif once:
        were = "was" if len(once) == 1 else "were"
        found.append(f"{join(once)} {were} trained once only: there the intervals cover episodes, not training seeds.")
    several = sorted({n for n in seeds.values() if n > 1})
    if several:
        number = join([str(n) for n in several])
        found.append(
            f"Where a method was trained {number} times, trainings are drawn too; so few say little about their spread."
        )
    if thin := [name for name, n in ((place(results, r), results.episodes(r)) for r in results.regions) if few(n)]:
        where = join(thin)
        less = f"intervals cover the truth less often than 95 %: they rest on fewer than {FEW} episodes"
        found.append(f"{where[0].upper()}{where[1:]}, {less}.")
    found.append("Intervals are for one comparison at a time; of twenty, about one misses.")
    return found
