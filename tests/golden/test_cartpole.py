"""CartPole against gymnasium's CartPole-v1, step by step over whole episodes."""

import numpy as np
import pytest
import replay

from trainer_native import environments

gymnasium = pytest.importorskip("gymnasium")
FIELDS = ["x", "x_dot", "theta", "theta_dot"]


def balancing(state, rng):
    return int(3 * state[2] + state[3] + 0.1 * state[0] + 0.2 * state[1] + rng.normal(0, 0.02) > 0)


def at_random(state, rng):
    return int(rng.integers(2))


def drifting(state, rng):
    return int(2 * (state[2] - 0.05) + state[3] > 0)  # keeps the pole up and lets the cart run off the track


@pytest.mark.parametrize("policy", [balancing, at_random, drifting])
def test_transitions(policy):
    env = environments.find("cartpole")
    reference = gymnasium.make("CartPole-v1")
    rng = np.random.default_rng(1)
    worst, lengths, ends = 0.0, [], set()
    for seed in range(12 if policy is not at_random else 60):
        reference.reset(seed=seed)
        terminated = truncated = False
        steps = 0
        while not (terminated or truncated):
            before = np.asarray(reference.unwrapped.state)
            state = np.zeros(1, env.state_dtype)[0]
            state["steps"] = steps
            for name, value in zip(FIELDS, before, strict=True):
                state[name] = value
            action = policy(before, rng)
            _, reward, terminated, truncated, _ = reference.step(action)
            _, *outcome, observation = environments.transition(env, state, action)
            steps += 1
            worst = max(worst, np.abs(observation - np.asarray(reference.unwrapped.state)).max())
            assert outcome == [reward, terminated, truncated and not terminated], (seed, steps)
        lengths.append(steps)
        ends.add("truncated" if truncated else "track" if abs(reference.unwrapped.state[0]) > 2.4 else "angle")
    replay.compared("cartpole", f"gymnasium {gymnasium.__version__}", sum(lengths), worst)
    assert worst < 1e-6
    assert {balancing: "truncated", at_random: "angle", drifting: "track"}[policy] in ends
    if policy is balancing:
        assert max(lengths) == 500


def test_reset_is_uniform_as_in_gymnasium():
    env = environments.find("cartpole")
    starts = np.array([environments.initial_state(env, seed) for seed in range(400)], env.state_dtype)
    for name in FIELDS:
        assert -0.05 <= starts[name].min() < -0.045 and 0.045 < starts[name].max() <= 0.05
        assert abs(starts[name].mean()) < 5 * 0.1 / np.sqrt(12 * 400)
    assert not starts["steps"].any()
