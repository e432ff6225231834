"""MinAtar's five games against whole episodes recorded from MinAtar itself, env step by env step, and Breakout against gymnax's.

What they draw at random is matched by trying seeds, and held against the reference's frequencies by statistical tests with
fixed seeds; each of those would fail with probability 0.001 over its choice.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import replay
from scipy import stats

from trainer_native import environments

HERE = Path(__file__).parent
FALSE_ALARM = 0.001
#: Our name -> the recording's, and channels.
GAMES = {"asterix": ("asterix", 4), "breakout_minatar": ("breakout", 4), "freeway_minatar": ("freeway", 7),
         "seaquest": ("seaquest", 10), "space_invaders": ("space_invaders", 6)}  # fmt: skip


class Episodes:
    """Whole episodes of a game: the states before and after each env step, and all that was seen."""

    def __init__(self, name, recording=None):
        self.env = environments.find(name)
        with np.load(HERE / f"minatar_{recording or GAMES[name][0]}.npz") as data:
            columns = {column: data[column] for column in data.files}
        self.about = str(columns.pop("about")).split(",")[0]
        last = columns.pop("last")
        seen = np.unpackbits(columns.pop("observation"), axis=1)[:, : self.env.observation_size]
        fields = [field for field in self.env.state_dtype.names if field in columns and field != "action"]
        whole = replay.states(self.env, {field: columns[field] for field in fields}, len(last))
        steps = np.flatnonzero(~last)
        self.fields, self.before, self.after = fields, whole[steps], whole[steps + 1]
        self.seen_before, self.seen = seen[steps], seen[steps + 1]
        self.reward, self.terminated, self.action = (columns[c][steps] for c in ("reward", "terminated", "action"))
        self.asked = columns["asked"][steps] if "asked" in columns else None
        self.episode = columns["episode"][steps]

    def agrees(self, played, rows, fields=None):
        """Whether all of the state, the reward and the observation are the reference's, for each row."""
        good = (played.reward == self.reward[rows]) & (played.terminated == self.terminated[rows]) & ~played.truncated
        ours, theirs = tidy(self.env, played.after), tidy(self.env, self.after[rows])
        for field in fields or self.fields:
            good &= (ours[field] == theirs[field]).reshape(len(good), -1).all(1)
        return good if fields else good & (played.observation == self.seen[rows]).all(1)


episodes = cache(Episodes)


def tidy(env, states):
    """With zeros where a state has nothing, so that equal states are equal."""
    made = states.copy()
    if env.name == "asterix":
        for field in ("x", "right"):
            made[field][made["kind"] == 0] = 0
    if env.name == "seaquest":
        for count, name in (("shots", "shot"), ("bullets", "bullet"), ("fish", "fish"), ("subs", "sub"), ("divers", "diver")):
            for field in (field for field in made.dtype.names if field.startswith(f"{name}_") and made[field].ndim == 2):
                made[field][np.arange(made[field].shape[1]) >= made[count][:, None]] = 0
    return made


def seen(env, states):
    """What is seen of these states."""
    return np.array([environments.observation(env, state) for state in states])


@pytest.mark.parametrize("name", [name for name in GAMES if name != "freeway_minatar"])
def test_each_env_step_is_minatars(name):
    e = episodes(name)
    played, left = replay.matched(e.env, e.before, e.action, e.agrees, seeds=20_000, sticky=0)
    assert not len(left)
    rows = np.flatnonzero(np.diff(e.episode, prepend=-1))
    np.testing.assert_array_equal(seen(e.env, e.before[rows]), e.seen_before[rows])
    assert played.observation.dtype == np.uint8
    replay.compared(name, e.about, len(e.action))


def test_each_env_step_of_freeway_is_minatars():
    """At a crossing, sixteen numbers are drawn anew: there the rest is compared, then all that is seen of the reference's draw."""
    e = episodes("freeway_minatar")
    crossed = e.reward == 1
    assert crossed.sum() > 30
    played = replay.play(e.env, e.before, e.action, sticky=0)
    rows = np.arange(len(crossed))
    assert e.agrees(played, rows)[~crossed].all()
    assert e.agrees(played, rows, [f for f in e.fields if f not in ("speed", "wait", "right")]).all()
    for drawn in (played.after[crossed], e.after[crossed]):
        assert (drawn["wait"] == drawn["speed"] - 1).all()
    np.testing.assert_array_equal(seen(e.env, e.after[crossed]), e.seen[crossed])
    replay.compared("freeway_minatar", e.about, len(crossed))


def test_the_recordings_hold_what_is_late_or_rare():
    e = episodes("asterix")
    assert e.before["spawn_speed"].min() == 1 and e.before["move_speed"].min() == 1
    assert (e.reward == 1).sum() > 100
    e = episodes("breakout_minatar")
    assert (e.before["bricks"] == 0).any() and ((e.before["bricks"] == 0) & (e.after["bricks"] != 0)).any()
    e = episodes("space_invaders")
    assert e.before["move_interval"].min() <= 9
    assert (e.before["alien_dir"] != e.after["alien_dir"]).sum() > 100
    e = episodes("seaquest")
    surfaced = (e.before["surfaced"] == 0) & (e.after["surfaced"] == 1)
    assert (surfaced & (e.before["aboard"] > 0)).sum() > 10
    assert ((e.before["y"] == 1) & (e.after["y"] == 0) & (e.before["aboard"] == 0) & e.terminated).any()
    assert (e.terminated & (e.before["oxygen"] <= 0)).any()
    assert e.before["bullets"].max() > 1 and e.before["ramp_index"].max() >= 3
    assert (e.after["aboard"] < 0).any() and (e.reward > 5).any()


@pytest.mark.parametrize("name", GAMES)
def test_the_action_before_is_repeated_at_the_stated_rate(name):
    """From one state with the action before set, and another asked for: which of the two was taken."""
    env, n = environments.find(name), 4000
    states = replay.first_states(env, n, seed=1)
    assert (states["action"] == 0).all()
    states["action"] = 1
    for sticky in (0.0, 0.1, 0.5, 1.0):
        taken = replay.play(env, states, np.full(n, 2), seed=2, sticky=sticky).after["action"]
        repeated = int((taken == 1).sum())
        assert (taken == 2).sum() == n - repeated
        assert stats.binomtest(repeated, n, sticky).pvalue > FALSE_ALARM
    e = episodes(name)
    assert (e.asked != e.action).any()  # and so it was in the reference
    np.testing.assert_array_equal(replay.play(env, states, np.full(n, 2), seed=2, sticky=1).after["action"], 1)


def same_distribution(ours, theirs):
    """Two lists of categories could come from one distribution."""
    kinds = sorted(set(ours) | set(theirs))
    table = np.array([[list(drawn).count(kind) for kind in kinds] for drawn in (ours, theirs)])
    assert len(kinds) > 1
    return stats.chi2_contingency(table).pvalue > FALSE_ALARM


def test_what_comes_in_asterix_comes_as_often_as_in_minatar():
    e = episodes("asterix")
    rows = np.flatnonzero(e.before["spawn_timer"] == 0)
    ours = replay.play(e.env, e.before[rows], e.action[rows], seed=3, sticky=0).after

    def drawn(after):
        new = (e.before["kind"][rows] == 0) & (after["kind"] != 0)
        return list(zip(after["kind"][new], after["right"][new], strict=True)), np.nonzero(new)[1]

    (ours, our_rows), (theirs, their_rows) = drawn(ours), drawn(e.after[rows])
    assert len(theirs) > 500
    assert same_distribution(ours, theirs)
    assert same_distribution(our_rows, their_rows)


def test_what_comes_in_seaquest_comes_as_often_as_in_minatar():
    e = episodes("seaquest")
    rows = np.flatnonzero((e.before["spawn_timer"] == 0) | (e.before["diver_timer"] == 0))
    ours = replay.play(e.env, e.before[rows], e.action[rows], seed=4, sticky=0).after

    def newest(after, count, name, wait):
        """(kind, row, direction) where the last of a list has just come."""
        i = np.maximum(after[count].astype(int) - 1, 0)
        at, right, waits = (after[f"{name}_{field}"][np.arange(len(i)), i] for field in ("at", "right", "wait"))
        new = (after[count] > 0) & (at % 10 == np.where(right == 1, 0, 9)) & (waits == wait - 1)
        return [(name, int(row), int(r)) for row, r in zip(at[new] // 10, right[new], strict=True)]

    for what in (("fish", "fish"), ("subs", "sub"), ("divers", "diver")):
        counts = []
        for after in (ours, e.after[rows]):
            due = e.before["diver_timer" if what[0] == "divers" else "spawn_timer"][rows] == 0
            counts.append((newest(after[due], *what, 5 if what[0] == "divers" else after["move_speed"][due]), due.sum()))
        (ours_new, n), (theirs_new, _) = counts
        assert len(theirs_new) > 40
        for part in (1, 2):
            assert same_distribution([new[part] for new in ours_new], [new[part] for new in theirs_new])
        table = [[len(ours_new), n - len(ours_new)], [len(theirs_new), n - len(theirs_new)]]
        assert not (np.array(table)[:, 1] > 0).all() or stats.chi2_contingency(table).pvalue > FALSE_ALARM


def test_cars_are_as_fast_as_in_minatar():
    e = episodes("freeway_minatar")
    crossed = e.reward == 1
    ours = np.concatenate([replay.play(e.env, e.before[crossed], e.action[crossed], seed=5, sticky=0).after,
                           replay.first_states(e.env, 50, seed=6)])  # fmt: skip
    signed = [np.where(drawn["right"] == 1, 1, -1) * drawn["speed"].astype(int) for drawn in (ours, e.after[crossed])]
    assert same_distribution(signed[0].ravel().tolist(), signed[1].ravel().tolist())
    assert stats.chisquare(np.unique(signed[0], return_counts=True)[1]).pvalue > FALSE_ALARM


def test_first_states_are_minatars():
    for name in GAMES:
        e, env = episodes(name), environments.find(name)
        first = e.before[np.flatnonzero(np.diff(e.episode, prepend=-1))]
        ours = replay.first_states(env, 200, seed=7)
        drawn = {"breakout_minatar": ("ball_x", "ball_dir", "last_x"), "freeway_minatar": ("speed", "wait", "right")}.get(name, ())
        for field in e.fields:
            if field not in drawn:
                assert (ours[field] == ours[field][0]).all() and (first[field] == first[field][0]).all()
                np.testing.assert_array_equal(ours[field][0], first[field][0])
            elif name == "breakout_minatar":
                assert set(ours[field]) == set(first[field]) and len(set(ours[field])) == 2
                assert stats.binomtest(int((ours[field] == ours[field].max()).sum()), 200, 0.5).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", ["asterix", "seaquest", "space_invaders"])
def test_without_ramping_it_stays_as_easy(name):
    e = episodes(name)
    level = {"asterix": "spawn_speed", "seaquest": "spawn_speed", "space_invaders": "move_interval"}[name]
    harder = np.flatnonzero(e.after[level] < e.before[level])
    assert len(harder) > 5
    for ramping, falls in ((1, 1), (0, 0)):
        played = replay.play(e.env, e.before[harder], e.action[harder], sticky=0, ramping=ramping).after
        np.testing.assert_array_equal(e.before[level][harder].astype(int) - played[level], falls)


@pytest.mark.parametrize("name", [name for name in GAMES if name != "freeway_minatar"])
def test_a_long_episode_is_truncated(name):
    env = environments.find(name)
    states = replay.first_states(env, 2)
    states["steps"] = (4998, 4999)
    played = replay.play(env, states, np.array([0, 0]), sticky=0)
    assert played.truncated.tolist() == [False, True] and not played.terminated.any()


def test_breakout_is_gymnaxs_too():
    """gymnax's Breakout-MinAtar plays the same game, without sticky actions and with a limit of 1,000 env steps, to which
    MinAtar has none: both of these are left out here."""
    e = Episodes("breakout_minatar", "breakout_gymnax")
    assert e.before["steps"].max() > 1000  # beyond its limit, too
    played = replay.play(e.env, e.before, e.action, sticky=0)
    good = e.agrees(played, np.arange(len(e.action)))
    assert good.all(), f"{(~good).sum()} of {len(good)} differ"
    replay.compared("breakout_minatar", e.about, len(good))
