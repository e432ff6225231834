"""What bounds the speed of a run on this core: the FLOP of an env step, the measured peak, the environment's own time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from . import config, environments, trainer
from .environments import OUTCOME, Environment
from .probe import Table


def flop_per_env_step(env: str | Path | Environment, params: dict) -> float:
    """FLOP of the matrix products behind one env step, whatever the cell: one forward pass to act, and per pass of
    learning a forward and a backward one, two FLOP a multiply-add. What reads the observation needs no gradient for its input; of flags that come as bytes those that are
    set count, as many as in random play.

    Activations, sampling, the loss and the optimizer are not counted.
    """
    environment = environments.find(env)
    full = config.complete(params, environment.params)
    shapes = trainer.shapes(environment, params)
    seen, given = environment.observation_size, 0.0   # numbers that a product takes, and their share
    if environment.observation_dtype == "u1" and environment.inputs["is_flag"].all() and full["normalise_inputs"] != "moments":
        given = flags_set(environment, full) / seen
    forward = backward = 0.0
    for name, (rows, columns) in shapes.items():
        if rows == 1:   # a bias
            continue
        if name.endswith("filters"):   # each number that is set, under nine taps at most
            forward += 9 * columns * seen * (given or 1.0)
            backward += 9 * columns * seen * (given or 1.0)
        elif "encoder" in name and full["encoder"] == "linear":
            forward += rows * columns * (given or 1.0)
            backward += rows * columns * (given or 1.0)
        else:
            forward += rows * columns
            backward += 2 * rows * columns
    passes = int(full["replay_ratio"] * full["minibatches"] + 1e-9) / full["minibatches"] or full["epochs"]
    return 2 * forward + passes * 2 * (forward + backward)


def flags_set(environment: Environment, params: dict, env_steps: int = 200) -> float:
    """How many flags of an observation are set, on average over random play of 64 copies."""
    table, filled, rng, n = Table.from_address(environment.table_address), environment.param_bytes(params), np.random.default_rng(0), 64
    states, streams, outcomes = np.zeros(n, environment.state_dtype), rng.integers(0, 2**63, n).astype(np.uint64), np.zeros(n, OUTCOME)
    seen, total = np.zeros((n, environment.observation_size), np.uint8), 0
    table.reset(states.ctypes.data, filled, streams.ctypes.data, n)
    for _ in range(env_steps):
        if len(environment.action_bounds):
            actions = rng.uniform(*environment.action_bounds.T, (n, len(environment.action_bounds))).astype(np.float32)
        else:
            actions = rng.integers(0, environment.choices, (n, len(environment.choices))).astype(np.int32)
        table.step(states.ctypes.data, filled, actions.ctypes.data, streams.ctypes.data, outcomes.ctypes.data, n)
        for i in np.flatnonzero(outcomes["terminated"] | outcomes["truncated"]).tolist():
            table.reset(states[i:].ctypes.data, filled, streams[i:].ctypes.data, 1)
        table.observe(states.ctypes.data, filled, seen.ctypes.data, environment.observation_size, n)
        total += np.count_nonzero(seen)
    return total / (n * env_steps)


def measure(env: str | Path | Environment, params: dict) -> dict[str, float]:
    """What this core does here and now: `peak_flops` per second, and the `environment_seconds` of one env step."""
    environment = environments.find(env)
    full = config.complete(params, environment.params)
    core, isa, rounds = trainer._core(), trainer.isa(), 2000
    seconds = [core.environment_seconds(isa, environment.table_address, environment.param_bytes(full), full["envs"],
                                        rounds * 128 // full["envs"] + 1, 0) for _ in range(2)]
    return {"peak_flops": max(core.peak_flops(isa) for _ in range(3)),
            "environment_seconds": min(seconds) / ((rounds * 128 // full["envs"] + 1) * full["envs"])}
