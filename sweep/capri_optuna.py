"""CAPRI as a sampler of anyone's Optuna study whose objective is the seconds until something is reached.

    import optuna
    from sweep.capri_optuna import CapriSampler

    def seconds(trial):
        solved, taken = train(trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True), stop_after=10.0)
        if solved:
            return taken
        trial.set_user_attr("censored_at", taken)
        return math.inf

    optuna.create_study(sampler=CapriSampler(seed=0)).optimize(seconds, n_trials=100)

A value is seconds, above 0, minimised. A trial with the user attribute "censored_at" had so many seconds without success: a bound, whatever
its value is. So is a pruned trial, by that attribute or else by the largest value it reported; one that has neither says nothing, and
neither do failed trials.

Everything is read from the study: one that goes on, from whatever storage, is learnt from as it stands. A suggestion is a function of the
seed, the trial's number and what was told until then. Parameters that not every trial has had (conditional ones, or ranges that change)
are drawn evenly, as Optuna's samplers do.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from sweep.capri import Capri
from sweep.dimensions import Choice, Range, is_finite
from sweep.samplers import RANDOM_ONE_IN, STARTUP_CAPRI

#: User attribute: seconds without success.
CENSORED = "censored_at"
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)


@dataclass(frozen=True)
class Axis:
    """One parameter as CAPRI has it: numbers by themselves or, where Optuna counts in steps, by the step; all else by its index."""

    distribution: BaseDistribution
    dimension: Choice | Range
    order: tuple[int, ...] = ()  # of choices: which of Optuna's each of the dimension's is

    def ours(self, value: Any) -> Any:
        if self.order:
            return self.dimension.values[self.order.index(int(self.distribution.to_internal_repr(value)))]
        if isinstance(self.distribution, FloatDistribution) and self.distribution.step is not None:
            return round((value - self.distribution.low) / self.distribution.step)
        return value

    def theirs(self, value: Any) -> Any:
        if self.order:
            return self.distribution.choices[self.order[self.dimension.values.index(value)]]
        if isinstance(self.distribution, FloatDistribution) and self.distribution.step is not None:
            return min(self.distribution.low + value * self.distribution.step, self.distribution.high)
        return value


def axis(distribution: BaseDistribution) -> Axis:
    """What CAPRI makes of a distribution of more than one value."""
    if isinstance(distribution, CategoricalDistribution):
        choices, indices = distribution.choices, range(len(distribution.choices))
        if all(map(is_finite, choices)):
            ascending = tuple(sorted(indices, key=choices.__getitem__))
            return Axis(distribution, Choice(tuple(choices[i] for i in ascending)), ascending)
        return Axis(distribution, Choice(tuple(map(str, indices))), tuple(indices))
    if isinstance(distribution, IntDistribution):
        if distribution.log:
            return Axis(distribution, Range("log", distribution.low, distribution.high))
        return Axis(distribution, Range("int", distribution.low, distribution.high, distribution.step))
    if not isinstance(distribution, FloatDistribution):
        raise TypeError(f"CapriSampler knows no {type(distribution).__name__}; use suggest_float, suggest_int or suggest_categorical")
    if distribution.step is not None:
        return Axis(distribution, Range("int", 0, round((distribution.high - distribution.low) / distribution.step)))
    return Axis(distribution, Range("log" if distribution.log else "uniform", distribution.low, distribution.high))


class CapriSampler(BaseSampler):
    """For `optuna.create_study(sampler=...)`; see above.

    `parameters`, where given, is the network size for a dict of the parameters: some suggestions then are of smaller networks than the
    fastest. `n_startup_trials`, and those until one has succeeded, are drawn evenly.
    """

    def __init__(self, seed: int | None = None, parameters: Callable[[dict[str, Any]], int] | None = None,
                 n_startup_trials: int = STARTUP_CAPRI):
        self.seed = int(np.random.SeedSequence().entropy) if seed is None else seed
        self.parameters, self.n_startup_trials = parameters, n_startup_trials
        self._lock = threading.Lock()
        self._of: str | None = None  # the study's name
        self._space = IntersectionSearchSpace(include_pruned=True)
        self._axes: dict[str, Axis] = {}
        self._capri: Capri | None = None
        self._told: set[int] = set()

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def reseed_rng(self) -> None:
        """Nothing to do: each trial's number gives its own stream."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        if list(study.directions) != [StudyDirection.MINIMIZE]:
            raise ValueError("CapriSampler minimises one objective, the seconds; this study has "
                             + ", ".join(direction.name.lower() for direction in study.directions))  # fmt: skip
        with self._lock:
            if self._of != study.study_name:
                self._of, self._space, self._capri = study.study_name, IntersectionSearchSpace(include_pruned=True), None
            return {name: d for name, d in self._space.calculate(study).items() if not d.single()}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        if not search_space or trial.number and trial.number % RANDOM_ONE_IN == 0:
            return {}
        ended = study.get_trials(deepcopy=False, states=ENDED)
        if len(ended) < self.n_startup_trials:
            return {}
        with self._lock:
            self._learn(ended, search_space)
            if not any(known.solves for known in self._capri.known.values()):
                return {}  # bounds alone send it into the corners of the space
            params = next(self._capri.ask(self._rng(trial)))
            return {name: axis.theirs(params[_ours(name)]) for name, axis in self._axes.items()}

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> Any:
        if param_distribution.single():
            return param_distribution.to_external_repr(
                0 if isinstance(param_distribution, CategoricalDistribution) else param_distribution.low)  # fmt: skip
        one = axis(param_distribution)
        return one.theirs(one.dimension.from_unit(self._rng(trial, zlib.crc32(param_name.encode())).random()))

    def _rng(self, trial: FrozenTrial, *more: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, trial.number, *more])

    def _learn(self, ended: list[FrozenTrial], search_space: Mapping[str, BaseDistribution]) -> None:
        """CAPRI knows what has ended; it begins anew where the parameters are others."""
        if self._capri is None or {name: axis.distribution for name, axis in self._axes.items()} != search_space:
            self._axes = {name: axis(distribution) for name, distribution in search_space.items()}
            self._capri = Capri({_ours(name): axis.dimension for name, axis in self._axes.items()}, self._size)
            self._told = set()
        for trial in ended:
            # With threads one may have ended since the parameters were chosen, and lack some.
            if trial.number in self._told or any(trial.distributions.get(name) != d for name, d in search_space.items()):
                continue
            if (known := evidence(trial)) is not None:
                params = {_ours(name): axis.ours(trial.params[name]) for name, axis in self._axes.items()}
                self._capri.tell(trial.number, params, self._size(params), math.log(known[0]), known[1])
                self._told.add(trial.number)

    def _size(self, params: dict[str, Any]) -> int:
        if self.parameters is None:
            return 1
        return self.parameters({name: axis.theirs(params[_ours(name)]) for name, axis in self._axes.items()})


def evidence(trial: FrozenTrial) -> tuple[float, int] | None:
    """(seconds, solves) of a trial that has ended; None where it says nothing. A bound has no solve."""
    seconds, solves = trial.user_attrs.get(CENSORED), 0
    if seconds is None and trial.state == TrialState.PRUNED:
        seconds = max((value for value in trial.intermediate_values.values() if math.isfinite(value)), default=None)
    elif seconds is None:
        seconds, solves = trial.value, 1
    if seconds is None or math.isinf(seconds) and seconds > 0:
        return None
    if not seconds > 0:
        raise ValueError(f"trial {trial.number} took {seconds}; CapriSampler takes seconds, above 0")
    return float(seconds), solves


def _ours(name: str) -> str:
    """Never the name of one of the trainer's hyperparameters, whose combinations have rules."""
    return f"optuna:{name}"
