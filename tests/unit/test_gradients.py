"""The trainer's gradient against a float64 reference and its finite differences, and its forward passes against each other."""

from pathlib import Path

import numpy as np
import pytest

from tests.update_reference import policy, sigmoid, split
from trainer_native import config, environments, trainer

#: With random weights its episodes last about 20 env steps: several end inside the horizon, as those of the others do.
ENV = "cartpole"
NATIVE = Path(__file__).parents[1] / "native"
SEVERAL, CONTINUOUS = {"env": NATIVE / "doors.h"}, {"env": NATIVE / "reach.h"}
SQUASHED = CONTINUOUS | {"gaussian": "squashed"}


def check(params: dict, seed: int = 3, acting_scale: float = 0.0):
    """What the C++ side gives for one rollout: (arrays, weights, full params, shapes). With acting_scale the weights that
    act differ from those that learn, so that ratios leave 1 and clipping is at work."""
    params = dict(params)
    environment = environments.find(params.pop("env", ENV))
    full = config.complete(params, environment.params) | {"try_from": 0.0}
    shapes = trainer.shapes(environment, params)
    rng = np.random.default_rng(seed)
    weights = np.concatenate([rng.uniform(-1, 1, rows * columns) * 1.5 / np.sqrt(max(rows, 8)) if "bias" not in name else
                              rng.uniform(-0.5, 0.5, columns) for name, (rows, columns) in shapes.items()])
    weights = weights.astype(np.float32)
    acting = (weights + acting_scale * rng.standard_normal(weights.size)).astype(np.float32)
    core = trainer._core()
    out = core.check(trainer.isa(), environment.table_address, environment.param_bytes(full), full, seed, acting, weights)
    return out | {"choices": environment.choices}, weights, full, shapes


def reference_tower(w, out, full, state, tower=""):
    """One tower's decoder outputs [T, N, ...] in float64, straight from the definition of the network. state: [layers, N,
    state], before the first step; used up."""

    def product(x, name):
        return x @ w[tower + name] + (w[f"{tower}{name}_bias"] if full["biases"] else 0.0)

    activation = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0)}[full["activation"]]
    observations = out["observations"].astype(np.float64).swapaxes(0, 1)  # [T, N, inputs]
    rows = []
    for t in range(full["horizon"]):
        x, keep = product(observations[t], "encoder"), out["keep"][t][:, None]
        if full["cell"] == "mlp":
            x = activation(x)
            for layer in range(full["layers"] - 1):
                x = activation(product(x, f"layer{layer}"))
        elif full["cell"] == "lstm":
            for layer in range(full["layers"]):
                h, c = np.split(state[layer] * keep, 2, axis=1)
                i, f, g, o = np.split(product(x, f"layer{layer}") + h @ w[f"{tower}layer{layer}_recurrent"], 4, axis=1)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                x = sigmoid(o) * np.tanh(c)
                state[layer] = np.hstack([x, c])
        else:
            for layer in range(full["layers"]):
                u, f, p = np.split(product(x, f"layer{layer}"), 3, axis=1)
                h = state[layer] * keep
                state[layer] = u * sigmoid(f) + h * (1 - sigmoid(f))
                x = x * (1 - sigmoid(p)) + state[layer] * sigmoid(p)
        rows.append(product(x, "decoder"))
    return np.stack(rows)


def reference_logits(flat, shapes, out, full):
    """Logits and values [T, N, A + 1] in float64."""
    w, state = split(flat, shapes), out["first_states"].astype(np.float64)
    if not full["separate_value"]:
        return reference_tower(w, out, full, state)
    half = len(state) // 2
    return np.concatenate([reference_tower(w, out, full, state[:half]),
                           reference_tower(w, out, full, state[half:], "value_")], axis=-1)


def reference_loss(flat, shapes, out, full):
    """PPO's loss, mean over the rollout, in float64."""
    logits = reference_logits(flat, shapes, out, full)
    logits, value = logits[..., :-1], logits[..., -1]
    chosen, entropy = policy(logits, out["actions"], out["choices"], split(flat, shapes).get("log_std"))
    advantage = out["advantages"].astype(np.float64)
    target = advantage + out["values"][:-1]
    if full["normalise_advantages"]:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio = np.exp(chosen - out["log_probabilities"])
    surrogate = np.minimum(advantage * ratio, advantage * np.clip(ratio, 1 - full["clip"], 1 + full["clip"]))
    error = (value - target) ** 2
    if full["value_clip"] > 0:
        bounded = out["values"][:-1] + np.clip(value - out["values"][:-1], -full["value_clip"], full["value_clip"])
        error = np.maximum(error, (bounded - target) ** 2)
    return (-surrogate + full["value_coefficient"] * 0.5 * error - full["entropy_coefficient"] * entropy).mean()


CASES = {
    "one layer": {"hidden": 8, "layers": 1},
    "two layers": {"hidden": 16, "layers": 2},
    "no constant input": {"hidden": 8, "layers": 1, "constant_input": False},
    "value clip": {"hidden": 8, "layers": 1, "value_clip": 0.05},
    "plain advantages": {"hidden": 8, "layers": 2, "normalise_advantages": False},
    "mingru, biases": {"hidden": 16, "layers": 2, "biases": True},
    "mingru, two towers": {"hidden": 8, "layers": 2, "separate_value": True},
    "mingru, two towers, biases": {"hidden": 8, "layers": 1, "separate_value": True, "biases": True},
    "lstm": {"cell": "lstm", "hidden": 8},
    "lstm, biases": {"cell": "lstm", "hidden": 16, "layers": 2, "biases": True},
    "lstm, two towers, biases": {"cell": "lstm", "hidden": 8, "layers": 2, "separate_value": True, "biases": True},
    "mlp, one layer": {"cell": "mlp", "hidden": 16},
    "mlp, biases": {"cell": "mlp", "hidden": 16, "layers": 2, "biases": True, "constant_input": False},
    "mlp, relu": {"cell": "mlp", "hidden": 16, "layers": 3, "activation": "relu"},
    "mlp, two towers": {"cell": "mlp", "hidden": 16, "layers": 2, "separate_value": True},
    "mlp, two towers, biases, relu": {"cell": "mlp", "hidden": 8, "layers": 3, "separate_value": True, "biases": True,
                                      "activation": "relu"},
    "several actions": SEVERAL | {"hidden": 8},
    "several actions, lstm, two towers, biases": SEVERAL | {"cell": "lstm", "hidden": 8, "separate_value": True, "biases": True},
    "several actions, mlp, more rows than a chunk": SEVERAL | {"cell": "mlp", "hidden": 8, "layers": 2, "envs": 84},
    "clipped": CONTINUOUS | {"hidden": 8},
    "clipped, lstm, biases": CONTINUOUS | {"cell": "lstm", "hidden": 8, "biases": True},
    "squashed": SQUASHED | {"hidden": 8, "value_clip": 0.05},
    "squashed, mlp, two towers": SQUASHED | {"cell": "mlp", "hidden": 16, "layers": 2, "separate_value": True},
    "clipped, mlp, more rows than a chunk": CONTINUOUS | {"cell": "mlp", "hidden": 8, "layers": 2, "envs": 84},
}


@pytest.mark.parametrize("acting_scale", [0.0, 0.15], ids=["on policy", "off policy"])
@pytest.mark.parametrize("case", CASES)
def test_gradient_agrees_with_finite_differences(case, acting_scale):
    params = {"envs": 16, "horizon": 24, "entropy_coefficient": 0.05, "clip": 0.1, **CASES[case]}
    out, weights, full, shapes = check(params, acting_scale=acting_scale)
    assert out["ended"].sum() >= 8, "episodes must end inside the horizon"
    if full["cell"] != "mlp":
        assert np.abs(out["first_states"]).max() > 0, "sequences must start from states that are not zero"
    flat = weights.astype(np.float64)
    assert out["loss"] == pytest.approx(reference_loss(flat, shapes, out, full), rel=1e-4, abs=1e-5)
    ours, offset, rng = out["gradient"].astype(np.float64), 0, np.random.default_rng(0)
    for name, (rows, columns) in shapes.items():
        part = slice(offset, offset + rows * columns)
        offset = part.stop
        norm = np.linalg.norm(ours[part])
        assert norm > 1e-5, f"the gradient of {name} is at work"
        # Along directions in which every weight moves, and along single weights.
        directions = np.vstack([rng.choice([-1.0, 1.0], (3, rows * columns)), np.eye(rows * columns)[rng.integers(rows * columns, size=4)]])
        for direction in directions:
            step = np.zeros_like(flat)
            step[part] = 1e-6 * direction
            up, down = (reference_loss(flat + d, shapes, out, full) for d in (step, -step))
            assert ours[part] @ direction == pytest.approx((up - down) / 2e-6, abs=1e-3 * norm, rel=1e-3), name


@pytest.mark.parametrize("case", CASES)
def test_acting_agrees_with_the_reference(case):
    out, weights, full, shapes = check({"hidden": 16, "layers": 2, "envs": 8, "horizon": 32, **CASES[case]})
    values = reference_logits(weights.astype(np.float64), shapes, out, full)[..., -1]
    np.testing.assert_allclose(out["values"][:-1], values, atol=2e-5)


def test_advantages_follow_their_definition():
    out, *_ = check({"hidden": 8, "envs": 8, "horizon": 40, "gamma": 0.9, "gae_lambda": 0.7, "reward_scale": 0.5})
    expected = np.zeros_like(out["advantages"], dtype=np.float64)
    later = np.zeros(8)
    for t in reversed(range(40)):
        on = 1.0 - out["ended"][t]
        delta = out["rewards"][t] + 0.9 * on * out["values"][t + 1] - out["values"][t]
        later = delta + 0.9 * 0.7 * on * later
        expected[t] = later
    np.testing.assert_allclose(out["advantages"], expected, atol=1e-5)
    assert set(np.unique(out["rewards"])) == {0.5}
