"""CAPRI: censored, adaptively capped Pareto racing. Who to try next, for the time to solve at every network size.

Network size is known exactly and never modelled; the time is a surrogate's, for which a run that was stopped is a bound. Each suggestion
draws one function that the surrogate holds possible (Thompson 1933, doi 10.2307/2332286) and, now and then, a size of the front, and takes
the candidate no larger than that which this function holds fastest. Candidates are neighbours of the front and of the fastest, and a share
drawn from the whole space. The caps are the race's; that most runs meet them is why a bound must not be taken for a value.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep import space, statistics
from sweep.surrogate import Features, Surrogate

#: Candidates made after each fit, and the share of them drawn from the whole space.
POOL, PRIOR_SHARE = 768, 0.25
#: Trials a fit takes: the best half and the latest half.
MOST_TRIALS = 1200
#: Tells after which the surrogate is fitted again: so many, or this share of all.
REFIT_TELLS, REFIT_SHARE = 4, 0.02
#: How far a drawn function is from the mean one, in standard deviations of the posterior.
HEAT = 0.2
#: In this share of suggestions the whole space is looked at, in the others what is near the best: while little is
#: known, a drawn function is often lowest in some far corner.
ANYWHERE_SHARE = 0.1
#: The fastest trials, so many, are parents of candidates, beside the front.
PARENTS = 8
#: In this share of suggestions the target is a smaller network than the fastest one's.
SMALLER_SHARE = 0.2
#: Log seconds that no function reaches.
LAST = 1e6
#: Least and greatest scale of a mutation, in the unit cube.
SCALES = (0.02, 0.3)


@dataclass(frozen=True)
class Known:
    """What one trial has shown."""

    params: Mapping[str, Any]
    parameters: int
    log_seconds: float  # log restart ERT where it solved, else the log of what it had without a solve
    solves: int


class Capri:
    """Tell it trials, ask it for params. `size_of` gives the network size of any params of the space."""

    def __init__(self, dimensions: Mapping[str, space.Dimension], size_of: Callable[[dict], int]):
        self.dimensions, self.size_of = dict(dimensions), size_of
        self.features = Features(space.searched(dimensions))
        self.surrogate = Surrogate(self.features)
        self.known: dict[int, Known] = {}  # by trial number, in the order told
        self._linear: dict[int, np.ndarray] = {}
        self._news = math.inf  # tells since the last fit
        self._pool: list[dict | None] = []  # None: handed out
        self._expanded = np.empty((0, 0))
        self._sizes = np.empty(0)
        self._anywhere = np.empty(0, bool)  # candidates drawn from the whole space
        self._front: list[int] = []  # network sizes on it, ascending

    def tell(self, number: int, params: Mapping[str, Any], parameters: int, log_seconds: float, solves: int) -> None:
        """What a trial has shown, as of now; telling again replaces it."""
        known = Known(params, parameters, float(log_seconds), int(solves))
        if self.known.get(number) == known:
            return
        if number not in self._linear:
            self._linear[number] = self.features.linear([params])[0]
        self.known[number] = known
        self._news += 1

    def ask(self, rng: np.random.Generator) -> Iterator[dict]:
        """params, the most promising first, while candidates last; each is handed out once."""
        # Many workers may use all candidates up before there is news.
        if self._news >= max(REFIT_TELLS, REFIT_SHARE * len(self.known)) or all(params is None for params in self._pool):
            self._refit(rng)
        drawn = self.surrogate.draw(self._expanded, rng, HEAT)
        for index in np.argsort(drawn + self._unwanted(rng), kind="stable"):
            if self._pool[index] is not None:
                params, self._pool[index] = self._pool[index], None
                yield params

    def _unwanted(self, rng: np.random.Generator) -> np.ndarray:
        """What is added to each candidate's log seconds so that those wanted now come first: of any size, or smaller than the front's
        fastest; from the whole space, or neighbours."""
        added = np.zeros(len(self._pool))
        if self._front and rng.random() < SMALLER_SHARE:
            # No larger than one of the front's sizes but the largest, or smaller than the smallest.
            target = [self._front[0] - 1, *self._front[:-1]][int(rng.integers(len(self._front)))]
            added[self._sizes > target] += 2 * LAST
        if not self._anywhere.all():
            added[self._anywhere != (rng.random() < ANYWHERE_SHARE)] += LAST
        return added

    # -- the surrogate and its candidates ---------------------------------------------------------------

    def _refit(self, rng: np.random.Generator) -> None:
        self._news = 0
        numbers = self._chosen()
        known = [self.known[n] for n in numbers]
        if known:
            self.surrogate.fit(np.array([self._linear[n] for n in numbers]), np.array([k.log_seconds for k in known]),
                               np.array([float(k.solves) for k in known]))
        self._pool = self._candidates(rng)
        self._expanded = self.features.expand(self.features.linear(self._pool))
        self._sizes = np.array([self.size_of(params) for params in self._pool], float)

    def _chosen(self) -> list[int]:
        """The trials that a fit takes."""
        numbers = list(self.known)
        if len(numbers) <= MOST_TRIALS:
            return numbers
        older = sorted(numbers[: -MOST_TRIALS // 2], key=lambda n: (not self.known[n].solves, self.known[n].log_seconds))
        return older[: MOST_TRIALS // 2] + numbers[-MOST_TRIALS // 2 :]

    def _candidates(self, rng: np.random.Generator) -> list[dict]:
        parents = self._parents()
        prior = POOL if not parents else round(PRIOR_SHARE * POOL)
        self._anywhere = np.arange(POOL) < prior
        pool = [space.sample(self.dimensions, rng) for _ in range(prior)]
        low, high = np.log(SCALES)
        while len(pool) < POOL:
            parent = parents[int(rng.integers(len(parents)))]
            pool.append(space.mutate(self.dimensions, parent.params, rng, float(np.exp(rng.uniform(low, high)))))
        return pool

    def _parents(self) -> list[Known]:
        """The fastest few and the front, by what the surrogate makes of them: one lucky run is no parent."""
        solved = [(n, k) for n, k in self.known.items() if k.solves]
        if not solved:
            return []
        worth, _ = self.surrogate.predict(np.array([self._linear[n] for n, _ in solved]))
        # The surrogate's opinion counts as one solve.
        shrunk = [(k.solves * k.log_seconds + w) / (k.solves + 1) for (_, k), w in zip(solved, worth, strict=True)]
        fastest = heapq.nsmallest(PARENTS, range(len(solved)), key=shrunk.__getitem__)
        front = statistics.front([(k.parameters, math.exp(w)) for (_, k), w in zip(solved, shrunk, strict=True)])
        self._front = [solved[i][1].parameters for i in front]
        return [solved[i][1] for i in dict.fromkeys([*fastest, *front])]
