"""The memory, exploration and bandit games against episodes recorded from those who defined them, env step by env step.

Where no reference can be run (Bakker's T-maze is a paper, Thrust's SimpleBandit is Rust) the rules are told again here.
Statistical tests have fixed seeds: each would fail with probability 0.001 at most over their choice.
"""

from pathlib import Path

import numpy as np
import pytest
import replay
from scipy import stats

from trainer_native import environments

HERE = Path(__file__).parent
FALSE_ALARM = 0.001


def recorded(reference, game):
    """The columns of one game of a recording, and the reference's version."""
    with np.load(HERE / f"memory_{reference}.npz") as data:
        return ({name.removeprefix(f"{game}_"): data[name] for name in data.files if name.startswith(f"{game}_")},
                str(data["about"]).split(",")[0])


def check(name, about, rows, played, before, expected_before, expected, error=0.0):
    """Ends exactly, rewards and observations (before the env step and after it) to within `error`, of these rows."""
    truncated = rows.get("truncated", np.zeros(len(rows["action"]), bool)) & ~rows["terminated"]
    np.testing.assert_array_equal(played.terminated, rows["terminated"])
    np.testing.assert_array_equal(played.truncated, truncated)
    worst = max(np.abs(ours - theirs).max() for ours, theirs in (
        (played.reward, rows["reward"]), (before, expected_before), (played.observation, expected)))
    assert worst <= error
    replay.compared(name, about, len(truncated), worst)


def seen(env, state, **params):
    """Observations of states: those of what `state` is after no env step."""
    return np.array([environments.observation(env, one, **params) for one in state])


def some(rows, mask):
    return {name: values[mask] for name, values in rows.items()}


# -- memory -----------------------------------------------------------------------------------------------------


def test_memory_is_pufferlibs():
    env = environments.find("memory")
    whole, about = recorded("pufferlib", "memory")
    assert set(whole["sign"]) == {-1, 1}
    for length in np.unique(whole["length"]):
        rows = some(whole, whole["length"] == length)
        before = replay.states(env, {"sign": rows["sign"], "steps": rows["steps"]}, len(rows["action"]))
        played = replay.play(env, before, rows["action"], length=int(length))
        check("memory", about, rows, played, seen(env, before), rows["before"][:, None], rows["observation"][:, None])


@pytest.mark.parametrize(("name", "field"), [("memory", "sign"), ("memory_chain", "bit"), ("tmaze", "side"),
                                             ("simple_bandit", "context"), ("bernoulli_bandit", "better")])
def test_what_is_drawn_is_a_fair_coin(name, field):
    drawn = replay.first_states(environments.find(name), 4000, seed=1)[field]
    assert len(set(drawn)) == 2
    assert stats.binomtest(int((drawn == drawn.max()).sum()), len(drawn), 0.5).pvalue > FALSE_ALARM


# -- memory_chain -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reference", ["bsuite", "gymnax"])
def test_memory_chain(reference):
    env = environments.find("memory_chain")
    whole, about = recorded(reference, "chain")
    for length in np.unique(whole["length"]):
        rows = some(whole, whole["length"] == length)
        before = replay.states(env, {"bit": rows["bit"], "steps": rows["steps"]}, len(rows["action"]))
        played = replay.play(env, before, rows["action"], memory_length=int(length))
        check("memory_chain", about, rows, played, seen(env, before, memory_length=int(length)), rows["before"],
              rows["observation"], error=1e-7)  # bsuite tells the time in double precision
        assert rows["steps"][rows["terminated"]].tolist() == [length] * 10  # length + 1 env steps, as in the reference


# -- deep_sea ---------------------------------------------------------------------------------------------------


def right_actions(env, rows, size, **params):
    """The action that goes right in our map, which is not the reference's."""
    states = replay.states(env, {"row": rows["row"], "column": rows["column"]}, len(rows["row"]))
    after = replay.play(env, states, np.zeros(len(states)), size=size, **params).after["column"]
    right = (after > rows["column"]) | ((rows["column"] == size - 1) & (after == size - 1))
    return np.where(right, 0, 1)


def grid(places, size):
    """Observations of a sea of this size, in the top left of ours."""
    made = np.zeros((len(places), 20, 20), np.float32)
    there = places >= 0
    made[np.flatnonzero(there), places[there] // size, places[there] % size] = 1
    return made.reshape(len(places), 400)


@pytest.mark.parametrize("reference", ["bsuite", "gymnax"])
@pytest.mark.parametrize("random_actions", [0, 1])
def test_deep_sea(reference, random_actions):
    env = environments.find("deep_sea")
    whole, about = recorded(reference, "sea")
    whole = some(whole, ~whole.pop("stochastic")) if reference == "bsuite" else whole
    assert (whole["reward"] > 0.9).any()
    for size in map(int, np.unique(whole["size"])):
        rows = some(whole, whole["size"] == size)
        right = right_actions(env, rows, size, random_actions=random_actions)
        assert random_actions or (right == 1).all()
        rows["action"] = np.where(rows["right"], right, 1 - right)
        before = replay.states(env, {name: rows[name] for name in ("row", "column", "strayed")}, len(right))
        played = replay.play(env, before, rows["action"], size=size, random_actions=random_actions)
        check("deep_sea", about, rows, played, seen(env, before, size=size), grid(rows["before"], size),
              grid(rows["observation"], size), error=1e-7)  # fmt: skip
        if reference == "bsuite":
            np.testing.assert_array_equal(played.after["strayed"], rows["strayed_after"])
            np.testing.assert_array_equal(played.after["column"], rows["column_after"])


def test_stochastic_deep_sea():
    env = environments.find("deep_sea")
    whole, about = recorded("bsuite", "sea")
    whole = some(whole, whole["stochastic"])
    for size in map(int, np.unique(whole["size"])):
        rows = some(whole, whole["size"] == size)
        right = right_actions(env, rows, size)
        actions = np.where(rows["right"], right, 1 - right)
        before = replay.states(env, {name: rows[name] for name in ("row", "column", "strayed")}, len(right))
        played, left = replay.matched(env, before, actions, lambda played, at, rows=rows: (
            played.after["column"] == rows["column_after"][at]), size=size, stochastic=1)  # fmt: skip
        assert not len(left)
        corner = (rows["row"] == size - 1) & ((rows["column"] == 0) | (rows["column"] == size - 1))
        np.testing.assert_allclose(played.reward[~corner], rows["reward"][~corner], atol=1e-7)
        np.testing.assert_array_equal(played.after["strayed"], rows["strayed_after"])
        np.testing.assert_array_equal(played.terminated, rows["terminated"])
        replay.compared("deep_sea", about, len(right), np.abs(played.reward - rows["reward"])[~corner].max(initial=0))


@pytest.mark.parametrize("size", [2, 10])
def test_the_noise_of_a_stochastic_sea(size):
    env, n = environments.find("deep_sea"), 4000
    corner = replay.states(env, {"row": np.full(n, size - 1), "column": np.full(n, size - 1)}, n)
    right = right_actions(env, {"row": corner["row"], "column": corner["column"]}, size)
    noise = replay.play(env, corner, right, seed=5, size=size, stochastic=1).reward - 1 + 0.01 / size
    assert stats.kstest(noise, "norm").pvalue > FALSE_ALARM
    slipped = replay.play(env, np.zeros(n, env.state_dtype), np.full(n, right_actions(
        env, {"row": np.zeros(1, int), "column": np.zeros(1, int)}, size)[0]), seed=6, size=size, stochastic=1)  # fmt: skip
    assert stats.binomtest(int((slipped.after["column"] == 0).sum()), n, 1 / size).pvalue > FALSE_ALARM
    np.testing.assert_allclose(slipped.reward, -0.01 / size, rtol=1e-6)


def test_the_map_of_actions_is_fair_and_of_its_seed():
    env, cells = environments.find("deep_sea"), np.arange(400)
    rows = {"row": cells // 20, "column": cells % 20}
    maps = [right_actions(env, rows, 20, mapping_seed=seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(maps[0], maps[1])
    for fair in (maps[0].sum(), maps[2].sum(), (maps[0] != maps[2]).sum()):
        assert stats.binomtest(int(fair), 400, 0.5).pvalue > FALSE_ALARM


# -- repeat_previous --------------------------------------------------------------------------------------------


def dealt(rows):
    """Our states before each env step of these whole episodes: what was seen, and what is left in the deck."""
    env, made = environments.find("repeat_previous"), []
    for episode in np.unique(rows["episode"]):
        own = some(rows, rows["episode"] == episode)
        states = replay.states(env, {"dealt": np.arange(len(own["before"])) + 1}, len(own["before"]))
        left, ring = np.full(4, 13 * int(own["decks"][0])), np.zeros(64, np.uint8)
        for i, suit in enumerate(own["before"]):
            left[suit] -= 1
            ring[i % 64] = suit
            states["left"][i], states["seen"][i] = left, ring
        made.append(states)
    return np.concatenate(made)


def test_repeat_previous_is_popgyms():
    env = environments.find("repeat_previous")
    whole, about = recorded("popgym", "cards")
    for k in np.unique(whole["k"]):
        rows = some(whole, whole["k"] == k)
        before = dealt(rows)
        played, left = replay.matched(env, before, rows["action"], lambda played, at, rows=rows: (
            played.observation.argmax(1) == rows["observation"][at]), k=int(k), decks=int(rows["decks"][0]))  # fmt: skip
        assert not len(left)
        suits = np.eye(4, dtype=np.float32)
        check("repeat_previous", about, rows, played, seen(env, before), suits[rows["before"]], suits[rows["observation"]],
              error=1e-7)  # fmt: skip
        assert not played.after["left"][played.terminated].any()  # the deck is dealt to the end
        assert not rows["reward"][before["dealt"] < k].any()


def test_cards_are_drawn_from_what_is_left():
    env, n = environments.find("repeat_previous"), 4000
    first = replay.first_states(env, n, seed=7)
    assert stats.chisquare(np.bincount(first["seen"][:, 0], minlength=4)).pvalue > FALSE_ALARM
    left = np.array([5, 0, 1, 2])
    state = replay.states(env, {"dealt": np.full(n, 44), "left": np.tile(left, (n, 1))}, n)
    drawn = replay.play(env, state, np.zeros(n), seed=8).observation.sum(0)
    assert drawn[1] == 0
    assert stats.chisquare(drawn[[0, 2, 3]], n * left[[0, 2, 3]] / 8).pvalue > FALSE_ALARM


# -- bandits ----------------------------------------------------------------------------------------------------


def test_bernoulli_bandit_is_gymnaxs():
    env = environments.find("bernoulli_bandit")
    whole, about = recorded("gymnax", "bandit")
    for chance in np.unique(whole["chance"]):
        rows = some(whole, whole["chance"] == chance)
        before = replay.states(env, {"better": rows["better"], "action": rows["last_action"], "reward": rows["last_reward"],
                                     "steps": rows["steps"]}, len(rows["action"]))  # fmt: skip
        played, left = replay.matched(env, before, rows["action"], lambda played, at, rows=rows: (
            played.reward == rows["reward"][at]), reward_probability=float(chance))  # fmt: skip
        assert not len(left)
        check("bernoulli_bandit", about, rows, played, seen(env, before), rows["before"], rows["observation"], error=1e-6)
        for arm, p in ((0, 1 - chance), (1, chance)):
            state = replay.states(env, {"better": np.zeros(20_000, int)}, 20_000)
            paid = replay.play(env, state, np.full(20_000, arm), seed=9, reward_probability=float(chance)).reward
            assert stats.binomtest(int(paid.sum()), 20_000, p).pvalue > FALSE_ALARM


def test_simple_bandit():
    """Thrust's rules, told again: the reward is whether the action is the context, and 100 env steps end the episode."""
    env, n, rng = environments.find("simple_bandit"), 4000, np.random.default_rng(10)
    context, action, steps = rng.integers(2, size=n), rng.integers(2, size=n), rng.integers(100, size=n)
    before = replay.states(env, {"context": context, "steps": steps}, n)
    played = replay.play(env, before, action, seed=11)
    np.testing.assert_array_equal(played.reward, action == context)
    np.testing.assert_array_equal(played.terminated, steps == 99)
    assert not played.truncated.any()
    np.testing.assert_array_equal(seen(env, before)[:, 0], context)
    assert stats.binomtest(int((played.after["context"] == context).sum()), n, 0.5).pvalue > FALSE_ALARM
    replay.compared("simple_bandit", "Thrust's rules", n)


# -- tmaze ------------------------------------------------------------------------------------------------------

ENTRANCE = {-1: [0, 1, 1], 1: [1, 1, 0]}


def walk(length, place, side, action):
    """Bakker's T-maze: (place, reward, whether it ended, what is seen then)."""
    north, east, south, west = range(4)
    if place == length and action in (north, south):
        return place, 4.0 if (action == north) == (side == -1) else -0.1, True, [0, 1, 0]
    there = min(max(place + (action == east) - (action == west), 0), length)
    reward = -0.1 if there == place else 0.0
    return there, reward, False, ENTRANCE[side] if there == 0 else [0, 1, 0] if there == length else [1, 0, 1]


@pytest.mark.parametrize("length", [1, 2, 10, 70])
def test_tmaze(length):
    env, rng = environments.find("tmaze"), np.random.default_rng(12)
    states, actions, expected = [], [], []
    for seed in range(40):
        state, ended, steps = environments.initial_state(env, seed, length=length), False, 0
        place, side = 0, int(state["side"])
        assert environments.observation(env, state, length=length).tolist() == ENTRANCE[side]
        while not ended and steps < 3 * length + 20:
            action = int(rng.choice(4, p=[0.1, 0.7, 0.1, 0.1]))
            states.append((place, side, 0, steps))
            actions.append(action)
            place, reward, ended, observation = walk(length, place, side, action)
            expected.append((reward, ended, *observation))
            steps += 1
    before, expected = np.array(states, env.state_dtype), np.array(expected)
    played = replay.play(env, before, np.array(actions), length=length)
    np.testing.assert_array_equal(played.reward, expected[:, 0].astype(np.float32))
    np.testing.assert_array_equal(played.terminated, expected[:, 1])
    assert not played.truncated.any()
    assert {4.0, np.float32(-0.1), 0.0} <= set(played.reward) or length == 1
    np.testing.assert_array_equal(played.observation, expected[:, 2:])
    replay.compared("tmaze", "Bakker's rules", len(actions))


def test_tmaze_does_not_leak_the_sign():
    """Beyond the entrance a maze looks the same whichever side is right, at every env step and on the way back."""
    env = environments.find("tmaze")
    places = np.arange(1, 11)
    north, south = (seen(env, replay.states(env, {"place": places, "side": np.full(10, side), "steps": places}, 10))
                    for side in (-1, 1))
    np.testing.assert_array_equal(north, south)


def test_tmaze_ends_when_patience_does():
    env = environments.find("tmaze")
    state = replay.states(env, {"side": [1, 1], "steps": [108, 109], "place": [3, 3]}, 2)
    assert replay.play(env, state, np.array([1, 1])).truncated.tolist() == [False, True]
