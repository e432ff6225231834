"""Environments as gymnasium has them: its own checker, its wrappers, and the trainer's returns again."""

import warnings

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import trainer_native
from trainer_native import environments

SHIPPED = environments.names()


@pytest.mark.parametrize("name", SHIPPED)
def test_gymnasium_finds_no_fault(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")   # the checker warns of what it would not do
        for harmless in (".*recommend using a symmetric and normalized space.*", ".*probably too (low|high).*", ".*not having a spec.*",
                         ".*minimum values are equal.*"):   # Breakout shows a number that never changes
            warnings.filterwarnings("ignore", harmless)
        check_env(trainer_native.make(name, render_mode="rgb_array" if environments.find(name).picture else None))


@pytest.mark.parametrize("name", SHIPPED)
def test_many_copies_stay_in_their_spaces(name):
    copies = trainer_native.make_vec(name, num_envs=5)
    copies.action_space.seed(3)
    seen, _ = copies.reset(seed=3)
    for _ in range(300):
        assert copies.observation_space.contains(seen), name
        seen, rewards, terminated, truncated, _ = copies.step(copies.action_space.sample())
        assert rewards.dtype == np.float64 and np.isfinite(rewards).all()
        assert terminated.dtype == truncated.dtype == bool


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_the_same_as_gymnasiums_copies_one_by_one(mode):
    """Ours in one call against gymnasium's loop over single ones, with episodes that end at different times."""
    ours = trainer_native.make_vec("cartpole", num_envs=4, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: trainer_native.make("cartpole")] * 4, autoreset_mode=mode)
    seen, expected = ours.reset(seed=[5, 6, 7, 8])[0], theirs.reset(seed=[5, 6, 7, 8])[0]
    np.testing.assert_array_equal(seen, expected)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(200):
        actions = rng.integers(0, 2, 4)
        mine, other = ours.step(actions), theirs.step(actions)
        for part, whole in zip(mine[:4], other[:4], strict=True):
            np.testing.assert_array_equal(part, whole)
        if mode == "SameStep" and "final_obs" in other[4]:
            ended = other[4]["_final_obs"]
            np.testing.assert_array_equal(ended, mine[4]["_final_obs"])
            for i in np.flatnonzero(ended):
                np.testing.assert_array_equal(mine[4]["final_obs"][i], other[4]["final_obs"][i])
            ends += ended.sum()
        ends += mine[2].sum()
    assert ends > 10


def test_disabled_waits_for_a_reset_of_those_that_ended():
    copies = trainer_native.make_vec("cartpole", num_envs=3, autoreset_mode="Disabled")
    copies.reset(seed=0)
    ended = np.zeros(3, bool)
    while not ended.any():
        _, _, terminated, truncated, _ = copies.step(np.array([0, 1, 1]))
        ended = terminated | truncated
    with pytest.raises(ResetNeeded, match="have ended"):
        copies.step(np.array([0, 1, 1]))
    before = copies.states.copy()
    seen, _ = copies.reset(options={"reset_mask": ended})
    assert (before[~ended] == copies.states[~ended]).all() and (np.abs(seen[ended]) <= 0.05).all()
    copies.step(np.array([0, 1, 1]))


def test_a_step_writes_a_new_array_or_always_the_same():
    copies, reused = (trainer_native.make_vec("cartpole", num_envs=2, copy=copy) for copy in (True, False))
    first, again = copies.reset(seed=1)[0], reused.reset(seed=1)[0]
    second, other = copies.step(np.array([0, 1]))[0], reused.step(np.array([0, 1]))[0]
    assert not np.shares_memory(first, second) and other is again
    np.testing.assert_array_equal(second, other)


@pytest.mark.parametrize("cell", ["mingru", "lstm", "mlp"])
@pytest.mark.parametrize("name", ["cartpole", "breakout"])
def test_weights_earn_the_trainers_own_returns(name, cell):
    """Greedy, each of 20 episodes from the same first state: return by return."""
    params = {"hidden": 8, "cell": cell}
    run = trainer_native.train(name, params, 1, trainer_native.Solve(10.0), max_seconds=20, max_env_steps=100_000)
    expected = trainer_native.evaluate(name, params, run.weights, episodes=20, seed=5, policy="greedy")["returns"]
    copies = trainer_native.make_vec(name, num_envs=20, autoreset_mode="Disabled")
    policy = trainer_native.Policy(name, params, run.weights, num_envs=20)
    seen, _ = copies.reset(seed=5)
    returns, living = np.zeros(20), np.ones(20, bool)
    for _ in range(8000):
        seen, rewards, terminated, truncated, _ = copies.step(policy.act(seen))
        returns += rewards * living
        living &= ~(terminated | truncated)
        if not living.any():
            break
        if (terminated | truncated).any():   # what has ended plays on, uncounted
            seen, _ = copies.reset(options={"reset_mask": terminated | truncated})
            policy.begin(terminated | truncated)
    assert not living.any()
    np.testing.assert_array_equal(returns, expected)


def test_drawn_actions_follow_the_logits():
    params = {"hidden": 8, "policy_gain": 10.0}
    run = trainer_native.train("cartpole", params, 0, trainer_native.Solve(475.0), max_seconds=20, max_env_steps=8192)
    policy = trainer_native.Policy("cartpole", params, run.weights, num_envs=4000)
    seen = np.tile(np.array([0.01, 0.3, 0.05, -0.2], np.float32), (4000, 1))
    logits = policy.logits(seen)[0]
    policy.begin()
    drawn = policy.act(seen, np.random.default_rng(0))
    chance = 1 / (1 + np.exp(logits[0] - logits[1]))
    policy = trainer_native.Policy("cartpole", params, run.weights, num_envs=4000)
    drawn = policy.act(seen, np.random.default_rng(0))
    assert abs(drawn.mean() - chance) < 5 * np.sqrt(chance * (1 - chance) / 4000)   # false alarms: one in 2 million seeds


def test_gymnasiums_statistics_wrap_it():
    copies = RecordEpisodeStatistics(trainer_native.make_vec("cartpole", num_envs=2))
    copies.reset(seed=0)
    for _ in range(200):
        *_, infos = copies.step(np.array([1, 0]))
        if "episode" in infos:
            break
    assert infos["episode"]["r"].max() == infos["episode"]["l"].max() > 5


@pytest.mark.parametrize("name", SHIPPED)
def test_pictures(name):
    if not environments.find(name).picture:
        pytest.skip("has none")
    one = trainer_native.make(name, render_mode="rgb_array")
    one.reset(seed=0)
    first = one.render()
    assert first.dtype == np.uint8 and first.ndim == 3 and first.shape[2] == 3
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 1
    one.action_space.seed(0)
    changed = False
    for _ in range(40):
        *_, terminated, truncated, _ = one.step(one.action_space.sample())
        changed = changed or (one.render() != first).any()
        if terminated or truncated:
            one.reset()
    assert changed


@pytest.mark.parametrize("make, words", [
    (lambda: trainer_native.make_vec("cartpole", num_envs=0), "num_envs"),
    (lambda: trainer_native.make("cartpole", render_mode="human"), "rgb_array"),
    (lambda: trainer_native.make("cartpole", gravity=3), "gravity"),
    (lambda: trainer_native.make_vec("cartpole", 2).reset(seed=[1]), "1 seeds for 2 copies"),
])  # fmt: skip
def test_mistakes_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("action", [np.array([0, 2]), np.array([-1, 0]), np.array([0.0, 1.0]), np.array([0])])
def test_illegal_actions(action):
    copies = trainer_native.make_vec("cartpole", num_envs=2)
    with pytest.raises(ResetNeeded):
        copies.step(np.array([0, 1]))
    copies.reset()
    with pytest.raises(ValueError, match="action"):
        copies.step(action)


def test_stable_baselines3_trains_on_it():
    """Its PPO on our CartPole: from 22 env steps a game to above 60."""
    sb3 = pytest.importorskip("stable_baselines3")
    pytest.importorskip("torch").set_num_threads(1)
    from trainer_native.sb3_env import Sb3Copies

    copies = Sb3Copies("cartpole", 8)
    copies.seed(0)
    model = sb3.PPO("MlpPolicy", copies, n_steps=64, n_epochs=10, learning_rate=1e-3, seed=0, device="cpu")
    model.learn(20_000)
    assert np.mean([episode["r"] for episode in model.ep_info_buffer]) > 60
