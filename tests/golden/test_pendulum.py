"""Pendulum against gymnasium's Pendulum-v1: every transition of whole episodes, and of states from all over the range."""

import episodes
import numpy as np
import pytest
import replay

from trainer_native import environments

gymnasium = pytest.importorskip("gymnasium")
REFERENCE = f"gymnasium {gymnasium.__version__}"
FIELDS = ["theta", "theta_dot"]


def around(angle):
    return (angle + np.pi) % (2 * np.pi) - np.pi


def at_random(state, rng, taken):
    return rng.uniform(-2, 2, 1).astype(np.float32)


def spinning(state, rng, taken):
    return np.float32([2 if state[1] > 0 else -2])  # with the speed: goes around, and to the highest speed


def balancing(state, rng, taken):
    angle = around(state[0])
    upright = np.cos(angle) > 0.8
    energy = state[1] ** 2 / 6 + 5 * (np.cos(angle) - 1)
    torque = -12 * angle - 3 * state[1] if upright else -2 * np.sign(energy * state[1])
    return np.float32([np.clip(torque + rng.normal(0, 0.05), -2, 2)])


def errors(ours, after, reward, observation):
    """Of the angle around the circle and the speed, of what is seen, of the reward; each [n]."""
    state = np.maximum(np.abs(around(ours.after["theta"] - after[:, 0])), np.abs(ours.after["theta_dot"] - after[:, 1]))
    return state, np.abs(ours.observation - observation).max(1), np.abs(ours.reward - reward)


@pytest.mark.parametrize("policy", [at_random, spinning, balancing])
def test_transitions(policy):
    env = environments.find("pendulum")
    recording = episodes.recorded(gymnasium.make("Pendulum-v1"), policy, range(40))
    recording.before[:, 0] = around(recording.before[:, 0])  # ours does not count the turns
    ours = episodes.played(env, FIELDS, "steps", recording)
    worst = max(error.max() for error in errors(ours, recording.after, recording.reward, recording.observation))
    replay.compared("pendulum", REFERENCE, len(ours.reward), worst)
    assert worst < 3e-6  # rewards reach -16
    assert not recording.terminated.any() and (recording.lengths() == 200).all()
    returns = recording.reward.reshape(40, 200).sum(1)
    if policy is spinning:
        assert (np.abs(recording.after[:, 1]) == 8).mean() > 0.2 and np.abs(recording.after[:, 0]).max() > 20
    if policy is balancing:
        assert np.median(returns) > -300 and (np.abs(recording.before[:, 0]) < 0.1).mean() > 0.3


def test_states_that_play_seldom_reaches():
    env, rng, n = environments.find("pendulum"), np.random.default_rng(3), 10_000
    reference = gymnasium.make("Pendulum-v1").unwrapped
    reference.reset(seed=0)
    before = rng.uniform([-np.pi, -8], [np.pi, 8], (n, 2)).astype(np.float32).astype(np.float64)
    actions, rows = rng.uniform(-2, 2, (n, 1)).astype(np.float32), []
    for state, action in zip(before, actions, strict=True):
        reference.state = state
        seen, reward, _, _, _ = reference.step(action)
        rows.append((np.array(reference.state), reward, seen))
    after, reward, observation = (np.array(column) for column in zip(*rows, strict=True))
    ours = replay.play(env, replay.states(env, dict(zip(FIELDS, before.T, strict=True)), n), actions)
    worst = max(error.max() for error in errors(ours, after, reward, observation))
    replay.compared("pendulum", REFERENCE, n, worst)
    assert worst < 3e-6 and (np.abs(ours.after["theta"]) <= np.float32(np.pi)).all()
    turned = replay.play(env, replay.states(env, {"theta": before[:, 0] + 6 * np.pi, "theta_dot": before[:, 1]}, n), actions)
    assert np.abs(turned.observation - observation).max() < 1e-5  # turns do no harm where a user counts them


def test_first_states():
    episodes.first_states_agree(environments.find("pendulum"), FIELDS, gymnasium.make("Pendulum-v1"))
