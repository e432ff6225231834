"""A run stopped and gone on with equals the run never stopped, bit for bit, wherever it is cut and whoever goes on."""

import dataclasses
import functools
import multiprocessing
import random
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import trainer_native
from trainer_native import Solve, config, environments, trainer

NATIVE = Path(__file__).parents[1] / "native"
SMALL = {"hidden": 16, "envs": 16, "horizon": 16, "minibatches": 4, "epochs": 2}
ITERATION = SMALL["envs"] * SMALL["horizon"]
ITERATIONS = 60
# Never solved, but tried again and again: evaluations stand between the iterations.
TRIED = {"try_from": -1e9}
NEVER = Solve(mean_return=1e6, episodes=8)
OPTIONS = [
    {}, {"optimizer": "adam", "learning_rate": 3e-3}, {"normalise_inputs": "moments"}, {"vtrace": True},
    {"priority": 0.8}, {"vtrace": True, "priority": 0.5, "layers": 2},
    {"anneal_steps": 10_000, "anneal": "cosine", "normalise_rewards": True, "replay_ratio": 1.3}, {"horizon": 5, "envs": 12},
    {"cell": "lstm", "layers": 2}, {"cell": "mlp", "biases": True, "separate_value": True},
    {"normalise_rewards": True}, {"cell": "mlp", "minibatch_of": "transitions", "optimizer": "adam", "priority": 0.5},
]  # fmt: skip
CASES = [(env, options) for env in ("cartpole", "breakout") for options in OPTIONS]
NAMES = [env + "".join(f" {k}={v}" for k, v in options.items()) for env, options in CASES]

SOME = [case for case in CASES if OPTIONS.index(case[1]) in (0, 1, 2, 3, 8)]


def train(env, options, seed=1, until=ITERATIONS, state=None, keep_state=True, **more):
    params = SMALL | TRIED | options
    steps = until * params["envs"] * params["horizon"]
    return trainer_native.train(env, params, seed, NEVER, 60.0, steps, state=state, keep_state=keep_state, **more)


@functools.cache
def whole(env, number, seed=1):
    return train(env, OPTIONS[number], seed, keep_state=False)


def same(run, other):
    for name, values in other.weights.items():
        assert run.weights[name].tobytes() == values.tobytes(), name
    for name in ("env_steps", "iterations", "evaluations", "trigger_env_steps", "mean_return", "best_return", "status", "reason"):
        assert getattr(run, name) == getattr(other, name), name
    np.testing.assert_array_equal(run.curve[:, 2:], other.curve[:, 2:])
    assert (np.diff(run.curve[:, :2], axis=0) >= 0).all(), "seconds count on"


@pytest.fixture(scope="module")
def others():
    """Eight other processes: `others(list of (arguments, keywords))` trains all of them, eight at a time."""
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        yield lambda jobs: [job.get(120) for job in [pool.apply_async(trainer_native.train, a, k) for a, k in jobs]]


def job(env, options, until, state=None, seed=1):
    params = SMALL | TRIED | options
    return ((env, params, seed, dataclasses.asdict(NEVER), 60.0, until * params["envs"] * params["horizon"]),
            {"state": state, "keep_state": True})


@pytest.mark.parametrize("env", ["cartpole", "breakout"])
def test_eight_processes_take_each_others_runs_over(others, env):
    """Every case, cut at two random iterations, each part in whichever of eight processes is free."""
    rng = random.Random(7)
    cuts = [sorted(rng.sample(range(1, ITERATIONS), 2)) for _ in OPTIONS]
    runs = [None] * len(OPTIONS)
    for part in range(3):
        until = [[*cut, ITERATIONS][part] for cut in cuts]
        runs = others([job(env, options, u, run.state if run else None) for options, u, run in zip(OPTIONS, until, runs, strict=True)])
    for number, run in enumerate(runs):
        assert run.evaluations >= 10 or OPTIONS[number].get("horizon") == 5
        same(run, whole(env, number))


def test_one_and_eight_processes_end_with_the_same_weights(others):
    for run in others([job("breakout", {"layers": 2}, 40)] * 8):
        alone = train("breakout", {"layers": 2}, until=40)
        assert all(run.weights[k].tobytes() == alone.weights[k].tobytes() for k in alone.weights)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(case=st.integers(0, len(CASES) - 1), seed=st.integers(0, 3), cuts=st.lists(st.integers(1, ITERATIONS - 1), min_size=1, max_size=3))
def test_cut_at_any_iterations_it_equals_the_whole(case, seed, cuts):
    env, options = CASES[case]
    run = None
    for until in [*sorted(cuts), ITERATIONS]:  # the same cut twice: a part without an iteration
        run = train(env, options, seed, until, run.state if run else None)
    same(run, whole(env, OPTIONS.index(options), seed))


@pytest.mark.parametrize(("env", "options"), SOME, ids=[NAMES[CASES.index(case)] for case in SOME])
def test_what_is_kept_is_the_same_but_for_its_seconds(env, options):
    """Nothing that is carried is left out, and nothing else is in: two ways to one iteration give one state."""
    straight, halfway = train(env, options, until=20).state, train(env, options, until=9).state
    resumed = train(env, options, until=20, state=halfway).state
    assert len(straight) == len(resumed) and straight != halfway
    differing = np.flatnonzero(np.frombuffer(straight, np.uint8) != np.frombuffer(resumed, np.uint8))
    label_and_progress, checksum = 2_000 + 5_000, 32
    assert ((differing < label_and_progress) | (differing >= len(straight) - checksum)).all()


SMALL_ENOUGH = {"hidden": 64, "layers": 3, "envs": 32, "horizon": 40, "epochs": 3, "minibatches": 8}


def legal(h):
    if h.kind is bool or h.choices:
        return st.sampled_from(h.choices or (False, True))
    high = min(h.high, SMALL_ENOUGH.get(h.name, h.high))
    if h.kind is int:
        return st.integers(-(-h.low // h.multiple), high // h.multiple).map(lambda x: x * h.multiple)
    return st.floats(h.low, high) | st.sampled_from([h.low, high, min(max(h.default or h.low, h.low), high)])


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(params=st.fixed_dictionaries({}, optional={name: legal(h) for name, h in config.HYPERPARAMETERS.items()}),
       env=st.sampled_from(["cartpole", "breakout", *(str(NATIVE / f"{name}.h") for name in ("board", "doors", "reach"))]),
       cut=st.integers(1, 3))
def test_any_legal_params_can_be_trained_and_resumed(params, env, cut):
    """What is not refused works: small networks with anything that is legal, and a part gone on with equals the whole."""
    try:
        full = trainer._complete(environments.find(env), {"envs": 16, "horizon": 16} | params | TRIED)
    except config.ConfigError as refused:
        assert len(str(refused).splitlines()) == 1
        return reject()
    iteration = full["envs"] * full["horizon"]
    half, uncut = (trainer_native.train(env, full, 1, NEVER, 60.0, n * iteration, keep_state=True) for n in (cut, 4))
    end = trainer_native.train(env, full, 1, NEVER, 60.0, 4 * iteration, state=half.state) if half.state else half
    assert (end.status, end.env_steps, end.evaluations) == (uncut.status, uncut.env_steps, uncut.evaluations)
    assert uncut.env_steps == 4 * iteration or uncut.status == "diverged"
    for name, values in uncut.weights.items():
        assert end.weights[name].tobytes() == values.tobytes(), name


def test_cut_at_any_moment_it_equals_the_whole():
    """Cancelled in the middle of whatever it does: rollouts, updates, evaluations."""
    rng, solve = random.Random(5), Solve(475, 100)
    params = {"envs": 256, "horizon": 64, "minibatches": 16, "epochs": 4, "hidden": 32, "try_from": 150.0}
    uncut = trainer_native.train("cartpole", params, 3, solve, 60.0, 1_200_000)
    state, run, parts = None, None, 0
    while run is None or run.reason == "cancelled":
        control = np.array([60.0, 0.0])
        pause, over = rng.uniform(0.0, uncut.seconds / 5) * (1 + parts / 20), threading.Event()

        def stop(control=control, pause=pause, over=over):
            over.wait(pause)
            control[1] = 1.0

        thread = threading.Thread(target=stop)
        thread.start()
        run = trainer_native.train("cartpole", params, 3, solve, 60.0, 1_200_000, control=control, state=state, keep_state=True)
        over.set()
        thread.join()
        state, parts = run.state, parts + 1
        assert parts < 200
    assert parts >= 4 and uncut.evaluations >= 1
    for name, values in uncut.weights.items():
        assert run.weights[name].tobytes() == values.tobytes(), name
    assert (run.status, run.env_steps, run.evaluations) == (uncut.status, uncut.env_steps, uncut.evaluations)


def test_caps_count_from_the_beginning_of_the_run():
    """Slices of one run, each with the cap a bit later: solved with the env steps of the run that was never stopped."""
    solve, params, cap, run = Solve(475, 100), {"hidden": 16, "envs": 32, "horizon": 32}, 0.0, None
    uncut = trainer_native.train("cartpole", params, 0, solve, 60.0)
    while run is None or run.reason == "cap":
        assert run is None or (run.cpu_seconds >= cap and len(run.state) < 100_000)
        cap += 0.03
        run = trainer_native.train("cartpole", params, 0, solve, cap, state=run.state if run else None, keep_state=True)
    assert run.status == uncut.status == "solved" and run.state is None
    assert (run.env_steps, run.iterations, run.trigger_env_steps) == (uncut.env_steps, uncut.iterations, uncut.trigger_env_steps)
    assert all(run.weights[k].tobytes() == uncut.weights[k].tobytes() for k in uncut.weights)
    assert 0 < run.trigger_seconds <= run.seconds and run.curve[-1, 1] == run.seconds
    np.testing.assert_array_equal(run.curve[:-1, 2:], uncut.curve[:-1, 2:])
