"""Which finalist is measured next, with fresh seeds, so that the time goes to those that may be recommended. Pure.

All seconds are wall seconds. Nothing here reads a clock, draws at random or does input or output.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sweep import statistics

# Fresh seeds of each screened finalist, and the share of the time that screens may take.
SCREEN_RUNS, SCREEN_SHARE = 4, 0.2
# Solves that the search's claim is worth beside fresh ones, and true over claimed time to expect: it was selected.
CLAIM_SOLVES, CLAIM_INFLATION = 2.0, 1.15
# A finalist's time is divided by this power of the share of its runs expected to solve.
RELIABILITY_FRESH = 4


@dataclass
class Finalist:
    """A trial in verification: what the search claims of it and its fresh runs so far."""

    number: int
    parameters: int
    claimed_seconds: float  # shrunk restart ERT of the search
    claimed_median: float  # Kaplan–Meier median of the search, seconds; the restart ERT where it is not reached
    search_runs: int
    search_solved: int
    runs: list[Any] = field(default_factory=list)  # race.RunView of fresh seeds only


@dataclass(frozen=True)
class VerificationStep:
    """The next verification run: which trial, why, and its cap in wall seconds."""

    trial: int
    reason: str
    cap_seconds: float


@lru_cache(maxsize=4096)
def hopeless(solves: int, runs: int, level: float) -> bool:
    """Whether so few solves in so many runs had a probability of at most `level`, were 80% of its runs to solve."""
    share = statistics.VERIFIED_SHARE
    return sum(math.comb(runs, i) * share**i * (1 - share) ** (runs - i) for i in range(solves + 1)) <= level


def reliability(solves: float, runs: float) -> float:
    """The share of runs expected to solve, with a prior of 1 in 1.2: 8 of 8 gives 0.98, 4 of 4 0.96, 5 of 8 0.65."""
    return (solves + 1.0) / (runs + 1.2)


#: No verification run is censored before so many wall seconds: the claim may be luck.
LEAST_CAP_SECONDS = 20.0


def verification_cap(claimed_median: float) -> float:
    """Wall seconds after which a verification run is censored: three times the claimed median, not below 20 s."""
    return max(LEAST_CAP_SECONDS, 3.0 * claimed_median)


@dataclass(eq=False)
class _Fresh:
    """A finalist with its fresh runs summed up."""

    finalist: Finalist
    times: list[float]
    solved: list[bool]
    crashes: int
    ert: float = math.inf  # of the fresh runs
    interval: tuple[float, float] = (0.0, math.inf)
    expected: float = math.inf  # seconds: restart ERT, claim and fresh runs together
    share: float = 0.0  # of its runs expected to solve
    penalised: float = math.inf  # the same made longer where runs did not all solve

    @property
    def runs(self) -> int:
        return len(self.times)

    @property
    def solves(self) -> int:
        return sum(self.solved)

    @property
    def verified(self) -> bool:
        return statistics.is_verified(self.solves, self.runs)

    @property
    def solve_seconds(self) -> float:
        """Wall seconds its next run is expected to take if it solves."""
        solves = [t for t, s in zip(self.times, self.solved) if s]
        return (sum(solves) + 2.0 * self.finalist.claimed_median) / (len(solves) + 2.0)

    @property
    def run_seconds(self) -> float:
        """Wall seconds its next run is expected to take; one that fails takes its whole cap."""
        return self.share * self.solve_seconds + (1.0 - self.share) * verification_cap(self.finalist.claimed_median)


@lru_cache(maxsize=1024)
def _interval(times: tuple[float, ...], solved: tuple[bool, ...]) -> tuple[float, float]:
    """Of the restart ERT; kept, since from one step to the next only one finalist has another run."""
    return statistics.restart_ert_interval(times, solved, 0.9, draws=400)


def _fresh(finalist: Finalist) -> _Fresh:
    pairs = [statistics.outcome(r.status, r.seconds, r.reason) for r in finalist.runs if r.reason != "cancelled"]
    times, solved = [p[0] for p in pairs if p], [p[1] for p in pairs if p]
    fresh = _Fresh(finalist, times, solved, sum(p is None for p in pairs))
    fresh.ert = statistics.restart_ert(times, solved)
    if fresh.runs >= SCREEN_RUNS and fresh.solves:
        fresh.interval = _interval(tuple(times), tuple(solved))
    claim = math.log(max(1e-9, CLAIM_INFLATION * finalist.claimed_seconds))
    measured = fresh.solves * math.log(max(1e-9, fresh.ert)) if fresh.solves else 0.0
    fresh.expected = math.exp((CLAIM_SOLVES * claim + measured) / (CLAIM_SOLVES + fresh.solves))
    # The search's seeds were part of why it was chosen: they count half.
    fresh.share = reliability(fresh.solves + 0.5 * finalist.search_solved, fresh.runs + 0.5 * finalist.search_runs)
    # What has been measured most leads among equals, or seeds go to and fro and none gets to twelve.
    bonus = 1.0 - 0.02 * min(statistics.VERIFIED_RUNS, fresh.runs)
    fresh.penalised = bonus * fresh.expected / fresh.share**RELIABILITY_FRESH
    return fresh


def _alive(fresh: list[_Fresh], seeds: int) -> list[_Fresh]:
    """Those that can still be verified and are not clearly slower than a verified one that is no larger."""

    def able(f: _Fresh) -> bool:
        most = f.solves + max(0, seeds - f.runs)
        reachable = most >= statistics.VERIFIED_SHARE * max(seeds, f.runs)
        return f.crashes < 3 and reachable and not hopeless(f.solves, f.runs, 0.05)

    def beats(g: _Fresh, f: _Fresh) -> bool:
        measured = g is not f and g.verified and f.runs >= SCREEN_RUNS
        no_larger = g.finalist.parameters <= f.finalist.parameters
        return measured and no_larger and g.interval[1] < f.interval[0]

    alive = [f for f in fresh if able(f)]
    return [f for f in alive if not any(beats(g, f) for g in alive)]


def _leader(candidates: list[_Fresh], seconds, within: float = 1.5) -> _Fresh | None:
    chosen = statistics.recommended([(i, f.finalist.parameters, seconds(f)) for i, f in enumerate(candidates)], within)
    return None if chosen is None else candidates[chosen]


def verification_next(finalists: list[Finalist], seconds_left: float, seeds: int = 32) -> VerificationStep | None:
    """The verification run to do next, or None where no run could change what is recommended or the front, or the
    time does not reach.

    `finalists` in the order of Race.finalists, dropped ones included: this function drops anew from their runs each
    time. Crashed runs in `Finalist.runs` are ignored. `seconds_left` wall seconds.

    A screen of four seeds each, ended by a first failure, over as many finalists as a fifth of the time holds; the
    one then expected to be recommended gets 12 seeds, then `seeds`; then those that could be recommended in its
    place, 12 and `seeds`; then the rest of the front; then, while there is time, all that are not dropped. Dropped: who
    can hardly solve 80%, and who is clearly slower (intervals) than a verified one no larger."""
    fresh = [_fresh(f) for f in finalists]
    alive = _alive(fresh, seeds)
    total = seconds_left + sum(t for f in fresh for t in f.times if math.isfinite(t))

    def step(f: _Fresh, reason: str) -> VerificationStep | None:
        if f.solve_seconds > seconds_left:
            return None
        return VerificationStep(f.finalist.number, reason, verification_cap(f.finalist.claimed_median))

    if not alive:
        return None
    recommended = _leader([f for f in alive if f.verified], lambda f: f.ert)
    if recommended is None:
        screened = _screened(fresh, alive, SCREEN_SHARE * total)
        leader = _leader(screened, lambda f: f.penalised)
        # Where the time does not hold both, who is nearest to twelve seeds comes before who looks better by now:
        # otherwise each failure starts another trial and none is verified.
        nearest = min(alive, key=lambda f: (_seconds_to_verify(f), f.penalised))
        both = _seconds_to_verify(nearest) + (_seconds_to_verify(leader) if leader is not nearest else 0.0)
        if nearest.runs >= SCREEN_RUNS and 1.3 * both >= seconds_left:
            return step(nearest, "nearest to twelve seeds, and time is short")
        for f in screened:
            if f.runs < SCREEN_RUNS and f.solves == f.runs:
                return step(f, "screen")
        return step(leader, "expected to be recommended")
    if recommended.runs < seeds:
        return step(recommended, "recommended so far")
    return _challenger(alive, recommended, seconds_left, seeds, step)


def _seconds_to_verify(f: _Fresh) -> float:
    """Expected wall seconds until it has twelve seeds, more where 80% of them cannot be solved any more."""
    failures = f.runs - f.solves
    needed = max(statistics.VERIFIED_RUNS, math.ceil(failures / (1.0 - statistics.VERIFIED_SHARE) - 1e-9))
    return (needed - f.runs) * f.run_seconds


def _screened(fresh: list[_Fresh], alive: list[_Fresh], seconds: float) -> list[_Fresh]:
    """The first of those alive whose screens fit into the seconds together, what dropped ones took included.

    More where all of them have a run that failed: then the next may well be better."""
    chosen: list[_Fresh] = []
    for f in fresh:
        begun = sum(t for t in f.times[:SCREEN_RUNS] if math.isfinite(t))
        seconds -= begun + max(0, SCREEN_RUNS - f.runs) * f.run_seconds if f in alive else begun
        sound = any(c.solves == c.runs for c in chosen)
        if f in alive and (f.runs or seconds >= 0 or not sound):
            chosen.append(f)
    return chosen


def _challenger(
    alive: list[_Fresh], recommended: _Fresh, seconds_left: float, seeds: int, step
) -> VerificationStep | None:
    """The next run of one that could be recommended instead, else of the rest of the front, else of any that is not
    clearly slower.

    The last are begun only where the time left holds twelve seeds of theirs: fewer say nothing."""
    fastest = min(f.ert for f in alive if f.verified)
    others = [f for f in alive if f is not recommended and f.runs < seeds]
    size = recommended.finalist.parameters

    def could(f: _Fresh) -> bool:
        if f.finalist.parameters < size:
            return f.penalised <= 1.5 * fastest
        same = f.finalist.parameters == size
        return f.penalised < (recommended.ert if same else recommended.ert / 1.5)

    def on_front(f: _Fresh) -> bool:
        return f.verified or not any(
            g.verified and g.finalist.parameters <= f.finalist.parameters and g.ert <= f.penalised for g in alive
        )

    replacing = [f for f in others if could(f)]
    front = [f for f in others if on_front(f)]
    left = [f for f in others if f.runs >= statistics.VERIFIED_RUNS or _seconds_to_verify(f) <= seconds_left]
    groups = ((replacing, "could be recommended instead"), (front, "front"), (left, "not clearly slower"))
    for group, reason in groups:
        for limit in (statistics.VERIFIED_RUNS, seeds):
            for f in sorted(group, key=lambda f: f.penalised):
                if f.runs < limit and (chosen := step(f, reason)):
                    return chosen
    return None
