"""The trainer's Python face: what ends a run, that a run repeats, and what it refuses."""

import ctypes
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import trainer_native
from trainer_native import Solve, config, environments, trainer

CARTPOLE = {"hidden": 16, "envs": 32, "horizon": 32, "minibatches": 4, "epochs": 2}
NEVER = Solve(mean_return=1e6, episodes=20)


def digest(run) -> str:
    import hashlib

    return hashlib.sha256(b"".join(run.weights[k].tobytes() for k in sorted(run.weights))).hexdigest()


def train(seed=1, solve=NEVER, steps=60_000, env="cartpole", **params):
    return trainer_native.train(env, CARTPOLE | params, seed, solve, 60.0, steps)


def test_cartpole_is_solved_and_the_policy_really_plays():
    solve = Solve(475, 100)
    run = trainer_native.train("cartpole", CARTPOLE, 0, solve, 60.0)
    assert (run.status, run.reason) == ("solved", "criterion confirmed")
    assert run.mean_return >= 475 and run.evaluations >= 1
    assert 0 < run.trigger_env_steps <= run.env_steps and run.trigger_seconds <= run.seconds
    again = trainer_native.evaluate("cartpole", CARTPOLE, run.weights, 1000, seed=7)
    assert again["mean_return"] > 450 and again["returns"].shape == (1000,)
    assert again["returns"].max() <= 500
    untrained = {k: np.zeros_like(v) if k == "decoder" else v for k, v in run.weights.items()}
    assert trainer_native.evaluate("cartpole", CARTPOLE, untrained, 200)["mean_return"] < 40


def test_a_run_is_a_function_of_its_arguments():
    assert digest(train()) == digest(train())
    assert digest(train(seed=2)) != digest(train())
    assert digest(train(learning_rate=0.0101)) != digest(train())


def test_a_run_repeats_in_other_processes_side_by_side():
    """The same weights from four processes at once, whatever ran in this one before."""
    code = ("import tests.unit.test_trainer as t; t.train(seed=9, hidden=24, horizon=64); print(t.digest(t.train(steps=100_000)))")
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert {p.communicate()[0].strip() for p in processes} == {digest(train(steps=100_000))}


@pytest.mark.parametrize("options", [
    {"optimizer": "adam", "learning_rate": 3e-3}, {"vtrace": True}, {"priority": 0.8}, {"vtrace": True, "priority": 0.5},
    {"normalise_inputs": "moments"}, {"layers": 2}, {"value_clip": 0.2}, {"anneal_steps": 200_000},
    {"constant_input": False, "normalise_inputs": "none"}, {"envs": 4, "minibatches": 1, "horizon": 128}, {"hidden": 72},
    {"replay_ratio": 2.4}, {"normalise_rewards": True, "reward_clip": 10.0}, {"value_clip": 0.2, "value_clip_loss": "clipped"},
    {"anneal_steps": 200_000, "anneal": "cosine", "entropy_end": 0.0, "clip_end": 0.3}, {"head_rate": 0.5, "weight_decay": 0.01},
    {"cell": "mlp", "layers": 2, "minibatch_of": "transitions"},
    {"biases": True, "separate_value": True}, {"initialisation": "orthogonal", "policy_gain": 0.01},
    {"cell": "lstm", "hidden": 32}, {"cell": "lstm", "biases": True, "layers": 2, "separate_value": True, "initialisation": "orthogonal"},
    {"cell": "mlp", "layers": 2}, {"cell": "mlp", "layers": 2, "activation": "relu", "initialisation": "orthogonal"},
    {"cell": "mlp", "layers": 2, "hidden": 64, "biases": True, "constant_input": False, "separate_value": True,
     "initialisation": "orthogonal", "policy_gain": 0.01, "optimizer": "adam", "learning_rate": 3e-3},
], ids=lambda o: " ".join(f"{k}={v}" for k, v in o.items()))
def test_every_option_learns_and_repeats(options):
    first, second = (train(steps=150_000, **options) for _ in range(2))
    assert first.status == "censored" and digest(first) == digest(second)
    assert first.best_return > 80, "the random policy reaches about 22"


def test_instruction_sets_with_fused_multiply_add_agree(monkeypatch):
    core = trainer._core()
    fused = [isa for isa in core.instruction_sets() if core.runs_here(isa) and core.has_fma(isa)]
    results = set()
    for isa in fused:
        monkeypatch.setattr(trainer, "isa", lambda isa=isa: isa)
        results.add(digest(train()))
    assert len(results) <= 1
    for isa in core.instruction_sets():  # the plain one learns too, with its own roundings
        if core.runs_here(isa):
            monkeypatch.setattr(trainer, "isa", lambda isa=isa: isa)
            assert train(steps=150_000).best_return > 80


def test_limits_end_a_run_unsolved():
    run = train(steps=10_000)
    assert (run.status, run.reason) == ("censored", "env-step limit")
    assert 10_000 <= run.env_steps < 10_000 + 32 * 32
    run = trainer_native.train("cartpole", CARTPOLE, 1, NEVER, max_seconds=0.05)
    assert (run.status, run.reason) == ("censored", "cap") and run.cpu_seconds >= 0.05
    assert len(run.curve) >= 2 and (np.diff(run.curve[:, 2]) > 0).all()
    assert run.curve[-1, 2] == run.env_steps and run.curve[-1, 0] == run.cpu_seconds


def test_the_curve_never_outgrows_its_room():
    run = train(steps=1_500_000)
    assert run.iterations > 1000 and 60 <= len(run.curve) <= 128
    assert (np.diff(run.curve[:, 2]) > 0).all() and (np.diff(run.curve[:, 1]) > 0).all()


def test_a_run_is_stopped_and_its_cap_lowered_from_outside():
    for write, reason in [((1, 1.0), "cancelled"), ((0, 0.01), "cap")]:
        control = (ctypes.c_double * 2)(1e9, 0.0)
        result = []
        thread = threading.Thread(target=lambda c=control, r=result: r.append(
            trainer_native.train("cartpole", CARTPOLE, 1, NEVER, 1e9, control=c)))
        thread.start()
        time.sleep(0.1)
        control[write[0]] = write[1]
        thread.join()
        assert (result[0].status, result[0].reason) == ("censored", reason)


def test_a_limit_does_not_change_what_came_before_it():
    """A run stopped early is the start of a longer one: the curves agree in env steps and returns."""
    short, long = train(steps=20_000), train(steps=40_000)
    n = len(short.curve) - 1
    np.testing.assert_array_equal(short.curve[:n, 2:], long.curve[:n, 2:])


HOSTILE = """
// A game whose rewards are no numbers late in an episode: what a header with a mistake does.
#pragma once
#include "environment.h"
namespace hostile {
struct State { int steps; /* env steps of this episode */ };
struct Params { int wait = 400;  /* env steps before the reward is none; more than a new header is tried with */ };
constexpr sweep::Bounds bounds[] = {{1, 1000}};
constexpr int observation_size = 1, actions = 2, longest_episode = 1000;
SWEEP_FN constexpr sweep::Input input(int) { return sweep::quantity(0.0f, 1000.0f); }
SWEEP_FN void reset(State& s, const Params&, sweep::Rng&) { s.steps = 0; }
SWEEP_FN sweep::Outcome step(State& s, const Params& p, int, sweep::Rng&) {
    const float zero = static_cast<float>(s.steps - s.steps);
    return {++s.steps > p.wait ? 1.0f / zero - 1.0f / zero : 1.0f, s.steps >= 1000, false};
}
SWEEP_FN void observe(const State& s, const Params&, float* o) { o[0] = static_cast<float>(s.steps); }
}  // namespace hostile
"""


def test_divergence_is_caught(tmp_path):
    header = tmp_path / "hostile.h"
    header.write_text(HOSTILE)
    run = trainer_native.train(header, CARTPOLE, 1, NEVER, 20.0, 1_000_000)
    assert run.status == "diverged" and "not a number" in run.reason
    assert run.env_steps < 20_000


def test_bad_arguments_are_named():
    with pytest.raises(config.ConfigError, match="'gama' is not a hyperparameter. Did you mean 'gamma'?"):
        train(gama=0.9)
    with pytest.raises(config.ConfigError, match="'activation' 'relu' is for cell 'mlp'"):
        train(cell="lstm", activation="relu")
    with pytest.raises(config.ConfigError, match="one of 'mingru', 'lstm', 'mlp'"):
        train(cell="gru")
    with pytest.raises(config.ConfigError, match="multiple of 8"):
        train(hidden=12)
    with pytest.raises(config.ConfigError, match="'minibatches' 5 does not divide envs 32"):
        train(minibatches=5)
    with pytest.raises(ValueError, match="seed"):
        train(seed=-1)
    with pytest.raises(environments.HeaderError, match="cartpole"):
        trainer_native.train("cartpol", {}, 0, NEVER, 1.0)
    with pytest.raises(ValueError, match="policy"):
        train(solve=Solve(1.0, 10, "best"))
    run = train(steps=2_000)
    with pytest.raises(ValueError, match="encoder"):
        trainer_native.evaluate("cartpole", CARTPOLE | {"hidden": 8}, run.weights)


def test_network_size_counts_what_is_trained():
    assert trainer_native.network_size("cartpole", {"hidden": 16}) == (4 + 1) * 16 + 3 * 16 * 16 + 16 * (2 + 1)
    for net in ({"layers": 2}, {"cell": "lstm", "layers": 2, "biases": True}, {"cell": "mlp", "layers": 3, "biases": True},
                {"cell": "mlp", "separate_value": True, "biases": True}, {"separate_value": True}):
        run = train(steps=2_000, **net)
        trained = sum(v.size for k, v in run.weights.items() if not k.startswith("input_"))
        assert run.parameters == trained == trainer_native.network_size("cartpole", CARTPOLE | net)


def test_names_and_shapes_of_each_network():
    def shapes(**net):
        return trainer.shapes("cartpole", {"hidden": 8} | net)

    assert shapes() == {"encoder": (5, 8), "layer0": (8, 24), "decoder": (8, 3)}
    assert shapes(cell="lstm", biases=True, constant_input=False) == {
        "encoder": (4, 8), "encoder_bias": (1, 8), "layer0": (8, 32), "layer0_recurrent": (8, 32), "layer0_bias": (1, 32),
        "decoder": (8, 3), "decoder_bias": (1, 3)}
    assert shapes(cell="mlp", layers=2, separate_value=True) == {
        "encoder": (5, 8), "layer0": (8, 8), "decoder": (8, 2),
        "value_encoder": (5, 8), "value_layer0": (8, 8), "value_decoder": (8, 1)}
    assert list(shapes(cell="mlp", biases=True)) == ["encoder", "encoder_bias", "decoder", "decoder_bias"]


def first_weights(**net):
    """Weights that no gradient has moved yet."""
    return train(steps=1, learning_rate=1e-7, gradient_norm=1e-6, optimizer="adam", adam_epsilon=1.0, **net).weights


def test_orthogonal_weights_are_orthogonal_with_their_gains():
    mlp = first_weights(cell="mlp", layers=2, hidden=64, biases=True, separate_value=True, initialisation="orthogonal",
                        policy_gain=0.01)
    eye = np.eye(64)
    for tower in "", "value_":
        np.testing.assert_allclose(mlp[tower + "encoder"] @ mlp[tower + "encoder"].T, 2 * np.eye(5), atol=1e-5)
        np.testing.assert_allclose(mlp[tower + "layer0"].T @ mlp[tower + "layer0"], 2 * eye, atol=1e-5)
        assert not np.abs(mlp[tower + "encoder_bias"]).max() > 1e-5
    np.testing.assert_allclose(mlp["decoder"].T @ mlp["decoder"], 1e-4 * np.eye(2), atol=1e-6)
    assert np.linalg.norm(mlp["value_decoder"]) == pytest.approx(1.0, abs=1e-5)
    assert np.abs(mlp["layer0"] - mlp["value_layer0"]).max() > 0.1
    shared = first_weights(hidden=64, initialisation="orthogonal", policy_gain=0.5)
    for gate in np.split(shared["layer0"], 3, axis=1):
        np.testing.assert_allclose(gate.T @ gate, eye, atol=1e-5)
    policy, value = shared["decoder"][:, :2], shared["decoder"][:, 2]
    np.testing.assert_allclose(policy.T @ policy, 0.25 * np.eye(2), atol=1e-5)
    assert np.linalg.norm(value) == pytest.approx(1.0, abs=1e-5)


def test_first_weights_are_uniform_in_the_fan_in():
    w = first_weights(hidden=256, policy_gain=0.1)
    for name, bound in ("encoder", np.sqrt(2 / 5)), ("layer0", 1 / 16):
        assert 0.97 * bound < np.abs(w[name]).max() < 1.0001 * bound
        assert np.abs(w[name].mean()) < 0.1 * bound
    assert np.abs(w["decoder"][:, :2]).max() < 0.00626
    assert 0.055 < np.abs(w["decoder"][:, 2]).max() < 0.0626


def test_greedy_solves_are_evaluated_greedily():
    run = train(solve=Solve(475, 50, "greedy"), steps=3_000_000)
    assert run.status == "solved"
    greedy = trainer_native.evaluate("cartpole", CARTPOLE, run.weights, 200, seed=1, policy="greedy")["mean_return"]
    assert greedy > 440


def test_a_huge_rollout_is_stopped_on_its_way():
    run = trainer_native.train("cartpole", {"envs": 4096, "horizon": 1024}, 1, NEVER, max_seconds=0.05)
    assert (run.status, run.reason, run.env_steps) == ("censored", "cap", 0)  # not after 4 million env steps
