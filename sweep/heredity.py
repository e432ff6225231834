"""A quadratic of the params with its uncertainty, where interactions are believed as far as what they are between matters (effect heredity:
Chipman 1996, doi 10.2307/3315687); how much of each kind there is is found by evidence (MacKay 1992, doi 10.1162/neco.1992.4.3.415).

CAPRI's surrogate believes all interactions alike: good for finding a minimum, but with 16 hyperparameters it has 120 of them, whose
uncertainty hides that one hyperparameter has no say.
"""

from __future__ import annotations

import numpy as np

from sweep.surrogate import Features

#: Rounds of weighing evidence: twice as many change no share by a hundredth.
ROUNDS = 30
#: A feature's prior variance in the first round, by kind (constant, slopes, squares, products), as a multiple of the values' variance.
FIRST = (1e2, 0.3, 0.1, 0.03)
#: Prior variances stay within these multiples of the values' variance; the noise is drawn to a quarter of it as by four trials.
LEAST, MOST, NOISE = 1e-9, 1e2, 0.25


class Fit:
    """The posterior of the weights of `Features.expand`, from values that are each known as well as so many runs tell."""

    def __init__(self, features: Features, linear: np.ndarray, values: np.ndarray, runs: np.ndarray):
        self.features = features
        names = [name for name, _ in features.columns]
        owner = np.array([list(dict.fromkeys(names)).index(name) for name in names])
        left, right = features.pairs
        #: Of each feature, the two hyperparameters that it is made of; of the constant any.
        self._left = np.concatenate([[0], owner, owner[features.numbers], owner[left]])
        self._right = np.concatenate([[0], owner, owner[features.numbers], owner[right]])
        # Half of a trial's noise is the model's misfit, which no number of runs takes away.
        precision = 2.0 / (1.0 + 1.0 / runs)
        self._fit(features.expand(linear), values - np.average(values, weights=precision), precision)

    def weights(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        """Weights of functions that the posterior holds possible, [features, draws]."""
        return self.mean[:, None] + self._root @ rng.standard_normal((len(self.mean), draws))

    def _fit(self, x: np.ndarray, y: np.ndarray, precision: np.ndarray) -> None:
        kinds, spread = self.features.kinds, float(np.var(y))
        of_kind, noise, heredity = spread * np.array(FIRST), 0.5 * spread, np.ones(len(kinds))
        for _ in range(ROUNDS):
            prior = np.maximum(of_kind[kinds] * heredity, LEAST * spread)
            weighed = x * (precision / noise)[:, None]
            hessian = x.T @ weighed
            hessian[np.diag_indices_from(hessian)] += 1.0 / prior
            inverse = np.linalg.inv(np.linalg.cholesky(hessian))  # of a triangle: covariance = inverse.T @ inverse
            self.mean, self._root = inverse.T @ (inverse @ (weighed.T @ y)), inverse.T
            variance = (inverse**2).sum(axis=0)
            known = 1.0 - variance / prior  # how far the data determine each weight
            for kind in (1, 2, 3):
                mine = kinds == kind
                if mine.any():
                    updated = float((self.mean[mine] ** 2 / heredity[mine]).sum()) / max(float(known[mine].sum()), 1e-3)
                    of_kind[kind] = min(max(updated, LEAST * spread), MOST * spread)
            residual = float((precision * (y - x @ self.mean) ** 2).sum())
            noise = (residual + 4.0 * NOISE * spread) / (max(len(y) - float(known.sum()), 0.0) + 4.0)
            heredity = np.where(kinds == 3, self._heredity(self.mean**2 + variance), 1.0)

    def _heredity(self, squared: np.ndarray) -> np.ndarray:
        """Of each feature: the say of its two hyperparameters by themselves, each as a share of the greatest."""
        alone = np.isin(self.features.kinds, (1, 2))
        say = np.bincount(self._left[alone], squared[alone])
        say /= say.max()
        return np.maximum(say[self._left] * say[self._right], 1e-6)
