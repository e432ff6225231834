"""Results: what is verified, what is on the front, what is recommended, from rows that a test writes itself."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from synthetic_trainer import study

from sweep import commands, export, results, terminal
from sweep.store import Store
from trainer_native import Run

HERE = {"cpu": "this one", "architecture": "x86_64", "cores": 2}


def run(seed, seconds=1.0, status="solved", reason=""):
    return Run(status=status, reason=reason, seed=seed, parameters=1, seconds=seconds, cpu_seconds=seconds / 1.01,
               setup_seconds=0.0, env_steps=int(1e6 * seconds), iterations=1, rollout_seconds=0.0, update_seconds=0.0,
               evaluation_seconds=0.0, trigger_seconds=None, trigger_env_steps=None, evaluations=1, mean_return=1.0,
               best_return=1.0, curve=np.array([[seconds, seconds, 1e6 * seconds, 1.0]]), weights=None)


class Written:
    """A store with one study, and shorthand to fill it."""

    def __init__(self, path):
        self.store = Store(path)
        self.id = self.store.open_study(study(60.0))
        self.invocation = self.begin(HERE)
        self.seed = 0

    def begin(self, machine):
        return self.store.add_invocation(self.id, machine, {"trainer": "synthetic"}, "sweep run", 2)

    def trial(self, number, parameters, search=(), verify=(), failures=0, invocation=None):
        trial = self.store.add_trial(self.id, number, {"hidden": parameters}, parameters, "tpe")
        for purpose, times in (("search", search), ("verify", verify)):
            for seconds in times:
                self.run(trial, run(self.seed, seconds), purpose, invocation)
        for _ in range(failures):
            self.run(trial, run(self.seed, 3.0, "censored", "cap"), "verify", invocation)
        return trial

    def run(self, trial, run, purpose="search", invocation=None):
        self.seed += 1
        return self.store.add_run(trial, invocation or self.invocation, run, purpose, cap_seconds=9.0)

    def collect(self):
        return results.collect(self.store, self.id)


@pytest.fixture
def written(tmp_path):
    return Written(tmp_path / "sweep.db")


def test_a_study_without_runs_has_nothing_to_say(written):
    data = written.collect()
    assert data["trials"] == data["front"] == data["search"] == [] and data["recommended"] is None
    assert results.best(data) | {"machine": None} == {"study": "synthetic", "env": "none", "machine": None, "front": [],
                                                     "recommended": None}
    assert results.collect(written.store, "synthetic")["study"]["id"] == written.id


def test_verified_is_twelve_fresh_seeds_of_which_eight_in_ten_solve(written):
    written.trial(0, 100, [1.0] * 4, [1.0] * 12)
    written.trial(1, 100, [1.0] * 4, [1.0] * 11)
    written.trial(2, 100, [1.0] * 8, [1.0] * 12, failures=3)
    written.trial(3, 100, [1.0] * 8, [1.0] * 12, failures=4)
    assert [t["is_verified"] for t in written.collect()["trials"]] == [True, False, True, False]


def test_the_smallest_verified_network_close_to_the_fastest_is_recommended(written):
    written.trial(0, 50, [1.0] * 4, [2.0] * 12)
    written.trial(1, 100, [1.0] * 4, [1.4] * 12)
    written.trial(2, 400, [1.0] * 4, [1.0] * 12)
    written.trial(3, 60, [0.5] * 4)
    data = written.collect()
    assert data["recommended"] == 1
    assert data["front"] == [0, 1, 2]  # what is only claimed pushes nobody off
    assert results.best(data, within=3.0)["recommended"] == 0
    assert results.best(data, within=1.1)["recommended"] == 2
    small = results.best(data, max_parameters=99)
    assert [e["trial"] for e in small["front"]] == [0] and small["recommended"] == 0


def test_the_recommended_trial_stands_beside_the_fastest_other_verified_one(written):
    times = np.linspace(0.8, 1.2, 12)
    written.trial(0, 50, [1.0] * 4, 2.0 * times)
    written.trial(1, 100, [1.0] * 4, 1.4 * times)
    written.trial(2, 400, [1.0] * 4, times)
    written.trial(3, 60, [0.1] * 4)  # claimed only
    data = written.collect()
    found = results.runner_up(data)
    assert found["trial"] == 2 and found["ratio"] == pytest.approx(1.4) and found["p_value"] < 0.005
    assert 0.8 < found["low"] < 1.4 < found["high"] < 2.5  # twelve of twelve may still hide a quarter that fail
    assert results.runner_up(data, within=1.1)["trial"] == 1  # recommended is then the fastest
    assert results.runner_up(data, max_parameters=60) is None
    shown = commands.recommendation({**results.best(data), "runner_up": found})
    assert "Trial 1 takes 1.40 × the restart ERT of trial 2" in shown and max(map(len, shown.splitlines())) <= 80
    assert "the fastest other verified" not in commands.recommendation(results.best(data))


def test_claims_of_smaller_networks_stand_below_the_verified_ones(written):
    written.trial(0, 400, [1.0] * 4, [1.0] * 12)
    written.trial(1, 100, [3.0] * 4)
    written.trial(2, 50, [2.0] * 3)  # too few runs to be believed
    data = written.collect()
    assert data["front"] == [1, 0]
    best = results.best(data)
    assert [e["verified"] for e in best["front"]] == [False, True]
    assert best["front"][1]["runs"] == 12 and best["front"][0]["runs"] == 4
    json.dumps(best, allow_nan=False)


def test_a_smaller_and_faster_claim_hides_no_verified_trial(written):
    written.trial(28, 2000, [1.0] * 4, [1.0] * 20)
    written.trial(22, 1000, [0.5] * 4)  # smaller and faster, by its claim
    written.trial(23, 1500, [0.5] * 4, [0.6] * 5)  # measured too seldom
    written.trial(24, 3000, [1.0] * 4, [1.2] * 12)  # verified, and beaten by a verified one
    data = written.collect()
    assert data["front"] == [22, 28] and data["recommended"] == 28
    for most in (None, 2500):
        best = results.best(data, max_parameters=most)
        assert [(e["trial"], e["verified"]) for e in best["front"]] == [(22, False), (28, True)] and best["recommended"] == 28
    shown = terminal.front(best).splitlines()
    assert shown[1].startswith("   22") and shown[2].startswith(">* 28")
    assert "sweep train synthetic --trial 28" in commands.recommendation(best)
    assert export.find(data, None)["number"] == 28
    assert results.best(data, max_parameters=1200)["recommended"] is None


def test_without_any_solid_claim_single_solves_stand_on_the_front(written):
    written.trial(0, 100, [1.0])
    written.trial(1, 50, [2.0])
    trial = written.trial(2, 20)
    written.run(trial, run(99, 5.0, "censored", "cap"))
    data = written.collect()
    assert data["front"] == [1, 0] and data["recommended"] is None
    assert data["trials"][2]["search"]["seconds"]["restart_ert"] == math.inf


def test_crashed_runs_count_as_runs_and_as_nothing_else(written):
    trial = written.trial(0, 100, [1.0] * 4)
    written.run(trial, run(50, 0.0, "crashed", "SIGKILL"))
    data = written.collect()
    assert data["trials"][0]["search"]["runs"] == 4
    assert data["counts"]["runs"] == {"solved": 4, "censored": 0, "diverged": 0, "crashed": 1}


def test_the_summary_of_a_verified_trial(written):
    trial = written.trial(0, 100, [1.0] * 4, [1.0 + 0.1 * i for i in range(12)])
    for index in range(2):
        loaded = run(100 + index, 2.0)
        loaded.env_steps = 1_000_000
        written.run(trial, loaded, "calibrate")
    rows = [r["id"] for r in written.store.runs(written.id) if r["purpose"] == "verify"]
    for index in range(4):
        written.store.add_audit(trial, rows[index], 0.9, 1000, index > 0)
    summary = written.collect()["trials"][0]["verified"]
    assert (summary["runs"], summary["solved"], summary["solved_high"]) == (12, 12, 1.0)
    assert summary["seconds"]["low"] <= summary["seconds"]["median"] <= summary["seconds"]["high"]
    assert summary["seconds"]["restart_ert"] == pytest.approx(1.55)
    assert summary["seconds"]["olympic"] == pytest.approx(1.55)
    assert summary["steps_per_second"] == pytest.approx(1e6)
    assert summary["steps_per_second_all_cores"] == pytest.approx(5e5)
    assert summary["false_solves"] == 0.25
    assert set(written.collect()["curves"]) == set(rows)


def test_another_type_of_machine_is_counted_and_not_compared(written):
    written.trial(0, 100, [9.0] * 4)
    second = written.begin({**HERE, "cpu": "another"})
    written.trial(1, 100, [1.0] * 4, invocation=second)
    data = written.collect()
    assert data["front"] == [1] and data["trials"][0]["runs"] == []
    assert data["counts"]["runs"]["solved"] == 8


def test_the_best_over_search_time_falls(written):
    for number, seconds in enumerate((3.0, 2.0, 1.0)):
        written.trial(number, 100, [seconds] * 4)
    written.store.end_invocation(written.invocation, {"search_seconds": 60.0})
    points = written.collect()["search"]
    assert [p["best_restart_ert"] for p in points] == pytest.approx([3 / 1.01, 2 / 1.01, 1 / 1.01, 1 / 1.01])
    assert points[-1]["elapsed_seconds"] == 60.0
