"""Every option of learning against float64 NumPy, gradient step by gradient step, and what truncation and bad values do."""

from pathlib import Path

import numpy as np
import pytest

import trainer_native
from tests import update_reference as reference
from trainer_native import Solve, config, environments, headers, trainer

BASE = {"hidden": 8, "layers": 1, "envs": 8, "horizon": 12, "minibatches": 4, "epochs": 2, "entropy_coefficient": 0.05,
        "clip": 0.1, "gamma": 0.95}
ADAM = {"optimizer": "adam", "learning_rate": 0.005, "momentum": 0.9}
MLP = {"cell": "mlp", "layers": 2, "biases": True, "separate_value": True, "constant_input": False}
NATIVE = Path(__file__).parents[1] / "native"
SEVERAL, CONTINUOUS = {"env": NATIVE / "doors.h"}, {"env": NATIVE / "reach.h"}
ANNEAL = {"anneal_steps": 240, "learning_rate_end": 0.2, "clip_end": 0.3, "entropy_end": 0.0,  # over 2.5 of 4 iterations
          "clip": 0.02, "epochs": 3}
CASES = {
    "two layers": {"layers": 2},
    "no constant input": {"constant_input": False},
    "plain advantages": {"normalise_advantages": False},
    "reward scale": {"reward_scale": 0.25, "normalise_advantages": False},
    "adam": ADAM,
    "adam's details": ADAM | {"adam_epsilon": 1e-3, "second_momentum": 0.99, "momentum": 0.5},
    "vtrace": {"vtrace": True, "rho_clip": 1.02, "trace_clip": 0.97, "epochs": 3},
    "vtrace without clipping": {"vtrace": True, "rho_clip": 10.0, "trace_clip": 10.0, "normalise_advantages": False},
    "priority": {"priority": 0.8, "priority_correction": 0.4},
    "priority, annealed": {"priority": 0.8, "priority_correction": 0.4, **ANNEAL},
    "priority and vtrace": {"priority": 1.5, "priority_correction": 1.0, "vtrace": True},
    "replay ratio": {"replay_ratio": 1.42},
    "replay ratio below one": {"replay_ratio": 0.5},
    "larger value loss": {"value_clip": 0.02, "epochs": 3},
    "clipped value loss": {"value_clip": 0.02, "value_clip_loss": "clipped", "epochs": 3},
    "linear schedules": ANNEAL,
    "cosine schedules": ANNEAL | {"anneal": "cosine"},
    "cosine schedules of adam": ADAM | ANNEAL | {"anneal": "cosine"},
    "normalised rewards": {"normalise_rewards": True, "normalise_advantages": False},
    "normalised rewards, scaled and clipped": {"normalise_rewards": True, "reward_scale": 3.0, "reward_clip": 2.0},
    "slower head": {"head_rate": 0.3},
    "faster head of adam": ADAM | {"head_rate": 4.0},
    "weight decay": {"weight_decay": 0.5},
    "weight decay of adam": ADAM | {"weight_decay": 0.5, "head_rate": 0.5},
    "mlp": MLP,
    "transitions": MLP | {"minibatch_of": "transitions"},
    "transitions, relu, one tower": {"cell": "mlp", "layers": 3, "activation": "relu", "minibatch_of": "transitions"},
    "transitions of adam, in odd parts": MLP | ADAM | {"minibatch_of": "transitions", "minibatches": 6, "replay_ratio": 1.4},
    "transitions by priority": MLP | {"minibatch_of": "transitions", "priority": 0.7, "normalise_advantages": False},
    "transitions, vtrace, value clip": MLP | {"minibatch_of": "transitions", "vtrace": True, "value_clip": 0.05},
    "heads and decay of two towers": MLP | ADAM | {"minibatch_of": "transitions", "head_rate": 0.2, "weight_decay": 0.3},
    "mingru, biases, two towers": {"biases": True, "separate_value": True, "head_rate": 0.2, "weight_decay": 0.3},
    "several actions": SEVERAL,
    "several actions, vtrace, priority": SEVERAL | {"vtrace": True, "priority": 0.8, "horizon": 20},
    "several actions of transitions, adam": SEVERAL | MLP | ADAM | {"minibatch_of": "transitions", "vtrace": True},
    "continuous": CONTINUOUS,
    "continuous, heads and decay": CONTINUOUS | {"head_rate": 0.3, "weight_decay": 0.5, "epochs": 3},
    "continuous, adam, heads and decay": CONTINUOUS | ADAM | {"head_rate": 0.3, "weight_decay": 0.5},
    "continuous, vtrace, priority, short gradients": CONTINUOUS | {"vtrace": True, "priority": 0.8, "gradient_norm": 0.05,
                                                                   "learning_rate": 0.05},
    "continuous at the range's end": CONTINUOUS | {"entropy_coefficient": 2.0, "learning_rate": 0.1},
    "continuous, adam, at the range's end": CONTINUOUS | ADAM | {"entropy_coefficient": 2.0, "learning_rate": 0.1,
                                                                 "gradient_norm": 0.0, "adam_epsilon": 0.1},
    "squashed transitions, two towers": CONTINUOUS | MLP | {"gaussian": "squashed", "minibatch_of": "transitions"},
    "free gradients": ADAM | {"gradient_norm": 0.0, "adam_epsilon": 0.1},
    "short gradients": ADAM | {"gradient_norm": 0.05, "adam_epsilon": 0.1},
}
ITERATIONS, SEED = 4, 3


def iterate(params: dict, env="cartpole", iterations: int = ITERATIONS):
    """What the C++ side gives for whole iterations: (arrays [iterations, ...], first weights by name, full params)."""
    params = dict(params)
    environment = environments.find(params.pop("env", env))
    full = config.complete(params, environment.params) | {"try_from": 0.0}
    shapes = trainer.shapes(environment, params)
    rng = np.random.default_rng(SEED)
    flat = np.concatenate([rng.uniform(-1, 1, rows * columns) * 1.5 / np.sqrt(max(rows, 4)) for rows, columns in shapes.values()])
    flat = flat.astype(np.float32)
    out = trainer._core().iterate(trainer.isa(), environment.table_address, environment.param_bytes(full), full, SEED, flat,
                                  iterations)
    return out, reference.split(flat, shapes), full


def rollout_of(out, i):
    """One iteration's rollout in float64, sequences second: observations [T, N, inputs], first_states [L, N, H]."""
    rollout = {k: np.asarray(v[i], np.int64 if v.dtype == np.int32 else np.float64) for k, v in out.items()
               if not k.startswith("order")}
    return rollout | {"observations": rollout["observations"].swapaxes(0, 1)}


def flat_of(weights):
    return np.concatenate([w.ravel() for w in weights.values()])


@pytest.mark.parametrize("case", CASES)
def test_the_update_is_the_reference_s(case):
    params = BASE | CASES[case]
    out, first, full = iterate(params)
    plain, *_ = iterate(BASE)
    assert (plain["weights"].shape != out["weights"].shape or plain["actions"].shape != out["actions"].shape
            or np.abs(plain["weights"] - out["weights"]).max() > 1e-3), "the option is at work"
    choices = environments.find(params.get("env", "cartpole")).choices
    learner, begun, rows = reference.Learner(full, first, SEED, choices), flat_of(first), full["envs"] * full["horizon"]
    for i in range(ITERATIONS):
        rollout = rollout_of(out, i)
        outputs, _ = reference.forward(learner.weights, rollout["observations"], rollout["first_states"], rollout["keep"],
                                       full["activation"])
        np.testing.assert_allclose(rollout["values"][:-1], outputs[..., -1], atol=2e-4)
        for step, (order, correction, weights) in enumerate(learner.update(rollout, i * rows)):
            assert list(out["order"][i, step]) == order
            if full["priority"] > 0:
                np.testing.assert_allclose(out["order_weights"][i, step], correction, rtol=1e-4)
            ours = out["weights"][i, step].astype(np.float64)
            moved = np.abs(flat_of(weights) - begun).max()
            np.testing.assert_allclose(ours, flat_of(weights), atol=2e-4 * moved, rtol=1e-5, err_msg=f"{i}, {step}")
        assert step == out["weights"].shape[1] - 1


@pytest.mark.parametrize("adam", ["", ", adam,"])
def test_deviations_stay_within_their_range(adam):
    out, *_ = iterate(BASE | CASES[f"continuous{adam} at the range's end"])
    log_std = out["weights"][..., -2:]
    assert log_std.max() == 2.0 and (log_std == 2.0).any(axis=(0, 1)).all() and (log_std[0, 0] < 2.0).all()
    out, *_ = iterate(BASE | CONTINUOUS | {"gaussian": "clipped", "learning_rate": 0.0001})
    assert (np.abs(np.diff(out["weights"][..., -2:].reshape(-1, 2), axis=0)) < 0.01).all(), "small steps where the gradient is small"


ECHO = """
// Echo: what is seen is what was done, each number as the game got it.
#pragma once
#include "environment.h"
namespace echo {
struct State { float heard[3]; int steps; /* env steps of this episode */ };
struct Params {};
constexpr int observation_size = 3, longest_episode = 1000;
constexpr sweep::Bounds actions[] = {{-2, 2}, {0, 0.1}, {-1, 7}};
SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }
SWEEP_FN void reset(State& s, const Params&, sweep::Rng&) { s = {}; }
SWEEP_FN sweep::Outcome step(State& s, const Params&, const float* action, sweep::Rng&) {
    for (int i = 0; i < 3; i++) s.heard[i] = action[i];
    return {action[0], false, ++s.steps >= 1000};
}
SWEEP_FN void observe(const State& s, const Params&, float* o) { for (int i = 0; i < 3; i++) o[i] = s.heard[i]; }
}  // namespace echo
"""


@pytest.mark.parametrize("gaussian, unit", [("clipped", lambda u: np.clip(u, -1, 1)), ("squashed", np.tanh)])
def test_the_game_gets_what_was_drawn_within_its_bounds(tmp_path, gaussian, unit):
    (tmp_path / "echo.h").write_text(ECHO)
    environment = environments.find(tmp_path / "echo.h")
    out, first, _ = iterate(BASE | {"env": environment, "gaussian": gaussian, "horizon": 256}, iterations=1)
    drawn = out["actions"][0].astype(np.float64)
    heard = out["observations"][0].swapaxes(0, 1)[..., :3]
    low, high = environment.action_bounds.T
    expected = (low + high) / 2 + (high - low) / 2 * unit(drawn)
    np.testing.assert_allclose(heard[1:], expected[:-1], atol=2e-6)
    assert (heard >= low.astype(np.float32)).all() and (heard <= high.astype(np.float32)).all()
    assert (np.abs(drawn) > 1).mean() > 0.05, "bounds are at work"
    # The numbers are normal around the means: of 2,048 in three columns, each moment within 5 of its deviations.
    r = rollout_of(out, 0)
    means = reference.forward(first, r["observations"], r["first_states"], r["keep"])[0][..., :3]
    z = ((drawn - means) / np.exp(first["log_std"][0])).reshape(-1, 3)
    count = len(z)
    assert (np.abs(z.mean(0)) < 5 / np.sqrt(count)).all() and (np.abs((z**2).mean(0) - 1) < 5 * np.sqrt(2 / count)).all()
    assert (np.abs(np.corrcoef(z.T) - np.eye(3)) < 5 / np.sqrt(count)).all()


def test_greedy_takes_the_means(tmp_path):
    (tmp_path / "echo.h").write_text(ECHO)
    params = {"hidden": 8, "envs": 4, "constant_input": True}
    run = trainer_native.train(tmp_path / "echo.h", params, 0, Solve(1e9, 5), 20.0, 5000)
    greedy = trainer_native.evaluate(tmp_path / "echo.h", params, run.weights, 3, policy="greedy")["returns"]
    sampled = trainer_native.evaluate(tmp_path / "echo.h", params, run.weights, 3, policy="sampled")["returns"]
    assert len(set(greedy)) == 1 and len(set(sampled)) == 3  # nothing else is random here
    assert run.weights["log_std"].shape == (1, 3)
    assert trainer_native.network_size(tmp_path / "echo.h", params) == sum(
        w.size for name, w in run.weights.items() if not name.startswith("input_"))


@pytest.mark.parametrize("name, value", [("gaussian", "squashed"), ("log_std", -1.0)])
def test_what_is_for_continuous_actions_is_refused_elsewhere(name, value):
    for environment in ("cartpole", SEVERAL["env"]):
        for asked in (lambda e, p: trainer_native.train(e, p, 0, Solve(475), 1.0), trainer_native.network_size):
            with pytest.raises(config.ConfigError, match=f"'{name}' .* is for continuous actions; .* are discrete") as error:
                asked(environment, {name: value})
            assert error.value.key == name
    assert trainer_native.network_size(CONTINUOUS["env"], {name: value}) == trainer_native.network_size(CONTINUOUS["env"], {})


@pytest.mark.parametrize("case", [SEVERAL, CONTINUOUS, CONTINUOUS | {"gaussian": "squashed"}], ids=["several", "clipped", "squashed"])
@pytest.mark.parametrize("cell", ["mingru", "mlp"])
def test_every_kind_of_action_learns(case, cell):
    """Random actions earn under 0 in both games; 0.9 is close to the most there is."""
    params = {k: v for k, v in case.items() if k != "env"} | {"envs": 32, "horizon": 16, "cell": cell}
    run = trainer_native.train(case["env"], params, 1, Solve(0.8, 100), 20.0, 300_000)
    assert run.status == "solved"
    assert trainer_native.evaluate(case["env"], params, run.weights, 300, seed=5)["mean_return"] > 0.7


@pytest.mark.parametrize("actions, number, message", [
    (f"constexpr sweep::Bounds actions[] = {{{'{0, 1}, ' * 16}{{0, 1}}}};", "float", "an action has 17 numbers; the trainer takes 1 to 16"),
    ("constexpr int actions[] = {33, 32};", "int", "actions is 65; the trainer takes 2 to 64"),
])  # fmt: skip
def test_actions_beyond_the_limits_are_refused(tmp_path, actions, number, message):
    text = ECHO.replace("constexpr sweep::Bounds actions[] = {{-2, 2}, {0, 0.1}, {-1, 7}};", actions).replace(
        "const float* action", f"const {number}* action").replace("i < 3; i++) s", "i < 2; i++) s")
    (tmp_path / "echo.h").write_text(text)
    with pytest.raises(headers.HeaderError, match=message):
        environments.find(tmp_path / "echo.h")


def test_one_minibatch_of_all_transitions_is_one_of_all_sequences():
    whole = BASE | MLP | {"minibatches": 1, "epochs": 1}
    sequences, transitions = (iterate(whole | {"minibatch_of": kind}, iterations=1)[0] for kind in ("sequences", "transitions"))
    np.testing.assert_allclose(sequences["weights"], transitions["weights"], atol=2e-6)  # the order of sums differs


def test_schedules_begin_whole_end_at_their_end_and_stay_there():
    end = {"anneal_steps": 192, "learning_rate_end": 0.0}  # two iterations
    out, *_ = iterate(BASE | end)
    constant, *_ = iterate(BASE)
    np.testing.assert_array_equal(out["weights"][0], constant["weights"][0])  # nothing is behind the first iteration
    assert np.abs(out["weights"][1] - out["weights"][0, -1]).max() > 1e-3
    np.testing.assert_array_equal(out["weights"][2:], np.broadcast_to(out["weights"][1, -1], out["weights"][2:].shape))


@pytest.mark.parametrize("rollouts, ahead", [(10, 0), (10, 1)], ids=["PureJaxRL", "Stable-Baselines3"])
def test_schedules_of_others_are_met_to_within_a_rollout(rollouts, ahead):
    """PureJaxRL's rate knows of the updates before it, as ours; that of Stable-Baselines3 counts the rollout at hand too."""
    steps = 96
    full = config.complete({"anneal_steps": rollouts * steps, "learning_rate_end": 0.0, "clip_end": 0.0}, {})
    for i in range(rollouts):
        theirs = 1 - (i + ahead) / rollouts
        at = reference.schedule_at(full, i * steps)
        for name in ("learning_rate", "clip"):
            assert at[name] == pytest.approx(full[name] * (theirs + ahead / rollouts))


def test_a_replay_ratio_of_whole_passes_is_as_many_epochs():
    epochs, *_ = iterate(BASE | {"epochs": 3})
    ratio, *_ = iterate(BASE | {"replay_ratio": 3.0, "epochs": 1})
    np.testing.assert_array_equal(epochs["weights"], ratio["weights"])
    assert iterate(BASE | {"replay_ratio": 1.74})[0]["weights"].shape[1] == 6  # of 6.96


def test_rewards_are_normalised_by_the_running_deviation_of_the_discounted_return():
    out, _, full = iterate(BASE | {"normalise_rewards": True, "reward_scale": 0.5, "reward_clip": 0.25})
    count, mean, variance, returns = 1e-4, 0.0, 1.0, np.zeros(8)
    for i in range(ITERATIONS):
        for t in range(full["horizon"]):
            returns = returns * full["gamma"] + 1.0  # CartPole pays 1
            total, delta = count + 8, returns.mean() - mean
            variance = (variance * count + returns.var() * 8 + delta**2 * count * 8 / total) / total
            mean, count = mean + delta * 8 / total, total
            np.testing.assert_allclose(out["rewards"][i, t], min(0.25, 0.5 / np.sqrt(variance + 1e-8)), rtol=1e-5)
            returns[out["ended"][i, t] == 1] = 0.0
        np.testing.assert_allclose(out["rewards_moments"][i], [count, mean, variance], rtol=1e-5)
    assert out["ended"].sum() > 4 and len(np.unique(out["rewards"])) > 10


LEVER = """
// Wait for 1 per env step, each the last by a coin's toss, or pull the lever for 2.5 and the end.
#pragma once
#include "environment.h"
namespace lever {
struct State { int steps; /* env steps of this episode */ };
struct Params { int terminates = 0;  /* 1: the coin's toss is the game's end, not a time limit */ };
constexpr sweep::Bounds bounds[] = {{0, 1}};
constexpr int observation_size = 1, actions = 2, longest_episode = 100;
SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }
SWEEP_FN void reset(State& s, const Params&, sweep::Rng&) { s.steps = 0; }
SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng& rng) {
    if (action == 1) return {2.5f, true, false};
    const bool cut = rng.uniform() < 0.5f || ++s.steps >= 100;
    return {1.0f, cut && p.terminates, cut && !p.terminates};
}
SWEEP_FN void observe(const State&, const Params&, float* o) { o[0] = 1.0f; }
}  // namespace lever
"""
LEARN = {"hidden": 8, "envs": 32, "horizon": 16, "gamma": 0.9, "reward_clip": 0.0, "entropy_coefficient": 0.03,
         "learning_rate": 0.02}


@pytest.fixture(scope="module")
def lever(tmp_path_factory):
    header = tmp_path_factory.mktemp("game") / "lever.h"
    header.write_text(LEVER)
    return header


@pytest.mark.parametrize("terminates, bootstrap, waits", [(0, True, True), (0, False, False), (1, True, False)],
                         ids=["truncated", "truncated as if terminated", "terminated"])
def test_what_is_cut_off_goes_on_in_the_value_and_what_ends_does_not(lever, terminates, bootstrap, waits):
    """The lever is worth 2.5. Waiting is worth 1 / (1 - 0.9) = 10 where a cut is none, else 1 + 0.45 times 2.5 at most."""
    params = LEARN | {"terminates": terminates, "bootstrap_truncated": bootstrap}
    for seed in range(3):
        run = trainer_native.train(lever, params, seed, Solve(1e9, 20), 20.0, 60_000)
        played = trainer_native.evaluate(lever, params, run.weights, 200, seed=9, policy="greedy")
        assert (played["returns"] == 2.5).all() if not waits else 1.6 < played["mean_return"] < 2.4
    weights = {k: run.weights[k] for k in trainer.shapes(lever, params)}
    value = reference.forward(weights, np.ones((1, 1, 2)), np.zeros((1, 1, 8)), np.zeros((1, 1)))[0][0, 0, -1]
    assert value == pytest.approx(10.0 if waits else 2.5, rel=0.15)


def test_a_truncated_step_earns_its_last_value_and_no_other_does(lever):
    out, first, full = iterate({**LEARN, **BASE, "reward_clip": 0.0}, lever, 1)
    r = rollout_of(out, 0)
    _, [(*_, kept, _)] = reference.forward(first, r["observations"], r["first_states"], r["keep"])
    after = kept[0][-1]  # the states that each step left
    last = reference.forward(first, r["observations"].reshape(1, -1, 2), after.reshape(1, -1, 8), np.ones((1, 96)))[0]
    cut = (r["ended"] == 1) & (r["actions"] == 0)
    plain = np.where(r["actions"] == 1, 2.5, 1.0)
    expected = plain + np.where(cut, full["gamma"] * last[0, :, -1].reshape(12, 8), 0.0)
    assert cut.sum() > 5 and np.abs(expected - plain)[cut].min() > 1e-4
    np.testing.assert_allclose(r["rewards"], expected, atol=1e-5)
    out, *_ = iterate({**LEARN, **BASE, "reward_clip": 0.0, "bootstrap_truncated": False}, lever, 1)
    np.testing.assert_array_equal(out["rewards"][0], plain)


def test_transitions_are_for_networks_without_memory():
    legal = BASE | MLP | {"minibatch_of": "transitions", "envs": 4, "horizon": 6, "minibatches": 8}  # 8 divides 24, not 4
    assert iterate(legal, iterations=1)[0]["order"].shape == (1, 16, 3)
    for wrong, key, message in [({"cell": "mingru"}, "minibatch_of", "is for cell 'mlp'; cell 'mingru' has a memory"),
                                ({"cell": "lstm"}, "minibatch_of", "is for cell 'mlp'; cell 'lstm' has a memory"),
                                ({"minibatches": 5}, "minibatches", "'minibatches' 5 does not divide the 24 transitions")]:
        with pytest.raises(config.ConfigError, match=message) as error:
            trainer_native.train("cartpole", legal | wrong, 0, Solve(475), 1.0)
        assert error.value.key == key


@pytest.mark.parametrize("minibatches, legal", [(4, "0.25"), (1, "1"), (3, "0.333333")])
def test_a_replay_ratio_without_a_gradient_step_is_refused(minibatches, legal):
    with pytest.raises(config.ConfigError, match=f"'replay_ratio' 0.2 of {minibatches} .* legal is 0 or at least {legal}$") as error:
        trainer_native.train("cartpole", {"envs": 12, "replay_ratio": 0.2, "minibatches": minibatches}, 0, Solve(475), 1.0)
    assert error.value.key == "replay_ratio"
