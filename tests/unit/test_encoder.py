"""What reads an observation: flags as bytes are the full products bit for bit, and the convolution is NumPy's."""

from pathlib import Path

import numpy as np
import pytest

import trainer_native
from trainer_native import config, trainer
from trainer_native.environments import find

BOARD = Path(__file__).parents[1] / "native" / "board.h"
SOLVE = trainer_native.Solve(mean_return=1e6)


@pytest.fixture(scope="module")
def in_floats(tmp_path_factory):
    """The same game, its flags as floats."""
    header = tmp_path_factory.mktemp("floats") / "board.h"
    header.write_text(BOARD.read_text().replace("sweep::uint8*", "float*"))
    return find(header)


@pytest.mark.parametrize("params", [
    {}, {"cell": "mlp", "biases": True, "minibatch_of": "transitions"}, {"cell": "lstm", "separate_value": True},
    {"encoder": "conv", "filters": 8}, {"encoder": "conv", "biases": True, "constant_input": False, "separate_value": True},
    {"cell": "mlp", "minibatch_of": "transitions", "encoder": "conv", "optimizer": "adam", "learning_rate": 1e-3},
    {"initialisation": "orthogonal", "encoder": "conv", "layers": 2, "hidden": 24}, {"normalise_inputs": "moments"},
], ids=str)  # fmt: skip
def test_bytes_are_floats(in_floats, params):
    runs = [trainer_native.train(env, {"envs": 16, "horizon": 16, "hidden": 8, **params}, 3, SOLVE, 30, max_env_steps=20_000)
            for env in (BOARD, in_floats)]
    for name, values in runs[0].weights.items():
        np.testing.assert_array_equal(values, runs[1].weights[name], err_msg=name)
    assert runs[0].parameters == trainer_native.network_size(BOARD, {"hidden": 8, **params})


def features(image, filters, bias):
    """Float64: image [..., h, w, c], filters [9c, f]; ReLU of the convolution, [..., (h - 2)(w - 2) f]."""
    h, w, c = image.shape[-3:]
    taps = np.stack([image[..., dy : h - 2 + dy, dx : w - 2 + dx, :] for dy in range(3) for dx in range(3)], -2)
    made = taps.reshape(*taps.shape[:-2], 9 * c) @ filters + bias
    return np.maximum(made, 0).reshape(*image.shape[:-3], -1)


def outputs(weights, observations, encoder):
    """Float64: logits and values of an MLP of one layer, observations [rows, inputs] with the constant last."""
    made = []
    for tower in ("", "value_") if "value_encoder" in weights else ("",):
        of = {name: weights.get(f"{tower}{name}", np.zeros((1, 1)))
              for name in ("filters", "filters_bias", "encoder", "encoder_bias", "decoder", "decoder_bias")}
        x = observations
        if encoder == "conv":
            x = np.concatenate([features(x[:, :-1].reshape(-1, 6, 5, 3), of["filters"], of["filters_bias"][0]), x[:, -1:]], 1)
        made.append(np.tanh(x @ of["encoder"] + of["encoder_bias"]) @ of["decoder"] + of["decoder_bias"])
    return np.concatenate(made, 1)


def drawn(shapes, rng):
    return {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("encoder", ["linear", "conv"])
def test_forward(encoder):
    env, rng = find(BOARD), np.random.default_rng(0)
    full = trainer._complete(env, {"encoder": encoder, "filters": 8, "hidden": 8, "cell": "mlp"})
    weights = drawn(trainer._shapes(env, full), rng)
    seen = (rng.random((37, 91)) < 0.2).astype(np.float32)
    seen[:, -1] = 1
    flat = np.concatenate([weights[name].ravel() for name in trainer._shapes(env, full)])
    got, _ = trainer._core().forward(trainer.isa(), env.table_address, full, flat, seen[:, None], np.ones((1, 37), np.float32),
                                     np.zeros((0, 37, 0), np.float32))
    exact = {name: w.astype(np.float64) for name, w in weights.items()}
    np.testing.assert_allclose(got[0], outputs(exact, seen.astype(np.float64), encoder), rtol=0, atol=2e-6)


@pytest.mark.parametrize("more", [{}, {"separate_value": True, "biases": True}], ids=["one tower", "two"])
@pytest.mark.parametrize("encoder", ["linear", "conv"])
def test_gradient(encoder, more):
    """Of the loss at the acting weights, by central differences of the reference in float64, at 40 random weights of each matrix."""
    env, rng = find(BOARD), np.random.default_rng(1)
    params = {"encoder": encoder, "filters": 8, "hidden": 8, "cell": "mlp", "envs": 8, "horizon": 16, "minibatches": 1,
              "entropy_coefficient": 0.02, "normalise_advantages": True, **more}
    full = trainer._complete(env, params)
    shapes = trainer._shapes(env, full)
    weights = drawn(shapes, rng)
    flat = np.concatenate([weights[name].ravel() for name in shapes])
    got = trainer._core().check(trainer.isa(), env.table_address, env.param_bytes(full), full, 5, flat, flat)
    seen = got["observations"].swapaxes(0, 1).reshape(-1, 91).astype(np.float64)   # [T · N, inputs]
    actions, old = got["actions"].ravel(), got["log_probabilities"].ravel().astype(np.float64)
    advantages = got["advantages"].ravel().astype(np.float64)
    targets = advantages + got["values"][:-1].ravel()
    used = (advantages - advantages.mean()) / (advantages.std() + 1e-8)

    def loss(of):
        out = outputs(of, seen, encoder)
        logits, values = out[:, :3], out[:, 3]
        log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        ratio = np.exp(log_p[np.arange(len(seen)), actions] - old)
        policy = -np.minimum(used * ratio, used * ratio.clip(1 - full["clip"], 1 + full["clip"]))
        entropy = -(np.exp(log_p) * log_p).sum(1)
        return (policy + full["value_coefficient"] * 0.5 * (values - targets) ** 2 - full["entropy_coefficient"] * entropy).mean()

    exact, at = {name: w.astype(np.float64) for name, w in weights.items()}, 0
    np.testing.assert_allclose(got["ratios"], 1.0, rtol=0, atol=0)
    for name, shape in shapes.items():
        mine = got["gradient"][at : at + np.prod(shape)]
        at += np.prod(shape)
        for i in rng.choice(len(mine), min(40, len(mine)), replace=False):
            where = np.unravel_index(i, shape)
            ends = []
            for step in (1e-6, -1e-6):
                moved = {**exact, name: exact[name].copy()}
                moved[name][where] += step
                ends.append(loss(moved))
            assert abs((ends[0] - ends[1]) / 2e-6 - mine[i]) < 2e-5 + 1e-3 * abs(mine[i]), (name, where)


def test_it_learns():
    """A random walk catches a fifth, −0.6 each; solved is nearly all."""
    for params in ({}, {"encoder": "conv", "filters": 8}):
        run = trainer_native.train(BOARD, {"envs": 32, "horizon": 32, **params}, 0, trainer_native.Solve(9.0), 60, max_env_steps=1_000_000)
        assert run.status == "solved", (params, run.mean_return)


def test_a_convolution_needs_an_image():
    with pytest.raises(config.ConfigError, match="'encoder' 'conv' is for an image of at least 3 x 3; what this environment shows is no image"):
        trainer_native.network_size("cartpole", {"encoder": "conv"})
    with pytest.raises(config.ConfigError, match="a multiple of 8"):
        trainer_native.network_size(BOARD, {"encoder": "conv", "filters": 12})

