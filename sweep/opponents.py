"""Searches to replay on a table, by name: `sweep run` with a sampler, the same without one of its rules, and what people use instead.

Those are Optuna's samplers and pruners with their documented defaults, in the loop that its tutorial has: one run a trial, its value
the log seconds to solve, and where it did not solve the log of twice the run budget (PAR2, as in the algorithm-configuration literature);
and the rules of opponent_*.py. All begin with the trainer's defaults, as `sweep run` does, and answer with the fastest trial they have seen.
"""

from __future__ import annotations

import functools
import importlib
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from sweep import opponent_protein, opponent_smac, replay, space
from sweep.race import Rules
from sweep.replay import Clock, Found, SimulatedPool, Trace, World
from sweep.samplers import optuna_quietly
from sweep.study import SAMPLERS
from sweep.tables import Table

#: Method -> (Optuna's sampler, Optuna's pruner or None).
PLAIN = {
    "plain-random": ("RandomSampler", None),
    "plain-tpe": ("TPESampler", None),
    "plain-cmaes": ("CmaEsSampler", None),
    "plain-gp": ("GPSampler", None),
    "asha": ("RandomSampler", "SuccessiveHalvingPruner"),
    "hyperband": ("TPESampler", "HyperbandPruner"),
}
#: Suffix of a sampler of `sweep run` -> the rules it keeps.
WITHOUT = {"no-caps": Rules(cap=False), "one-seed": Rules(grow=False)}
#: Other rules -> the loop that keeps them.
RULES = {"protein": opponent_protein.Protein, "smac": opponent_smac.Smac}
#: Methods without a suffix.
METHODS = (*SAMPLERS, *PLAIN, *RULES)
#: Methods whose suggestions are dear are asked for SLOW_TRIALS; from then on they answer with what they have. Samplers of `sweep run`
#: are none: the engine asks a model only where it can be paid for.
SLOW, SLOW_TRIALS = ("plain-gp", "protein", "smac"), 200
#: Method -> (module, packages) without which it cannot be replayed.
NEEDS = {"gp": ("torch", "torch"), "plain-gp": ("torch", "torch"), "protein": ("scipy", "scipy"),
         "smac": ("smac", "'smac>=2.4' 'scikit-learn<1.9'")}  # fmt: skip
#: Pruners decide when a run has had run_seconds ÷ 64, ÷ 16, ÷ 4.
RUNGS = (64, 16, 4)

Search = Callable[[Table, int, Sequence[float], int], list[Found]]


class MethodError(ValueError):
    """A method that is not known or cannot run here; one line."""


def method(name: str) -> Search:
    """(table, seed, grid, workers) -> what the search would answer at each moment of the grid."""
    sampler, _, without = name.partition(":")
    if name not in METHODS and not (sampler in SAMPLERS and without in WITHOUT):
        raise MethodError(f"{name!r} is no search; legal are {', '.join(METHODS)}, and a sampler of `sweep run` with "
                          + " or ".join(f":{suffix}" for suffix in WITHOUT))  # fmt: skip
    if sampler in NEEDS:
        module, packages = NEEDS[sampler]
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise MethodError(f"{name!r} needs {module}, which is not here ({error}): pip install {packages}, or leave it out") from None
    most = SLOW_TRIALS if sampler in SLOW else None
    if name in PLAIN:
        return functools.partial(_drive, functools.partial(_Loop, name), most)
    if name in RULES:
        return functools.partial(_drive, RULES[name], most)
    return lambda table, seed, grid, workers: replay.search(table, sampler, seed, grid, workers, rules=WITHOUT.get(without), most=most)


def _drive(make: Callable[[Table, int], Any], most: int | None, table: Table, seed: int, grid: Sequence[float], workers: int) -> list[Found]:
    """A loop that asks for trials, is told of runs and says which go on, on workers that are never idle."""
    world, clock, loop = World(table, seed, most), Clock(), make(table, seed)
    trace = Trace(grid, lambda: loop.answer(table))
    pool = SimulatedPool(world, clock, workers, trace.at)
    flying: dict[int, _Trial] = {}
    keys = iter(range(1, 1 << 62))
    while clock.now < grid[-1]:
        while pool.room() > 0 and (trial := loop.ask(world, pool)) is not None:
            flying[key := next(keys)] = trial
            pool.submit(trial.task(key, table))
        if not flying:
            break
        for finished in pool.wait(max(1e-9, grid[-1] - clock.now)):
            trial = flying.pop(finished.key)
            if loop.goes_on(trial, finished.run, pool):
                flying[key := next(keys)] = trial
                pool.submit(trial.task(key, table))
    return trace.whole()


class _Trial:
    """One trial of a plain search: what Optuna asked, and the setting of the table that it got."""

    def __init__(self, asked: Any, row: int, rungs: Sequence[float]):
        self.asked, self.row, self.rungs, self.spent = asked, row, list(rungs), 0.0

    def task(self, key: int, table: Table) -> dict:
        cap = self.rungs[0] if self.rungs else table.run_seconds
        return {"key": key, "params": table.params[self.row], "seed": 0, "cap_seconds": cap, "spent_seconds": self.spent}


class _Loop:
    """Optuna's ask and tell on a table."""

    def __init__(self, name: str, table: Table, seed: int):
        self.optuna = optuna = optuna_quietly()
        self.table, self.size_of = table, replay.sizes(table)
        sampler, pruner = PLAIN[name]
        make = getattr(optuna.samplers, sampler)
        # Words are drawn by themselves in CMA-ES, which it would say of every trial.
        sampler = make(seed=seed, warn_independent_sampling=False) if sampler == "CmaEsSampler" else make(seed=seed)
        self.pruned = pruner is not None
        self.study = optuna.create_study(sampler=sampler, pruner=getattr(optuna.pruners, pruner)() if pruner else optuna.pruners.NopPruner())
        self.searched = space.searched(table.dimensions)
        self.distributions = {name: d.distribution() for name, d in self.searched.items()}
        self.values: dict[int, float] = {}  # by row, seconds to solve
        self.own = name in ("plain-tpe", "plain-gp")  # samplers that may be told of settings that others asked for
        self._begun = False

    def ask(self, world: World, pool: SimulatedPool) -> _Trial | None:
        if world.exhausted():
            return None
        begun = time.thread_time()
        if not self._begun:
            self.study.enqueue_trial({name: d.to_optuna(self.table.params[0][name]) for name, d in self.searched.items()})
        self._begun = True
        asked = self.study.ask(self.distributions)
        params = {name: d.from_optuna(asked.params[name]) if d.searched else d.value for name, d in self.table.dimensions.items()}
        pool.charge(time.thread_time() - begun)
        row = world.nearest(params, self.size_of(params))
        rungs = [self.table.run_seconds / share for share in RUNGS] if self.pruned else []
        return None if row is None else _Trial(asked, row, rungs)

    def goes_on(self, trial: _Trial, run: Any, pool: SimulatedPool) -> bool:
        """Whether the trial's run is to go on, to its next rung; Optuna is told where not."""
        begun, states = time.thread_time(), self.optuna.trial.TrialState
        again = False
        if run.status == "solved":
            self.values[trial.row] = run.cpu_seconds
            self._tell(trial, math.log(max(run.cpu_seconds, 1e-9)))
        elif run.status == "censored" and trial.rungs:
            rung = len(RUNGS) - len(trial.rungs)
            trial.spent = trial.rungs.pop(0)
            # Optuna minimises: how far the best mean return so far is below the target.
            best = -math.inf if run.best_return is None else run.best_return
            trial.asked.report(min(self.table.target - best, 1e12), 4**rung)
            again = not trial.asked.should_prune()
            if not again:
                self.study.tell(trial.asked, state=states.PRUNED)
        else:
            self._tell(trial, math.log(2 * self.table.run_seconds))
        pool.charge(time.thread_time() - begun)
        return again

    def _tell(self, trial: _Trial, value: float) -> None:
        if not self.own:
            self.study.tell(trial.asked, value)
            return
        self.study.tell(trial.asked, state=self.optuna.trial.TrialState.FAIL)
        params = {name: d.to_optuna(self.table.params[trial.row][name]) for name, d in self.searched.items()}
        self.study.add_trial(self.optuna.trial.create_trial(params=params, distributions=self.distributions, value=value))

    def answer(self, table: Table) -> Found:
        return replay.fastest(table, self.values)
