"""What bounds the speed of a run on this core: the FLOP of an env step, the measured peak, the environment's own time."""

from __future__ import annotations

from pathlib import Path

from . import config, environments, trainer
from .environments import Environment


def flop_per_env_step(env: str | Path | Environment, params: dict) -> float:
    """FLOP of the matrix products behind one env step, whatever the cell: one forward pass to act, and per pass of
    learning a forward and a backward one, two FLOP a multiply-add. What reads the observation needs no gradient for its input.

    Activations, sampling, the loss and the optimizer are not counted.
    """
    environment = environments.find(env)
    full = config.complete(params, environment.params)
    reading = others = 0
    for name, shape in trainer.shapes(environment, params).items():
        if len(shape) == 2 and shape[0] > 1:  # a product, not a bias
            if "encoder" in name:
                reading += shape[0] * shape[1]
            else:
                others += shape[0] * shape[1]
    passes = int(full["replay_ratio"] * full["minibatches"] + 1e-9) / full["minibatches"] or full["epochs"]
    return 2 * (reading + others) + passes * (4 * reading + 6 * others)


def measure(env: str | Path | Environment, params: dict) -> dict[str, float]:
    """What this core does here and now: `peak_flops` per second, and the `environment_seconds` of one env step."""
    environment = environments.find(env)
    full = config.complete(params, environment.params)
    core, isa, rounds = trainer._core(), trainer.isa(), 2000
    seconds = [core.environment_seconds(isa, environment.table_address, environment.param_bytes(full), full["envs"],
                                        rounds * 128 // full["envs"] + 1, 0) for _ in range(2)]
    return {"peak_flops": max(core.peak_flops(isa) for _ in range(3)),
            "environment_seconds": min(seconds) / ((rounds * 128 // full["envs"] + 1) * full["envs"])}
