"""What executes a run: the native trainer, or a Python function named `module:function`."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import sys
import traceback
from collections.abc import Callable
from typing import Any

from trainer_native import Run

#: Most points of a learning curve in the search.
SEARCH_POINTS = 32


def task(key: int, study: Any, params: dict, seed: int, cap_seconds: float, **more: Any) -> dict:
    """All that a worker needs for one run, plain enough to travel; `key` names it until its end.

    `more`: keep_weights=True sends them back with the run, and weights=... evaluates those instead of training, over `episodes`.
    """
    return {
        "key": key,
        "trainer": study.trainer,
        "env": str(study.env),
        "params": params,
        "seed": seed,
        "solve": {key: value for key, value in dataclasses.asdict(study.solve).items() if value is not None},
        "cap_seconds": cap_seconds,
        "max_env_steps": study.budget.max_env_steps or 0,
        **more,
    }


def seed_of(study_seed: int, trial: int, index: int, purpose: str = "search") -> int:
    """The seed of a trial's run number `index`: 31 bits, no two runs of a study alike but by chance, none shared between purposes."""
    text = f"{study_seed} {trial} {index} {purpose}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little") & 0x7FFFFFFF


def execute(task: dict, control: Any) -> Run | dict:
    """The run, or what `trainer_native.evaluate` found; whatever goes wrong inside becomes a crashed run.

    `control` is a writable buffer of float64[2]: the cap in CPU seconds, and whether to stop.
    """
    try:
        if "weights" in task:
            return _evaluate(task, control)
        train = resolve(task["trainer"])
        env = _environment(task["env"]) if task["trainer"] == "native" else task["env"]  # found once, not for every run
        run = train(env, task["params"], task["seed"], task["solve"], task["cap_seconds"],
                    max_env_steps=task["max_env_steps"], control=control)
    except Exception as problem:  # noqa: BLE001 - the user's header or function may raise anything; the study goes on
        where = traceback.extract_tb(problem.__traceback__)[-1]
        return crashed(task["seed"], f"{type(problem).__name__}: {problem} ({where.name}, line {where.lineno})")
    if task.get("keep_weights"):
        return run
    # The search needs no weights, and a coarse curve: these were most of what a run costs outside training.
    return dataclasses.replace(run, weights=None, curve=run.curve[:: -(-len(run.curve) // SEARCH_POINTS) or 1])


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


def build(study: Any) -> dict:
    """The build of the trainer: times of two that differ do not belong side by side."""
    if study.trainer != "native":
        return {"trainer": study.trainer}
    from trainer_native import build_info

    return {"trainer": "native", **build_info()}


@functools.lru_cache(maxsize=4)
def _environment(env: str) -> Any:
    from trainer_native import environments

    return environments.find(env)


def network_size(study: Any, params: dict) -> int:
    """Trainable parameters of the network that `params` describe."""
    if study.trainer != "native":
        return sys.modules[resolve(study.trainer).__module__].network_size(params)
    from trainer_native.config import HYPERPARAMETERS

    net = tuple((name, value) for name, value in params.items() if name in HYPERPARAMETERS and HYPERPARAMETERS[name].table == "net")
    return _native_size(str(study.env), net)


@functools.lru_cache(maxsize=4096)
def _native_size(env: str, net: tuple) -> int:
    from trainer_native import network_size

    return network_size(_environment(env), dict(net))


def _evaluate(task: dict, control: Any) -> dict:
    from trainer_native import evaluate

    # A seed of its own: the episodes that confirmed the solve must not be counted again.
    found = evaluate(_environment(task["env"]), task["params"], task["weights"], task["episodes"], task["seed"] ^ 0x5EED,
                     policy=task["solve"]["policy"], control=control)
    return {key: found[key] for key in ("mean_return", "mean_metric")}  # None where it was stopped
