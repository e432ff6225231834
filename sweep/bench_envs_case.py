"""One timing of an environment, in a process of its own: a case as JSON in the argument, what was measured as JSON on stdout.

Run as a file, by whichever Python has the reference: it needs nothing of sweep, and each function below imports its own.
All play random actions, begin anew where an episode ends, and look at every observation.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib import metadata

#: Random actions that are drawn before the clock starts; then they come round again.
DRAWN = 1024


def main(case: dict) -> dict:
    """Env steps per CPU second of `case` (who, name, copies, seconds, repeats, core), once per repeat; `missing` where the
    reference is not installed, `error` where it does not run."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {case["core"]})
    try:
        version = None if case["who"] == "sweep" else metadata.version(case["who"])
        play = PLAYERS[case["who"]](case["name"], case["copies"])
    except metadata.PackageNotFoundError:
        return {"missing": case["who"]}
    except Exception as error:  # noqa: BLE001  whatever a reference may raise: it is told, and the others go on
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
    return {"version": version, "env_steps_per_cpu_second": [_timed(play, case["seconds"]) for _ in range(case["repeats"])]}


def _timed(play: Callable[[int], int], seconds: float) -> float:
    """`play(rounds)` makes that many rounds and gives their env steps: as many rounds as take about `seconds`."""
    rounds, spent = 1, 0.0
    while True:
        start = time.process_time()
        env_steps = play(rounds)
        spent = time.process_time() - start
        if spent >= 0.7 * seconds:
            return env_steps / spent
        rounds = max(2 * rounds, int(0.9 * rounds * seconds / max(spent, 1e-6))) if spent < 0.5 * seconds else 2 * rounds


def sweep(name: str, copies: int) -> Callable[[int], int]:
    """Ours, without Python: what the trainer spends on it."""
    from trainer_native import environments, trainer

    env = environments.find(name)
    params, core, isa = env.param_bytes({}), trainer._core(), trainer.isa()

    def play(rounds: int) -> int:
        core.environment_seconds(isa, env.table_address, params, copies, rounds, 0)
        return rounds * copies

    return play


def gymnasium(name: str, copies: int) -> Callable[[int], int]:
    """One copy in a plain loop; several in the vector environment of its own that a game has, else in the synchronous one."""
    import gymnasium
    import numpy as np

    if copies > 1:
        env = gymnasium.make_vec(name, num_envs=copies)
        env.reset(seed=0)
        env.action_space.seed(0)
        drawn = [env.action_space.sample() for _ in range(max(1, DRAWN // copies))]

        def play_all(rounds: int) -> int:
            for i in range(rounds):
                env.step(drawn[i % len(drawn)])
            return rounds * copies

        return play_all
    env = gymnasium.make(name)
    env.reset(seed=0)
    env.action_space.seed(0)
    drawn = [env.action_space.sample() for _ in range(DRAWN)]
    drawn = [int(action) if isinstance(action, np.integer) else action for action in drawn]

    def play(rounds: int) -> int:
        for i in range(rounds):
            _, _, terminated, truncated, _ = env.step(drawn[i % DRAWN])
            if terminated or truncated:
                env.reset()
        return rounds

    return play


def gymnax(name: str, copies: int) -> Callable[[int], int]:
    """After compilation: jit of a scan over env steps of a vmap over copies, on one thread."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    import gymnax
    import jax
    import jax.numpy as jnp

    env, params = gymnax.make(name)
    scan = max(32, 8192 // copies)
    space = env.action_space(params)

    def one(carry, _):
        key, state, seen = carry
        key, to_act, to_step = jax.random.split(key, 3)
        actions = jax.vmap(space.sample)(jax.random.split(to_act, copies))
        observation, state, reward, *_ = jax.vmap(env.step, (0, 0, 0, None))(jax.random.split(to_step, copies), state, actions, params)
        seen = seen + sum(leaf.astype(jnp.float32).sum() for leaf in jax.tree.leaves((observation, reward)))
        return (key, state, seen), None

    many = jax.jit(lambda carry: jax.lax.scan(one, carry, None, length=scan)[0])
    _, state = jax.jit(jax.vmap(env.reset, (0, None)))(jax.random.split(jax.random.key(0), copies), params)
    kept = [jax.block_until_ready(many((jax.random.key(1), state, jnp.float32(0))))]

    def play(rounds: int) -> int:
        for _ in range(rounds):
            kept[0] = many(kept[0])
        jax.block_until_ready(kept[0])
        return rounds * scan * copies

    return play


def minatar(name: str, copies: int) -> Callable[[int], int]:
    """Copies one after another: it has no vector environment."""
    import numpy as np
    from minatar import Environment

    games = [Environment(name) for _ in range(copies)]
    drawn = np.random.default_rng(0).integers(games[0].num_actions(), size=DRAWN).tolist()

    def play(rounds: int) -> int:
        for i in range(rounds):
            action = drawn[i % DRAWN]
            for game in games:
                _, terminated = game.act(action)
                if terminated:
                    game.reset()
                game.state()
        return rounds * copies

    return play


def pufferlib(name: str, copies: int) -> Callable[[int], int]:
    """Its own C loop over copies, one call of Python for all."""
    import numpy as np
    from pufferlib.ocean import env_creator

    env = env_creator(f"puffer_{name}")(num_envs=copies)
    env.reset(seed=0)
    agents = env.num_agents
    drawn = np.random.default_rng(0).integers(env.single_action_space.n, size=(64, agents)).astype(env.actions.dtype)

    def play(rounds: int) -> int:
        for i in range(rounds):
            env.step(drawn[i % 64])
        return rounds * agents

    return play


PLAYERS = {player.__name__: player for player in (sweep, gymnasium, gymnax, minatar, pufferlib)}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
