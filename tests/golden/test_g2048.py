"""2048 against recordings of Jumanji's Game2048-v1."""

from pathlib import Path

import numpy as np
import pytest
import replay

from trainer_native import environments

JUMANJI = "Jumanji 1.1.2"
ALARM = 1e-6  # of each statistical test: how often it fails where all is well


@pytest.fixture(scope="module")
def recording():
    with np.load(Path(__file__).parent / "g2048.npz") as data:
        return {name: data[name] for name in data.files}


def test_every_move_is_as_recorded(recording):
    env, n = environments.find("g2048"), len(recording["action"])
    before = replay.states(env, {"tiles": recording["tiles"], "legal": recording["legal"]}, n)
    played, unmatched = replay.matched(
        env,
        before,
        recording["action"],
        lambda p, rows: (p.after["tiles"] == recording["after"][rows]).all(1),
        seeds=3000,
    )
    assert not len(unmatched), recording["tiles"][unmatched[0]].reshape(4, 4)
    replay.compared("g2048", JUMANJI, n)
    assert (played.reward == recording["reward"]).all() and (played.after["score"] == recording["reward"]).all()
    assert (played.terminated == recording["terminal"]).all() and not played.truncated.any()
    assert (played.observation[:, :16] == recording["after"]).all()
    inside = np.flatnonzero(~recording["first"][1:])
    assert (played.observation[inside, 16:] == recording["legal"][inside + 1]).all()
    assert (played.after["legal"].any(1) == ~recording["terminal"]).all()


def test_the_recording_holds_all_kinds_of_moves(recording):
    assert recording["terminal"].sum() >= 40  # games to their end
    passed = (recording["tiles"] == recording["after"]).all(1)
    assert (recording["legal"][np.arange(len(passed)), recording["action"]] == ~passed).all() and passed.sum() > 200
    gone = (recording["tiles"] > 0).sum(1) + 1 - (recording["after"] > 0).sum(1)
    assert {0, 1, 2, 3, 4} <= set(gone[~passed])  # tiles that merged at once
    assert np.bincount(recording["action"], minlength=4).min() > 500 and recording["tiles"].max() == 16


def test_tiles_appear_anywhere_and_one_in_ten_is_a_4():
    env, n = environments.find("g2048"), 40_000
    tiles = replay.first_states(env, n, seed=4)["tiles"]
    assert ((tiles > 0).sum(1) == 1).all()

    def near(count, p):  # Hoeffding
        return abs(count / n - p) <= np.sqrt(np.log(2 / ALARM) / (2 * n))

    assert near((tiles == 2).sum(), 0.1) and all(near(count, 1 / 16) for count in (tiles > 0).sum(0))
    board = np.array(
        [1, 0, 2, 3, 4, 0, 5, 6, 7, 8, 0, 9, 10, 11, 12, 13], np.uint8
    )  # after a move up: empty at 9, 13 and 10
    before = replay.states(env, {"tiles": np.tile(board, (n, 1)), "legal": 1}, n)
    after = replay.play(env, before, np.zeros(n, int), seed=5).after["tiles"]
    moved = replay.play(env, before[:1], np.zeros(1, int)).after["tiles"][0]
    new = np.array([9, 13, 14])
    assert (np.delete(after, new, 1) == np.delete(moved, new)).all() and ((after[:, new] > 0).sum(1) == 1).all()
    assert near((after[:, new] == 2).sum(), 0.1) and all(near(count, 1 / 3) for count in (after[:, new] > 0).sum(0))


def test_a_game_is_cut_at_its_limit():
    env = environments.find("g2048")
    before = np.repeat(replay.first_states(env, 1), 2)
    before["steps"] = [4999, 4998]
    played = replay.play(env, before, np.zeros(2, int))
    assert list(played.truncated) == [True, False] and not played.terminated.any()
