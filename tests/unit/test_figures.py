"""Figures from results: what stands in them, and that they survive whatever a study holds."""

import json
import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import report_data

from sweep import figures, look


@pytest.fixture(scope="module")
def data():
    return report_data.study()


def trace(figure, name):
    return next(t for t in figure.data if t.name == name)


def names(figure):
    return [t.name for t in figure.data if t.name]


def test_front_shows_claims_and_measurements_apart(data):
    figure = figures.front(data)
    verified = [t for t in data["trials"] if t["is_verified"]]
    assert len(trace(figure, "verified").x) == len(verified)
    drawn = {round(y, 9) for y in trace(figure, "verified").y}
    assert drawn == {round(t["verified"]["seconds"]["restart_ert"], 9) for t in verified}
    claims = [t for t in data["trials"] if math.isfinite(t["search"]["seconds"]["restart_ert"])]
    assert sum(len(t.x) for t in figure.data if (t.name or "").startswith("claimed")) == len(claims)
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"


def test_front_line_steps_through_the_front(data):
    line = trace(figures.front(data), "the front")
    trials = figures.by_number(data)
    assert sorted(line.x) == sorted(trials[n]["parameters"] for n in data["front"])
    assert list(line.y) == sorted(line.y, reverse=True)


def test_recommended_is_marked_where_it_stands(data):
    figure = figures.front(data)
    best = figures.by_number(data)[data["recommended"]]
    assert trace(figure, f"recommended, trial {best['number']}").y[0] == best["verified"]["seconds"]["restart_ert"]
    assert trace(figures.front(data, "median"), f"recommended, trial {best['number']}").y[0] == best["verified"]["seconds"]["median"]


def test_intervals_stay_on_the_figure_where_they_have_no_end(data):
    trial = next(t for t in report_data.study()["trials"] if t["is_verified"])
    trial["verified"]["seconds"]["restart_ert_high"] = math.inf
    figure = figures.front({"trials": [trial], "front": [trial["number"]], "recommended": None})
    assert all(math.isfinite(v) for v in trace(figure, "verified").error_y.array)


@pytest.mark.parametrize("sizes", [[256], [256, 340, 500, 2000]])
def test_finalists_of_one_size_stand_at_their_size_and_on_the_axis(sizes):
    def measured(number, verified, size):
        ert = 0.007 * (1 + 0.01 * number)
        times = {"restart_ert": ert, "restart_ert_low": ert * 0.9, "restart_ert_high": ert * 1.1, "median": ert}
        of = {"runs": 32 if verified else 4, "solved": 4, "seconds": times}
        return {"number": number, "parameters": size, "params": {}, "runs": [], "verification": [{}], "search": of,
                "verified": of, "is_verified": verified}

    trials = [measured(n, n < 12, 256) for n in range(24)] + [measured(30 + n, True, s) for n, s in enumerate(sizes[1:])]
    figure = figures.front({"trials": trials, "front": [0], "recommended": 0})
    verified, others = trace(figure, "verified"), trace(figure, "measured again, not verified")
    at = sorted(x for x in verified.x if x < 300)
    assert len(at) == len(set(at)) == 12 and 256 / 1.0401 <= at[0] and at[-1] <= 256 * 1.0401
    assert set(others.x) == {256} and len(others.x) == figures.MOST_UNVERIFIED and others.error_y.array is None
    assert sorted(others.y) == pytest.approx([0.007 * (1 + 0.01 * n) for n in range(12, 17)])
    assert trace(figure, "recommended, trial 0").x == (256,)
    low, high = figure.layout.xaxis.range
    aside = 0.04 * (high - low)
    assert low + aside < math.log10(at[0]) and math.log10(max(verified.x)) < high - aside
    if len(sizes) == 1:
        assert figure.layout.xaxis.ticktext == ("256",)


def test_marks_of_a_log_axis_are_ones_twos_and_fives():
    axis = look.log_axis([0.2, 30], "seconds")
    assert [t for v, t in zip(axis["tickvals"], axis["ticktext"], strict=True) if 0.1 <= v <= 50] == [
        "0.1", "0.2", "0.5", "1", "2", "5", "10", "20", "50",
    ]


def test_kaplan_meier_ends_at_the_share_that_solved_where_all_were_stopped_alike():
    trial = {"number": 3, "parameters": 100, "runs": [], "verified": {}, "verification": [
        {"status": "solved", "seconds": 1.0, "reason": ""}, {"status": "solved", "seconds": 2.0, "reason": ""},
        {"status": "diverged", "seconds": 0.5, "reason": ""}, {"status": "censored", "seconds": 20.0, "reason": "cap"},
        {"status": "crashed", "seconds": None, "reason": "signal 9"},
    ]}
    curve = figures.kaplan_meier({"trials": [trial], "front": [3]}).data[0]
    assert list(zip(curve.x, curve.y, strict=True)) == [(0.7, 0), (1, 0.25), (2, 0.5), (20, 0.5)]


def test_learning_curves_draw_seeds_and_their_median(data):
    figure = figures.learning_curves(data, goal=800)
    assert len([t for t in figure.data if t.showlegend is not False]) == figures.MOST_CURVES
    bold = next(t for t in figure.data if t.showlegend is not False)
    assert len(bold.x) == 100
    assert figure.layout.annotations[0].text == "solved: 800"
    assert figures.learning_curves(data, "env_steps").layout.xaxis.title.text == "env steps"


def test_learning_curves_are_found_by_run_too():
    data = report_data.study(trials=20, finalists=2)
    data["curves"] = {r["id"]: r.pop("curve").tolist() for t in data["trials"] for r in t["verification"]}
    assert names(figures.learning_curves(data))


def test_search_falls_and_says_what_was_measured(data):
    figure = figures.search(data)
    assert list(figure.data[0].y) == sorted(figure.data[0].y, reverse=True)
    assert figure.layout.annotations[0].text.startswith("recommended, measured: ")


def test_time_is_all_accounted_for(data):
    parts = dict(figures.worker_time(data))
    runs = [r for t in data["trials"] for r in t["runs"]]
    assert sum(v for k, v in parts.items() if k.startswith("search: ")) == pytest.approx(sum(r["seconds"] for r in runs))
    assert parts["platform"] == data["counts"]["platform_seconds"]


def test_many_claims_are_thinned_but_none_disappears_alone():
    points = [(10 ** (i % 7), 1 + (i % 1000) / 10, {}) for i in range(20_000)]
    few = figures._thin(points, most=1500)
    assert len(few) < 1500
    assert {p[0] for p in few} == {p[0] for p in points}
    lone = [*points, (12345.0, 1e4, {"number": 1})]
    assert any(p[2] for p in figures._thin(lone))


ALL = (figures.front, lambda d: figures.front(d, "median"), figures.kaplan_meier, figures.learning_curves,
       lambda d: figures.learning_curves(d, "env_steps"), figures.search, figures.time_spent)


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, -1.0, 0])
def test_survive_absent_and_unbounded_numbers(bad):
    import numpy as np

    whole = report_data.study(trials=25, finalists=4)
    spoilt = {**whole, **{k: report_data.spoil(whole[k], bad, np.random.default_rng(1)) for k in ("trials", "search", "machines", "counts")}}
    for figure in ALL:
        json.loads(figure(spoilt).to_json(), parse_constant=pytest.fail)


@pytest.mark.parametrize("empty", [
    {}, {"trials": [], "front": [], "recommended": None, "search": [], "machines": [], "counts": {}},
    {"trials": [{"number": 0, "params": {}, "parameters": None, "runs": [], "verification": [], "search": None, "verified": None}]},
])
def test_survive_an_empty_study(empty):
    for figure in ALL:
        assert figure(empty).layout.annotations[0].text


def test_hostile_params_are_text_in_what_is_hovered():
    data = report_data.study(trials=10)
    for i, trial in enumerate(data["trials"]):
        trial["params"]["optimizer"] = f"<a href='javascript:alert({i})'>x</a>"
    for t in figures.front(data).data:
        assert not any("<a" in text for text in t.hovertext or ())


def test_every_colour_of_the_look_has_a_partner_in_the_dark():
    used = {look.INK, look.MUTED, look.GRID, look.SURFACE, look.CLAIMED, look.UNVERIFIED, look.VERIFIED, *look.SERIES}
    assert used <= set(look.DARK)
    assert not used & set(look.DARK.values())
