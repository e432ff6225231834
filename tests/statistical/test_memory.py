"""Networks with memory solve the games that need one, and those without do no better than chance.

Seeds are fixed and runs exact: a test passes or fails for good, until weights change. Chosen anew, five seeds of each of the eight
recurrent cases all solved, so that a seed fails with probability p < 0.07 (40 of 40, 95% confidence) and two of three
with 3 p² < 0.015 a case. What a network without memory reaches is bounded by the rules, and by 2,000 fresh episodes: a
policy at 0.5 is above 0.57 with probability 1e-9, and 65% would mean that the observation leaks.
"""

import pytest

from trainer_native import evaluate, train

TRAIN = {"envs": 32, "horizon": 64, "learning_rate": 0.02}
#: game -> its params, what solves it, the env steps it may take, and the most that chance explains.
GAMES = {
    "memory": ({"length": 16}, 0.95, 500_000, 0.57),
    "memory_chain": ({"memory_length": 10, "gamma": 0.99, "gae_lambda": 0.95}, 0.95, 500_000, 0.57),
    "tmaze": ({"length": 10, "try_from": 0.85}, 0.95, 500_000, 0.57),
    # of the 51 other cards 13 are of each other suit: 0.2549 at best without memory
    "repeat_previous": ({"gamma": 0.5, "reward_scale": 48, "entropy_coefficient": 0.003}, 0.95, 3_000_000, 0.27),
}


def run(name, cell, seed, **limits):
    params, metric, env_steps, _ = GAMES[name]
    layers = 3 if (name, cell) == ("repeat_previous", "mingru") else 1  # its gates do not see its memory
    params = {**TRAIN, **params, "cell": cell, "layers": layers}
    limits = {"max_env_steps": env_steps, **limits}
    return params, train(name, params, seed, {"metric": metric, "episodes": 200}, 60.0, **limits)


@pytest.mark.parametrize("cell", ["mingru", "lstm"])
@pytest.mark.parametrize("name", GAMES)
def test_a_memory_solves_it(name, cell):
    runs = [run(name, cell, seed)[1] for seed in range(3)]
    assert sum(one.status == "solved" for one in runs) >= 2, [one.best_metric for one in runs]


@pytest.mark.parametrize("name", GAMES)
def test_no_memory_is_at_chance(name):
    """What is stopped is far from untrained: it has had five times the env steps that a memory needs, and knows its way."""
    for seed in range(2):
        params, stopped = run(name, "mlp", seed, max_env_steps=400_000)
        assert stopped.status == "censored"
        frozen = evaluate(name, params, stopped.weights, episodes=2000, seed=100 + seed)
        assert frozen["mean_metric"] < GAMES[name][3], frozen["mean_metric"]
        assert frozen["mean_metric"] > (0.2 if name == "repeat_previous" else 0.43)


def test_a_leak_would_be_seen():
    """Where the answer is asked for while the sign is still shown, a network without memory gives it."""
    params = {**TRAIN, "cell": "mlp", "length": 1}
    run = train("memory", params, 0, {"metric": 0.95, "episodes": 200}, 60.0, 400_000)
    assert run.status == "solved"
    assert evaluate("memory", params, run.weights, episodes=2000, seed=100)["mean_metric"] > 0.9


@pytest.mark.parametrize("cell", ["lstm", "mlp"])
def test_bounded_outputs_learn_what_is_of_their_size(cell):
    """A reward of 1 at each env step is worth 50 at gamma 0.98: tanh and an LSTM end at 1, and hardly get there; MinGRU does.

    Of five seeds each, in 1.5M env steps: 5 solved with values of 5 (200k), of the LSTM none and of the MLP one with 50."""
    solve, limits = {"mean_return": 95}, (60.0, 400_000)
    for scale, few, many in ((0.1, 2, 3), (1.0, 0, 1)):
        runs = [train("simple_bandit", {"cell": cell, "reward_scale": scale}, seed, solve, *limits) for seed in range(3)]
        assert few <= sum(run.status == "solved" for run in runs) <= many, scale
