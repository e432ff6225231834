"""Acrobot against gymnasium's Acrobot-v1: every transition of whole episodes, and of states from all over the range."""

import episodes
import numpy as np
import pytest
import replay

from trainer_native import environments

gymnasium = pytest.importorskip("gymnasium")
REFERENCE = f"gymnasium {gymnasium.__version__}"
FIELDS = ["theta_1", "theta_2", "theta_1_dot", "theta_2_dot"]
FASTEST = 4 * np.pi, 9 * np.pi


def at_random(state, rng, taken):
    return int(rng.integers(3))


def pumping(state, rng, taken):
    return 2 if state[3] > 0 else 0  # the torque follows the joint: reaches the height


def pumping_roughly(state, rng, taken):
    return int(rng.integers(3)) if rng.random() < 0.4 else pumping(state, rng, taken)


def resting(state, rng, taken):
    return 1


def errors(ours, after, observation):
    """Of angles around the circle, of speeds, of what is seen; [n]."""
    theirs = after.T
    angles = [np.abs((ours.after[name] - theirs[i] + np.pi) % (2 * np.pi) - np.pi) for i, name in enumerate(FIELDS[:2])]
    speeds = [np.abs(ours.after[name] - theirs[i + 2]) for i, name in enumerate(FIELDS[2:])]
    return np.max([*angles, *speeds, *np.abs(ours.observation - observation).T], axis=0)


@pytest.mark.parametrize("policy", [at_random, pumping, pumping_roughly, resting])
def test_transitions(policy):
    env = environments.find("acrobot")
    recording = episodes.recorded(gymnasium.make("Acrobot-v1"), policy, range(12))
    ours = episodes.played(env, FIELDS, "steps", recording)
    assert (ours.reward == recording.reward).all()
    worst = errors(ours, recording.after, recording.observation).max()
    replay.compared("acrobot", REFERENCE, len(ours.reward), worst)
    assert worst < 1e-5
    if policy is resting:
        assert (recording.lengths() == 500).all() and recording.truncated.sum() == 12
    if policy is pumping:
        assert recording.terminated.sum() == 12
        assert np.abs(recording.after[:, 1] - recording.before[:, 1]).max() > 6  # an angle went around


def test_states_that_play_seldom_reaches():
    env, rng, n = environments.find("acrobot"), np.random.default_rng(3), 5000
    reference = gymnasium.make("Acrobot-v1").unwrapped
    reference.reset(seed=0)
    before = rng.uniform(-1, 1, (n, 4)) * [np.pi, np.pi, *FASTEST]
    actions, rows = rng.integers(3, size=n), []
    for state, action in zip(before.astype(np.float32), actions, strict=True):
        reference.state = state.astype(np.float64)
        seen, reward, terminated, _, _ = reference.step(action)
        rows.append((np.array(reference.state), reward, terminated, seen))
    after, reward, terminated, observation = (np.array(column) for column in zip(*rows, strict=True))
    ours = replay.play(env, replay.states(env, dict(zip(FIELDS, before.T, strict=True)), n), actions)
    # At speeds that no play reaches, a step of 0.2 s turns both links several times and enlarges a rounding a thousandfold.
    error = errors(ours, after, observation)
    calm = (np.abs(before[:, 2]) < 6) & (np.abs(before[:, 3]) < 12)
    assert calm.sum() > 800 and error[calm].max() < 3e-5
    assert np.quantile(error, 0.99) < 1e-3
    same = (ours.terminated == terminated) & (ours.reward == reward)
    assert same[calm].all() and same.mean() > 0.999
    clipped = [(np.abs(after[:, 2 + i]) == FASTEST[i]) for i in range(2)]
    assert clipped[0].sum() > 50 and clipped[1].sum() > 50
    assert (np.abs(ours.after["theta_1_dot"]) <= np.float32(FASTEST[0])).all()
    assert (np.abs(ours.after["theta_2_dot"]) <= np.float32(FASTEST[1])).all()


def test_first_states():
    episodes.first_states_agree(environments.find("acrobot"), FIELDS, gymnasium.make("Acrobot-v1"))
