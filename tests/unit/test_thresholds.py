"""`sweep best --at`: when curves first reach a lower threshold, what that rests on, and where they say nothing."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import trainer_native
from sweep import commands, results, thresholds, unsolved
from sweep.thresholds import ThresholdError, at, crossed


def run(id, curve, status="censored", reason="cap", best=None):
    """A run's row that ends with its curve, points being (seconds, mean); CPU seconds are a tenth less."""
    end = curve[-1][0] if curve else 1.0
    best = max((mean for _, mean in curve), default=None) if best is None else best
    return {"id": id, "status": status, "reason": reason, "seconds": end, "cpu_seconds": 0.9 * end, "env_steps": int(1000 * end),
            "best_return": best, "best_metric": None}


def points(curve):
    return np.array([[0.9 * t, t, 1000 * t, mean] for t, mean in curve], float).reshape(-1, 4)


def study(trials, solve=None):
    """(data, curves): of each trial (parameters, purpose, curves of its runs); a run solves where its curve ends at 100."""
    rows, curves, next_id = [], {}, 1
    for number, (parameters, purpose, some) in enumerate(trials):
        runs = []
        for curve in some:
            runs.append(run(next_id, curve, *(("solved", "criterion confirmed") if curve and curve[-1][1] >= 100 else ())))
            curves[next_id] = points(curve)
            next_id += 1
        rows.append(thresholds._summed({"id": number, "number": number, "params": {}, "parameters": parameters, "runs": [],
                                        "verification": [], purpose: runs}))
    definition = {"solve": solve or {"mean_return": 100.0}}
    return {"study": {"name": "a", "env": "none", "definition": definition}, "machines": [], "trials": rows}, curves


RISE = [(1.0, 10.0), (2.0, 40.0), (3.0, 60.0), (4.0, 100.0)]  # solves at 4 s


def test_a_run_ends_at_the_first_point_that_reaches_the_threshold():
    solved = run(1, RISE, "solved")
    for threshold, second in ((10.0, 1), (40.0, 2), (40.1, 3), (60.0, 3), (99.0, 4)):
        moved = crossed(solved, points(RISE), threshold, "best_return")
        assert (moved["status"], moved["seconds"], moved["cpu_seconds"], moved["env_steps"]) == ("solved", second, 0.9 * second, 1000 * second)
    stopped = run(2, RISE[:3])
    assert crossed(stopped, points(RISE[:3]), 50.0, "best_return")["status"] == "solved"
    assert crossed(stopped, points(RISE[:3]), 61.0, "best_return") == stopped  # censored at its own end


def test_a_mean_between_two_points_counts_at_the_end():
    between = run(1, RISE[:3], best=75.0)
    assert crossed(between, points(RISE[:3]), 70.0, "best_return") == {**between, "status": "solved", "reason": thresholds.REACHED}
    assert crossed(between, points(RISE[:3]), 76.0, "best_return") == between


def test_a_diverged_run_that_got_there_first_counts_and_a_crashed_one_never():
    diverged = run(1, [(1.0, 50.0), (2.0, math.nan)], "diverged")
    assert crossed(diverged, points([(1.0, 50.0), (2.0, math.nan)]), 50.0, "best_return")["seconds"] == 1.0
    crashed = run(2, [(1.0, 50.0)], "crashed")
    assert crossed(crashed, points([(1.0, 50.0)]), 50.0, "best_return") == crashed


def test_another_trial_is_the_fastest_at_a_lower_threshold():
    steady = [(1.0, 30.0), (2.0, 100.0)]
    sprinter = [(0.5, 60.0), (9.0, 100.0)]
    never = [(0.6, 55.0), (20.0, 60.0)]
    data, curves = study([(400, "verification", [steady] * 12), (400, "verification", [sprinter] * 12), (90, "verification", [never] * 12)])
    assert results.best(data)["recommended"] == 0
    moved, found = at(data, curves, 50.0)
    assert results.best(moved, within=1.5)["recommended"] == 2  # 0.6 s, the smallest within 1.5 of 0.5 s
    assert results.best(moved, within=1.1)["recommended"] == 1
    assert results.best(moved, max_parameters=100)["front"][0]["seconds"]["restart_ert"] == pytest.approx(0.6)
    of = thresholds.answers(moved, None, 1.5)
    assert of["search"] is None and of["verified"]["seconds"] == "wall" and (of["verified"]["trials"], of["verified"]["runs"]) == (3, 36)
    assert of["verified"]["fastest"] == {"trial": 1, "parameters": 400, "restart_ert": 0.5, "runs": 12, "solved": 12}
    assert of["verified"]["smallest"]["trial"] == 2
    told = " ".join(thresholds.sentences({**found, **of}, of, 1.5))
    assert "36 runs of 3 trials: fastest is trial 1 (400 parameters, restart ERT 0.500 s, 12/12)" in told and "no frozen policy" in told
    assert results.best(data)["recommended"] == 0  # what was given is as it was


def test_claims_are_cpu_seconds_and_censored_runs_stay_in_the_risk_set():
    data, curves = study([(400, "runs", [RISE, RISE, RISE, RISE[:1]])])  # one was stopped after 1 s, at 10
    moved, _ = at(data, curves, 60.0)
    answer = thresholds.answers(moved, None, 1.5)["search"]
    # Kaplan-Meier: three of three at risk after 0.9 s cross at 2.7 s.
    assert answer["seconds"] == "CPU" and answer["fastest"]["restart_ert"] == pytest.approx(2.7) and answer["fastest"]["solved"] == 3
    assert thresholds.answers(at(data, curves, 5.0)[0], None, 1.5)["search"]["fastest"]["solved"] == 4


def test_says_how_late_a_time_may_be_and_what_is_left_out():
    data, curves = study([(400, "runs", [RISE] * 4 + [[]])])
    _, found = at(data, curves, 60.0)
    assert found["late"] == pytest.approx(1 / 3) and found["without_curve"] == 1  # between 2 s and 3 s
    assert at(data, curves, 5.0)[1]["late"] == 1.0
    assert "at their first point" in thresholds.sentences(at(data, curves, 5.0)[1], {}, 1.5)[0]


def test_at_its_own_target_the_study_answers_and_above_it_nothing_does():
    data, curves = study([(400, "runs", [RISE] * 4)])
    assert at(data, curves, 100.0)[0] is data
    with pytest.raises(ThresholdError, match=r"'a': --at 101 is above its mean return of 100, .* curve is 100\).* raise mean_return"):
        at(data, curves, 101.0)
    data["study"]["definition"]["solve"] = {"metric": 0.9}
    with pytest.raises(ThresholdError, match=r"--at 60 is above its mean metric of 0.9, .* raise metric in"):
        at(data, curves, 60.0)


def test_where_no_run_got_there_it_says_so():
    data, curves = study([(400, "runs", [RISE[:2]] * 4)])
    moved, found = at(data, curves, 50.0)
    best = results.best(moved)
    value = {**best, "unsolved": unsolved.facts({**moved, "counts": {"runs": {"censored": 4}}}), "at": {**found, "within": 1.5}}
    assert commands.recommendation(value) == "No run reached a mean return of 50; the best reached 40."


def test_a_curve_crosses_where_a_run_for_that_target_first_tries_its_solve():
    """The same run with another target: its first try comes when training episodes average it, all `episodes` of them ended."""
    params = {"hidden": 16, "envs": 32, "horizon": 32, "reward_scale": 0.1}
    for seed in range(3):
        whole = trainer_native.train("cartpole", params, seed, trainer_native.Solve(mean_return=475), max_seconds=30)
        assert whole.status == "solved"
        for asked in (200.0, 350.0):
            own = trainer_native.train("cartpole", params, seed, trainer_native.Solve(mean_return=asked), max_seconds=30)
            row = {"status": "solved", "best_return": whole.best_return}
            moved = crossed(row, whole.curve, asked, "best_return")
            before = whole.curve[whole.curve[:, 2] < moved["env_steps"]]
            assert before[-1, 2] < own.trigger_env_steps <= moved["env_steps"]


def test_the_command_line_answers_in_text_and_json(tmp_path, capsys):
    from synthetic_trainer import study as synthetic

    from sweep import cli, engine
    from sweep.store import Store

    file = tmp_path / "sweep.db"
    with Store(file) as store:
        engine.run(synthetic(3.0, 2.0), store, workers=1)

    def call(*arguments):
        with pytest.raises(SystemExit) as exit_:
            cli.main(["best", "synthetic", "--db", str(file), *arguments])
        captured = capsys.readouterr()
        return exit_.value.code, captured.out, captured.err

    own, lower = (json.loads(call("--json", *more)[1]) for more in ((), ("--at", "45")))
    assert "at" not in own and lower["at"]["threshold"] == 45 and lower["at"]["target"] == 90
    claimed = lower["at"]["search"]["fastest"]["restart_ert"]
    assert 0 < claimed < json.loads(call("--json", "--at", "90")[1])["at"]["search"]["fastest"]["restart_ert"]
    status, out, _ = call("--at", "45")
    assert status == 0 and "a mean return of 45, where the study asks 90" in out and "CPU seconds" in out
    status, out, err = call("--at", "95")
    assert (status, out) == (2, "") and err.startswith("sweep: study 'synthetic': --at 95 is above") and err.count("\n") == 1
