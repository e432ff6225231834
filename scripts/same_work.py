"""Others' params for CartPole-v1 in this trainer's words, and runs with them."""

from __future__ import annotations

#: Whose work it is -> the module that trains it.
OTHERS = {"purejaxrl": "reference_purejaxrl", "sb3": "reference_sb3"}

_NETWORK = {
    "cell": "mlp", "layers": 2, "hidden": 64, "activation": "tanh", "biases": True, "constant_input": False,
    "value_network": "separate", "initialisation": "orthogonal", "normalise_inputs": "none",
    "optimizer": "adam", "momentum": 0.9, "second_momentum": 0.999, "adam_epsilon": 1e-5, "gradient_norm": 0.5,
    "minibatches_of": "transitions", "reward_clip": 0.0,
}

#: To be replaced by the names that config.py has.
PARAMS: dict[str, dict] = {"sb3": _NETWORK, "purejaxrl": _NETWORK}


def ours(name: str, seed: int, env_steps: int, **other):
    """The Run of this trainer with the params of `name`: its curve holds the mean of the last 20 training episodes."""
    from learning_bands import EPISODES

    import trainer_native

    never = trainer_native.Solve(mean_return=1e9, episodes=EPISODES)   # no frozen policy is tried on the way
    return trainer_native.train("cartpole", {**PARAMS[name], **other}, seed, never, 3600.0, env_steps)
