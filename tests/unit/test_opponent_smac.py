"""SMAC3 in a replay: its space is the table's, its caps are the incumbent's, and it is told of the settings that it got."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

pytest.importorskip("smac", reason="SMAC3 is not installed: pip install 'smac>=2.4' 'scikit-learn<1.9'", exc_type=ImportError)

from sweep import opponent_smac, opponents, replay, space
from sweep.opponent_smac import Smac
from sweep.tables import Recorded, Table

DIMENSIONS = {name: space.parse(name, value, "test") for name, value in {
    "hidden": [8, 16, 32], "learning_rate": {"log": [1e-3, 1e-1]}, "gamma": {"near_one": [0.9, 0.999]}, "horizon": {"pow2": [8, 64]},
    "optimizer": ["muon", "adam"], "layers": 1}.items()}  # fmt: skip


def table(rows=30, solves=True):
    rng = np.random.default_rng(0)
    params = [space.sample(DIMENSIONS, rng) for _ in range(rows)]
    runs = []
    for p in params:
        typical = 0.1 * math.exp(abs(math.log(p["learning_rate"] / 0.02)) + (p["optimizer"] == "adam"))
        times = np.minimum(typical * np.exp(0.3 * rng.standard_normal(8)), 2.0)
        curve = np.array([[0.01, 5.0]], np.float32)
        runs.append([Recorded("solved" if solves and t < 2 else "censored", float(t) if solves else 2.0, 100, curve) for t in times])
    return Table("made", 2.0, 100.0, DIMENSIONS, {}, params, [3 * p["hidden"] ** 2 for p in params], ["random"] * rows, runs)


@pytest.fixture
def trials(monkeypatch):
    """(trial, run) of each run of a replay, in the order in which they ended."""
    seen, goes_on = [], Smac.goes_on

    def noted(self, trial, run, pool):
        seen.append((trial, run))
        return goes_on(self, trial, run, pool)

    monkeypatch.setattr(Smac, "goes_on", noted)
    return seen


def test_its_space_has_the_defaults_of_trial_0():
    made = table()
    smac = Smac(made, 0)
    default = smac._space().get_default_configuration()
    back = {name: d.from_optuna(default[name]) if d.searched else d.value for name, d in DIMENSIONS.items()}
    assert back == pytest.approx(made.params[0])


def test_a_challenger_has_what_the_incumbent_had_on_the_same_seeds(trials):
    made = table()
    opponents.method("smac")(made, 0, [30.0], 1)
    default, default_run = trials[0]
    assert default.row == 0 and default.seconds == made.run_seconds
    assert len({t.row for t, _ in trials}) > 10 and len(trials) > len({t.row for t, _ in trials})
    first = next((t, r) for t, r in trials if t.row != 0)
    assert first[0].info.instance == default.info.instance
    assert first[0].seconds == pytest.approx(default_run.cpu_seconds)
    capped = [r for t, r in trials if r.status == "censored" and t.seconds < made.run_seconds]
    assert capped and all(r.cpu_seconds < made.run_seconds for r in capped)


def test_a_capped_challenger_is_no_incumbent(trials):
    found = opponents.method("smac")(table(), 0, [1.0, 3.0, 10.0, 30.0], 2)
    solved = {t.row for t, r in trials if r.status == "solved"}
    capped = {t.row for t, _ in trials} - solved
    assert capped and all(f.recommended in solved and set(f.front) <= solved for f in found)


def test_it_is_told_of_the_settings_that_it_got():
    made = table()
    smac = Smac(made, 0)
    world, clock = replay.World(made, 0), replay.Clock()
    pool = replay.SimulatedPool(world, clock, 1)
    for key in range(12):
        trial = smac.ask(world, pool)
        assert {n: d.from_optuna(trial.info.config[n]) for n, d in smac.searched.items()} == pytest.approx(
            {n: made.params[trial.row][n] for n in smac.searched})  # fmt: skip
        pool.submit(trial.task(key, made))
        [finished] = pool.wait()
        smac.goes_on(trial, finished.run, pool)
    told = smac.facade.runhistory.get_configs()
    assert len(told) > 3 and {smac.rows[config] for config in told} == set(smac.rows.values())


def test_it_finds_the_fast_rows_of_a_table():
    made = table()
    erts = np.array([made.true_ert(row) for row in range(30)])
    [found] = opponents.method("smac")(made, 0, [60.0], 1)
    assert np.mean(erts < erts[found.recommended]) < 0.2


def test_nothing_is_recommended_where_nothing_solves():
    assert opponents.method("smac")(table(8, solves=False), 0, [1.0, 500.0], 2) == [replay.Found(None)] * 2
    assert opponent_smac.SEEDS == 8
