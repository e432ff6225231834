"""Pong, Squared, Snake and Freeway against recordings of PufferLib 3.0's own."""

from pathlib import Path

import numpy as np
import pytest
import replay

from trainer_native import environments

HERE = Path(__file__).parent
PUFFERLIB = "PufferLib 3.0"
ALARM = 1e-6  # of each statistical test below: how often it fails where all is well


def recorded(path):
    if not path.is_file():
        pytest.skip("the whole recording is not beside the repository")
    with np.load(path) as data:
        return {name: data[name] for name in data.files}


def transitions(recording):
    """The rows that are transitions, and those among them whose next row is the state after them."""
    inside = np.append(~recording["first"][1:], False)
    return np.flatnonzero(recording["action"] != 255), np.flatnonzero(inside & (recording["action"] != 255))


def observed(env, states):
    return np.stack([environments.observation(env, state) for state in states])


def binomial_agrees(hits, n, p):
    """Whether so many of n are as likely as p says: false for at most ALARM of fair draws (Hoeffding)."""
    return abs(hits / n - p) <= np.sqrt(np.log(2 / ALARM) / (2 * n))


# -- pong ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[HERE, HERE.parents[2] / "shared" / "golden"], ids=["extract", "whole"])
def pong(request):
    """The recording and ours, which serves as it did; `inside`: transitions within an episode."""
    recording, env = recorded(request.param / "pong.npz"), environments.find("pong")
    ours = {"paddle_yl": "opponent_y", "paddle_yr": "player_y", "score_l": "opponent_score", "score_r": "player_score"}
    recording["names"] = [ours.get(str(name), str(name)) for name in recording["names"]]
    after = dict(zip(recording["names"], recording["after"].T, strict=True))
    before = replay.states(
        env, dict(zip(recording["names"], recording["before"].T, strict=True)), len(after["ball_vy"])
    )
    played, unmatched = replay.matched(
        env, before, recording["action"], lambda p, rows: p.after["ball_vy"] == after["ball_vy"][rows]
    )
    assert not len(unmatched), before[unmatched[:3]]
    return {**recording, "played": played, "after": after, "inside": recording["terminal"] == 0}


def test_pong_plays_as_recorded(pong):
    played, inside = pong["played"], pong["inside"]
    errors = [np.abs(played.after[name] - pong["after"][name])[inside].max() for name in pong["names"]]
    replay.compared("pong", PUFFERLIB, len(inside), max(errors))
    assert max(errors) == 0, dict(zip(pong["names"], errors, strict=True))
    assert (played.reward == pong["reward"]).all()
    assert (played.terminated == ~inside).all() and not played.truncated.any()
    assert (np.maximum(played.after["player_score"], played.after["opponent_score"])[~inside] == 21).all()


def test_pong_is_seen_as_recorded(pong):
    in_play = np.abs(pong["reward"]) < 0.5  # after a point there the frame before the serve is seen
    assert (pong["played"].observation[in_play] == pong["observations"][in_play, :6]).all()
    assert (pong["observations"][:, 6:] == 0).all()  # its scores, which ours leaves out


def test_pong_serves_both_ways():
    served = replay.first_states(environments.find("pong"), 4000, seed=3)["ball_vy"]
    assert binomial_agrees((served == 0).sum(), 4000, 0.5) and set(np.unique(served)) == {-1.0, 0.0}


def test_pong_is_cut_after_its_frames():
    env = environments.find("pong")
    before = np.repeat(replay.first_states(env, 1), 3)
    before["frames"] = [39_992, 39_991, 39_992]
    before["ball_x"][2], before["player_score"][2] = 1, 20
    before["ball_vx"][2], before["ball_y"][2], before["opponent_y"][2] = -10, 500, 0
    played = replay.play(env, before, np.zeros(3, int))
    assert list(played.truncated) == [True, False, False] and list(played.terminated) == [False, False, True]


# -- squared -------------------------------------------------------------------------------------------------


def test_squared_plays_as_recorded():
    recording, env = recorded(HERE / "squared.npz"), environments.find("squared")
    before = replay.states(
        env,
        dict(zip(["row", "column", "steps", "target"], recording["state"].T, strict=True)),
        len(recording["action"]),
    )
    rows, inside = transitions(recording)
    assert len(rows) == len(before)  # each episode ends by the rules
    played = replay.play(env, before, recording["action"])
    replay.compared("squared", PUFFERLIB, len(rows))
    assert (played.reward == recording["reward"]).all()
    assert (played.terminated == recording["terminal"]).all() and not played.truncated.any()
    for name in ("row", "column", "steps", "target"):
        assert (played.after[name][inside] == before[name][inside + 1]).all(), name
    ours = np.array([1, 0, 2], np.uint8)  # of what is there empty, walker, target
    assert (played.observation[inside] == ours[recording["seen"][inside + 1]]).all()
    ends = recording["reward"][recording["terminal"]]
    assert (ends == 1).sum() > 100 and (before["steps"][recording["terminal"]] == 33).sum() > 20  # all three endings
    assert ((ends == -1) & (before["steps"][recording["terminal"]] < 33)).sum() > 50


def test_squared_draws_its_target_as_recorded():
    env = environments.find("squared")
    targets = replay.first_states(env, 24_000, seed=5)["target"]
    counts = np.bincount(targets, minlength=121)
    assert counts[60] == 0
    assert all(binomial_agrees(count, 24_000, 1 / 120) for i, count in enumerate(counts) if i != 60)
    recording = recorded(HERE / "squared.npz")
    theirs = recording["state"][recording["first"], 3]
    assert 60 not in theirs and set(theirs) <= set(range(121))


# -- snake ---------------------------------------------------------------------------------------------------

FIELD = slice(5, 21)  # of a grid's 26 rows and columns
MEANING = np.array([1, 2, 255, 0, 255, 255, 255, 0], np.uint8)  # of PufferLib's tiles: 1 empty, 2 food, 0 wall or snake


@pytest.fixture(scope="module")
def snake():
    recording, env = recorded(HERE / "snake.npz"), environments.find("snake")
    n = len(recording["action"])
    body = recording["body"].reshape(n, 256, 2).astype(int)
    cells = np.where(body[:, :, 0] < 5, 0, (body[:, :, 0] - 5) * 16 + body[:, :, 1] - 5)
    columns = {
        "length": recording["length"],
        "head": recording["head"],
        "body": cells,
        "grid": MEANING[recording["grid"]],
    }
    return recording, env, replay.states(env, columns, n)


def test_snake_plays_as_recorded(snake):
    recording, env, before = snake
    rows, inside = transitions(recording)
    following = np.zeros(len(before), int)
    following[inside] = inside + 1
    checked = np.isin(rows, inside)

    def agrees(played, tried):
        same = (played.after["grid"] == before["grid"][following[rows[tried]]]).all(1)
        return same | ~checked[tried]

    played, unmatched = replay.matched(env, before[rows], recording["action"][rows], agrees, seeds=3000)
    assert not len(unmatched), recording["length"][rows[unmatched]]
    replay.compared("snake", PUFFERLIB, len(rows))
    assert (played.reward == recording["reward"][rows]).all()
    assert (played.terminated == (recording["reward"][rows] == -1)).all()
    after, expected = played.at(checked), before[inside + 1]
    for name in ("length", "head"):
        assert (after.after[name] == expected[name]).all(), name
    for back in range(30):  # the body, as far as it goes
        at = (expected["head"] - back) % 256
        alive, i = back < expected["length"], np.arange(len(expected))
        assert (after.after["body"][i, at] == expected["body"][i, at])[alive].all()
    assert (after.observation == MEANING[recording["seen"][inside + 1]]).all()


def test_snake_meets_all_its_fates(snake):
    recording, _, before = snake
    deaths = recording["reward"] == -1
    row, column = np.divmod(before["body"][np.arange(len(before)), before["head"]], 16)
    a = recording["action"]
    at_wall = (
        ((row == 0) & (a == 0)) | ((row == 15) & (a == 1)) | ((column == 0) & (a == 2)) | ((column == 15) & (a == 3))
    )
    assert (deaths & at_wall).sum() > 10 and (deaths & ~at_wall).sum() > 10  # walls, and itself
    assert recording["length"].max() > 60 and (recording["reward"] > 0).sum() > 500


def test_snake_grows_to_its_longest():
    env = environments.find("snake")
    before = replay.first_states(env, 1)
    path = np.array([row * 16 + (column if row % 2 == 0 else 15 - column) for row in range(16) for column in range(16)])
    before["body"][0], before["head"], before["length"] = path, 254, 255  # all but the last cell
    grid = np.zeros((26, 26), np.uint8)
    grid[20, 5] = 2
    before["grid"][0] = grid.ravel()
    played = replay.play(env, before, np.array([2]))
    assert played.reward[0] == np.float32(0.1) and played.after["length"][0] == 255
    assert played.after["grid"][0].reshape(26, 26)[5, 5] == 1 and played.after["head"][0] == 255


def test_snake_and_food_begin_anywhere():
    env, n = environments.find("snake"), 8000
    states = replay.first_states(env, n, seed=2)
    grids = states["grid"].reshape(n, 26, 26)
    assert ((grids == 2).sum((1, 2)) == 4).all() and (states["length"] == 1).all()
    food = (grids[:, FIELD, FIELD] == 2).sum(0).ravel()
    heads = np.bincount(states["body"][:, 0], minlength=256)
    assert all(binomial_agrees(count, n, 4 / 256) for count in food) and all(
        binomial_agrees(count, n, 1 / 256) for count in heads
    )
    walls = grids.copy()
    walls[:, FIELD, FIELD] = 0
    assert (walls == 0).all()


# -- freeway -------------------------------------------------------------------------------------------------


def test_freeway_plays_as_recorded():
    recording, env = recorded(HERE / "freeway.npz"), environments.find("freeway")
    first = np.flatnonzero(recording["first"])
    kept = np.cumsum(recording["often"]) - 1
    length = np.unique(np.diff(first))
    assert length == [2040]
    worst = seen = 0
    for difficulty in (0, 1):
        rows = first[recording["params"][:, 1] == difficulty]
        state = replay.states(env, {
            "player_y": recording["player_y"][rows], "lane": 0, "stunned": 0, "score": 0, "frames": 0,
            "level": recording["params"][recording["params"][:, 1] == difficulty, 0],
            "speed": recording["speed"][rows], "car_x": recording["car_x"][kept[rows]]}, len(rows))  # fmt: skip
        for t in range(2040):
            row = rows + t
            for name in ("player_y", "lane", "stunned", "score", "frames"):
                assert (state[name] == recording[name][row]).all(), (name, t)
            if recording["often"][row[0]]:
                worst = max(worst, np.abs(state["car_x"] - recording["car_x"][kept[row]]).max())
                seen = max(seen, np.abs(observed(env, state) - recording["seen"][kept[row]]).max())
            played = replay.play(env, state, recording["action"][row], level=-1, difficulty=difficulty)
            assert (played.reward == recording["reward"][row]).all(), t
            assert (played.terminated == recording["terminal"][row]).all() and not played.truncated.any()
            state = played.after
            if t + 1 < 2040:
                changed = state["level"] >= 4 if (t + 1) % 90 == 0 else np.zeros(len(rows), bool)
                assert (state["speed"] == recording["speed"][row + 1])[~changed].all(), t
                assert (np.abs(state["speed"] - recording["speed"][row + 1]) <= 4).all()
                state["speed"] = recording["speed"][row + 1]  # drawn at random
    replay.compared("freeway", PUFFERLIB, len(recording["action"]), worst)
    assert worst == 0 and seen == 0
