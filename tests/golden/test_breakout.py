"""Breakout against recorded transitions: the extract beside this file, and the whole recording where it is at hand."""

from pathlib import Path

import numpy as np
import pytest
import replay

from trainer_native import environments

HERE = Path(__file__).parent
RECORDINGS = [HERE / "breakout.npz", HERE.parents[2] / "shared" / "golden" / "breakout.npz"]
PIXELS = ["paddle_x", "ball_x", "ball_y", "ball_vx", "ball_vy"]  # to within 1e-3; all else exactly
EXACT = ["paddle_width", "ball_speed", "hits", "balls_fired", "balls_left", "score", "paddle_y"]


@pytest.fixture(scope="module", params=RECORDINGS, ids=["extract", "whole"])
def recording(request):
    if not request.param.is_file():
        pytest.skip("the whole recording is not beside the repository")
    with np.load(request.param) as data:
        return {name: data[name] for name in data.files}


@pytest.fixture(scope="module")
def played(recording):
    """Our states, outcomes and observations after each recorded transition; launches mirrored to the recorded side."""
    env = environments.find("breakout")
    n, names = len(recording["action"]), list(recording["names"])
    before, after = np.zeros(n, env.state_dtype), np.zeros(n, env.state_dtype)
    for column, name in enumerate(names):
        before[name] = recording["before"][:, column]
    before["bricks"] = np.unpackbits(recording["bricks_before"], axis=1)[:, :108]
    rewards, terminated, observations = np.zeros(n), np.zeros(n, bool), np.zeros((n, 118), np.float32)
    for i in range(n):
        after[i], rewards[i], terminated[i], truncated, _ = environments.transition(
            env, before[i], int(recording["action"][i]), seed=i, frameskip=1)  # fmt: skip
        assert not truncated
    for i in recording["observation_rows"]:  # as recorded: after the reset, where the episode ended
        observations[i] = environments.observation(env, after[i])
    launched_wrongly = (before["balls_fired"] == 0) & (
        np.sign(after["ball_vx"]) != np.sign(recording["after"][:, names.index("ball_vx")]))  # fmt: skip
    after["ball_vx"][launched_wrongly] *= -1
    after["ball_x"][launched_wrongly] = 544 - after["ball_x"][launched_wrongly]
    observations[launched_wrongly, 2] = after["ball_x"][launched_wrongly] / np.float32(576)
    observations[launched_wrongly, 4] *= -1
    return {"before": before, "after": after, "rewards": rewards, "terminated": terminated,
            "observations": observations, "launched_wrongly": launched_wrongly}  # fmt: skip


@pytest.mark.parametrize("name", PIXELS + EXACT)
def test_state(recording, played, name):
    expected = recording["after"][:, list(recording["names"]).index(name)]
    error = np.abs(played["after"][name].astype(np.float64) - expected)
    if name == PIXELS[0]:
        replay.compared("breakout", "PufferLib 3.0", len(error))
    replay.compared("breakout", "PufferLib 3.0", 0, error.max())
    wrong = np.flatnonzero(error > (1e-3 if name in PIXELS else 0))
    assert not len(wrong), f"{len(wrong)} transitions, the first is {wrong[0]}: {played['before'][wrong[0]]}"


def test_bricks(recording, played):
    expected = np.unpackbits(recording["bricks_after"], axis=1)[:, :108]
    np.testing.assert_array_equal(played["after"]["bricks"], expected)


def test_rewards_and_endings(recording, played):
    np.testing.assert_array_equal(played["rewards"], recording["reward"])
    np.testing.assert_array_equal(played["terminated"], recording["terminal"].astype(bool))


def test_observations(recording, played):
    rows = recording["observation_rows"]
    np.testing.assert_allclose(played["observations"][rows], recording["observations"], rtol=0, atol=3e-6)


def test_both_sides_are_launched_to(played):
    launches = played["before"]["balls_fired"] == 0
    share = played["launched_wrongly"][launches].mean()
    assert 0.2 < share < 0.8  # the recorded sides are fair coins, and so are ours
