"""CAPRI and its surrogate: bounds are no values, evidence tells slopes from noise, and what a suggestion costs."""

import math
import sys
import time
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1]))

from sweep import capri, space
from sweep.capri import Capri
from sweep.surrogate import Features, Surrogate, beyond

DIMENSIONS = {name: space.parse(name, value, "test") for name, value in {
    "hidden": [8, 16, 32, 64], "learning_rate": {"log": [1e-3, 1e-1]}, "gamma": {"near_one": [0.9, 0.999]},
    "optimizer": ["muon", "adam"], "layers": 1}.items()}  # fmt: skip


def size_of(params):
    return 3 * params["hidden"] ** 2


def truth(params):
    """Log seconds to solve."""
    return 2 * math.log10(params["learning_rate"] / 0.02) ** 2 + 0.5 * (params["optimizer"] == "adam") + 0.3 * math.log(params["hidden"] / 8)


def data(n, seed=0, noise=0.3, cap=None):
    rng = np.random.default_rng(seed)
    params = [space.sample(DIMENSIONS, rng) for _ in range(n)]
    log_seconds = np.array([truth(p) for p in params]) + noise * rng.standard_normal(n)
    solves = np.ones(n)
    if cap is not None:
        solves = (log_seconds < cap).astype(float)
        log_seconds = np.minimum(log_seconds, cap)
    return params, log_seconds, solves


def fitted(params, log_seconds, solves, times=3):
    surrogate = Surrogate(Features(space.searched(DIMENSIONS)))
    for _ in range(times):
        surrogate.fit(surrogate.features.linear(params), log_seconds, solves)
    return surrogate


def test_features_are_what_they_say():
    features = Features(space.searched(DIMENSIONS))
    params = [{"hidden": 8, "learning_rate": 1e-1, "gamma": 0.9, "optimizer": "adam", "layers": 1},
              {"hidden": 64, "learning_rate": 1e-2, "gamma": 0.999, "optimizer": "muon", "layers": 1}]  # fmt: skip
    linear = features.linear(params)
    assert np.allclose(linear, [[-0.75, 1, -1, 1], [0.75, 0, 1, 0]])
    expanded = features.expand(linear)
    assert expanded.shape[1] == len(features.kinds) == 1 + 4 + 3 + 6
    assert np.allclose(expanded[0, features.kinds == 2], np.array([0.75, 1, -1]) ** 2 - 1 / 3)
    products = sorted(np.outer(linear[0], linear[0])[np.tril_indices(4, -1)])
    assert np.allclose(sorted(expanded[0, features.kinds == 3]), products)


def test_beyond_is_the_truncated_normal():
    mean, spread, bound = np.array([0.0, 1.0, -2.0, 0.0]), np.array([1.0, 0.5, 1.0, 1.0]), np.array([0.5, 1.0, 3.0, 30.0])
    found, variance = beyond(mean, spread, bound)
    exact = stats.truncnorm((bound - mean) / spread, np.inf, loc=mean, scale=spread)
    assert np.allclose(found, exact.mean(), rtol=1e-4)
    assert np.allclose(variance[:3], exact.var()[:3], rtol=1e-4) and 0 < variance[3] < 0.01


def test_a_surrogate_learns_the_quadratic_and_the_noise():
    fresh, _, _ = data(200, seed=1000)
    true, within = np.array([truth(p) for p in fresh]), []
    for seed in range(20):
        surrogate = fitted(*data(300, seed))
        mean, deviation = surrogate.predict(surrogate.features.linear(fresh))
        assert np.corrcoef(mean, true)[0, 1] > 0.98
        # 0.3, give or take five standard errors of a standard deviation from 300 values.
        assert abs(math.sqrt(surrogate.noise) / 0.3 - 1) < 5 / math.sqrt(2 * 300)
        within.append(np.mean(np.abs(mean - true) < 2 * deviation))
    # The errors of one fit go together: 95% on average, 20 fits of 14 weights give that to about 2%.
    assert np.mean(within) > 0.9


def test_noise_alone_teaches_nothing():
    rng = np.random.default_rng(0)
    params, _, solves = data(60)
    surrogate = fitted(params, rng.standard_normal(60), solves)
    mean, _ = surrogate.predict(surrogate.features.linear(data(200, seed=1)[0]))
    assert mean.std() < 0.35  # least squares with 14 features would have about 0.5


def test_a_bound_is_not_a_value():
    params, log_seconds, solves = data(300, cap=1.2)
    assert 0.3 < solves.mean() < 0.8
    fresh, _, _ = data(500, seed=1)
    true = np.array([truth(p) for p in fresh])

    def error(surrogate):
        return float(np.sqrt(np.mean((surrogate.predict(surrogate.features.linear(fresh))[0] - true) ** 2)))

    assert error(fitted(params, log_seconds, solves)) < 0.5 * error(fitted(params, log_seconds, np.ones(300)))


def test_drawn_functions_spread_as_the_posterior_says():
    surrogate = fitted(*data(30))
    fresh = surrogate.features.linear(data(5, seed=1)[0])
    mean, deviation = surrogate.predict(fresh)
    rng, x = np.random.default_rng(0), surrogate.features.expand(fresh)
    draws = np.array([surrogate.draw(x, rng) for _ in range(4000)])
    assert np.allclose(draws.mean(axis=0), mean, atol=5 * deviation.max() / math.sqrt(4000))
    assert np.allclose(draws.std(axis=0), deviation, rtol=0.06)  # 5 standard errors of a standard deviation from 4000 draws


def told(n, seed=0, **more):
    searcher = Capri(DIMENSIONS, size_of)
    for number, (p, t, s) in enumerate(zip(*data(n, seed, **more), strict=True)):
        searcher.tell(number, p, size_of(p), t, int(s))
    return searcher


def test_suggestions_are_better_than_chance_and_repeat():
    searcher, other = told(60), told(60)
    rngs = [np.random.default_rng(i) for i in range(100)]
    asked = [next(searcher.ask(rng)) for rng in rngs]
    assert asked == [next(other.ask(np.random.default_rng(i))) for i in range(100)]
    assert len({tuple(p.items()) for p in asked}) == len(asked)
    random = [truth(p) for p in data(1000, seed=9)[0]]
    assert np.median([truth(p) for p in asked]) < np.quantile(random, 0.15)
    assert len({p["hidden"] for p in asked}) > 1


def test_a_share_of_suggestions_is_of_smaller_networks():
    def fast_when_large(searcher):
        for number, (p, _, _) in enumerate(zip(*data(100), strict=True)):
            searcher.tell(number, p, size_of(p), 3.0 - math.log(p["hidden"]), 4)
        return [next(searcher.ask(np.random.default_rng(i)))["hidden"] for i in range(300)]

    hidden = fast_when_large(Capri(DIMENSIONS, size_of))
    smaller = sum(h < 64 for h in hidden) / len(hidden)
    # SMALLER_SHARE of 300, give or take five standard deviations; those that a far draw takes come on top.
    assert capri.SMALLER_SHARE - 0.12 < smaller < capri.SMALLER_SHARE + 0.2


def test_nothing_known_and_nothing_solved():
    assert space.legal(next(Capri(DIMENSIONS, size_of).ask(np.random.default_rng(0)))) is None
    searcher = told(40, cap=-9.0)
    asked = [next(searcher.ask(np.random.default_rng(i))) for i in range(20)]
    assert all(space.legal(p) is None for p in asked)


def test_telling_again_replaces_and_telling_the_same_is_no_news():
    searcher = told(10)
    params = searcher.known[3].params
    next(searcher.ask(np.random.default_rng(0)))
    before = searcher._news
    searcher.tell(3, params, size_of(params), searcher.known[3].log_seconds, searcher.known[3].solves)
    assert searcher._news == before
    searcher.tell(3, params, size_of(params), -9.0, 8)
    assert searcher.known[3].solves == 8 and len(searcher.known) == 10 and searcher._news == before + 1


def test_a_fit_takes_the_best_and_the_latest(monkeypatch):
    monkeypatch.setattr(capri, "MOST_TRIALS", 40)
    searcher = told(100)
    chosen = searcher._chosen()
    assert len(chosen) == len(set(chosen)) == 40
    assert set(range(80, 100)) <= set(chosen)
    assert min(range(80), key=lambda n: searcher.known[n].log_seconds) in chosen


def test_candidates_used_up_are_made_anew():
    searcher = told(20)
    asked = [next(searcher.ask(np.random.default_rng(i)), None) for i in range(capri.POOL + 10)]
    assert None not in asked


def test_what_a_suggestion_costs_at_ten_thousand_trials():
    """Printed, not judged by the clock: fits and the trials they take are counted."""
    trials, fits = 10_000, []
    searcher = told(trials)
    fit = searcher.surrogate.fit
    searcher.surrogate.fit = lambda *a: (fits.append(len(a[0])), fit(*a))
    rng, begun = np.random.default_rng(0), time.thread_time()
    for number in range(trials, trials + 400):
        params = next(searcher.ask(rng))
        searcher.tell(number, params, size_of(params), truth(params), 1)
    print(f"{(time.thread_time() - begun) / 400 * 1e3:.2f} CPU ms per ask and tell")
    assert len(fits) <= 1 + 400 / (capri.REFIT_SHARE * trials) and max(fits) <= capri.MOST_TRIALS
