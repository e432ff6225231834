"""MountainCarContinuous against gymnasium's MountainCarContinuous-v0: every transition of whole episodes, and of states from
all over the range."""

import episodes
import numpy as np
import pytest
import replay

from trainer_native import environments

gymnasium = pytest.importorskip("gymnasium")
REFERENCE = f"gymnasium {gymnasium.__version__}"
FIELDS = ["position", "velocity"]


def at_random(state, rng, taken):
    return rng.uniform(-1, 1, 1).astype(np.float32)


def rocking(state, rng, taken):
    return np.float32([1 if state[1] > 0 else -1])  # the force follows the speed: reaches the goal


def rocking_gently(state, rng, taken):
    return np.float32([np.clip(0.6 * np.sign(state[1]) + rng.normal(0, 0.2), -1, 1)])


def rocking_to_the_left(state, rng, taken):
    return np.float32([-1]) if state[0] > -0.5 else rocking(state, rng, taken)  # meets the wall, and not the goal


def errors(ours, after, reward):
    """Of position, velocity and reward; each [n]."""
    return (*(np.abs(ours.after[name] - after[:, i]) for i, name in enumerate(FIELDS)), np.abs(ours.reward - reward))


@pytest.mark.parametrize("policy", [at_random, rocking, rocking_gently, rocking_to_the_left])
def test_transitions(policy):
    env = environments.find("mountain_car_continuous")
    recording = episodes.recorded(gymnasium.make("MountainCarContinuous-v0"), policy, range(12))
    ours = episodes.played(env, FIELDS, "frames", recording)
    position, velocity, reward = errors(ours, recording.after, recording.reward)
    assert position.max() < 1e-6 and velocity.max() < 1e-8
    assert (reward <= np.where(recording.terminated, 4e-6, 1e-8)).all()  # 100 less a little
    assert np.abs(ours.observation - recording.observation).max() < 1e-6
    replay.compared("mountain_car_continuous", REFERENCE, len(ours.reward), max(position.max(), reward.max()))
    if policy in (rocking, rocking_gently):
        assert recording.terminated.sum() == 12
    if policy is at_random:
        assert recording.truncated.sum() == 12 and (recording.lengths() == 999).all()
    if policy is rocking_to_the_left:
        stopped = (ours.after["position"] == np.float32(-1.2)) & (recording.before[:, 1] < 0)
        assert stopped.sum() > 12 and (ours.after["velocity"][stopped] == 0).all()


def test_states_that_play_seldom_reaches():
    env, rng, n = environments.find("mountain_car_continuous"), np.random.default_rng(3), 20_000
    reference = gymnasium.make("MountainCarContinuous-v0").unwrapped
    reference.reset(seed=0)
    before = rng.uniform([-1.2, -0.07], [0.6, 0.07], (n, 2)).astype(np.float32)
    actions, rows = rng.uniform(-1, 1, (n, 1)).astype(np.float32), []
    for state, action in zip(before, actions, strict=True):
        reference.state = state.astype(np.float64)
        _, reward, terminated, _, _ = reference.step(action)
        rows.append((np.array(reference.state), reward, terminated))
    after, reward, terminated = (np.array(column) for column in zip(*rows, strict=True))
    ours = replay.play(env, replay.states(env, dict(zip(FIELDS, before.T, strict=True)), n), actions)
    position, velocity, reward = errors(ours, after, reward)
    assert position.max() < 1e-6 and velocity.max() < 1e-8 and reward.max() < 8e-6
    assert (ours.terminated == terminated).all() and 0.02 < terminated.mean() < 0.2
    assert ((before[:, 0] > 0.45) & ~terminated).sum() > 100  # beyond the goal, but rolling back
    replay.compared("mountain_car_continuous", REFERENCE, n, max(position.max(), reward.max()))


def test_an_action_held_is_that_many_frames():
    env, rng, n = environments.find("mountain_car_continuous"), np.random.default_rng(4), 3000
    before = replay.states(env, {
        "position": rng.uniform(-1.2, 0.45, n), "velocity": rng.uniform(-0.07, 0.07, n), "frames": rng.integers(960, 999, n)}, n)
    actions = rng.uniform(-1, 1, (n, 1))
    held = replay.play(env, before, actions, frameskip=7)
    after, reward, ended = before.copy(), np.zeros(n), np.zeros(n, bool)
    terminated, truncated = np.zeros(n, bool), np.zeros(n, bool)
    for _ in range(7):
        going = ~ended
        one = replay.play(env, after[going], actions[going])
        after[going], reward[going] = one.after, reward[going] + one.reward
        terminated[going], truncated[going] = one.terminated, one.truncated
        ended[going] = one.terminated | one.truncated
    assert (held.after == after).all() and np.abs(held.reward - reward).max() < 1e-5
    assert (held.terminated == terminated).all() and (held.truncated == truncated).all()
    assert terminated.sum() > 50 and truncated.sum() > 50


def test_first_states():
    episodes.first_states_agree(environments.find("mountain_car_continuous"), FIELDS, gymnasium.make("MountainCarContinuous-v0"))
