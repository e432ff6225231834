"""Who suggests the next trial: CAPRI, or Optuna's samplers in memory with cheap neighbours of the front where a fit would be dear.

A suggestion is a function of (space, sampler, --seed, its number, what has been told when it is made). The first few (STARTUP) suggestions and
all of "random" depend on the number alone, so they repeat exactly; later ones repeat where runs end in the same order with the same times,
which with several workers is up to the machine.
"""

from __future__ import annotations

import functools
import heapq
import importlib.util
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import space
from .capri import Capri

#: Random trials after the defaults, before a model has anything to learn from.
STARTUP = 8
#: CAPRI's surrogate believes little while it knows little, so it may begin earlier.
STARTUP_CAPRI = 4
#: Share of the workers' CPU time that suggestions may cost.
CPU_SHARE = 0.05
#: Trials a model is fitted to: the best and the latest, half each.
HISTORY = {"tpe": 200, "gp": 80}
#: After the startup, by suggestion number: the model and neighbours of the front by turns, which on simulated studies (14
#: hyperparameters, noise 0.4 in log time) recommended trials 9 to 21% faster than the model alone and 43% faster than chance. One in
#: twelve is random, as insurance: it finds what both overlook.
CYCLE = ("model", "neighbour") * 5 + ("model", "random")
#: One suggestion of CAPRI in so many is random.
RANDOM_ONE_IN = 12
#: Networks ten times as large must be this much faster, for samplers of a single objective.
WORTH_OF_TEN_TIMES_THE_SIZE = 1.6
#: Factor on the network size of trials without a solve, as models see it.
WITHOUT_A_SOLVE = 1e4


class SamplerError(ValueError):
    """The sampler cannot be used here; the message is one line for the user."""


@dataclass
class _Told:
    params: dict
    parameters: int
    log_seconds: float  # lower is better; finite for trials without a solve too, above all others
    solved: bool

    @functools.cached_property
    def single(self) -> float:
        """Both objectives in one: log seconds, and a little for size."""
        return self.log_seconds + math.log(WORTH_OF_TEN_TIMES_THE_SIZE) * math.log10(self.parameters)


class Sampler:
    """Asks and tells. `dimensions` as of a Study, `size_of` the network size of params; suggestions are complete params of the space."""

    def __init__(self, name: str, dimensions: dict[str, space.Dimension], seed: int, size_of: Callable[[dict], int]):
        if name == "gp" and importlib.util.find_spec("torch") is None:
            raise SamplerError("sampler 'gp' needs torch, which is not installed: pip install torch, or use 'tpe'")
        self.name, self.dimensions, self.seed = name, dimensions, seed
        self.searched = space.searched(dimensions)
        self.startup = STARTUP_CAPRI if name == "capri" else STARTUP
        self.cpu_seconds = 0.0  # all that suggestions have cost
        self.exhausted = False  # every setting of the space has been suggested
        self._suggested = 0
        self._seen: set[tuple] = set()
        self._told: dict[int, _Told] = {}  # by trial number, in the order told
        self._fit_cost, self._ask_cost = 0.05, 0.02  # CPU seconds, as last measured
        self._cma: _Cma | None = None
        self._capri = Capri(dimensions, size_of) if name == "capri" else None
        self._fit: _Fit | None = None
        self._parents: list[_Told] = []  # whose neighbours are suggested; empty: to be found again
        self._fitted: dict[int, _Told] = {}  # what the fit knows, or knew and was too much for it

    def add(self, params: dict) -> None:
        """A trial that exists already counts as suggested."""
        self._suggested += 1
        self._seen.add(_key(params))

    def moved(self, params: dict, instead: dict) -> None:
        """A suggestion will not be tried, but `instead` will: a replay's table has no other near it."""
        if params == instead:
            return
        self._seen.discard(_key(params))
        self._seen.add(_key(instead))
        if self._fit is not None:
            self._fit.moved(params)
        if self._cma is not None:
            self._cma.moved(params, instead)

    def tell(self, number: int, params: dict, parameters: int, log_seconds: float, solves: int, evidence: float | None = None) -> None:
        """What a trial is worth, as of now; telling again replaces it.

        log_seconds: Race.value, for samplers that take values; evidence: Race.evidence, a bound where `solves` is 0."""
        self._told[number] = _Told(params, parameters, log_seconds, solves > 0)
        self._parents = []
        if self._capri is not None:
            self._capri.tell(number, params, parameters, log_seconds if evidence is None else evidence, solves)
        if self._cma is not None:
            self._cma.tell(params, self._told[number].single)

    def ask(self, count: int, cpu_seconds_left: float = math.inf) -> list[tuple[dict, str]]:
        """`count` suggestions (params, origin), fewer where the space is exhausted; a model is asked only where it can be paid for."""
        begun = time.thread_time()
        numbers = range(self._suggested, self._suggested + count)
        kinds = [self._kind(number) for number in numbers]
        if kinds.count("model") and self._fit_cost + self._ask_cost * kinds.count("model") > cpu_seconds_left:
            kinds = ["neighbour" if kind == "model" else kind for kind in kinds]
        modelled = iter(self._model(kinds.count("model"), numbers[0]) if "model" in kinds else [])
        suggestions = []
        for number, kind in zip(numbers, kinds, strict=True):
            rng = np.random.default_rng([self.seed, number])
            params = next(modelled) if kind == "model" else self._neighbour(rng) if kind == "neighbour" else None
            origin = {"model": self.name}.get(kind, kind)
            params = self._new(params, rng)
            if params is None:
                self.exhausted = True
                break
            self.add(params)
            suggestions.append((params, origin))
        self.cpu_seconds += time.thread_time() - begun
        return suggestions

    def _kind(self, number: int) -> str:
        if self.name == "random" or number <= self.startup or not self.searched:
            return "random"
        if not any(told.solved for told in self._told.values()) and len(self._told) < self.startup:
            return "random"
        if self.name == "capri":
            return "random" if number % RANDOM_ONE_IN == 0 else "model"
        return "model" if self.name == "cmaes" else CYCLE[number % len(CYCLE)]

    def _new(self, params: dict | None, rng: np.random.Generator) -> dict | None:
        """`params`, or something close to them, that is legal and was not suggested before; None where nothing is left."""
        for attempt in range(200):
            if params is None or attempt > 20:
                params = space.sample(self.dimensions, rng)
            elif attempt or space.legal(params) is not None:
                params = space.mutate(self.dimensions, params, rng, 0.02 * 1.2**attempt)
            if space.legal(params) is None and _key(params) not in self._seen:
                return params
        return None

    def _neighbour(self, rng: np.random.Generator) -> dict | None:
        """A mutation of a trial of the front, or of the fastest few."""
        if not self._parents:
            told = [t for t in self._told.values() if t.solved] or list(self._told.values())
            fastest = heapq.nsmallest(4, told, key=lambda t: t.single)
            self._parents = fastest + [t for t in _front(told) if t not in fastest]
        if not self._parents:
            return None
        parent = self._parents[int(rng.integers(len(self._parents)))]
        return space.mutate(self.dimensions, parent.params, rng, float(np.exp(rng.uniform(np.log(0.02), np.log(0.2)))))

    # -- Optuna -----------------------------------------------------------------------------------------

    def _model(self, count: int, number: int) -> list[dict]:
        """`count` suggestions of the model, once it knows what has been told."""
        if self._capri is not None:
            return self._of_capri(count, number)
        seed = int(np.random.SeedSequence([self.seed, number, 1]).generate_state(1)[0])
        if self.name == "cmaes":
            self._cma = self._cma or _Cma(self.searched, seed, list(self._told.values()))
            return [self._whole(unit) for unit in self._cma.ask(count)]
        begun = time.thread_time()
        changed = {n: t for n, t in self._told.items() if self._fitted.get(n) is not t}
        if self._fit is None or len(self._fitted) + len(changed) > 1.5 * HISTORY[self.name] or changed.keys() & self._fitted.keys():
            self._fit, changed = _Fit(self.name, self.searched), self._history()
            self._fitted = dict(self._told)
        for number_told, told in changed.items():
            self._fit.add(told)
            self._fitted[number_told] = told
        added = time.thread_time()
        asked = self._fit.ask(count, seed)
        self._fit_cost, self._ask_cost = added - begun, (time.thread_time() - added) / max(1, count)
        return [{name: params.get(name, getattr(d, "value", None)) for name, d in self.dimensions.items()} for params in asked]

    def _of_capri(self, count: int, number: int) -> list[dict]:
        """The best candidates that were not suggested before, one a draw."""
        begun, asked = time.thread_time(), []
        for i in range(count):
            drawn = self._capri.ask(np.random.default_rng([self.seed, number, 1, i]))
            asked.append(next((params for params in drawn if _key(params) not in self._seen), None))
        self._fit_cost, self._ask_cost = 0.0, (time.thread_time() - begun) / count
        return asked

    def _history(self) -> dict[int, _Told]:
        """What a model starts from: half of it the best, half of it the latest."""
        numbers, most = list(self._told), HISTORY[self.name]
        if len(numbers) <= most:
            return dict(self._told)
        older = sorted(numbers[: -most // 2], key=lambda n: (not self._told[n].solved, self._told[n].single))
        front = _front([self._told[n] for n in older if self._told[n].solved])
        best = sorted(older, key=lambda n: self._told[n] not in front)  # stable: then by the single objective
        return {n: self._told[n] for n in (*best[: most // 2], *numbers[-most // 2 :])}

    def _whole(self, unit: dict[str, float]) -> dict:
        return {name: d.from_unit(unit[name]) if d.searched else d.value for name, d in self.dimensions.items()}


class _Fit:
    """TPE or a Gaussian process over the two objectives, network size and seconds, both in logarithm."""

    def __init__(self, name: str, searched: dict[str, space.Dimension]):
        self.optuna, self.name, self.searched = optuna_quietly(), name, searched
        self.distributions = {name: _distribution(self.optuna, d) for name, d in searched.items()}
        self.study = self.optuna.create_study(directions=["minimize", "minimize"])
        self.open: dict[tuple, Any] = {}  # suggested, not yet told: they count as bad, so that the next ones go elsewhere

    def add(self, told: _Told) -> None:
        # A small network that never solves would stand on the front of the two objectives: no trial without a solve may.
        size = told.parameters * (1 if told.solved else WITHOUT_A_SOLVE)
        values = [math.log(size), told.log_seconds]
        trial = self.open.pop(_key({name: told.params[name] for name in self.searched}), None)
        if trial is not None:
            self.study.tell(trial, values)
        else:
            self.study.add_trial(self.optuna.trial.create_trial(
                params={name: _to_optuna(d, told.params[name]) for name, d in self.searched.items()},
                distributions=self.distributions, values=values))

    def moved(self, params: dict) -> None:
        trial = self.open.pop(_key({name: params[name] for name in self.searched}), None)
        if trial is not None:
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)

    def ask(self, count: int, seed: int) -> list[dict]:
        if self.name == "gp":
            self.study.sampler = self.optuna.samplers.GPSampler(seed=seed, n_startup_trials=0)
        else:
            self.study.sampler = self.optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=0, multivariate=True, constant_liar=True)
        asked = []
        for _ in range(count):
            trial = self.study.ask(self.distributions)
            params = {name: _from_optuna(d, trial.params[name]) for name, d in self.searched.items()}
            self.open[_key(params)] = trial
            asked.append(params)
        return asked


class _Cma:
    """CMA-ES in the unit cube, choices by their index; it knows one objective, and generations that a fit to history would lose."""

    def __init__(self, searched: dict[str, space.Dimension], seed: int, told: list[_Told]):
        optuna = optuna_quietly()
        self.searched = searched
        self.distributions = {name: optuna.distributions.FloatDistribution(0, 1) for name in searched}
        units = [{name: d.to_unit(t.params[name]) for name, d in searched.items()} for t in told]
        if len(told) >= 30:  # a study that goes on: its trials say where to look, and how widely
            source = [optuna.trial.create_trial(params=unit, distributions=self.distributions, value=t.single)
                      for unit, t in zip(units, told, strict=True)]
            sampler = optuna.samplers.CmaEsSampler(seed=seed, n_startup_trials=0, source_trials=source)
        else:
            best = min(zip(units, told, strict=True), key=lambda pair: pair[1].single, default=(None, None))[0]
            with warnings.catch_warnings():  # Optuna 5 deprecates x0 and has nothing in its place
                warnings.simplefilter("ignore", FutureWarning)
                sampler = optuna.samplers.CmaEsSampler(seed=seed, n_startup_trials=0, x0=best)
        self.study = optuna.create_study(sampler=sampler)
        self.open: dict[tuple, Any] = {}

    def ask(self, count: int) -> list[dict[str, float]]:
        units = []
        for _ in range(count):
            trial = self.study.ask(self.distributions)
            self.open[self._cell(trial.params)] = trial
            units.append(dict(trial.params))
        return units

    def tell(self, params: dict, value: float) -> None:
        # Params that had to be moved (illegal, or seen before) are not what CMA-ES drew: it is not told of them.
        key = tuple((name, d.to_unit(params[name])) for name, d in self.searched.items())
        trial = self.open.pop(self._cell(dict(key)), None)
        if trial is not None:
            self.study.tell(trial, value)

    def moved(self, params: dict, instead: dict) -> None:
        """What `instead` turns out to be worth is told as that of the point drawn."""
        trial = self.open.pop(self._cell({name: d.to_unit(params[name]) for name, d in self.searched.items()}), None)
        if trial is not None:
            self.open[self._cell({name: d.to_unit(instead[name]) for name, d in self.searched.items()})] = trial

    def _cell(self, unit: dict[str, float]) -> tuple:
        return tuple(round(d.to_unit(d.from_unit(unit[name])), 9) for name, d in self.searched.items())


def optuna_quietly() -> Any:
    """Optuna, imported where it is used, without its log and its warnings about what is experimental."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    return optuna


def _distribution(optuna: Any, dimension: space.Dimension) -> Any:
    """Numbers are searched in the unit cube, where Optuna needs to know nothing of their scale; words as choices."""
    if isinstance(dimension, space.Choice) and not dimension.ordered:
        return _shared(optuna.distributions.CategoricalDistribution)(dimension.values)
    return _shared(optuna.distributions.FloatDistribution)(0, 1)


@functools.cache
def _shared(distribution: type) -> type:
    """The distribution, which nobody changes, as one object for all trials: Optuna copies each trial it is given, and most of a copy
    were distributions, at 2 ms a trial."""
    return type(distribution.__name__, (distribution,), {"__deepcopy__": lambda self, memo: self})


def _to_optuna(dimension: space.Dimension, value: Any) -> Any:
    unordered = isinstance(dimension, space.Choice) and not dimension.ordered
    return value if unordered else dimension.to_unit(value)


def _from_optuna(dimension: space.Dimension, suggestion: Any) -> Any:
    unordered = isinstance(dimension, space.Choice) and not dimension.ordered
    return suggestion if unordered else dimension.from_unit(suggestion)


def _key(params: dict) -> tuple:
    return tuple(sorted(params.items()))


def _front(told: list[_Told]) -> list[_Told]:
    front, best = [], math.inf
    for trial in sorted(told, key=lambda t: (t.parameters, t.log_seconds)):
        if trial.log_seconds < best:
            front.append(trial)
            best = trial.log_seconds
    return front
