"""PufferLib's search rule, Protein, in a replay: our own code after what pufferlib/sweep.py of PufferLib 4 does (commit 06e62ac).

Protein maximises a score at a cost. It is asked here as its users ask it: the score is the mean return of training episodes at up to five
points of a run's curve (the solve is one, at the target), the cost the seconds until then, and how long a run may go on is one axis more.
What it would recommend for the time to solve is the run that it has seen to solve soonest, and its front is that of such runs.

Its defaults are kept; so is what follows from them: no run is stopped early before it has had 10 s, and seeds are never repeated. It has no
choices of words: they are searched by their index. Its box of lengths is LENGTHS wide, as each user must set it for each environment.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sweep import replay, space
from sweep.opponent_gp import GaussianProcess
from sweep.replay import Found, SimulatedPool, World
from sweep.tables import Table

#: Longest run over the shortest.
LENGTHS = 256
#: Points that a run gives to the model.
POINTS = 5
#: Suggestions from a Sobol sequence at first, and where on the axis of lengths they stand, in [-1, 1].
SOBOL, SOBOL_LENGTH = 10, -0.8
#: Candidates around each centre, in a box of half this width in [-1, 1].
CANDIDATES, SCALE = 256, 0.5
#: Best observations that are centres too.
TOP = 5
#: Most observations of a fit, half of them the latest; failed runs are among them up to so many successes.
MOST, WITH_FAILURES = 750, 100
#: After so many suggestions the optimizers of both models start anew.
RESTART = 50
#: Costs to aim at, as shares of the range seen, each with this noise, and how far beyond the range.
TARGETS, TARGET_NOISE, EXPANSION = (0.16, 0.32, 0.48, 0.64, 0.8, 1.0), 0.1, 0.1
#: A dear end of the front whose gain over the rest is below this share of what its cost is over theirs is cut off, while
#: the score stays above that share of the highest.
EFFICIENCY, CUT_ABOVE = 0.5, 0.98
#: Early stop: the quantile, the observations that it takes, and no run before this share of the cost bound and so many seconds.
QUANTILE, FIRST_STOP, STOP_SHARE, STOP_SECONDS = 0.3, 30, 0.3, 10.0
CLOSE = 1e-6


@dataclass
class Seen:
    """One point of a run's curve."""

    x: np.ndarray  # in [-1, 1], the length last
    score: float
    cost: float  # seconds


@dataclass
class Trial:
    """A run that was asked for: its row of the table, where it may end, and which curve ends it."""

    row: int
    seconds: float
    floor: list[tuple[float, float]] = field(default_factory=list)

    def task(self, key: int, table: Table) -> dict:
        return {"key": key, "params": table.params[self.row], "seed": 0, "cap_seconds": self.seconds, "floor": self.floor}


class Protein:
    """The rule, as a loop that opponents.py drives."""

    def __init__(self, table: Table, seed: int):
        from scipy.stats import qmc

        self.table, self.size_of, self.rng = table, replay.sizes(table), np.random.default_rng([seed, 1])
        self.axes = len(space.searched(table.dimensions)) + 1
        self.shortest = table.run_seconds / LENGTHS
        self.scales = np.array([SCALE] * (self.axes - 1) + [1 / math.log2(LENGTHS)])
        self.sobol = qmc.Sobol(self.axes, scramble=True, rng=np.random.default_rng([seed, 2]))
        self.models = [GaussianProcess(self.axes), GaussianProcess(self.axes)]  # score, log cost
        self.seen: list[Seen] = []
        self.failed: list[Seen] = []
        self.values: dict[int, float] = {}  # by row, seconds to solve
        self.targets: list[float] = []
        self.line: tuple[float, float] | None = None  # score = a + b · log cost, the quantile
        self.bound = -math.inf  # cost that is worth while
        self._suggested = -1  # the defaults are no suggestion

    def ask(self, world: World, pool: SimulatedPool) -> Trial | None:
        if world.exhausted():
            return None
        begun = time.thread_time()
        if self._suggested < 0:
            params, seconds = self.table.params[0], self.table.run_seconds
        else:
            x = self._suggest()
            params = space.from_unit(self.table.dimensions, (x[:-1] + 1) / 2)
            seconds = self.shortest * LENGTHS ** ((float(x[-1]) + 1) / 2)
        self._suggested += 1
        pool.charge(time.thread_time() - begun)
        row = world.nearest(params, self.size_of(params))
        return Trial(row, seconds, self._floor(seconds))

    def goes_on(self, trial: Trial, run: Any, pool: SimulatedPool) -> bool:
        """Never: a run is asked for once."""
        if run.status == "solved":
            self.values[trial.row] = run.cpu_seconds
        points = observations(run, self.table.target)
        if not points or run.status not in ("solved", "censored"):
            self.failed.append(Seen(self._x(trial.row, trial.seconds), math.nan, trial.seconds))
            return False
        for seconds, score in points:
            self._observe(Seen(self._x(trial.row, seconds), score, seconds))
        return False

    def answer(self, table: Table) -> Found:
        return replay.fastest(table, self.values)

    # -- what has been seen -----------------------------------------------------------------------------

    def _x(self, row: int, seconds: float) -> np.ndarray:
        length = 2 * math.log(max(seconds, 1e-12) / self.shortest) / math.log(LENGTHS) - 1
        return np.append(2 * space.to_unit(self.table.dimensions, self.table.params[row]) - 1, length)

    def _observe(self, new: Seen) -> None:
        for i, old in enumerate(self.seen):
            if np.linalg.norm(new.x - old.x) < CLOSE:
                self.seen[i] = new
                return
        if new.x[-1] > -1:  # shorter than the shortest run: left out
            self.seen.append(new)

    def _front(self) -> list[Seen]:
        """What nothing cheaper outscores, ascending, without its inefficient end."""
        front, best = [], -math.inf
        for one in sorted(self.seen, key=lambda s: s.cost):
            if one.score > best + CLOSE:
                front.append(one)
                best = one.score
        scores, costs = [s.score for s in front], [s.cost for s in front]
        score_range, cost_range = max(scores[-1] - scores[0], CLOSE), max(costs[-1] - costs[0], CLOSE)
        while len(front) > 2 and front[-2].score >= CUT_ABOVE * scores[-1]:
            gain, more = (front[-1].score - front[-2].score) / score_range, (front[-1].cost - front[-2].cost) / cost_range
            if gain / (more + CLOSE) >= EFFICIENCY:
                break
            front.pop()
        return front

    def _sampled(self) -> list[Seen]:
        """What a fit takes."""
        least = min(s.score for s in self.seen)
        failed = [Seen(f.x, least, f.cost) for f in self.failed] if len(self.seen) < WITH_FAILURES else []
        known = {tuple(np.round([*s.x, s.score, s.cost], 6)): s for s in [*failed, *self.seen]}  # without repetitions
        all_of = list(known.values())
        if len(all_of) <= MOST:
            return all_of
        older = self.rng.choice(len(all_of) - MOST // 2, MOST - MOST // 2, replace=False)
        return [all_of[i] for i in older] + all_of[-(MOST // 2) :]

    # -- suggestions ------------------------------------------------------------------------------------

    def _suggest(self) -> np.ndarray:
        """A point in [-1, 1]."""
        if self._suggested < SOBOL or not self.seen:  # longer where no run has shown anything yet
            x = 2 * self.sobol.random(1)[0] - 1
            x[-1] = np.clip(SOBOL_LENGTH + TARGET_NOISE * self.rng.standard_normal(), -1, 1)
            return x
        logs = np.log([max(s.cost, CLOSE) for s in self.seen])
        low, high = float(logs.min()), float(np.quantile(logs, 0.97))
        scores = [s.score for s in self.seen]
        sampled = self._sampled()
        x = np.array([s.x for s in sampled])
        self.models[0].fit(x, (np.array([s.score for s in sampled]) - min(scores)) / (max(scores) - min(scores) + CLOSE))
        self.models[1].fit(x, (np.log([max(s.cost, CLOSE) for s in sampled]) - low) / (high - low + CLOSE))
        if self._suggested % RESTART == 0:
            for model in self.models:
                model.restart()
        front = self._front()
        if self.bound < 0:
            self.bound = front[-1].cost
        elif self.bound < front[-1].cost:
            self.bound *= 1.01
        self._fit_line()
        centres = [s.x for s in front]
        for top in sorted(self.seen, key=lambda s: -s.score)[:TOP]:
            for share in (1 / 2, 1 / 3):  # the same for less
                cheaper = top.x.copy()
                cheaper[-1] -= (cheaper[-1] + 1) * share
                centres.append(cheaper)
        centre = np.array(centres)[self.rng.integers(len(centres), size=CANDIDATES * len(centres))]
        candidates = np.clip(centre + self.scales * self.rng.uniform(-1, 1, centre.shape), -1, 1)
        score, cost = (model.mean(candidates) for model in self.models)
        return candidates[np.argmax(score * (1 - np.abs(self._target() - cost)))]

    def _target(self) -> float:
        if not self.targets:
            self.targets = list(self.rng.permutation(TARGETS))
        return (1 + EXPANSION) * float(np.clip(self.targets.pop() + TARGET_NOISE * self.rng.standard_normal(), 0, 1))

    # -- early stop -------------------------------------------------------------------------------------

    def _fit_line(self) -> None:
        """Quantile regression of the score on log cost (Koenker and Bassett 1978, doi 10.2307/1913643), never falling."""
        from scipy.optimize import minimize

        if len(self.seen) < FIRST_STOP:
            return
        x, y = np.log([max(s.cost, CLOSE) for s in self.seen]), np.array([s.score for s in self.seen])
        slope, start = np.polyfit(x, y, 1)

        def loss(line: np.ndarray) -> float:
            over = y - line[0] - line[1] * x
            return float(np.maximum(QUANTILE * over, (QUANTILE - 1) * over).sum())

        found = minimize(loss, [start, max(slope, 0.0)], method="Nelder-Mead", bounds=[(None, None), (0, None)])
        self.line = float(found.x[0]), float(found.x[1])

    def _floor(self, seconds: float) -> list[tuple[float, float]]:
        """Where the curve of a run that starts now must have come by when, as far as the run may go."""
        first = STOP_SHARE * self.bound + STOP_SECONDS
        if self.line is None or first >= seconds:
            return []
        most = max(s.score for s in self.seen)
        return [(t, 0.9 * most if t > 1.2 * self.bound else self.line[0] + self.line[1] * math.log(t))
                for t in np.geomspace(first, seconds, 16).tolist()]


def observations(run: Any, target: float) -> list[tuple[float, float]]:
    """(seconds, score) of up to POINTS points: the means of equal stretches of the curve, and its end."""
    curve = run.curve[np.isfinite(run.curve[:, 3])][:, [0, 3]].tolist()
    if run.status == "solved":
        curve.append([run.cpu_seconds, target])
    if len(curve) <= POINTS:
        return [tuple(point) for point in curve]
    stretches = np.array_split(np.array(curve[:-1]), POINTS - 1)
    return [tuple(stretch.mean(axis=0).tolist()) for stretch in stretches] + [tuple(curve[-1])]
