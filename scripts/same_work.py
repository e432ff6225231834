"""Others' params for CartPole-v1 in this trainer's words, and runs with them."""

from __future__ import annotations

#: Whose work it is -> the module that trains it.
OTHERS = {"purejaxrl": "reference_purejaxrl", "sb3": "reference_sb3"}

#: Separate networks of two hidden layers for policy and value, first weights and optimizer as both have them.
_ALIKE = {
    "cell": "mlp", "layers": 2, "hidden": 64, "activation": "tanh", "biases": True, "constant_input": False,
    "separate_value": True, "initialisation": "orthogonal", "policy_gain": 0.01, "normalise_inputs": "none",
    "reward_clip": 0.0, "optimizer": "adam", "momentum": 0.9, "second_momentum": 0.999, "adam_epsilon": 1e-5,
    "gradient_norm": 0.5, "minibatch_of": "transitions",
}

#: Stable-Baselines3 does not halve the squared error of the value, hence a coefficient of 1 for its 0.5. Its schedules
#: know of the env steps after a rollout, ours of those before it: 256 env steps ahead on a way of 100,000.
_AHEAD = 256 / 100_000
PARAMS: dict[str, dict] = {
    "sb3": _ALIKE | {
        "envs": 8, "horizon": 32, "minibatches": 1, "epochs": 20, "gamma": 0.98, "gae_lambda": 0.8,
        "learning_rate": 0.001 * (1 - _AHEAD), "learning_rate_end": 0.0, "clip": 0.2 * (1 - _AHEAD), "clip_end": 0.0,
        "anneal_steps": 100_000 - 256, "value_coefficient": 1.0, "entropy_coefficient": 0.0,
    },
    "purejaxrl": _ALIKE | {
        "envs": 4, "horizon": 128, "minibatches": 4, "epochs": 4, "gamma": 0.99, "gae_lambda": 0.95, "clip": 0.2,
        "learning_rate": 2.5e-4, "learning_rate_end": 0.0, "anneal_steps": 499_712, "value_coefficient": 0.5,
        "value_clip": 0.2, "entropy_coefficient": 0.01, "bootstrap_truncated": False,
    },
}


def ours(name: str, seed: int, env_steps: int, **other):
    """The Run of this trainer with the params of `name`: its curve holds the mean of the last 20 training episodes."""
    from learning_bands import EPISODES

    import trainer_native

    never = trainer_native.Solve(mean_return=1e9, episodes=EPISODES)   # no frozen policy is tried on the way
    return trainer_native.train("cartpole", {**PARAMS[name], **other}, seed, never, 3600.0, env_steps)
