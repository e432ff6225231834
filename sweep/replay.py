"""Searches replayed on a table of recorded runs, in simulated time: the engine itself, or any other loop, over a pool that looks runs up.

What is simulated: workers side by side, caps and floors that end a run, the platform's cost of each run, and the CPU time that a
suggestion cost when it was made here, which a worker waits for. A suggestion is moved to the nearest setting of the table that the search
has not had yet, for every method alike, and its sampler is told so. A setting's seeds are handed out in an order drawn per replay.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from sweep import space, statistics
from sweep.engine import Search
from sweep.race import Rules
from sweep.samplers import Sampler
from sweep.tables import Recorded, Table
from sweep.workers import Finished

#: CPU seconds around a run that are no training: set-up, and all that the platform does for it (README, Measured).
RUN_OVERHEAD = 0.004
#: How far one factor of two in network size weighs beside the unit cube, when the nearest setting is looked for.
SIZE_WEIGHT = 1.0


class World:
    """The table as one replay meets it: which settings have been had, `most` of them in all, and in which order their seeds come."""

    def __init__(self, table: Table, seed: int, most: int | None = None):
        self.table, self.seed = table, seed
        self._left = len(table.params) if most is None else min(most, len(table.params))
        self._units = np.array([space.to_unit(table.dimensions, params) for params in table.params])
        self._unordered = np.array([not getattr(d, "ordered", True) for d in space.searched(table.dimensions).values()], bool)
        self._log_sizes = np.log2(np.array(table.parameters, float))
        self._free = np.ones(len(table.params), bool)
        self._rows = {_key(params): row for row, params in enumerate(table.params)}

    def nearest(self, params: dict[str, Any], parameters: int | None = None) -> int | None:
        """The setting of the table closest to `params` that was not had yet, which it now is; None where `most` were."""
        if self.exhausted():
            return None
        free = np.flatnonzero(self._free)
        apart = self._units[free] - space.to_unit(self.table.dimensions, params)
        apart[:, self._unordered] = apart[:, self._unordered] != 0
        distance = (apart**2).sum(axis=1)
        if parameters:
            distance += SIZE_WEIGHT * (self._log_sizes[free] - math.log2(parameters)) ** 2
        row = int(free[np.argmin(distance)])
        self._free[row] = False
        self._left -= 1
        return row

    def exhausted(self) -> bool:
        """Whether every setting has been had, or `most` of them."""
        return self._left == 0

    def row(self, params: dict[str, Any]) -> int:
        """Where these params stand in the table; KeyError where they do not."""
        return self._rows[_key(params)]

    def recorded(self, row: int, index: int) -> Recorded:
        """The row's run number `index` of this replay; they repeat where a search wants more than were recorded."""
        runs = self.table.runs[row]
        return runs[int(np.random.default_rng([self.seed, row]).permutation(len(runs))[index % len(runs)])]


@dataclass
class SimulatedRun:
    """What the engine reads of a trainer_native.Run."""

    seed: int
    status: str
    reason: str
    cpu_seconds: float
    best_return: float | None
    curve: np.ndarray  # [points, 4]
    state: bytes | None = None

    @property
    def seconds(self) -> float:
        return self.cpu_seconds

    @property
    def best_metric(self) -> float | None:
        return self.best_return


def run_of(recorded: Recorded, seed: int, cap: float, floor: Sequence[tuple[float, float]] = ()) -> SimulatedRun:
    """The recorded run as it would have ended under a cap and a floor under its curve."""
    end, status, reason = recorded.seconds, recorded.status, {"solved": "criterion confirmed", "censored": "cap"}.get(recorded.status, "")
    if cap < end:
        end, status, reason = cap, "censored", "cap"
    for seconds, least in floor:
        before = recorded.curve[recorded.curve[:, 0] <= seconds, 1]
        if seconds < end and (np.nanmax(before) if np.isfinite(before).any() else -math.inf) < least:
            end, status, reason = seconds, "censored", statistics.KILLED_ON_CURVE
            break
    seen = recorded.curve[recorded.curve[:, 0] <= end]
    curve = np.column_stack([seen[:, 0], seen[:, 0], np.zeros(len(seen)), seen[:, 1]])
    best = float(np.nanmax(seen[:, 1])) if np.isfinite(seen[:, 1]).any() else None
    return SimulatedRun(seed, status, reason, end, best, curve)


class Clock:
    """Simulated seconds."""

    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class _Flight:
    task: dict
    recorded: Recorded
    begun: float | None = None  # None while it waits behind another

    def end(self) -> float:
        if self.task.get("cancelled"):
            return self.begun
        now = run_of(self.recorded, 0, self.task["cap_seconds"], self.task.get("floor") or ())
        return self.begun + RUN_OVERHEAD + max(0.0, now.cpu_seconds - self.task.get("spent_seconds", 0.0))


class SimulatedPool:
    """The interface of workers.LocalPool over a World and a Clock; runs take no time but simulated time."""

    def __init__(self, world: World, clock: Clock, size: int, on_time: Callable[[float], None] = lambda now: None):
        self.world, self.clock, self.size, self.on_time = world, clock, size, on_time
        self._queues: list[deque[_Flight]] = [deque() for _ in range(size)]
        self._free_at = [0.0] * size
        self._seeds: dict[int, dict[int, int]] = {}  # row -> seed -> its index among the row's
        self._finished: list[Finished] = []
        self._debt = 0.0

    def charge(self, seconds: float) -> None:
        """CPU time of the coordinator, which the next run waits for."""
        self._debt += seconds

    def room(self, depth: int = 1) -> int:
        return sum(max(0, depth - len(queue)) for queue in self._queues)

    def submit(self, task: dict) -> None:
        row = self.world.row(task["params"])
        index = self._seeds.setdefault(row, {}).setdefault(task["seed"], len(self._seeds[row]))
        worker = min(range(self.size), key=lambda i: (len(self._queues[i]), self._free_at[i]))
        flight = _Flight(task, self.world.recorded(row, index))
        if not self._queues[worker]:
            flight.begun = max(self._free_at[worker], self.clock.now) + self._debt
            self._debt = 0.0
        self._queues[worker].append(flight)

    def lower_cap(self, key: int, cap_seconds: float) -> None:
        for flight in self._of(key):
            begun = flight.begun if flight.begun is not None else self.clock.now
            reached = self.clock.now - begun + flight.task.get("spent_seconds", 0.0)
            flight.task["cap_seconds"] = min(flight.task["cap_seconds"], max(cap_seconds, reached))

    def cancel(self, key: int) -> None:
        for flight in self._of(key):
            flight.task["cancelled"] = True

    def cancel_waiting(self) -> None:
        for queue in self._queues:
            for flight in list(queue)[1:]:
                flight.task["cancelled"] = True

    def wake(self) -> None:
        """Nobody sleeps here."""

    def wait(self, timeout: float | None = None) -> list[Finished]:
        """What ends next, with the clock moved there; nothing where that is more than `timeout` away."""
        until = math.inf if timeout is None else self.clock.now + timeout
        heads = [(queue[0].end(), i) for i, queue in enumerate(self._queues) if queue]
        end, worker = min(heads, default=(math.inf, -1))
        self.clock.now = max(self.clock.now, min(end, until))
        self.on_time(self.clock.now)
        if end > until:
            return []
        flight = self._queues[worker].popleft()
        self._free_at[worker] = end
        if self._queues[worker]:
            self._queues[worker][0].begun = end + self._debt
            self._debt = 0.0
        task = flight.task
        run = None
        if not task.get("cancelled"):
            run = run_of(flight.recorded, task["seed"], task["cap_seconds"], task.get("floor") or ())
            run.state = b"state" if task.get("keep_state") and run.reason == "cap" else None
        return [Finished(task["key"], run, f"simulated/{worker}")]

    def _of(self, key: int) -> list[_Flight]:
        return [flight for queue in self._queues for flight in queue if flight.task["key"] == key]


class Snapped:
    """A sampler of the engine whose suggestions are moved to the table; what they cost is charged to the pool."""

    def __init__(self, sampler: Any, world: World, pool: SimulatedPool, parameters: Callable[[dict], int]):
        self.inner, self.world, self.pool, self.parameters = sampler, world, pool, parameters

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def ask(self, count: int, cpu_seconds_left: float = math.inf) -> list[tuple[dict, str]]:
        if self.world.exhausted():
            return []
        begun = time.thread_time()
        suggestions = self.inner.ask(count, cpu_seconds_left)
        self.pool.charge(time.thread_time() - begun)
        found = []
        for params, origin in suggestions:
            row = self.world.nearest(params, self.parameters(params))
            if row is None:
                break
            self.inner.moved(params, self.world.table.params[row])
            found.append((self.world.table.params[row], origin))
        return found


class _NoStore:
    """A store that keeps nothing and holds nothing."""

    def __init__(self):
        self._trials = 0

    def add_trial(self, *_) -> int:
        self._trials += 1
        return self._trials

    def invocations(self, _) -> list[dict]:
        return [{"id": 0, "machine": {}, "build": {}}]

    def __getattr__(self, name: str) -> Callable:
        return lambda *_, **__: []


@dataclass
class Found:
    """What a search would answer at a moment: rows of the table, as it knows them."""

    recommended: int | None  # the fastest, as it believes
    front: list[int] = field(default_factory=list)  # of network size against time, as it believes


def fastest(table: Table, values: dict[int, float]) -> Found:
    """What a search answers that takes `values`, by row the seconds to solve, for the truth."""
    if not values:
        return Found(None)
    rows = list(values)
    points = [(table.parameters[row], values[row]) for row in rows]
    return Found(min(values, key=values.__getitem__), [rows[i] for i in statistics.front(points)])


class Trace:
    """Notes what a search would answer at the moments of a grid, each as soon as it has passed."""

    def __init__(self, grid: Sequence[float], answer: Callable[[], Found]):
        self.grid, self.answer, self.found = list(grid), answer, []

    def at(self, now: float) -> None:
        while len(self.found) < len(self.grid) and now >= self.grid[len(self.found)]:
            self.found.append(self.answer())

    def whole(self) -> list[Found]:
        """One Found for every moment; those after the end are as at the end."""
        self.at(math.inf)
        return self.found


def question(table: Table, seeds: int = 8) -> Any:
    """What the engine needs to know of a study, for the table's."""
    from trainer_native import Solve

    trial0 = dict(table.params[0])
    return SimpleNamespace(
        name=table.study, env=table.study, trainer="table", dimensions=table.dimensions, solve=Solve(mean_return=table.target),
        budget=SimpleNamespace(run_seconds=table.run_seconds, seeds=seeds, max_env_steps=None), trial0=lambda: dict(trial0))  # fmt: skip


def sizes(table: Table) -> Callable[[dict], int]:
    """Network size of any params of the space, from the table: by the hyperparameters that decide it there."""
    from trainer_native.config import HYPERPARAMETERS

    names = [n for n in table.dimensions if n in HYPERPARAMETERS and HYPERPARAMETERS[n].table == "net"]
    known = {tuple(params[n] for n in names): size for params, size in zip(table.params, table.parameters, strict=True)}
    return lambda params: known.get(tuple(params[n] for n in names), 0)


def search(table: Table, sampler: str, seed: int, grid: Sequence[float], workers: int = 2,
           make: Callable[..., Any] = Sampler, rules: Rules | None = None, most: int | None = None) -> list[Found]:
    """`sweep run` on the table, with this sampler: what it would answer at each moment of `grid` (ascending simulated seconds).

    After `most` trials it asks for no more."""
    world, clock, size_of = World(table, seed, most), Clock(), sizes(table)
    asked = question(table)
    pool = SimulatedPool(world, clock, workers)
    snapped = Snapped(make(sampler, table.dimensions, seed, size_of), world, pool, size_of)
    world.nearest(table.params[0])  # trial 0, which the engine asks nobody for
    engine = Search(asked, _NoStore(), 0, 0, seed, snapped, None, workers, time.process_time(), clock, rules)
    engine.network_size = size_of
    trace = Trace(grid, lambda: _answer(engine, world))
    pool.on_time = trace.at
    engine.run(pool, grid[-1], SimpleNamespace(count=0))
    return trace.whole()


def _answer(engine: Search, world: World) -> Found:
    row_of = {number: world.row(trial.params) for number, trial in engine.trials.items() if trial.solves}
    fastest = engine.race.fastest()
    return Found(row_of.get(fastest), [row_of[n] for n in engine.race.front()])


def hypervolume(table: Table, rows: Sequence[int], sizes_log: tuple[float, float], times_log: tuple[float, float]) -> float:
    """Share of the rectangle (log network size, log seconds) that the true values of `rows` dominate."""
    (size_low, size_high), (time_low, time_high) = sizes_log, times_log
    area, worst = 0.0, time_high
    points = sorted((math.log(table.parameters[row]), table.true_ert(row)) for row in set(rows))
    for size, ert in points:
        if not math.isfinite(ert) or (t := max(time_low, math.log(ert))) >= worst:
            continue
        area += (worst - t) * max(0.0, size_high - size)
        worst = t
    return area / ((size_high - size_low) * (time_high - time_low))


def _key(params: dict[str, Any]) -> tuple:
    return tuple(sorted(params.items()))

