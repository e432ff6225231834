"""MountainCar against gymnasium's MountainCar-v0: every transition of whole episodes, and of states from all over the range."""

import episodes
import numpy as np
import pytest
import replay

from trainer_native import environments

gymnasium = pytest.importorskip("gymnasium")
REFERENCE = f"gymnasium {gymnasium.__version__}"
FIELDS = ["position", "velocity"]


def at_random(state, rng, taken):
    return int(rng.integers(3))


def rocking(state, rng, taken):
    return 2 if state[1] > 0 else 0  # the push follows the speed: reaches the goal


def rocking_roughly(state, rng, taken):
    return int(rng.integers(3)) if rng.random() < 0.3 else rocking(state, rng, taken)


def rocking_to_the_left(state, rng, taken):
    return 0 if state[0] > -0.5 else rocking(state, rng, taken)  # meets the wall at the left, and not the goal


def errors(ours, after):
    return np.abs(np.stack([ours.after[name] for name in FIELDS], axis=1) - after)


@pytest.mark.parametrize("policy", [at_random, rocking, rocking_roughly, rocking_to_the_left])
def test_transitions(policy):
    env = environments.find("mountain_car")
    recording = episodes.recorded(gymnasium.make("MountainCar-v0"), policy, range(40))
    ours = episodes.played(env, FIELDS, "frames", recording)
    assert (ours.reward == recording.reward).all()
    worst = max(errors(ours, recording.after).max(), np.abs(ours.observation - recording.observation).max())
    replay.compared("mountain_car", REFERENCE, len(ours.reward), worst)
    assert worst < 1e-6
    assert errors(ours, recording.after)[:, 1].max() < 1e-8  # m per frame, of 0.07
    if policy is rocking:
        assert recording.terminated.sum() == 40
    if policy is at_random:
        assert recording.truncated.sum() == 40 and (recording.lengths() == 200).all()
    if policy is rocking_to_the_left:
        stopped = (recording.after[:, 0] == -1.2) & (recording.before[:, 1] < 0)
        assert stopped.sum() > 40 and (ours.after["velocity"][stopped] == 0).all()


def test_states_that_play_seldom_reaches():
    env, rng, n = environments.find("mountain_car"), np.random.default_rng(3), 20_000
    reference = gymnasium.make("MountainCar-v0").unwrapped
    reference.reset(seed=0)
    before = rng.uniform([-1.2, -0.07], [0.6, 0.07], (n, 2)).astype(np.float32).astype(np.float64)
    actions, rows = rng.integers(3, size=n), []
    for state, action in zip(before, actions, strict=True):
        reference.state = tuple(state)
        _, _, terminated, _, _ = reference.step(int(action))
        rows.append((np.array(reference.state), terminated))
    after, terminated = (np.array(column) for column in zip(*rows, strict=True))
    ours = replay.play(env, replay.states(env, dict(zip(FIELDS, before.T, strict=True)), n), actions)
    assert errors(ours, after).max() < 1e-6
    assert (ours.terminated == terminated).all() and 0.02 < terminated.mean() < 0.2
    assert ((before[:, 0] > 0.5) & ~terminated).sum() > 100  # beyond the goal, but rolling back
    for place in (-1.2, 0.6):
        assert (after[:, 0] == place).sum() > 50


def test_an_action_held_is_that_many_frames():
    env, rng, n = environments.find("mountain_car"), np.random.default_rng(4), 3000
    before = replay.states(env, {
        "position": rng.uniform(-1.2, 0.5, n), "velocity": rng.uniform(-0.07, 0.07, n), "frames": rng.integers(0, 200, n)}, n)
    actions = rng.integers(3, size=n)
    held = replay.play(env, before, actions, frameskip=7)
    after, reward, ended = before.copy(), np.zeros(n), np.zeros(n, bool)
    terminated, truncated = np.zeros(n, bool), np.zeros(n, bool)
    for _ in range(7):
        going = ~ended
        one = replay.play(env, after[going], actions[going])
        after[going], reward[going] = one.after, reward[going] + one.reward
        terminated[going], truncated[going] = one.terminated, one.truncated
        ended[going] = one.terminated | one.truncated
    assert (held.after == after).all() and (held.reward == reward).all()
    assert (held.terminated == terminated).all() and (held.truncated == truncated).all()
    assert terminated.sum() > 50 and truncated.sum() > 50


def test_first_states():
    episodes.first_states_agree(environments.find("mountain_car"), FIELDS, gymnasium.make("MountainCar-v0"))
