"""`sweep run --from`: which trials of an older study a new one begins with, what its space makes of them, and that they are asked once."""

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from synthetic_trainer import study

from sweep import commands, engine, results, warmstart
from sweep.store import Store, StoreError
from sweep.warmstart import MOST, WarmStartError, plan

#: Params of the older study's trials; Written's own params are hidden alone.
PARAMS = {"hidden": 16, "learning_rate": 0.01, "gamma": 0.98, "horizon": 32}


@pytest.fixture
def older():
    """An older study as results.collect gives it, still without trials."""
    return {"study": {"definition": study(1.0).definition()}, "trials": [], "front": [], "recommended": None}


def add(older, number, search=(), verify=(), **params):
    """A trial with those params and times, all of them solves."""
    summaries = {kind: results.summary([{"status": "solved", "reason": "", "seconds": t, "cpu_seconds": t, "env_steps": 1} for t in times], "seconds")
                 for kind, times in (("search", search), ("verified", verify))}
    older["trials"].append({"number": number, "params": {**PARAMS, **params}, "parameters": 100, "is_verified": len(verify) >= 12, **summaries})


def planned(older, question):
    return plan(question, older, "old@12345678")


def test_verified_ones_come_first_then_solid_claims_then_the_rest(older):
    add(older, 0, [1.0] * 4, hidden=8)
    add(older, 1, [0.1], hidden=16)  # one lucky run
    add(older, 2, [2.0] * 4, [3.0] * 12, hidden=32)
    add(older, 3, [2.0] * 4, [9.0] * 3, hidden=64)  # measured again, not verified
    add(older, 4, hidden=64, horizon=16)  # nothing known
    start = planned(older, study(1.0))
    assert start.taken == [2, 3, 0, 1] and start.verified == 1 and not start.moved and not start.dropped and not start.defaults
    assert start.first[0] == ({**PARAMS, "hidden": 32}, "from old@12345678 trial 2")
    assert warmstart.sentence(start) == "from old@12345678: 4 trials taken (1 verified); params as they were"


def test_at_most_so_many_are_taken(older):
    for number in range(MOST + 4):
        add(older, number, [1.0 + number] * 4, learning_rate=0.01 + 0.001 * number)
    assert planned(older, study(1.0)).taken == list(range(MOST))


def test_values_are_moved_into_the_space_and_all_of_it_is_said(older):
    add(older, 0, [1.0] * 4, learning_rate=0.001, horizon=100, momentum=0.5, clip=0.3, cell="lstm")
    add(older, 1, [2.0] * 4, learning_rate=0.05, horizon=64, wind=3)
    question = study(1.0, learning_rate={"log": [0.004, 0.1]}, gamma=0.95, epochs=[1, 3], cell=["mlp", "mingru"])
    start = planned(older, question)
    first, second = (params for params, _ in start.first)
    assert first["learning_rate"] == pytest.approx(0.004) and first["gamma"] == 0.95 and first["cell"] == "mingru"  # of words the default
    assert first["horizon"] == 128 and first["epochs"] in (1, 3)  # the nearest power of two; the default, 2, is not here
    assert second == {**PARAMS, "learning_rate": 0.05, "gamma": 0.95, "horizon": 64, "epochs": first["epochs"], "cell": "mingru"}
    assert all(question.dimensions[name].contains(value) for params in (first, second) for name, value in params.items())
    assert dict(start.moved) == {"learning_rate": 1, "horizon": 1, "gamma": 2, "cell": 1}
    assert start.defaults == ["epochs", "cell"] and start.dropped == ["momentum", "wind"]  # clip was at its default
    line = warmstart.sentence(start)
    assert "\n" not in line and "gamma in 2" in line and "the trainer's defaults: epochs, cell" in line and line.endswith("momentum, wind")


def test_illegal_combinations_are_made_legal(older):
    add(older, 0, [1.0] * 4, minibatches=8)
    question = study(1.0, envs=[4, 12], minibatches=[1, 8], horizon=None)
    start = planned(older, question)
    [(params, _)] = start.first
    assert params["envs"] % params["minibatches"] == 0 and start.moved["minibatches"] == 1


def test_trials_that_become_equals_are_taken_once_and_trial_0_never(older):
    add(older, 0, [1.0] * 4, gamma=0.91)
    add(older, 1, [2.0] * 4, gamma=0.92)
    add(older, 2, [3.0] * 4, **{k: v for k, v in study(1.0, gamma=0.98).trial0().items() if k != "gamma"})
    start = planned(older, study(1.0, gamma=0.98))
    assert start.taken == [0] and start.alike == 2 and "2 left out as others' equals here" in warmstart.sentence(start)


def test_try_from_means_something_only_where_returns_mean_the_same(older):
    add(older, 0, [1.0] * 4, try_from=80.0)
    question = study(1.0, try_from=[50.0, 80.0, 90.0])
    assert plan(question, older, "old").first[0][0]["try_from"] == 80.0
    older["study"]["definition"]["env"] = "another"
    start = plan(question, older, "old")
    assert start.first[0][0]["try_from"] == 90.0 and start.defaults == ["try_from"]  # the solve's own


def test_a_study_without_a_solve_is_refused(older):
    add(older, 0)
    with pytest.raises(WarmStartError, match="no trial of it has solved"):
        planned(older, study(1.0))


# -- in a study that runs -------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    """A database in which a study of the synthetic trainer has run."""
    with Store(tmp_path / "sweep.db") as store:
        engine.run(study(2.0, 0.5, run=0.2, name="old"), store, workers=1)
    return tmp_path / "sweep.db"


def trials(file, name):
    with Store(file, readonly=True) as store:
        return store.trials(store.find(name)["id"])


def test_they_run_behind_trial_0_and_are_asked_once(file, capsys):
    question = study(3.0, run=0.2, name="new", epochs=[1, 2, 4])
    first = commands._first(question, str(file), "old")
    assert 3 <= len(first) <= MOST and f"{len(first)} trials taken" in capsys.readouterr().err
    with Store(file) as store:
        engine.run(question, store, workers=1, first=first)
    found = trials(file, "new")
    assert [(t["params"], t["origin"]) for t in found[1 : len(first) + 1]] == first and found[0]["origin"] == "default"
    with Store(file, readonly=True) as store:
        ran = {r["trial_id"] for r in store.runs(found[0]["study_id"])}
    assert {t["id"] for t in found[1 : len(first) + 1]} <= ran
    # The same command again: the study goes on with them.
    assert commands._first(question, str(file), "old") == [] and "in the study already" in capsys.readouterr().err
    assert commands._first(question, str(file), "new") == [] and "this study itself" in capsys.readouterr().err
    with Store(file) as store:
        engine.run(question, store, workers=1, first=first)  # even where they were handed in again
    again = [t["params"] for t in trials(file, "new")]
    assert len(again) > len(found) and all(again.count(params) == 1 for params in again)


def test_a_study_that_stopped_before_their_turn_goes_on_with_them(file):
    question = study(0.02, run=0.2, name="new")
    first = commands._first(question, str(file), "old")
    with Store(file) as store:
        study_id = engine.run(question, store, workers=1, first=first)
        before = {r["trial_id"] for r in store.runs(study_id)}
        taken = {t["id"] for t in store.trials(study_id) if t["origin"].startswith("from ")}
        assert len(taken) == len(first) and taken - before
        engine.run(dataclasses.replace(question, budget=study(3.0, run=0.2).budget), store, workers=1)  # without them handed in
        assert taken <= {r["trial_id"] for r in store.runs(study_id)}


def test_the_same_seed_gives_the_same_trials(file, tmp_path):
    question = study(3.0, run=0.2, name="new", sampler="random")
    first = commands._first(question, str(file), "old")
    found = []
    for name in ("a.db", "b.db"):
        with Store(tmp_path / name) as store:
            study_id = engine.run(question, store, workers=1, seed=7, first=first)
            found.append([(t["params"], t["origin"]) for t in store.trials(study_id)])
    least = min(map(len, found))
    assert least > len(first) + 1 and found[0][:least] == found[1][:least]


def test_an_unknown_study_is_named_with_those_there_are(file):
    with pytest.raises(StoreError, match="no study 'odl'. Did you mean 'old'. It holds old"):
        commands._first(study(1.0), str(file), "odl")
