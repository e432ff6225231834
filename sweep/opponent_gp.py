"""The exact Gaussian process of PufferLib's Protein, for its replay: linear plus Matérn-3/2 with one length per axis.

Kernel, start, prior of the noise and optimizer are those of pufferlib/sweep.py and gp_torch.py in PufferLib 4 (commits 06e62ac, 87f7a97),
here by hand in float32, as there, so that a suggestion costs what it must and torch is not needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Adam steps for each fit, and their size; the model goes on from where the last fit ended.
STEPS, LEARNING_RATE = 50, 1e-3
#: Of Adam (Kingma and Ba 2015, arXiv 1412.6980).
BETAS, SMALL = (0.9, 0.999), 1e-8
#: Noise variance: its least, and the mean and deviation of its logarithm's normal prior.
LEAST_NOISE, NOISE_PRIOR = 1e-4, (np.log(1e-2), 0.5)
ROOT3 = np.float32(3**0.5)


class GaussianProcess:
    """`fit` it to (x, y) again and again, then take the `mean` of other x. Its mean before data is 0."""

    def __init__(self, axes: int):
        # Lengths, the Matérn part's variance, noise, the linear part's offset: each the softplus of what Adam moves.
        start = np.array([1.0] * axes + [1.0, 1e-2 - LEAST_NOISE, 1.0])
        self.axes, self._raw = axes, np.log(np.expm1(start))
        self.restart()

    def restart(self) -> None:
        """Adam forgets its moments."""
        self._steps = 0
        self._first, self._second, self._greatest = np.zeros((3, len(self._raw)))

    @property
    def values(self) -> np.ndarray:
        """Lengths [axes], variance, noise, offset."""
        values = np.logaddexp(0.0, self._raw)
        values[self.axes + 1] += LEAST_NOISE
        return values

    def fit(self, x: np.ndarray, y: np.ndarray, steps: int = STEPS) -> None:
        """`x` float [points, axes], `y` float [points]."""
        self._x, y = np.ascontiguousarray(x, np.float32), np.asarray(y, np.float32)
        for _ in range(steps):
            self._adam(self._gradient(self._x, y))
        _, self._weights = self._solved(self._kernel(self._x, self._x)[0], y)

    def mean(self, x: np.ndarray) -> np.ndarray:
        """float [points]."""
        return (self._kernel(np.asarray(x, np.float32), self._x)[0] @ self._weights).astype(float)

    def _kernel(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(whole, Matérn part of variance 1, exp(-√3 distance)), each [a, b]."""
        values = self.values.astype(np.float32)
        lengths, variance, offset = values[: self.axes], values[self.axes], values[-1]
        p, q = a / lengths, b / lengths
        square = (p**2).sum(1)[:, None] + (q**2).sum(1)[None, :] - 2 * (p @ q.T)
        distance = ROOT3 * np.sqrt(np.maximum(square, 0))
        decay = np.exp(-distance)
        matern = (1 + distance) * decay
        return variance * matern + (a @ b.T + offset), matern, decay

    def _solved(self, kernel: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray]:
        """(Cholesky factor of the kernel with noise, that solved for y); more noise where float32 does not get by with what there is."""
        from scipy import linalg

        noise = np.float32(self.values[self.axes + 1])
        while True:
            noisy = kernel.copy()
            noisy[np.diag_indices_from(noisy)] += noise
            try:
                factor = linalg.cho_factor(noisy, lower=True, overwrite_a=True, check_finite=False)
                return factor, linalg.cho_solve(factor, y, check_finite=False)
            except linalg.LinAlgError:
                noise *= 10

    def _gradient(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of minus the log posterior, by what Adam moves (Rasmussen and Williams 2006, 5.9)."""
        from scipy import linalg

        values = self.values
        kernel, matern, decay = self._kernel(x, x)
        factor, weights = self._solved(kernel, y)
        lower, _ = linalg.lapack.spotri(factor[0], lower=1)
        inverse = np.tril(lower) + np.tril(lower, -1).T
        outer = np.outer(weights, weights) - inverse  # twice the derivative by the kernel
        pull = outer * decay
        by_length = (pull.sum(1) @ x**2 - (x * (pull @ x)).sum(0)) * 3 * values[self.axes] / values[: self.axes] ** 3
        by_noise = 0.5 * np.trace(outer)
        log_noise, (centre, spread) = np.log(values[self.axes + 1]), NOISE_PRIOR
        by_noise -= ((log_noise - centre) / spread**2 + 1) / values[self.axes + 1]
        gradient = np.array([*by_length, 0.5 * (outer * matern).sum(), by_noise, 0.5 * outer.sum()], float)
        sigmoid = 1 / (1 + np.exp(-self._raw))
        gradient *= sigmoid
        gradient[self.axes + 1] += 1 - sigmoid[self.axes + 1]  # the prior is of the noise, not of what Adam moves
        return -gradient

    def _adam(self, gradient: np.ndarray) -> None:
        """With the greatest second moment so far (AMSGrad, Reddi, Kale and Kumar 2018, arXiv 1904.09237), as torch has it."""
        self._steps += 1
        self._first = BETAS[0] * self._first + (1 - BETAS[0]) * gradient
        self._second = BETAS[1] * self._second + (1 - BETAS[1]) * gradient**2
        self._greatest = np.maximum(self._greatest, self._second)
        scale = np.sqrt(self._greatest / (1 - BETAS[1] ** self._steps)) + SMALL
        self._raw -= LEARNING_RATE * self._first / (1 - BETAS[0] ** self._steps) / scale
