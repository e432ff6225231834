"""Learning curves of this trainer beside those recorded from others that do the same work, and the tests that compare.

Seeds are fixed: a test passes or fails for good. Each comparison of equals would fail with probability 0.05 (the band)
and 0.01 (whole curves) at most, over the choice of seeds."""

import learning_bands
import learning_recordings
import numpy as np
import pytest
import same_work
from learning_recordings import Recording

OTHERS = ("purejaxrl", "sb3")


def recorded(name):
    return learning_recordings.load(learning_recordings.FOLDER / f"learning_{name}.npz")


def grid_of(recording):
    return np.arange(1, 41) * (recording.about["env_steps"] // 40)


@pytest.mark.parametrize("name", OTHERS)
def test_the_recordings_are_whole_runs_of_20_seeds_that_learnt(name):
    recording = recorded(name)
    assert len(recording.lengths) == recording.about["seeds"] == 20
    for seed in range(20):
        ends, returns = recording.episodes(seed)
        assert (np.diff(ends) >= 0).all()
        assert ends[-1] <= recording.about["env_steps"] + 1000
        assert recording.about["env_steps"] - sum(copy.sum() for copy in recording.lengths[seed]) < 500 * len(recording.lengths[seed])
        assert returns.min() >= 8
        assert returns[-20:].mean() > 450
        assert returns[:20].mean() < 60


def test_a_curve_is_the_mean_of_the_last_episodes():
    rng = np.random.default_rng(1)
    recording = Recording([[rng.integers(8, 60, 40) for _ in range(4)] for _ in range(2)], {})
    env_steps = np.arange(16, 1600, 16)
    curves = learning_bands.curves_of(recording, env_steps)
    for seed, copies in enumerate(recording.lengths):
        finished, playing, at = [], [0] * 4, [0] * 4
        for step in range(1, 400):
            for copy in range(4):
                playing[copy] += 1
                if playing[copy] == copies[copy][at[copy]]:
                    finished.append(playing[copy])
                    playing[copy], at[copy] = 0, at[copy] + 1
            if step % 4 == 0:
                expected = np.mean(finished[-20:]) if len(finished) >= 10 else np.nan
                np.testing.assert_allclose(curves[seed, step // 4 - 1], expected)


@pytest.mark.parametrize("name", OTHERS)
def test_a_recording_survives_its_file(name, tmp_path):
    before = recorded(name)
    learning_recordings.save(before, tmp_path / "copy.npz")
    after = learning_recordings.load(tmp_path / "copy.npz")
    assert after.about == before.about
    for mine, yours in zip(after.lengths, before.lengths, strict=True):
        for one, other in zip(mine, yours, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", OTHERS)
def test_equals_are_refused_as_often_as_stated(name, monkeypatch):
    """The 20 seeds dealt into two tens at random. Of 100 at 0.05, more than 12 with probability 0.002; at 0.01, more than
    5 with probability 0.0005."""
    monkeypatch.setattr(learning_bands, "PERMUTATIONS", 999)
    recording, rng = recorded(name), np.random.default_rng(2)
    grid = grid_of(recording)
    curves, left, refused = learning_bands.curves_of(recording, grid), 0, 0
    for draw in range(100):
        order = rng.permutation(20)
        found = learning_bands.compare(grid, curves[order[:10]], curves[order[10:]], seed=draw)
        assert found.within == (found.band_p > learning_bands.BAND_ERROR)
        left += not found.within
        refused += found.curves_p <= learning_bands.CURVES_ERROR
    assert left <= 12
    assert refused <= 5


@pytest.mark.parametrize("name", OTHERS)
def test_learning_a_fifth_slower_is_refused(name):
    """What both tests can see: the same curves, each reached after 20% more env steps."""
    recording = recorded(name)
    grid = grid_of(recording)
    curves = learning_bands.curves_of(recording, grid)
    found = learning_bands.compare(grid, learning_bands.curves_of(recording, (grid / 1.2).astype(int)), curves)
    assert not found.alike


def beside(name, env_steps, **other):
    """The comparison of 20 seeds of this trainer with the recording, over the first `env_steps`."""
    runs = [same_work.ours(name, seed, env_steps, **other) for seed in range(20)]
    grid = runs[0].curve[:, 2].astype(np.int64)
    return learning_bands.compare(grid, np.array([run.curve[:, 3] for run in runs]),
                                  learning_bands.curves_of(recorded(name), grid))


@pytest.mark.parametrize(("name", "env_steps"), [("purejaxrl", 153_600), ("sb3", 40_960)])
def test_the_same_work_is_learnt_alike(name, env_steps):
    """The first 30% and 40% of their runs, where most of the learning is; scripts/compare_learning.py compares whole runs."""
    found = beside(name, env_steps)
    assert found.within, f"band: p = {found.band_p}"
    assert found.curves_p > learning_bands.CURVES_ERROR


@pytest.mark.parametrize(("name", "env_steps", "other"), [
    ("purejaxrl", 51_200, {"value_clip": 0.0}),
    ("purejaxrl", 51_200, {"gradient_norm": 0.0}),
    ("sb3", 20_480, {"epochs": 10}),
])
def test_work_that_differs_in_one_param_is_refused(name, env_steps, other):
    assert not beside(name, env_steps, **other).alike
