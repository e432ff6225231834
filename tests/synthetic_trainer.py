"""A trainer that simulates runs in a few milliseconds each, so that the engine can be tested without one that learns."""

import math
import os
import time

import numpy as np

from trainer_native import Run

SPEED = float(os.environ.get("SYNTHETIC_SPEED", "4"))  # simulated seconds per second


def simulate(params: dict, seed: int) -> float:
    """Seconds to solve, inf where it never does: a fixed function of both arguments."""
    hidden, rate = params.get("hidden", 16), params.get("learning_rate", 0.01)
    gamma, horizon = params.get("gamma", 0.98), params.get("horizon", 64)
    distance = (math.log10(rate / 0.02) ** 2 + (math.log10((1 - gamma) / 0.02)) ** 2
                + 0.1 * math.log2(horizon / 32) ** 2 + 0.1 * math.log2(hidden / 16) ** 2)
    rng = np.random.default_rng([seed, hidden, horizon])
    seconds = 0.04 * math.exp(1.5 * distance) * (hidden / 16) ** 0.5 * math.exp(0.4 * rng.standard_normal())
    return seconds if rng.random() < math.exp(-0.3 * distance) else math.inf


def network_size(params: dict) -> int:
    """Trainable parameters, as trainer_native.network_size."""
    hidden = params.get("hidden", 16)
    return 3 * hidden * hidden + 20 * hidden


def train(env, params, seed, solve, max_seconds, max_env_steps=0, control=None) -> Run:
    """As trainer_native.train. Extra params steer it: `crash` ends the process, `fail` raises, `hang` never looks up."""
    if params.get("crash"):
        os.kill(os.getpid(), 9)
    if params.get("fail"):
        raise ValueError("this environment is broken")
    solves, parameters = simulate(params, seed), network_size(params)
    begun, cpu = time.perf_counter(), time.thread_time()
    status, reason, now = "censored", "cap", 0.0
    while True:
        now = time.thread_time() - cpu
        if now * SPEED >= solves and not params.get("hang"):
            status, reason = "solved", "criterion confirmed"
        elif control is not None and control[1] and not params.get("hang"):
            reason = "cancelled"
        elif now < (control[0] if control is not None else max_seconds) or params.get("hang"):
            continue
        break
    seconds = time.perf_counter() - begun
    steps = int(1e6 * (solves if status == "solved" else now * SPEED))
    best = 100.0 if status == "solved" else min(99.0, 100 * now * SPEED / min(solves, 10.0))
    curve = np.array([[now * f, seconds * f, steps * f, best * f] for f in np.linspace(0.1, 1, 8)])
    return Run(status=status, reason=reason, seed=seed, parameters=parameters, seconds=seconds, cpu_seconds=now,
               setup_seconds=0.0, env_steps=steps, iterations=steps // 1000, rollout_seconds=seconds / 2,
               update_seconds=seconds / 2, evaluation_seconds=0.0, trigger_seconds=None, trigger_env_steps=None,
               evaluations=1 if status == "solved" else 0, mean_return=best, best_return=best, curve=curve, weights=None)


def study(seconds: float, verify: float = 0.0, sampler: str = "tpe", run: float = 2.0, name: str = "synthetic", **dimensions):
    """A study of the synthetic trainer over four hyperparameters and `dimensions`, each as a TOML file would have it."""
    from sweep import space
    from sweep.study import Budget, Study
    from trainer_native import Solve

    searched = {"hidden": [8, 16, 32, 64], "learning_rate": {"log": [1e-3, 1e-1]}, "gamma": {"near_one": [0.9, 0.999]},
                "horizon": {"pow2": [16, 128]}, **dimensions}
    return Study(name=name, env="none", space=None, sampler=sampler, question="", solve=Solve(90.0),
                 budget=Budget(seconds, verify, run, 8, None), environment={}, source_hash="0",
                 dimensions={key: space.parse(key, value, "test") for key, value in searched.items() if value is not None},
                 trainer="synthetic_trainer:train")
