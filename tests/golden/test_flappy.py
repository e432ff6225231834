"""Flappy Bird against recordings of flappy-bird-gymnasium."""

from pathlib import Path

import numpy as np
import pytest
import replay

from trainer_native import environments

REFERENCE = "flappy-bird-gymnasium 0.4.0"
ALARM = 1e-6  # of the statistical test: how often it fails where all is well
BIRD = ["y", "speed", "rotation"]


def ours(env, columns):
    """Its states as ours, with the pipes in order: columns y, speed, rotation, three times left side and gap, score."""
    states = replay.states(env, dict(zip(BIRD, columns[:, :3].T, strict=True)) | {"score": columns[:, 9]}, len(columns))
    pipes = columns[:, 3:9].reshape(-1, 3, 2)
    order = np.argsort(pipes[:, :, 0], axis=1)
    states["pipe_x"], states["gap_y"] = np.take_along_axis(pipes, order[:, :, None], axis=1).transpose(2, 0, 1)
    return states


@pytest.fixture(scope="module")
def recording():
    with np.load(Path(__file__).parent / "flappy.npz") as data:
        return {name: data[name] for name in data.files}


def test_every_frame_is_as_recorded(recording):
    env, n = environments.find("flappy"), len(recording["action"])
    before = ours(env, recording["before"])
    last = np.append(recording["first"][1:], True)
    expected = np.empty(n, env.state_dtype)
    expected[~last] = before[np.flatnonzero(~last) + 1]
    expected[last] = ours(env, recording["last"])
    played, unmatched = replay.matched(
        env, before, recording["action"], lambda p, rows: (p.after["gap_y"] == expected["gap_y"][rows]).all(1)
    )
    assert not len(unmatched)
    worst = max(np.abs(played.after[name].astype(float) - expected[name]).max() for name in ["y", "pipe_x"])
    alive = ~recording["terminal"][
        ::8
    ]  # the last observation is never acted on; there it is taken before the bird stops
    seen = np.abs(played.observation[::8] - recording["seen"])[alive].max()
    replay.compared("flappy", REFERENCE, n, max(worst, seen))
    assert worst < 1e-4 and seen < 1e-6  # px; the reference counts in float64
    for name in ("speed", "rotation", "score"):
        assert (played.after[name] == expected[name]).all(), name
    assert (played.reward == recording["reward"]).all()
    assert (played.terminated == recording["terminal"]).all() and not played.truncated.any()


def test_the_recording_holds_all_that_happens(recording):
    assert set(np.round(recording["reward"], 3)) == {np.float32(x) for x in (-1, -0.5, 0.1, 1)}
    crashes = recording["last"][recording["terminal"][np.append(recording["first"][1:], True)]]
    on_ground = crashes[:, 0] + 24 >= 403.48
    assert on_ground.sum() > 5 and (~on_ground).sum() > 5 and recording["before"][:, 2].min() < -40
    assert recording["before"][:, 9].max() > 10 and (recording["before"][:, 0] < -24).any()


def test_gaps_are_drawn_as_there():
    gaps = replay.first_states(environments.find("flappy"), 20_000, seed=6)["gap_y"]
    values, counts = np.unique(gaps, return_counts=True)
    assert list(values) == list(range(100, 180, 10))
    assert np.abs(counts / gaps.size - 1 / 8).max() <= np.sqrt(np.log(2 / ALARM) / (2 * gaps.size))  # Hoeffding


def test_an_episode_has_52_pipes():
    env = environments.find("flappy")
    state, n = replay.first_states(env, 1), 0
    truncated = False
    while not truncated:
        state["y"], state["speed"] = state["gap_y"][0, int(state["pipe_x"][0, 0] < 0)] + 30, 0  # carried through
        played = replay.play(env, state, np.zeros(1, int), seed=n)
        assert not played.terminated[0], state
        state, truncated, n = played.after, played.truncated[0], n + 1
    assert n == 2000 and state["score"][0] == 52
