"""What executes a run: the native trainer, or a Python function named `module:function`."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from trainer_native import Run


def task(key: int, study: Any, params: dict, seed: int, cap_seconds: float, audit_episodes: int = 0) -> dict:
    """All that a worker needs for one run, plain enough to travel; `key` names it until its end."""
    return {
        "key": key,
        "trainer": study.trainer,
        "env": str(study.env),
        "params": params,
        "seed": seed,
        "solve": {"mean_return": study.solve.mean_return, "episodes": study.solve.episodes, "policy": study.solve.policy},
        "cap_seconds": cap_seconds,
        "max_env_steps": study.budget.max_env_steps or 0,
        "audit_episodes": audit_episodes,  # after a solve, off the clock: how often the weights hold what they claimed
    }


def execute(task: dict, control: Any) -> tuple[Run, dict | None]:
    """(the run, the false-solve audit if one was asked for); whatever goes wrong inside becomes a crashed run.

    `control` is a writable buffer of float64[2]: the cap in CPU seconds, and whether to stop.
    """
    try:
        train = resolve(task["trainer"])
        run = train(task["env"], task["params"], task["seed"], task["solve"], task["cap_seconds"],
                    max_env_steps=task["max_env_steps"], control=control)
    except Exception as problem:  # the user's header or function may raise anything; the study goes on
        where = traceback.extract_tb(problem.__traceback__)[-1]
        return crashed(task["seed"], f"{type(problem).__name__}: {problem} ({where.name}, line {where.lineno})"), None
    audit = None
    if task["audit_episodes"] and run.status == "solved" and run.weights is not None:
        try:
            audit = _audit(task, run)
        except Exception as problem:
            audit = {"error": f"{type(problem).__name__}: {problem}"}
    return replace(run, weights=None), audit  # weights weigh more than all the rest, and the search needs none


def resolve(trainer: str) -> Callable[..., Run]:
    """The function with the signature of `trainer_native.train` that `trainer` names."""
    if trainer == "native":
        from trainer_native import train

        return train
    module, _, function = trainer.partition(":")
    return getattr(importlib.import_module(module), function)


def crashed(seed: int, reason: str, seconds: float = 0.0) -> Run:
    """The run of a process that cannot report itself any more; `seconds` of wall time went into it."""
    import numpy as np

    return Run(status="crashed", reason=reason, seed=seed, parameters=0, seconds=seconds, cpu_seconds=0.0,
               setup_seconds=0.0, env_steps=0, iterations=0, rollout_seconds=0.0, update_seconds=0.0,
               evaluation_seconds=0.0, trigger_seconds=None, trigger_env_steps=None, evaluations=0, mean_return=None,
               best_return=None, curve=np.zeros((0, 4)), weights=None)


def _audit(task: dict, run: Run) -> dict:
    """A confirmed policy played on over many more episodes: {mean_return, episodes, solved}."""
    from trainer_native import evaluate

    solve = task["solve"]
    # A seed of its own: the episodes that confirmed the solve must not be counted again.
    result = evaluate(task["env"], task["params"], run.weights, task["audit_episodes"], (task["seed"] ^ 0x5EED) & 0x7FFFFFFF,
                      policy=solve["policy"])
    mean = float(result["mean_return"])
    return {"mean_return": mean, "episodes": task["audit_episodes"], "solved": mean >= solve["mean_return"]}
