"""Which hyperparameters matter, on functions whose answer is known: seeds are fixed, so rates are exact."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import report_data

from sweep import commands, importance, pages, space
from sweep.heredity import Fit
from sweep.surrogate import Features

WRITTEN = {"learning_rate": {"log": [1e-3, 1e-1]}, "gamma": {"near_one": [0.9, 0.999]}, "clip": {"log": [0.05, 1.0]},
           "momentum": {"near_one": [0.5, 0.98]}, "value_coefficient": {"log": [0.25, 8.0]}, "gradient_norm": {"log": [0.25, 8.0]},
           "epochs": [1, 2, 3, 4], "horizon": {"pow2": [16, 128]}}
DIMENSIONS = {name: space.parse(name, value, "test") for name, value in WRITTEN.items()}
#: Of `log_seconds`: three with a strong say, clip with 8% of the variance; of solving alone, epochs; the others with none at all.
RELEVANT, IRRELEVANT = {"learning_rate", "gamma", "horizon", "clip", "epochs"}, {"momentum", "value_coefficient", "gradient_norm"}


def log_seconds(params):
    rate, gamma, horizon, clip = (DIMENSIONS[name].to_unit(params[name]) for name in ("learning_rate", "gamma", "horizon", "clip"))
    return 3 * abs(rate - 0.6) ** 1.5 + 6 * (gamma - 0.4) ** 2 + 4.8 * (rate - 0.6) * (gamma - 0.4) + horizon + 0.8 * clip


def study(trials, seed, cap=6.0):
    """A search as ours are: three in five trials near the fastest, runs capped, a trial's first unsolved run its last."""
    rng, rows, solved = np.random.default_rng(seed), [], []
    for number in range(trials):
        if solved and rng.random() < 0.6:
            parent = min((solved[i] for i in rng.integers(0, len(solved), 8)), key=lambda pair: pair[0])[1]
            params = space.mutate(DIMENSIONS, parent, rng, float(np.exp(rng.uniform(-3.9, -1.6))))
        else:
            params = space.sample(DIMENSIONS, rng)
        runs, fails = [], 0.02 + 0.9 * max(0.0, DIMENSIONS["epochs"].to_unit(params["epochs"]) - 0.5)
        for _ in range(int(rng.choice([1, 2, 4]))):
            seconds = math.exp(log_seconds(params) + 0.4 * rng.standard_normal())
            if seconds >= cap or rng.random() < fails:
                runs.append({"status": "censored", "cpu_seconds": cap})
                break
            runs.append({"status": "solved", "cpu_seconds": seconds})
            solved.append((seconds, params))
        rows.append({"number": number, "params": params, "runs": runs})
    return {"study": {"definition": {"dimensions": WRITTEN}}, "trials": rows}


@pytest.fixture(scope="module")
def found():
    return [importance.of(study(800, seed)) for seed in range(12)]


def test_what_has_no_say_is_named_and_nothing_else(found):
    named = [set(f["does_not_matter"]) for f in found]
    assert not any(names & RELEVANT for names in named)
    assert sum(len(names) for names in named) >= 0.6 * len(IRRELEVANT) * len(found)


def test_speed_and_solving_are_told_apart(found):
    for f in found:
        speed, solving = ({name: s["share"] for name, s in f[kind]["shares"].items()} for kind in ("speed", "solving"))
        assert min(speed[name] for name in ("learning_rate", "gamma", "horizon")) > max(speed[name] for name in (*IRRELEVANT, "epochs"))
        assert solving["epochs"] > 2 * max(solving[name] for name in IRRELEVANT)
        assert f["within_seconds"] == 6.0 and f["speed"]["trials"] < f["solving"]["trials"] == 800


def test_few_trials_name_nothing_or_nothing_wrong():
    for seed in range(12):
        f = importance.of(study(150, seed))
        assert not set(f["does_not_matter"]) & RELEVANT
    assert importance.of(study(20, 0)) is None  # too few for any share


def test_shares_are_those_of_the_function():
    """A quadratic without noise all over the space: its shares are known by hand."""
    rng = np.random.default_rng(0)
    params = [space.sample(DIMENSIONS, rng) for _ in range(400)]
    a, b, c = (np.array([2 * DIMENSIONS[name].to_unit(p[name]) - 1 for p in params]) for name in ("learning_rate", "gamma", "clip"))
    values = 2 * a + b**2 + 3 * a * c
    features = Features(DIMENSIONS)
    shares = importance.Shares(Fit(features, features.linear(params), values, np.ones(400)), importance.points(features, DIMENSIONS), 400)
    variances = {"a": 4 / 3, "bb": 4 / 45, "ac": 9 / 9}
    total = sum(variances.values())
    assert np.median(shares.total(["learning_rate"])) == pytest.approx((variances["a"] + variances["ac"]) / total, abs=0.07)
    assert np.median(shares.total(["gamma"])) == pytest.approx(variances["bb"] / total, abs=0.02)
    assert np.median(shares.total(["clip"])) == pytest.approx(variances["ac"] / total, abs=0.07)
    assert np.median(shares.total(list(DIMENSIONS))) == pytest.approx(1.0, abs=0.1)
    assert np.quantile(shares.total(["momentum", "epochs"]), 0.95) < 0.005


def test_network_size_is_never_said_not_to_matter():
    data = study(800, 1)
    data["study"]["definition"]["dimensions"] = {**WRITTEN, "hidden": [8, 16]}
    for i, trial in enumerate(data["trials"]):
        trial["params"] = {**trial["params"], "hidden": 8 if i % 2 else 16}
    f = importance.of(data)
    assert "hidden" not in f["does_not_matter"] and f["does_not_matter"] and f["speed"]["shares"]["hidden"]["upper"] < 0.05


def test_where_all_runs_solve_speed_alone_speaks():
    data = study(300, 0)
    for trial in data["trials"]:
        trial["runs"] = [r for r in trial["runs"] if r["status"] == "solved"]
    f = importance.of(data)
    assert f["solving"] is None and f["within_seconds"] is None and "chance" not in importance.sentence(f)
    assert all(row["solving_share"] == "–" for row in importance.rows(f))


def test_the_terminal_and_the_report_say_it(found):
    f = next(f for f in found if f["does_not_matter"])
    line = importance.sentence(f)
    assert line.startswith("Does not matter here: ") and "(together under 5% of the variance of log seconds, and of the chance" in line
    assert line in " ".join(" ".join(commands._about_the_space({"importance": f})).split())
    rows = importance.rows(f)
    assert {row["name"] for row in rows[:3]} <= RELEVANT and rows[0]["speed_share"].endswith("%")
    assert importance.sentence(None) == importance.sentence({**f, "does_not_matter": []}) == "" and importance.rows(None) == []
    page = pages.render(report_data.study(trials=200))
    assert "Which hyperparameters mattered" in page and "Total Sobol shares" in page
