"""CartPole with hidden speeds, and CartPole that flickers, against gymnasium's CartPole-v1 over whole episodes."""

import episodes
import numpy as np
import pytest
import replay

from trainer_native import environments

gymnasium = pytest.importorskip("gymnasium")
REFERENCE = f"gymnasium {gymnasium.__version__}"
FIELDS = ["x", "x_dot", "theta", "theta_dot"]


def balancing(state, rng, taken):
    return int(3 * state[2] + state[3] + 0.1 * state[0] + 0.2 * state[1] + rng.normal(0, 0.02) > 0)


def at_random(state, rng, taken):
    return int(rng.integers(2))


def recorded():
    reference = gymnasium.make("CartPole-v1")
    return [episodes.recorded(reference, policy, range(n)) for policy, n in ((balancing, 12), (at_random, 60))]


def test_masked_transitions():
    env = environments.find("cartpole_masked")
    for recording in recorded():
        ours = episodes.played(env, FIELDS, "steps", recording)
        assert (ours.reward == recording.reward).all()
        worst = max(np.abs(ours.after[name] - recording.after[:, i]).max() for i, name in enumerate(FIELDS))
        assert worst < 1e-6
        assert (ours.observation == np.stack([ours.after["x"], ours.after["theta"]], axis=1)).all()
        replay.compared("cartpole_masked", REFERENCE, len(ours.reward), worst)


def test_flickering_transitions():
    env = environments.find("cartpole_flicker")
    for recording in recorded():
        ours = episodes.played(env, FIELDS, "steps", recording)
        assert (ours.reward == recording.reward).all()
        worst = max(np.abs(ours.after[name] - recording.after[:, i]).max() for i, name in enumerate(FIELDS))
        assert worst < 1e-6
        cart = np.stack([ours.after[name] for name in FIELDS], axis=1)
        assert (ours.observation == np.where(ours.after["blank"][:, None], 0, cart)).all()
        replay.compared("cartpole_flicker", REFERENCE, len(ours.reward), worst)


@pytest.mark.parametrize("probability", [0.0, 0.2, 0.5, 1.0])
def test_blanks_come_by_chance(probability):
    """Within 5 deviations of their number, first observations too: false alarm below 1e-6 each."""
    env, n = environments.find("cartpole_flicker"), 20_000
    states = replay.first_states(env, n, seed=3, blank_probability=probability)
    played = replay.play(env, states, np.ones(n, int), seed=4, blank_probability=probability)
    for blank in (states["blank"], played.after["blank"], states["blank"] == played.after["blank"]):
        chance = probability if blank.dtype != bool else probability**2 + (1 - probability) ** 2  # the next is independent
        assert abs(blank.mean() - chance) <= 5 * np.sqrt(chance * (1 - chance) / n)


@pytest.mark.parametrize("name", ["cartpole", "cartpole_masked", "cartpole_flicker"])
def test_first_states(name):
    episodes.first_states_agree(environments.find(name), FIELDS, gymnasium.make("CartPole-v1"))
