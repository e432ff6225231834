"""CAPRI in anyone's Optuna study: what is a value, a bound or nothing; any space; exact by seed; studies that go on."""

import math
import pickle
import sys
import time
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1]))

from sweep import capri_optuna
from sweep.capri_optuna import CapriSampler, axis, evidence

DISTRIBUTIONS = [
    FloatDistribution(-3.0, 5.0), FloatDistribution(1e-6, 1e3, log=True), FloatDistribution(0.0, 1.0, step=0.1), FloatDistribution(0.05, 0.3, step=0.05),
    IntDistribution(-5, 7), IntDistribution(1, 1000, log=True), IntDistribution(16, 128, step=16), IntDistribution(0, 1),
    CategoricalDistribution(["a", "b", None]), CategoricalDistribution([64, 8, 16.5]), CategoricalDistribution([True, False]),
    CategoricalDistribution([1, "1", None]), CategoricalDistribution([math.inf, 1.0]), CategoricalDistribution([math.nan, 1.0, "x"]),
]  # fmt: skip


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def suggest(trial):
    return {"x": trial.suggest_float("x", 1e-4, 1.0, log=True), "hidden": trial.suggest_int("hidden", 1, 64, log=True),
            "m": trial.suggest_float("m", 0, 1), "kind": trial.suggest_categorical("kind", ["a", "b", None])}  # fmt: skip


def truth(p):
    """Seconds, the luck of a run aside; 1 at best."""
    return math.exp(0.8 * math.log10(p["x"] / 0.02) ** 2 + 0.1 * math.log(p["hidden"] / 8) ** 2 + 2 * (p["m"] - 0.3) ** 2 + 0.4 * (p["kind"] != "b"))


def objective(seed=0, cap=2.5):
    def seconds(trial):
        taken = truth(suggest(trial)) * math.exp(0.3 * np.random.default_rng([seed, trial.number]).standard_normal())
        if taken <= cap:
            return taken
        trial.set_user_attr("censored_at", cap)
        return math.inf

    return seconds


def optimized(sampler, trials=40, seed=0, **more):
    study = optuna.create_study(sampler=sampler, **more)
    study.optimize(objective(seed), n_trials=trials)
    return study


def params(study):
    return [trial.params for trial in study.trials]


def test_it_beats_chance_where_most_runs_are_stopped():
    """12 pairs of studies. A sampler as good as chance would win 10 or more of 12 in 2% of such tests: P(Binomial(12, ½) ≥ 10)."""
    wins, censored = 0, []
    for seed in range(12):
        ours, random = (optimized(s, 60, seed) for s in (CapriSampler(seed=seed), optuna.samplers.RandomSampler(seed=seed)))
        wins += np.median([truth(p) for p in params(ours)[30:]]) < np.median([truth(p) for p in params(random)[30:]])
        censored.append(np.mean(["censored_at" in t.user_attrs for t in random.trials]))
    assert np.mean(censored) > 0.5
    assert stats.binom.sf(9, 12, 0.5) < 0.02 and wins >= 10


def test_bounds_are_not_taken_for_values():
    """Told that every stopped trial took just its cap, it would learn less of what is beyond."""
    study = optimized(CapriSampler(seed=0), 80)
    known = study.sampler._capri.known
    stopped = [t.number for t in study.trials if "censored_at" in t.user_attrs and t.number in known]
    assert stopped and all(known[n].solves == 0 and known[n].log_seconds == math.log(2.5) for n in stopped)


def test_a_seed_repeats_and_others_differ():
    first = params(optimized(CapriSampler(seed=3)))
    assert first == params(optimized(CapriSampler(seed=3)))
    assert first != params(optimized(CapriSampler(seed=4)))
    assert params(optimized(CapriSampler(), 2)) != params(optimized(CapriSampler(), 2))


def test_a_pickled_sampler_goes_on_as_if_never_pickled():
    whole, half = optimized(CapriSampler(seed=0), 60), optimized(CapriSampler(seed=0), 30)
    half.sampler = pickle.loads(pickle.dumps(half.sampler))
    half.optimize(objective(), n_trials=30)
    assert params(half) == params(whole)


def test_a_study_on_disk_is_learnt_from(tmp_path):
    storage = f"sqlite:///{tmp_path}/optuna.db"
    optimized(CapriSampler(seed=0), 30, study_name="mine", storage=storage)
    again = optuna.load_study(study_name="mine", storage=storage, sampler=CapriSampler(seed=0))
    again.optimize(objective(), n_trials=1)
    assert set(again.sampler._capri.known) == set(range(30))


def test_threads_share_it():
    study = optuna.create_study(sampler=CapriSampler(seed=0))
    study.optimize(objective(), n_trials=60, n_jobs=4)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 60
    assert len({tuple(p.values()) for p in params(study)}) == 60


def test_it_serves_one_study_after_another():
    sampler = CapriSampler(seed=0)
    first, second = optimized(sampler), optimized(sampler)
    assert params(first) == params(second)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_every_value_of_every_distribution_comes_back(distribution):
    one, rng = axis(distribution), np.random.default_rng(0)
    drawn = [one.theirs(one.dimension.from_unit(rng.random())) for _ in range(500)]
    for value in drawn:
        assert distribution._contains(distribution.to_internal_repr(value))
        back = one.theirs(one.ours(value))
        assert type(back) is type(value) and (back == value or math.isnan(back) and math.isnan(value))
    if isinstance(distribution, CategoricalDistribution):
        assert {distribution.to_internal_repr(value) for value in drawn} == set(range(len(distribution.choices)))
    elif distribution.step is not None and not distribution.log:
        assert len(set(drawn)) == round((distribution.high - distribution.low) / distribution.step) + 1


def test_numbers_among_choices_are_neighbours_and_words_are_not():
    assert axis(CategoricalDistribution([64, 8, 16])).dimension.ordered
    assert not axis(CategoricalDistribution(["64", "8"])).dimension.ordered
    assert not axis(CategoricalDistribution([True, False])).dimension.ordered


def test_all_of_them_in_one_study():
    def seconds(trial):
        return 1.0 + sum(i == 0 for i in [len(str(trial._suggest(f"p{n}", d))) for n, d in enumerate(DISTRIBUTIONS)])

    study = optuna.create_study(sampler=CapriSampler(seed=0))
    study.optimize(seconds, n_trials=30)
    assert len(study.sampler._capri.known) > 20


def test_names_and_combinations_that_the_trainer_would_refuse_are_free():
    def seconds(trial):
        return trial.suggest_int("minibatches", 3, 7) * trial.suggest_float("gamma", 5.0, 9.0) * trial.suggest_int("envs", 1, 2)

    study = optuna.create_study(sampler=CapriSampler(seed=0))
    study.optimize(seconds, n_trials=40)
    assert study.best_value < 17  # of 15


def test_conditional_parameters_are_drawn_evenly_and_the_rest_modelled():
    def seconds(trial):
        p = suggest(trial)
        more = trial.suggest_float("only_a", 0, 1) if p["kind"] == "a" else trial.suggest_int("only_others", 1, 3)
        return truth(p) * (1 + 0.01 * more)

    studies = [optuna.create_study(sampler=CapriSampler(seed=0)) for _ in range(2)]
    for study in studies:
        study.optimize(seconds, n_trials=60)
    assert params(studies[0]) == params(studies[1])
    assert set(studies[0].sampler._axes) == {"x", "hidden", "m", "kind"}
    assert np.median([truth(p) for p in params(studies[0])[40:]]) < 1.5


def test_a_range_that_changes_is_no_longer_modelled():
    study = optuna.create_study(sampler=CapriSampler(seed=0))
    study.optimize(lambda t: 1 + t.suggest_float("x", 0, 1) + t.suggest_float("y", 0, 1), n_trials=15)
    assert set(study.sampler._axes) == {"x", "y"}
    study.optimize(lambda t: 1 + t.suggest_float("x", 0, 2) + t.suggest_float("y", 0, 1), n_trials=15)
    assert set(study.sampler._axes) == {"y"} and len(study.sampler._capri.known) > 25


def ended(value=None, state=TrialState.COMPLETE, attrs=(), reported=()):
    return create_trial(value=value, state=state, user_attrs=dict(attrs), intermediate_values=dict(enumerate(reported)),
                        params={"x": 0.5}, distributions={"x": FloatDistribution(0, 1)})  # fmt: skip


@pytest.mark.parametrize("trial, known", [
    (ended(2.0), (2.0, 1)),
    (ended(9.0, attrs={"censored_at": 3.0}), (3.0, 0)),
    (ended(math.inf, attrs={"censored_at": 3.0}), (3.0, 0)),
    (ended(math.inf), None),
    (ended(state=TrialState.PRUNED, attrs={"censored_at": 3.0}, reported=[1.0]), (3.0, 0)),
    (ended(state=TrialState.PRUNED, reported=[1.0, 4.0, math.nan, 2.0]), (4.0, 0)),
    (ended(state=TrialState.PRUNED), None),
], ids=str)  # fmt: skip
def test_what_a_trial_says(trial, known):
    assert evidence(trial) == known


@pytest.mark.parametrize("trial", [ended(0.0), ended(-1.0), ended(1.0, attrs={"censored_at": 0.0}), ended(1.0, attrs={"censored_at": math.nan})])
def test_what_is_no_time_is_one_line(trial):
    with pytest.raises(ValueError, match="CapriSampler takes seconds, above 0"):
        evidence(trial)


def test_failed_trials_and_values_that_are_no_number_are_passed_over():
    def seconds(trial):
        taken = objective()(trial)
        if trial.number % 4 == 1:
            raise RuntimeError
        return math.nan if trial.number % 4 == 2 else taken

    study = optuna.create_study(sampler=CapriSampler(seed=0))
    study.optimize(seconds, n_trials=60, catch=RuntimeError)
    known = study.sampler._capri.known
    assert len(known) > 20 and all(n % 4 not in (1, 2) for n in known)


def test_what_it_is_not_for_is_one_line():
    for directions in (["maximize"], ["minimize", "minimize"]):
        study = optuna.create_study(sampler=CapriSampler(seed=0), directions=directions)
        with pytest.raises(ValueError, match="CapriSampler minimises one objective"):
            study.ask().suggest_float("x", 0, 1)


def test_a_pruned_study_is_learnt_from():
    def seconds(trial):
        taken = truth(suggest(trial))
        for elapsed in (0.5, 1.0, 1.5, 2.0):
            if taken < elapsed:
                return taken
            trial.report(elapsed, round(2 * elapsed))
        raise optuna.TrialPruned

    study = optuna.create_study(sampler=CapriSampler(seed=0))
    study.optimize(seconds, n_trials=60)
    pruned = [t.number for t in study.trials[:50] if t.state == TrialState.PRUNED]
    assert pruned and all(study.sampler._capri.known[n].log_seconds == math.log(2.0) for n in pruned)


def test_until_one_has_succeeded_trials_are_drawn_evenly():
    study = optuna.create_study(sampler=CapriSampler(seed=0))
    study.optimize(objective(cap=1e-9), n_trials=60)
    position = [(math.log10(p["x"]) + 4) / 4 for p in params(study)]
    assert stats.kstest(position, "uniform").pvalue > 0.001  # how often even draws fail this


def test_with_a_size_some_suggestions_are_of_smaller_networks():
    def seconds(trial):
        return 10.0 / trial.suggest_int("hidden", 1, 64, log=True) * (1 + trial.suggest_float("m", 0, 1))

    hidden = {}
    for size in (None, lambda p: p["hidden"]):
        study = optuna.create_study(sampler=CapriSampler(seed=0, parameters=size))
        study.optimize(seconds, n_trials=150)
        hidden[size is None] = [p["hidden"] for p in params(study)[50:]]
    assert np.mean(np.array(hidden[False]) < 50) > np.mean(np.array(hidden[True]) < 50) + 0.05


def test_what_a_suggestion_costs_at_a_thousand_trials():
    """Printed, not judged by the clock: what is told again is counted."""
    rng, study = np.random.default_rng(0), optuna.create_study(sampler=CapriSampler(seed=0))
    space = {"x": FloatDistribution(1e-4, 1.0, log=True), "hidden": IntDistribution(1, 64, log=True),
             "m": FloatDistribution(0, 1), "kind": CategoricalDistribution(["a", "b", None])}  # fmt: skip
    for _ in range(1000):
        p = {"x": float(np.exp(rng.uniform(math.log(1e-4), 0))), "hidden": int(rng.integers(1, 65)), "m": float(rng.random()), "kind": "b"}
        study.add_trial(create_trial(params=p, distributions=space, value=truth(p)))
    study.ask(space)
    told, tell = [], study.sampler._capri.tell
    study.sampler._capri.tell = lambda *a: (told.append(a[0]), tell(*a))
    begun = time.thread_time()
    for _ in range(100):
        trial = study.ask(space)
        study.tell(trial, truth(trial.params))
    print(f"{(time.thread_time() - begun) / 100 * 1e3:.1f} CPU ms per ask and tell at 1,000 trials")
    assert len(told) <= 100 and capri_optuna.CENSORED == "censored_at"
