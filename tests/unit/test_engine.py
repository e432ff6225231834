"""The engine on a synthetic trainer: budgets, seeds that race, interruptions, crashes, and what it leaves in the store."""

import os
import signal
import sys
import threading
import types
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from synthetic_trainer import simulate, study

from sweep import engine, measure, results, trainers, verification
from sweep.store import Store, StoreError


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "sweep.db") as store:
        yield store


def after(monkeypatch, runs, act):
    """`act(search)` once so many runs of a search have ended."""
    finish = engine.Search._finish

    def counted(self, finished):
        finish(self, finished)
        if self.totals["runs"] == runs:
            act(self)

    monkeypatch.setattr(engine.Search, "_finish", counted)


def interrupt_after(monkeypatch, runs, times=1):
    """Ctrl-C, `times` of them."""
    after(monkeypatch, runs, lambda search: [os.kill(os.getpid(), signal.SIGINT) for _ in range(times)])


def end_after(monkeypatch, runs):
    """The search's time is over, however fast the machine is."""
    after(monkeypatch, runs, lambda search: setattr(search, "deadline", 0.0))


def test_a_study_from_its_defaults_to_a_verified_result(store, monkeypatch):
    monkeypatch.setattr(measure, "DISTURBED", 1e9)  # a test may run beside anything
    monkeypatch.setattr(verification, "LEAST_CAP_SECONDS", 1.0)  # a seed that never solves is not to take all the time
    end_after(monkeypatch, runs=60)
    snapshots = []
    study_id = engine.run(study(60.0, 20.0), store, progress=snapshots.append)
    data = results.collect(store, study_id)

    default = data["trials"][0]
    assert default["origin"] == "default" and default["params"]["hidden"] == 16
    assert len(default["runs"]) >= 4
    assert {t["origin"] for t in data["trials"][1:4]} == {"random"}
    assert sum(t["state"] == "open" and not t["runs"] for t in data["trials"]) <= 4  # what workers had in hand at the end
    for trial in data["trials"]:
        assert len({r["seed"] for r in trial["runs"]}) == len(trial["runs"]) <= 8
        for run in trial["runs"]:
            if run["status"] == "solved":
                assert run["env_steps"] == int(1e6 * simulate(trial["params"], run["seed"]))

    best = results.best(data)
    recommended = data["trials"][best["recommended"]]
    assert recommended["is_verified"] and recommended["verified"]["steps_per_second_all_cores"] > 0
    searched = {r["seed"] for r in recommended["runs"]}
    assert not searched & {r["seed"] for r in recommended["verification"]}

    totals = data["machines"][0]["totals"]
    assert totals["finished"] and totals["runs"] == sum(len(t["runs"]) for t in data["trials"])
    assert totals["training_seconds"] > 0
    assert snapshots[-1]["phase"] == "verifying" and snapshots[0]["phase"] == "searching"
    assert snapshots[-1]["front"] and snapshots[-1]["trials"] == len(data["trials"])


def test_ctrl_c_once_measures_what_there_is_and_the_study_goes_on(store, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_after(patch, runs=30)
        study_id = engine.run(study(60.0, 3.0), store)
    rows = store.runs(study_id)
    assert 30 <= sum(r["purpose"] == "search" for r in rows) <= 34
    assert any(r["purpose"] == "verify" for r in rows)
    [first] = store.invocations(study_id)
    assert not first["totals"]["finished"]
    left = engine.budget_left(study(60.0, 3.0), store, study_id)
    assert left.search_seconds == pytest.approx(60 - first["totals"]["search_seconds"])

    before = {r["id"]: r for r in rows}
    seconds = first["totals"]["search_seconds"] + 1.5
    assert engine.run(study(seconds, 0.0), store) == study_id
    after = {r["id"]: r for r in store.runs(study_id)}
    assert {key: after[key] for key in before} == before and len(after) > len(before)
    assert store.invocations(study_id)[1]["totals"]["search_seconds"] == pytest.approx(1.5, abs=0.8)


def test_ctrl_c_twice_stops_now(store, monkeypatch):
    interrupt_after(monkeypatch, runs=10, times=2)
    with pytest.raises(KeyboardInterrupt):
        engine.run(study(60.0, 60.0), store)
    [invocation] = store.invocations(1)
    assert invocation["totals"]["runs"] >= 10 and not invocation["totals"]["finished"]
    assert {r["purpose"] for r in store.runs(1)} == {"search"}
    assert all(r["reason"] != "cancelled" for r in store.runs(1))


def test_a_finished_study_goes_on_with_a_fresh_budget(store, monkeypatch):
    end_after(monkeypatch, runs=20)
    study_id = engine.run(study(60.0), store)
    trials = len(store.trials(study_id))
    assert engine.run(study(60.0), store) == study_id
    assert len(store.trials(study_id)) > trials
    assert [i["totals"]["finished"] for i in store.invocations(study_id)] == [True, True]


def test_the_budget_counts_what_killed_invocations_used():
    def invocation(number, totals, started=0):
        return {"id": number, "started": f"2026-01-01T00:{started:02}:00+00:00", "totals": totals}

    def left(*invocations, runs=()):
        store = types.SimpleNamespace(runs=lambda study_id, superseded: list(runs), invocations=lambda study_id: invocations)
        found = engine.budget_left(study(100.0, 50.0), store, 1)
        return found.search_seconds, found.verify_seconds

    interrupted = {"search_seconds": 30.0, "verify_seconds": 0.0, "finished": False}
    killed_run = {"invocation_id": 2, "purpose": "search", "started": "2026-01-01T00:01:10+00:00", "seconds": 5.0}
    assert left() == (100, 50)
    assert left(invocation(1, interrupted)) == (70, 50)
    assert left(invocation(1, interrupted), invocation(2, None, started=1), runs=[killed_run]) == (55, 50)
    assert left(invocation(1, {**interrupted, "finished": True})) == (100, 50)
    assert left(invocation(1, {"search_seconds": 120.0, "verify_seconds": 20.0})) == (0, 30)
    more = invocation(2, {"search_seconds": 0.0, "verify_seconds": 10.0})
    assert left(invocation(1, {"search_seconds": 120.0, "verify_seconds": 20.0}), more) == (0, 20)
    more = invocation(2, {"search_seconds": 10.0, "verify_seconds": 0.0})
    assert left(invocation(1, {"search_seconds": 50.0, "verify_seconds": 20.0}), more) == (40, 50)


def test_trials_whose_runs_crash_end_and_the_rest_goes_on(store, monkeypatch):
    end_after(monkeypatch, runs=40)
    study_id = engine.run(study(60.0, crash=[False, True]), store)
    data = results.collect(store, study_id)
    crashed = [t for t in data["trials"] if t["params"]["crash"]]
    assert crashed and all(len(t["runs"]) <= 2 for t in crashed)
    assert any(t["state"] == "ended" and t["value"] is None for t in crashed)
    assert any(t["search"] and t["search"]["solved"] for t in data["trials"] if not t["params"]["crash"])
    assert data["counts"]["runs"]["crashed"] == sum(len(t["runs"]) for t in crashed)


def test_the_seed_repeats_the_order_of_suggestions_and_seeds(tmp_path, monkeypatch):
    end_after(monkeypatch, runs=25)

    def begin(name, seed):
        with Store(tmp_path / name) as store:
            study_id = engine.run(study(60.0), store, seed=seed)
            rows = store.runs(study_id)
            return [(t["params"], sorted(r["seed"] for r in rows if r["trial_id"] == t["id"])[:1])
                    for t in store.trials(study_id)][1:8]

    first = begin("one.db", 7)
    again = begin("two.db", 7)
    shared = min(len(first), len(again))
    assert shared >= 3 and [p for p, _ in first[:shared]] == [p for p, _ in again[:shared]]
    assert begin("three.db", 8)[0][0] != first[0][0]


def test_seeds_differ_between_runs_trials_and_purposes():
    seeds = {trainers.seed_of(study_seed, trial, index, purpose) for study_seed in (0, 1) for trial in range(100)
             for index in range(8) for purpose in ("search", "verify")}
    assert len(seeds) == 2 * 100 * 8 * 2
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_space_that_has_been_tried_whole_ends_the_search_early(store):
    small = {"learning_rate": 0.02, "gamma": 0.98, "horizon": 32, "hidden": [8, 16]}
    study_id = engine.run(study(30.0, **small), store)
    assert len(store.trials(study_id)) == 2
    assert store.invocations(study_id)[0]["totals"]["search_seconds"] < 15


def test_one_study_runs_once_at_a_time(store, tmp_path):
    with Store(tmp_path / "sweep.db") as other:
        study_id = other.open_study(study(1.0))
        with other.lock(study_id), pytest.raises(StoreError, match="already running"):
            engine.run(study(1.0), store)


def test_times_of_another_machine_stay_out_of_the_race(store, monkeypatch):
    end_after(monkeypatch, runs=15)
    with monkeypatch.context() as patch:
        patch.setattr("sweep.machine._processor", lambda: "a slower one")
        study_id = engine.run(study(60.0), store)
    elsewhere = len(store.runs(study_id))
    engine.run(study(60.0), store)
    data = results.collect(store, study_id)
    assert sum(data["counts"]["runs"].values()) == sum(len(t["runs"]) for t in data["trials"]) + elsewhere


def test_the_engine_runs_outside_the_main_thread(tmp_path):
    def go():
        with Store(tmp_path / "thread.db") as store:
            done.append(engine.run(study(0.5), store, workers=1))

    done = []
    thread = threading.Thread(target=go)
    thread.start()
    thread.join(30)
    assert done
