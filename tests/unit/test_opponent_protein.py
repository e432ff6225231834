"""Protein in a replay: the Gaussian process is one, the rule keeps what its source does, and dear searches end after SLOW_TRIALS."""

import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from sweep import opponent_protein, opponents, replay, space
from sweep.opponent_gp import GaussianProcess
from sweep.opponent_protein import Protein, Seen
from sweep.tables import Recorded, Table

DIMENSIONS = {"hidden": space.parse("hidden", [8, 16, 32], "test"), "learning_rate": space.parse("learning_rate", {"log": [1e-3, 1e-1]}, "test"),
              "optimizer": space.parse("optimizer", ["muon", "adam"], "test"), "layers": space.parse("layers", 1, "test")}  # fmt: skip


def table(rows=40, run_seconds=2.0):
    """The closer the learning rate to 0.02 the sooner a run solves; its curve rises in proportion."""
    rng = np.random.default_rng(0)
    params = [space.sample(DIMENSIONS, rng) for _ in range(rows)]
    runs = []
    for p in params:
        seconds = run_seconds * 0.05 * math.exp(abs(math.log(p["learning_rate"] / 0.02)))
        curve = np.column_stack([np.linspace(0.05, 0.95, 12) * seconds, np.linspace(10, 90, 12)]).astype(np.float32)
        runs.append([Recorded("solved", seconds, 100, curve)] * 2)
    return Table("made", run_seconds, 100.0, DIMENSIONS, {}, params, [p["hidden"] for p in params], ["random"] * rows, runs)


def log_posterior(raw, x, y):
    """Of a Gaussian process with these unconstrained values, the plain way."""
    axes = x.shape[1]
    lengths, variance, noise, offset = np.split(np.logaddexp(0, raw), [axes, axes + 1, axes + 2])
    noise = noise + 1e-4
    distance = np.sqrt((((x[:, None] - x[None]) / lengths) ** 2).sum(-1))
    kernel = variance * (1 + 3**0.5 * distance) * np.exp(-(3**0.5) * distance) + x @ x.T + offset + noise * np.eye(len(x))
    likelihood = -0.5 * y @ np.linalg.solve(kernel, y) - 0.5 * np.linalg.slogdet(kernel)[1]
    prior = -0.5 * ((np.log(noise) - np.log(1e-2)) / 0.5) ** 2 - np.log(noise)
    return float((likelihood + prior - np.log1p(np.exp(-raw[axes + 1]))).item())


def test_the_gradient_is_that_of_the_posterior():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (40, 3))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(40)
    model = GaussianProcess(3)
    model._raw += rng.normal(0, 0.3, 6)
    steps = 1e-5 * np.eye(6)
    numeric = [(log_posterior(model._raw + s, x, y) - log_posterior(model._raw - s, x, y)) / 2e-5 for s in steps]
    assert np.allclose(-model._gradient(x.astype(np.float32), y.astype(np.float32)), numeric, rtol=1e-3)


def test_the_model_predicts_and_learns_which_axis_matters():
    rng = np.random.default_rng(0)
    x, fresh = rng.uniform(-1, 1, (120, 3)), rng.uniform(-1, 1, (200, 3))
    model = GaussianProcess(3)
    for _ in range(10):
        model.fit(x, np.sin(3 * x[:, 0]))
    assert np.sqrt(np.mean((model.mean(fresh) - np.sin(3 * fresh[:, 0])) ** 2)) < 0.1  # alone their spread is 0.7
    lengths = model.values[:3]
    assert lengths[0] < min(lengths[1:])


def test_points_that_repeat_need_more_noise_and_get_it():
    model = GaussianProcess(2)
    model._raw[:2] = 5.0
    model.fit(np.tile([[0.3, -0.2]], (300, 1)), np.ones(300))
    assert np.isfinite(model.mean(np.array([[0.3, -0.2]]))).all()


def run(status="censored", seconds=1.0, points=20):
    at = np.linspace(0.05, 1.0, points) * seconds
    return SimpleNamespace(status=status, cpu_seconds=seconds, curve=np.column_stack([at, at, at, np.arange(points, dtype=float)]))


def test_a_run_gives_five_points_and_the_solve_is_one():
    found = opponent_protein.observations(run(points=21), 100.0)
    assert np.allclose([score for _, score in found], [2, 7, 12, 17, 20])
    assert opponent_protein.observations(run("solved"), 100.0)[-1] == (1.0, 100.0)
    assert len(opponent_protein.observations(run(points=2), 100.0)) == 2
    unfinished = run()
    unfinished.curve[:, 3] = np.nan
    assert opponent_protein.observations(unfinished, 100.0) == []


def test_the_same_params_overwrite_and_the_too_short_is_left_out():
    protein = Protein(table(), 0)
    for score in (1.0, 2.0):
        protein._observe(Seen(protein._x(3, 0.5), score, 0.5))
    assert [s.score for s in protein.seen] == [2.0]
    protein._observe(Seen(protein._x(3, protein.shortest / 2), 3.0, protein.shortest / 2))
    assert len(protein.seen) == 1
    assert protein._x(3, 2.0)[-1] == pytest.approx(1) and protein._x(3, protein.shortest)[-1] == pytest.approx(-1)


def test_the_front_ends_where_more_cost_gains_little():
    protein = Protein(table(), 0)
    x = protein._x(0, 1.0)
    protein.seen = [Seen(x, score, cost) for score, cost in [(10, 1), (60, 2), (5, 3), (99, 4), (99.5, 40), (99.6, 100)]]
    assert [s.cost for s in protein._front()] == [1, 2, 4]
    protein.seen = [Seen(x, score, cost) for score, cost in [(10, 1), (60, 2), (99, 4)]]
    assert [s.cost for s in protein._front()] == [1, 2, 4]


def test_no_run_is_stopped_before_ten_seconds_and_then_by_the_quantile():
    protein = Protein(table(run_seconds=100.0), 0)
    rng = np.random.default_rng(0)
    costs = rng.uniform(1, 50, 400)
    protein.seen = [Seen(protein._x(0, c), 20 + 10 * math.log(c) + rng.standard_normal(), c) for c in costs]
    assert protein._floor(100.0) == []  # nothing fitted yet
    protein.bound = 40.0
    protein._fit_line()
    intercept, slope = protein.line
    # The 30% quantile of a standard normal is -0.52; five standard errors of a quantile from 400 are 0.33.
    middle = 10 * math.log(20) + 20
    assert abs(intercept + slope * math.log(20) - (middle - 0.52)) < 0.33
    floor = protein._floor(100.0)
    assert floor[0][0] == pytest.approx(0.3 * 40 + 10) and floor[-1][0] == pytest.approx(100)
    assert floor[-1][1] == pytest.approx(0.9 * max(s.score for s in protein.seen))
    assert protein._floor(20.0) == []


def test_suggestions_come_to_score_high_for_what_they_cost():
    protein, rng = Protein(table(), 0), np.random.default_rng(1)

    def score(x):
        return 100 * math.exp(-4 * (x[1] - 0.4) ** 2) * (x[-1] + 1) / 2

    for x in rng.uniform(-0.99, 1, (60, protein.axes)):
        protein._observe(Seen(x, score(x), protein.shortest * 256 ** ((x[-1] + 1) / 2)))
    protein._suggested = 11
    suggested = [protein._suggest() for _ in range(12)]
    away = [abs(x[1] - 0.4) for x in suggested]
    assert np.median(away) < 0.25  # evenly drawn it is 0.6
    # The targets span the range of costs: suggestions are not all at one length.
    assert np.ptp([x[-1] for x in suggested]) > 0.5


def test_it_finds_the_fast_rows_of_a_table(monkeypatch):
    monkeypatch.setattr(replay.SimulatedPool, "charge", lambda self, seconds: None)
    made = table(30)
    erts = np.array([made.true_ert(row) for row in range(30)])
    found = [opponents.method("protein")(made, seed, [1e9], 1)[-1] for seed in (0, 1, 0)]
    assert found[0] == found[2] != found[1]
    # All rows are tried, but each once and for the time that the rule gives it.
    assert all(np.mean(erts < erts[f.recommended]) < 0.1 for f in found)


@pytest.mark.parametrize("name", ["protein", "tpe", "plain-random"])
def test_dear_searches_end_after_their_trials(monkeypatch, name):
    monkeypatch.setattr(opponents, "SLOW", (name,))
    monkeypatch.setattr(opponents, "SLOW_TRIALS", 7)
    had, nearest = [], replay.World.nearest

    def counted(self, *args):
        row = nearest(self, *args)
        had.append(row)
        return row

    monkeypatch.setattr(replay.World, "nearest", counted)
    opponents.method(name)(table(), 0, [1.0, 1e4], 2)
    rows = [row for row in had if row is not None]
    assert len(rows) == len(set(rows)) == 7


def test_what_is_not_installed_is_one_line(monkeypatch):
    for name, (module, _) in opponents.NEEDS.items():
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(opponents.MethodError, match="which is not here .*: pip install"):
            opponents.method(name)
