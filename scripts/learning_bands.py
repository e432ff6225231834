"""Two sets of learning curves compared: the 95% band of the others' mean, and a test of whole curves.

Both are permutation tests: were the curves of the two trainers draws from one distribution, every way to deal them out to
the two would be as likely as the one seen. A test at level α then refuses equals with probability α at most, exactly, for
any distribution and number of seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from learning_recordings import Recording

EPISODES = 20             # a point of a curve is the mean return of the last so many training episodes
FEWEST = 10               # a curve begins when so many have ended
BAND_ERROR = 0.05         # chance that equals leave the band somewhere
CURVES_ERROR = 0.01       # chance that the test of whole curves refuses equals
PERMUTATIONS = 9_999
LEAST_SPREAD = 1.0        # return: where all curves are at 500, differences are measured by this


@dataclass(frozen=True)
class Comparison:
    """`mean`, `others_mean`, `half_band`: return at each of `env_steps`. The band holds the whole mean curve of equals with
    probability 1 − BAND_ERROR; it is left exactly where band_p ≤ BAND_ERROR. `curves_p`: energy test of whole curves."""

    env_steps: np.ndarray
    mean: np.ndarray
    others_mean: np.ndarray
    half_band: np.ndarray
    band_p: float
    curves_p: float

    @property
    def within(self) -> bool:
        return bool((np.abs(self.mean - self.others_mean) <= self.half_band).all())

    @property
    def alike(self) -> bool:
        return self.within and self.curves_p > CURVES_ERROR


def curves_of(recording: Recording, env_steps: np.ndarray) -> np.ndarray:
    """Mean return of the last EPISODES training episodes at each of `env_steps`, [seeds, points]; NaN before FEWEST."""
    curves = np.full((len(recording.lengths), len(env_steps)), np.nan)
    for seed in range(len(curves)):
        ends, returns = recording.episodes(seed)
        sums = np.concatenate([[0.0], np.cumsum(returns)])
        ended = np.searchsorted(ends, env_steps, side="right")
        last = np.minimum(ended, EPISODES)
        enough = ended >= FEWEST
        curves[seed, enough] = ((sums[ended] - sums[ended - last]) / np.maximum(last, 1))[enough]
    return curves


def compare(env_steps: np.ndarray, curves: np.ndarray, others: np.ndarray, seed: int = 0) -> Comparison:
    """Compares curves [seeds, points] with `others` [seeds, points] of the same env steps, from where all have begun."""
    begun = ~(np.isnan(curves).any(0) | np.isnan(others).any(0))
    env_steps, curves, others = env_steps[begun], curves[:, begun], others[:, begun]
    both = np.concatenate([curves, others])
    # Every dealing as the shares by which rows add up to a difference of two means; the first is the one seen.
    shares = np.concatenate([np.full(len(curves), 1 / len(curves)), np.full(len(others), -1 / len(others))])
    dealt = np.random.default_rng(seed).permuted(np.tile(shares, (PERMUTATIONS, 1)), axis=1)
    dealt = np.concatenate([shares[None], dealt])
    spread = _spread_within(both, dealt)
    furthest = np.abs(dealt @ both / spread).max(1)
    reach = np.sort(furthest)[int(np.ceil((1 - BAND_ERROR) * len(dealt))) - 1]
    # Energy distance of the two sets: −Σ s_i s_j |x_i − x_j|, nought where they are one distribution.
    scaled = both / np.maximum(both.std(0, ddof=1), LEAST_SPREAD)
    distances = np.sqrt(((scaled[:, None] - scaled[None]) ** 2).sum(2))
    energy = -((dealt @ distances) * dealt).sum(1)
    return Comparison(env_steps, curves.mean(0), others.mean(0), reach * spread[0],
                      float((furthest >= furthest[0] - 1e-12).mean()), float((energy >= energy[0] - 1e-12).mean()))


def _spread_within(both: np.ndarray, dealt: np.ndarray) -> np.ndarray:
    """Standard deviation between the curves of one side, pooled over the two, of each dealing at each point."""
    centred = both - both.mean(0)
    within = np.zeros((len(dealt), both.shape[1]))
    for side in (dealt > 0, dealt < 0):
        sums, count = side.astype(float) @ centred, side[0].sum()
        within += side.astype(float) @ centred**2 - sums**2 / count
    return np.sqrt(np.maximum(within / (len(both) - 2), LEAST_SPREAD**2))
