"""What the trials so far say of params not tried yet: log seconds to solve as a quadratic of the params, with its uncertainty.

A trial without a solve is a bound, not a value: its time lies beyond what it was given (a Tobit model, Tobin 1958, doi 10.2307/1907382;
the mean beyond a bound is filled in again and again, as Schmee and Hahn 1979, doi 10.1080/00401706.1979.10489811, do). How much the data
speak for slopes, curvatures and interactions is found by evidence (MacKay 1992, doi 10.1162/neco.1992.4.3.415), so that with few trials
little is believed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweep.dimensions import Dimension

#: Rounds of filling in bounds and weighing evidence in one fit; a fit begins where the last one ended.
ROUNDS = 6
#: The standard deviation of one run's log seconds that nothing has been measured of, in the first fit.
SPREAD = 0.5
#: A weight's prior variance stays within these.
LEAST_VARIANCE, MOST_VARIANCE = 1e-5, 1e2


class Features:
    """Params as float64 rows: 1, then each axis, its square, and the products of two axes.

    A number is in [-1, 1]; a choice of words is one axis per word but the first, 0 or 1, without squares."""

    def __init__(self, axes: Mapping[str, Dimension]):
        self.axes = dict(axes)
        columns = []  # (name, word or None)
        for name, axis in self.axes.items():
            columns += [(name, word) for word in axis.values[1:]] if _is_words(axis) else [(name, None)]
        self.columns = columns
        numbers = [i for i, (_, word) in enumerate(columns) if word is None]
        pairs = [(i, j) for i in range(len(columns)) for j in range(i) if columns[i][0] != columns[j][0]]
        self.numbers = np.array(numbers, int)
        self.pairs = tuple(np.array([pair[side] for pair in pairs], int) for side in (0, 1))  # of products: their two columns
        #: Of each feature: 0 the constant, 1 slopes, 2 squares, 3 products; each kind has its own prior.
        self.kinds = np.repeat([0, 1, 2, 3], [1, len(columns), len(numbers), len(pairs)])

    def linear(self, params: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """The axes alone: [params, columns]."""
        rows = np.empty((len(params), len(self.columns)))
        for i, (name, word) in enumerate(self.columns):
            axis = self.axes[name]
            rows[:, i] = ([2.0 * axis.to_unit(p[name]) - 1.0 for p in params] if word is None
                          else [float(p[name] == word and type(p[name]) is type(word)) for p in params])  # fmt: skip
        return rows

    def expand(self, linear: np.ndarray) -> np.ndarray:
        """All features [params, features] from what `linear` gives."""
        squares = linear[:, self.numbers] ** 2 - 1 / 3  # of mean zero over the space, so that it says nothing of the constant
        return np.concatenate([np.ones((len(linear), 1)), linear, squares, linear[:, self.pairs[0]] * linear[:, self.pairs[1]]], axis=1)


class Surrogate:
    """The posterior of the weights of log seconds; `fit` it, then `predict`, or `draw` one of the functions it holds possible."""

    def __init__(self, features: Features):
        self.features = features
        self._variance = np.array([MOST_VARIANCE, 0.3, 0.1, 0.03])[features.kinds]
        self.noise = SPREAD**2  # variance of one run's log seconds, misfit of the model included
        self.centre = 0.0
        self.mean = np.zeros(len(features.kinds))
        self._root = np.diag(np.sqrt(self._variance))

    def fit(self, linear: np.ndarray, log_seconds: np.ndarray, solves: np.ndarray) -> None:
        """`log_seconds` [trials]: the value where `solves` is above 0, known the better the more; else a bound from below."""
        x, bound = self.features.expand(linear), solves == 0
        # Half of a trial's noise is the model's misfit, which no number of runs takes away.
        precision = 2.0 / (1.0 + 1.0 / np.maximum(solves, 1.0))
        before = self.centre
        self.centre = float(np.median(log_seconds[~bound])) if (~bound).any() else float(log_seconds.max())
        targets = log_seconds - self.centre
        y = targets.copy()
        if self.mean.any():  # where the last fit ended: filling in converges slowly
            self.mean[0] += before - self.centre
            y[bound] = beyond(x[bound] @ self.mean, np.sqrt(self.noise / precision[bound]), targets[bound])[0]
        for _ in range(ROUNDS):
            weighed = x * (precision / self.noise)[:, None]
            hessian = x.T @ weighed
            hessian[np.diag_indices_from(hessian)] += 1.0 / self._variance
            lower = np.linalg.cholesky(hessian)
            inverse = np.linalg.inv(lower)  # of a triangle: covariance = inverse.T @ inverse
            self.mean = inverse.T @ (inverse @ (weighed.T @ y))
            self._root = inverse.T
            variance = (inverse**2).sum(axis=0)
            fitted = x @ self.mean
            spread = np.sqrt(self.noise / precision[bound])
            extra = np.zeros(len(y))
            y[bound], extra[bound] = beyond(fitted[bound], spread, targets[bound])
            self._weigh(variance, (precision * ((y - fitted) ** 2 + extra)).sum(), len(y))

    def _weigh(self, variance: np.ndarray, residual: float, trials: int) -> None:
        """MacKay's updates of the prior variances, one a kind, and of the noise."""
        known = 1.0 - variance / self._variance  # how far the data determine each weight
        for kind in (1, 2, 3):
            mine = self.features.kinds == kind
            if mine.any():
                gamma = max(float(known[mine].sum()), 1e-3)
                updated = (float((self.mean[mine] ** 2).sum()) + 1e-4) / gamma
                self._variance[mine] = min(max(updated, LEAST_VARIANCE), MOST_VARIANCE)
        # Drawn to SPREAD² as by four trials: the first few fit anything.
        free = max(trials - float(known.sum()), 0.0)
        self.noise = (residual + 4.0 * SPREAD**2) / (free + 4.0)

    def predict(self, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(mean, standard deviation) of each setting's log seconds, without the noise of runs."""
        x = self.features.expand(linear)
        return self.centre + x @ self.mean, np.sqrt(((x @ self._root) ** 2).sum(axis=1))

    def draw(self, expanded: np.ndarray, rng: np.random.Generator, heat: float = 1.0) -> np.ndarray:
        """Log seconds of all settings by one function of the posterior, its distance from the mean times `heat`."""
        return self.centre + expanded @ (self.mean + heat * (self._root @ rng.standard_normal(len(self.mean))))


def beyond(mean: np.ndarray, spread: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean, variance) of normals known to lie above `bound`, elementwise (Johnson, Kotz and Balakrishnan 1994, 13.10.1)."""
    z = (bound - mean) / spread
    ratio = _mills(z)
    return mean + spread * ratio, spread**2 * np.clip(1.0 + z * ratio - ratio**2, 1e-6, 1.0)


def _mills(z: np.ndarray) -> np.ndarray:
    """φ(z) ÷ (1 − Φ(z)); far out, where both vanish, by z + 1 ÷ (z + 2 ÷ (z + 3 ÷ z)) (Abramowitz and Stegun 26.2.14)."""
    near = np.minimum(z, 6.0)
    tail = np.array([0.5 * math.erfc(value / math.sqrt(2.0)) for value in near])
    far = np.maximum(z, 6.0)
    return np.where(z < 6.0, np.exp(-0.5 * near**2) / math.sqrt(2.0 * math.pi) / tail, far + 1.0 / (far + 2.0 / (far + 3.0 / far)))


def _is_words(axis: Dimension) -> bool:
    return not getattr(axis, "ordered", True)
