"""How often the intervals of sweep/intervals.py cover the truth, and how often sweep/comparison.py is wrong: docs/coverage.md.

`python scripts/coverage_table.py [--simulations 500]` draws trials from times with known truth, with the seeds of a study
(fixed random numbers), and writes the page. It takes some minutes on one core.
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from sweep import comparison, intervals, statistics, tables

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "coverage.md"
SEEDS = (4, 8, 12, 32)
LEVEL = 0.95
#: Midpoints at which a distribution of times is known.
GRID = (np.arange(100_000) + 0.5) / 100_000
_Z = np.array([NormalDist().inv_cdf(u) for u in GRID])


@dataclass(frozen=True)
class Scenario:
    """Times to solve of one trial: of those that ever come, by their quantiles on GRID; and how runs are stopped."""

    name: str
    times: np.ndarray
    p_solve: float = 1.0
    caps: tuple[float, float] = (math.inf, math.inf)  # seconds, uniform between, drawn apart from the times

    def draw(self, seeds: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(times, solved) of so many runs, as statistics takes them."""
        times = self.times[rng.integers(0, len(self.times), seeds)]
        times = np.where(rng.random(seeds) < self.p_solve, times, math.inf)
        low, high = self.caps
        caps = np.full(seeds, low) if low == high else rng.uniform(low, high, seeds)
        return np.minimum(times, caps), (times <= caps) & (times < math.inf)

    @property
    def watched(self) -> float:
        return self.caps[1]

    def restart_ert(self) -> float:
        """min E[min(T, c)] ÷ P(T ≤ c) over the c up to the longest cap."""
        share = self.p_solve * np.arange(1, len(self.times) + 1) / len(self.times)
        area = np.cumsum(np.append(1.0, 1.0 - share[:-1]) * np.diff(self.times, prepend=0.0))
        # A grid of quantiles has no meaning at its very start, and a tie only as a whole.
        able = (self.times <= self.watched) & (np.append(np.diff(self.times), 1.0) > 0) & (share > 0.005 * self.p_solve)
        return float((area / share)[able].min())

    def median(self) -> float | None:
        """Seconds; None where half of the runs never solve, or not while one watches."""
        if self.p_solve <= 0.5:
            return None
        median = float(self.times[math.ceil(0.5 / self.p_solve * len(self.times)) - 1])
        return median if median < self.watched else None

    def late(self) -> tuple[float, float]:
        """(seconds by which nine tenths of the solves up to the mean cap have come, true survival then)."""
        seen = self.times[self.times <= 0.5 * sum(self.caps)]
        t = float(seen[int(0.9 * len(seen))])
        return t, 1.0 - self.p_solve * float(np.mean(self.times <= t))

    def restricted_mean(self) -> float:
        until = self.late()[0]
        return self.p_solve * float(np.minimum(self.times, until).mean()) + (1.0 - self.p_solve) * until


def log_normal(log_sd: float) -> np.ndarray:
    return np.exp(log_sd * _Z)


def weibull(shape: float) -> np.ndarray:
    return (-np.log1p(-GRID)) ** (1.0 / shape)


def two_modes(share: float, faster: float) -> np.ndarray:
    """A share of log-normal times (log sd 0.2) that are `faster` times as fast as the rest."""
    first = round(share * len(GRID))
    spread = np.exp(0.2 * _Z)
    pick = np.linspace(0, len(GRID) - 1, first).astype(int), np.linspace(0, len(GRID) - 1, len(GRID) - first).astype(int)
    return np.sort(np.concatenate([spread[pick[0]] / faster, spread[pick[1]]]))


def recorded(name: str) -> Scenario:
    """Times of a recorded table relative to their setting's median, of settings with at least six solves of eight."""
    table = tables.load(ROOT / "tests" / "tables" / f"{name}.npz")
    relative, runs = [], 0
    for row in range(len(table.runs)):
        times, solved = table.outcome(row)
        if len(times) >= (8 if name == "cartpole" else 4) and sum(solved) >= 0.75 * len(times):
            relative += (times[solved] / np.median(times[solved])).tolist()
            runs += len(times)
    return Scenario(f"recorded {name}", np.sort(relative), len(relative) / runs)


def scenarios() -> list[Scenario]:
    usual = log_normal(0.4)
    return [
        Scenario("log-normal, log sd 0.2", log_normal(0.2)),
        Scenario("log-normal, log sd 0.4", usual),
        Scenario("log-normal, log sd 1", log_normal(1.0)),
        Scenario("Weibull, shape 1.5", weibull(1.5)),
        Scenario("exponential", weibull(1.0)),
        Scenario("3 in 10 four times as fast", two_modes(0.3, 4.0)),
        Scenario("2 in 10 five times as slow", two_modes(0.8, 5.0)),
        Scenario("ties: log sd 0.4, rounded up to 0.4", np.ceil(usual / 0.4) * 0.4),
        Scenario("log sd 0.4, 8 in 10 solve", usual, 0.8),
        Scenario("log sd 1, 8 in 10 solve", log_normal(1.0), 0.8),
        Scenario("log sd 0.4, 4 in 10 solve", usual, 0.4),
        Scenario("log sd 0.4, 1 in 10 solves", usual, 0.1),
        Scenario("log sd 0.4, cap at the 60% quantile", usual, 1.0, (usual[59_999],) * 2),
        Scenario("log sd 0.4, cap at the 25% quantile", usual, 1.0, (usual[24_999],) * 2),
        Scenario("log sd 0.4, caps from 0.5 to 2", usual, 1.0, (0.5, 2.0)),
        Scenario("log sd 0.4, 8 in 10 solve, caps from 0.5 to 2.5", usual, 0.8, (0.5, 2.5)),
        Scenario("exponential, 8 in 10 solve, caps from 0.3 to 3", weibull(1.0), 0.8, (0.3, 3.0)),
        recorded("cartpole"),
        recorded("breakout"),
    ]


def _bca(times: np.ndarray, solved: np.ndarray) -> tuple[float, float]:
    """Bias-corrected and accelerated bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 14.3)."""
    pairs, draws, estimate = statistics._ordered(times, solved), 1000, statistics.restart_ert(times, solved)
    erts = np.sort(statistics._resampled_erts(pairs, statistics._resamples(len(pairs), draws, 0)))
    below = np.searchsorted(erts, [estimate * (1 - 1e-9), estimate * (1 + 1e-9)]).sum() / 2 / draws
    shift = NormalDist().inv_cdf(min(max(below, 0.5 / draws), 1 - 0.5 / draws))
    without = statistics._resampled_erts(pairs, 1.0 - np.eye(len(pairs)))
    off = without.mean() - without if np.isfinite(without).all() else np.zeros(1)
    acceleration = float((off**3).sum() / (6 * (off**2).sum() ** 1.5)) if np.any(off) else 0.0
    ends = []
    for z in (NormalDist().inv_cdf(0.5 - LEVEL / 2), NormalDist().inv_cdf(0.5 + LEVEL / 2)):
        share = NormalDist().cdf(shift + (shift + z) / (1 - acceleration * (shift + z)))
        ends.append(float(erts[min(draws - 1, max(0, math.ceil(share * draws) - 1))]))
    return ends[0], ends[1]


def _at(curve: tuple[np.ndarray, ...], t: float) -> tuple[float, float]:
    """(low, high) of a survival band at t; (1, 1) before its first time, as other tools have it."""
    i = int(np.searchsorted(curve[0], t, side="right")) - 1
    return (float(curve[2][i]), float(curve[3][i])) if i >= 0 else (1.0, 1.0)


def _median(ends: tuple[float | None, float | None, float | None]) -> tuple[float, float]:
    """Without an upper end the interval has none; without a lower one too it says nothing."""
    _, low, high = ends
    return (math.nan if low is None and high is None else low or 0.0), math.inf if high is None else high


#: Name -> (truth of a scenario, None where there is none; interval of (times, solved, scenario), nan where undefined;
#: whether its width is high over low, else high less low).
INTERVALS: dict[str, tuple[Callable, Callable, bool]] = {
    "restart_ert": (lambda x: x.restart_ert(), lambda t, s, x: intervals.restart_ert(t, s, LEVEL), True),
    "bootstrap": (lambda x: x.restart_ert(), lambda t, s, x: statistics.restart_ert_interval(t, s, LEVEL), True),
    "bca": (lambda x: x.restart_ert(), lambda t, s, x: _bca(t, s), True),
    "median": (lambda x: x.median(), lambda t, s, x: _median(intervals.median(t, s, LEVEL)), True),
    "median_log_log": (lambda x: x.median(), lambda t, s, x: _median(statistics.median_interval(t, s, LEVEL)), True),
    "survival": (lambda x: x.late()[1], lambda t, s, x: _at(intervals.survival(t, s, LEVEL), x.late()[0]), False),
    "survival_log_log": (
        lambda x: x.late()[1],
        lambda t, s, x: _at(intervals.survival_log_log(t, s, LEVEL), x.late()[0]),
        False,
    ),
    "restricted_mean": (
        Scenario.restricted_mean,
        lambda t, s, x: intervals.restricted_mean(t, s, x.late()[0], LEVEL)[2:],
        True,
    ),
    "solved": (
        lambda x: x.p_solve if x.watched == math.inf else None,
        lambda t, s, x: statistics.clopper_pearson(int(s.sum()), len(s), LEVEL),
        False,
    ),
}


def coverage(name: str, scenario: Scenario, seeds: int, simulations: int) -> tuple[float, float, float] | None:
    """(share of the defined intervals that cover, median width, share undefined); None where there is no truth.

    Trials without any solve are undefined but for the solved share."""
    truth_of, interval, ratio = INTERVALS[name]
    truth = truth_of(scenario)
    if truth is None:
        return None
    rng = np.random.default_rng([seeds, zlib.crc32(scenario.name.encode())])
    covered, widths = 0, []
    for _ in range(simulations):
        times, solved = scenario.draw(seeds, rng)
        if name != "solved" and not solved.any():
            continue
        low, high = interval(times, solved, scenario)
        if math.isnan(low):
            continue
        covered += low <= truth * (1 + 1e-9) and high >= truth * (1 - 1e-9)
        widths.append((high / low if low > 0 else math.inf) if ratio else high - low)
    undefined = 1.0 - len(widths) / simulations
    return (covered / len(widths), float(np.median(widths)), undefined) if widths else None


def front_coverage(seeds: int, simulations: int, trials: int = 6) -> tuple[float, float]:
    """(coverage, median high ÷ low) of the band where all trials are equally large and fast: where the least of several
    estimates is furthest below the truth."""
    scenario, rng = Scenario("", log_normal(0.4), 0.9), np.random.default_rng([seeds, 2])
    truth, covered, widths = scenario.restart_ert(), 0, []
    for _ in range(simulations):
        _, _, low, high = intervals.front([(1, *scenario.draw(seeds, rng)) for _ in range(trials)], LEVEL)[-1]
        covered += low <= truth <= high
        widths.append(high / low)
    return covered / simulations, float(np.median(widths))


def compared(a: Scenario, b: Scenario, seeds: int, simulations: int, apart: float = 1.0) -> tuple[float, float]:
    """(share of p-values up to 0.05, share of ratio intervals that cover) where b's restart ERT is `apart` times a's."""
    scale, rng, refused, covered = a.restart_ert() / b.restart_ert() * apart, np.random.default_rng([seeds, zlib.crc32((a.name + b.name).encode())]), 0, 0
    for _ in range(simulations):
        (t, s), (u, v) = a.draw(seeds, rng), b.draw(seeds, rng)
        found = comparison.compare(t, s, u * scale, v, LEVEL, draws=399)
        refused += found.p_value <= 1.0 - LEVEL + 1e-9
        covered += found.low <= 1.0 / apart <= found.high
    return refused / simulations, covered / simulations


def pairs() -> list[tuple[Scenario, Scenario]]:
    """Trials with equal restart ERTs to compare: first with the same times, then with others."""
    by_name = {s.name: s for s in scenarios()}
    plain, wide = by_name["log-normal, log sd 0.4"], by_name["log-normal, log sd 1"]
    some, few = by_name["log sd 0.4, 8 in 10 solve"], by_name["log sd 0.4, 4 in 10 solve"]
    caps = by_name["log sd 0.4, caps from 0.5 to 2"]
    return [(plain, plain), (wide, wide), (some, some), (caps, caps),
            (plain, some), (plain, few), (plain, caps), (by_name["log-normal, log sd 0.2"], wide),
            (plain, by_name["3 in 10 four times as fast"]), (plain, by_name["exponential"])]  # fmt: skip


HEADINGS = {
    "restart_ert": "Restart ERT: `intervals.restart_ert`, what the report shows",
    "bootstrap": "Restart ERT: `statistics.restart_ert_interval`, which the search decides by (at 90%; here at 95%)",
    "bca": "Restart ERT: BCa bootstrap, for comparison",
    "median": "Median: `intervals.median`, what the report shows",
    "median_log_log": "Median: `statistics.median_interval`, log-log band",
    "survival": "Survival late on: `intervals.survival`",
    "survival_log_log": "Survival late on: `intervals.survival_log_log`",
    "restricted_mean": "Restricted mean: `intervals.restricted_mean`",
    "solved": "Solved share: `statistics.clopper_pearson`",
}


def _cell(found: tuple[float, float, float] | None, ratio: bool) -> str:
    if found is None:
        return ""
    share, width, undefined = found
    wide = "no end" if width == math.inf else f"{'× ' if ratio else ''}{width:.2f}"
    return f"{100 * share:.1f}% ({wide})" + (f", {100 * undefined:.0f}% undefined" if undefined >= 0.005 else "")


def page(simulations: int) -> str:
    error = 100 * math.sqrt(LEVEL * (1 - LEVEL) / simulations)
    rows = {name: {x.name: [coverage(name, x, n, simulations) for n in SEEDS] for x in scenarios()} for name in INTERVALS}
    head = ["| " + " | ".join(f"{n} seeds" for n in SEEDS) + " |", " --- |" * len(SEEDS)]
    lines = [
        "# Coverage", "",
        f"Made by `python scripts/coverage_table.py --simulations {simulations}` with fixed random numbers; each figure is of that many",
        f"simulated trials, its standard error at 95% {error:.1f} points. Intervals are at 95%. A cell is how often the interval covered the",
        "truth, and in brackets its median width: high ÷ low where it says ×, else high − low. Undefined are trials without a solve (and",
        "medians and survivals that no band reaches); they count neither way. “Recorded” draws from runs of `tests/tables`, each time over",
        "its setting's median. Median time to solve is about 1 s in all. The restart ERT is the least over cutoffs up to the longest cap.", "",
        "The least coverage over all times below:", "", "| interval " + head[0], "| --- |" + head[1],
    ]  # fmt: skip
    for name, by_scenario in rows.items():
        least = [min((f[0], x) for x, f in ((x, found[i]) for x, found in by_scenario.items()) if f) for i in range(len(SEEDS))]
        lines.append(f"| {HEADINGS[name]} | " + " | ".join(f"{100 * share:.1f}% ({x})" for share, x in least) + " |")
    lines += ["",
              "With four seeds no interval of the restart ERT holds 95% for all times: a fast mode that shows in three runs of ten is in none of",
              "four a quarter of the time, and then nothing in these runs tells of it. With so few, light tails are missed too, as now and then",
              "all four are slower than the restart ERT. The interval is wide because it allows for failures that did not show: twelve of twelve",
              "solved leaves up to 26% that do not. The log-log bands are what other tools print; late on and with few solves they do not keep",
              "what they promise, and neither the report nor `sweep best` shows them.", ""]  # fmt: skip
    for name, by_scenario in rows.items():
        lines += [f"## {HEADINGS[name]}", "", "| times " + head[0], "| --- |" + head[1]]
        for x, found in by_scenario.items():
            if any(found):
                lines.append(f"| {x} | " + " | ".join(_cell(f, INTERVALS[name][2]) for f in found) + " |")
        lines.append("")
    lines += ["## Front: `intervals.front`", "",
              "Six trials equally large and fast (log sd 0.4, nine runs in ten solve), where the least of the six estimates is furthest below",
              "the truth.", "", "| " + " | ".join(f"{n} seeds" for n in SEEDS) + " |", "|" + " --- |" * len(SEEDS)]  # fmt: skip
    fewer = max(1, simulations // 5)
    lines += ["| " + " | ".join(_cell((*front_coverage(n, fewer), 0.0), True) for n in SEEDS) + " |", "",
              f"Of {fewer} simulations each.", ""]  # fmt: skip
    lines += ["## Comparison: `comparison.compare`", "",
              "Two trials with equal restart ERTs: how often the p-value is at most 0.05, and how often the ratio's interval covers 1. The first",
              "four have the same times and caps, where the p-value is exact. In the others the times differ, so that something is there to be",
              "found, though not in the restart ERT: go by the interval.", "",
              "| times | and | " + " | ".join(f"{n} seeds: p ≤ 0.05, covers" for n in (4, 12, 32)) + " |", "| --- |" + " --- |" * 4]  # fmt: skip
    for a, b in pairs():
        cells = [f"{100 * r:.1f}%, {100 * c:.1f}%" for r, c in (compared(a, b, n, simulations) for n in (4, 12, 32))]
        lines.append(f"| {a.name} | {'the same' if a is b else b.name} | " + " | ".join(cells) + " |")
    lines += ["", "## Seeds to tell two trials apart: `comparison.seeds_to_tell`", "",
              "The ratio of restart ERTs that so many seeds of each trial tell apart with power 80% at level 0.05 (log-normal times), and how",
              "often the p-value really was at most 0.05 there.", "", "| log sd | solve | seeds | ratio | told |", "| --- | --- | --- | --- | --- |"]  # fmt: skip
    for log_sd, p_solve in ((0.2, 1.0), (0.4, 1.0), (1.0, 1.0), (0.4, 0.8)):
        for seeds in (8, 12, 32):
            ratio, scenario = comparison.ratio_told(seeds, log_sd, p_solve), Scenario("", log_normal(log_sd), p_solve)
            told = compared(scenario, scenario, seeds, simulations, ratio)[0]
            lines.append(f"| {log_sd} | {p_solve:.0%} | {seeds} | {ratio:.2f} | {100 * told:.1f}% |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=500)
    PAGE.write_text(page(parser.parse_args().simulations))


if __name__ == "__main__":
    main()
