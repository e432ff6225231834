"""PureJaxRL's default PPO on gymnax' CartPole-v1, retold: the same algorithm, params and draws, the whole run compiled.

    pip install jax gymnax optax six

After purejaxrl/ppo.py of github.com/luchris429/purejaxrl (Lu et al. 2022), which is no package. gymnax treats the limit of
500 env steps as an end like any other: nothing is bootstrapped from what would have followed."""

from __future__ import annotations

import os
import time
from functools import cache

import numpy as np

NAME = "PureJaxRL"
ENV_STEPS = 499_712   # 500,000 in whole iterations
PARAMS = {"envs": 4, "horizon": 128, "epochs": 4, "minibatches": 4, "gamma": 0.99, "gae_lambda": 0.95, "clip": 0.2,
          "value_coefficient": 0.5, "entropy_coefficient": 0.01, "gradient_norm": 0.5, "learning_rate": 2.5e-4,
          "adam_epsilon": 1e-5, "hidden": 64}


def versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("jax", "gymnax", "optax", "numpy")}


def initial_weights(key, inputs: int, actions: int) -> dict:
    """Orthogonal weights, (matrix, bias) of each of three layers: gain √2, but 0.01 for the logits and 1 for the value."""
    import jax
    import jax.numpy as jnp

    weights = {}
    for name, part, outputs, gain in zip(("policy", "value"), jax.random.split(key), (actions, 1), (0.01, 1.0)):
        sizes = [(inputs, PARAMS["hidden"]), (PARAMS["hidden"], PARAMS["hidden"]), (PARAMS["hidden"], outputs)]
        weights[name] = [(jax.nn.initializers.orthogonal(g)(k, size), jnp.zeros(size[1]))
                         for k, size, g in zip(jax.random.split(part, 3), sizes, (2**0.5, 2**0.5, gain))]
    return weights


def log_policy_and_value(weights: dict, seen):
    """(log probability of each action, value) of observations [..., inputs]."""
    import jax
    import jax.numpy as jnp

    outputs = []
    for (w0, b0), (w1, b1), (w2, b2) in (weights["policy"], weights["value"]):
        outputs.append(jnp.tanh(jnp.tanh(seen @ w0 + b0) @ w1 + b1) @ w2 + b2)
    return jax.nn.log_softmax(outputs[0]), outputs[1][..., 0]


def loss(weights: dict, batch: dict):
    import jax.numpy as jnp

    log_policy, value = log_policy_and_value(weights, batch["seen"])
    log_chosen = jnp.take_along_axis(log_policy, batch["action"][:, None], 1)[:, 0]
    ratio = jnp.exp(log_chosen - batch["log_chosen"])
    advantage = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8)
    clipped = jnp.clip(ratio, 1 - PARAMS["clip"], 1 + PARAMS["clip"])
    policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
    near = batch["value"] + jnp.clip(value - batch["value"], -PARAMS["clip"], PARAMS["clip"])
    value_loss = 0.5 * jnp.maximum((value - batch["target"]) ** 2, (near - batch["target"]) ** 2).mean()
    entropy = -(jnp.exp(log_policy) * log_policy).sum(-1).mean()
    return policy_loss + PARAMS["value_coefficient"] * value_loss - PARAMS["entropy_coefficient"] * entropy


@cache
def compiled():
    """(weights, key) -> bool [env steps per copy, copies]: where episodes ended in one training run. On one core."""
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    import gymnax
    import jax
    import jax.numpy as jnp
    import optax

    env, env_params = gymnax.make("CartPole-v1")
    copies, horizon = PARAMS["envs"], PARAMS["horizon"]
    iterations = ENV_STEPS // (copies * horizon)
    steps_per_iteration = PARAMS["epochs"] * PARAMS["minibatches"]

    def rate(step):
        return PARAMS["learning_rate"] * (1.0 - (step // steps_per_iteration) / iterations)

    optimizer = optax.chain(optax.clip_by_global_norm(PARAMS["gradient_norm"]),
                            optax.adam(rate, eps=PARAMS["adam_epsilon"]))

    def env_step(carry, _):
        weights, games, seen, key = carry
        key, key_action = jax.random.split(key)
        log_policy, value = log_policy_and_value(weights, seen)
        action = jax.random.categorical(key_action, log_policy)
        key, key_game = jax.random.split(key)
        keys = jax.random.split(key_game, copies)
        then, games, reward, terminated, truncated, _ = jax.vmap(env.step, (0, 0, 0, None))(keys, games, action, env_params)
        log_chosen = jnp.take_along_axis(log_policy, action[:, None], 1)[:, 0]
        row = {"seen": seen, "action": action, "value": value, "reward": reward, "log_chosen": log_chosen,
               "ended": terminated | truncated}
        return (weights, games, then, key), row

    def backwards(carry, row):
        advantage, next_value = carry
        goes_on = 1.0 - row["ended"]
        delta = row["reward"] + PARAMS["gamma"] * next_value * goes_on - row["value"]
        advantage = delta + PARAMS["gamma"] * PARAMS["gae_lambda"] * goes_on * advantage
        return (advantage, row["value"]), advantage

    def minibatch_step(carry, batch):
        weights, moments = carry
        updates, moments = optimizer.update(jax.grad(loss)(weights, batch), moments, weights)
        return (optax.apply_updates(weights, updates), moments), None

    def iteration(carry, _):
        weights, moments, games, seen, key = carry
        (_, games, seen, key), rows = jax.lax.scan(env_step, (weights, games, seen, key), None, horizon)
        last_value = log_policy_and_value(weights, seen)[1]
        _, advantage = jax.lax.scan(backwards, (jnp.zeros(copies), last_value), rows, reverse=True, unroll=16)
        batch = {"advantage": advantage, "target": advantage + rows["value"],
                 **{name: rows[name] for name in ("seen", "action", "value", "log_chosen")}}
        batch = jax.tree.map(lambda x: x.reshape((copies * horizon, *x.shape[2:])), batch)

        def epoch(carry, _):
            weights, moments, key = carry
            key, key_order = jax.random.split(key)
            order = jax.random.permutation(key_order, copies * horizon).reshape(PARAMS["minibatches"], -1)
            shuffled = jax.tree.map(lambda x: x[order], batch)
            (weights, moments), _ = jax.lax.scan(minibatch_step, (weights, moments), shuffled)
            return (weights, moments, key), None

        (weights, moments, key), _ = jax.lax.scan(epoch, (weights, moments, key), None, PARAMS["epochs"])
        return (weights, moments, games, seen, key), rows["ended"]

    def run(weights, key):
        key, key_games = jax.random.split(key)
        seen, games = jax.vmap(env.reset, (0, None))(jax.random.split(key_games, copies), env_params)
        _, key = jax.random.split(key)
        carry = (weights, optimizer.init(weights), games, seen, key)
        _, ended = jax.lax.scan(iteration, carry, None, iterations)
        return ended.reshape(-1, copies)

    return jax.jit(run)


def train(seed: int) -> tuple[np.ndarray, float]:
    """(where episodes ended: bool [env steps per copy, copies], CPU seconds after compilation) of one training run."""
    run = compiled()
    import jax

    key, key_weights = jax.random.split(jax.random.key(seed))
    weights = initial_weights(key_weights, 4, 2)
    run.lower(weights, key).compile()   # found again by the call
    start = time.process_time()
    ended = np.asarray(run(weights, key))
    return ended, time.process_time() - start
