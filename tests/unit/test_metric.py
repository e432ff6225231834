"""A solve on a header's own metric: the same runs as on the return that says the same, in units of its own."""

import math

import numpy as np
import pytest

import trainer_native
from sweep import commands, engine, pages, results, store, study
from trainer_native import Solve, environments

SIGNS = """// Signs: take the action that the sign shows, sixteen times.
#pragma once
#include "environment.h"
namespace signs {
struct State { int sign, steps, hits; };
struct Params { float stakes = 1.0f;  /* reward of a hit */ };
constexpr sweep::Bounds bounds[] = {{0, 100}};
constexpr int observation_size = 2, actions = 2, longest_episode = 16;
SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }
SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) { s = {rng.below(2), 0, 0}; }
SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng& rng) {
    const bool hit = action == s.sign;
    s.hits += hit;
    s.sign = rng.below(2);
    return {hit ? p.stakes : 0.0f, ++s.steps >= longest_episode, false};
}
SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = s.sign == 0;
    observation[1] = s.sign == 1;
}
SWEEP_FN float metric(const State& s, const Params&) { return s.hits / 16.0f; }
}  // namespace signs
"""
SMALL = {"hidden": 8, "envs": 16, "horizon": 16, "learning_rate": 0.003}


@pytest.fixture
def signs(tmp_path, monkeypatch):
    """The path of the header, in a working directory of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "signs.h").write_text(SIGNS)
    return tmp_path / "signs.h"


def train(env, solve, seed=0, **more):
    params = {**SMALL, **{k: more.pop(k) for k in list(more) if k not in ("max_env_steps", "keep_state", "state")}}
    return trainer_native.train(env, params, seed, solve, 20.0, **{"max_env_steps": 400_000, **more})


def test_a_run_is_that_of_the_return_which_says_the_same(signs):
    """16 times the metric is the return, so both solve with the same weights after the same env steps."""
    by_metric, by_return = train(signs, Solve(metric=0.9375, episodes=50)), train(signs, Solve(15, 50))
    assert by_metric.status == by_return.status == "solved" and by_metric.evaluations == by_return.evaluations >= 1
    assert by_metric.env_steps == by_return.env_steps and by_metric.trigger_env_steps == by_return.trigger_env_steps
    for name, weights in by_return.weights.items():
        np.testing.assert_array_equal(by_metric.weights[name], weights)
    for run in (by_metric, by_return):
        assert 0.9375 <= run.mean_metric <= 1 and run.mean_return == pytest.approx(16 * run.mean_metric, rel=1e-6)
        assert run.best_return == pytest.approx(16 * run.best_metric, rel=1e-6) and run.best_metric < 1
    np.testing.assert_allclose(by_return.curve[:, 3], 16 * by_metric.curve[:, 3], rtol=1e-6)
    assert by_metric.curve[-1, 3] == by_metric.mean_metric


def test_the_metric_does_not_hear_of_the_stakes(signs):
    run = train(signs, Solve(metric=0.9375, episodes=50), stakes=50.0, reward_scale=0.02)
    assert run.status == "solved" and run.mean_return == pytest.approx(800 * run.mean_metric, rel=1e-6)
    found = trainer_native.evaluate(signs, {**SMALL, "stakes": 50.0}, run.weights, episodes=300, seed=5)
    np.testing.assert_allclose(found["returns"], 800 * found["metrics"])
    assert found["mean_metric"] == pytest.approx(found["metrics"].mean()) and found["mean_metric"] > 0.9


def test_a_solve_is_tried_from_a_metric(signs):
    never = Solve(metric=1.0, episodes=50)
    early = train(signs, never, try_from=0.5, max_env_steps=40_000)
    assert early.evaluations > 1 and early.trigger_env_steps < 10_000
    assert train(signs, never, try_from=1.5, max_env_steps=40_000).evaluations == 0
    assert train(signs, Solve(metric=0.9, episodes=50)).trigger_env_steps > early.trigger_env_steps  # absent: the metric itself


def test_a_stopped_run_goes_on(signs):
    solve = Solve(metric=0.9375, episodes=50)
    whole = train(signs, solve)
    half = train(signs, solve, max_env_steps=whole.env_steps // 2, keep_state=True)
    rest = train(signs, solve, state=half.state)
    assert (rest.status, rest.env_steps, rest.mean_metric, rest.best_metric) == (
        "solved", whole.env_steps, whole.mean_metric, whole.best_metric)
    np.testing.assert_array_equal(rest.weights["decoder"], whole.weights["decoder"])
    with pytest.raises(ValueError, match="metric"):
        train(signs, Solve(15, 50), state=half.state, try_from=0.9375)


def test_a_game_without_a_metric_has_none():
    run = trainer_native.train("cartpole", SMALL, 0, Solve(475), 20.0, 5_000)
    assert run.mean_metric is None and run.best_metric is None and run.best_return > 5
    found = trainer_native.evaluate("cartpole", SMALL, run.weights, 10)
    assert found["mean_metric"] is None and found["metrics"] is None


@pytest.mark.parametrize(("solve", "expected"), [
    (Solve(), "either a mean_return or a metric, not neither"),
    (Solve(475, metric=0.9), "either a mean_return or a metric, not both"),
    ({"metric": 0.9}, "cartpole reports none; give a mean_return"),
    (Solve(metric=1.1), "above 0 and up to 1, not 1.1"),
    (Solve(metric=math.nan), "above 0 and up to 1, not nan"),
    (Solve(metric="1"), "above 0 and up to 1, not '1'"),
])  # fmt: skip
def test_solves_that_cannot_be(solve, expected):
    with pytest.raises(ValueError, match=expected):
        trainer_native.train("cartpole", SMALL, 0, solve, 1.0)


STUDY = """# How fast can a network follow signs?
env = "signs.h"
[solve]
metric = 0.9375
episodes = 50
[budget]
study = "3s"
verify = "4s"
run = "1s"
[net]
hidden = 8
[train]
envs = 16
horizon = 16
learning_rate = [0.003, 0.01, 0.03]
"""


def solve_of(signs, old, new):
    (signs.parent / "a.toml").write_text(STUDY.replace(old, new))
    return study.load("a.toml")


@pytest.mark.parametrize(("old", "new", "expected"), [
    ("metric = 0.9375", "metric = 0.9375\nmean_return = 15", "'mean_return' and 'metric' are both given; legal is one of them"),
    ("metric = 0.9375", "", "'mean_return' is missing; legal is a number, the mean return that counts as solved, or metric, of 0 to 1"),
    ("metric = 0.9375", "metric = 1.5", "'metric' is 1.5; legal is a number above 0 and up to 1"),
    ("metric = 0.9375", "metric = true", "'metric' is true; legal is a number above 0 and up to 1"),
    ('env = "signs.h"', 'env = "cartpole"', "'metric' is given, and cartpole reports none; legal is mean_return, or a header with"),
])  # fmt: skip
def test_mistakes_of_a_study(signs, old, new, expected):
    with pytest.raises(study.StudyError) as error:
        solve_of(signs, old, new)
    assert str(error.value).startswith(f"a.toml [solve]: {expected}")


def test_what_is_solved_on_is_part_of_the_study(signs):
    question = solve_of(signs, "", "")
    assert question.definition()["solve"] == {"metric": 0.9375, "episodes": 50, "policy": "sampled"}
    assert question.trial0()["learning_rate"] == 0.01
    others = [solve_of(signs, "0.9375", "0.9"), solve_of(signs, "metric = 0.9375", "mean_return = 0.9375")]
    assert len({question.hash, *(other.hash for other in others)}) == 3


def test_a_study_on_a_metric_from_search_to_report(signs):
    question = solve_of(signs, "", "")
    with store.Store("sweep.db") as db:
        study_id = engine.run(question, db, workers=1)
        data = results.collect(db, study_id)
        audits, runs = db.audits(study_id), db.runs(study_id)
    solved = [run for run in runs if run["status"] == "solved"]
    assert solved and all(0.9375 <= run["mean_metric"] <= 1 and run["mean_return"] >= 15 for run in solved)
    assert data["recommended"] is not None and audits and all(0.9 < a["mean_metric"] <= 1 for a in audits)
    assert all(a["solved"] == (a["mean_metric"] >= 0.9375) for a in audits)
    data["study"]["label"] = "a"
    shown = commands.show("sweep.db", "a", 1.5)
    assert "solved by a mean metric of 0.9375 over 50" in " ".join(commands.overview(shown).split())
    assert 0.9 < shown["best_mean"] <= 1
    page = pages.write_report(data, signs.parent / "report").read_text()
    assert "reaches a mean metric of 0.938" in page and "mean metric in training" in page and "mean return" not in page
    content = commands.export_trial("sweep.db", "a", None, "best.toml", False)["text"]
    assert "metric = 0.9375" in content and "mean_return" not in content
    trained = commands.train("best.toml", "sweep.db", None, 1, "20s", None, False)
    assert trained["status"] == "solved" and trained["mean_metric"] >= 0.9375
    assert commands.trained(trained).splitlines()[0].split() == ["time", "env", "steps", "mean", "metric"]
    assert environments.find(str(signs)).has_metric
