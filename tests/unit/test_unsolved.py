"""What is said where nothing solves: exact counts, how near the best came, and what to change."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import report_data

from sweep import commands, unsolved


def study(runs, budget=None, solve=None, counts=None):
    """A study in which each trial has the runs of one list, a run being (status, best, CPU seconds[, reason])."""
    trials = [{"number": i, "verification": [],
               "runs": [{"status": status, "best_return": best, "best_metric": best, "cpu_seconds": seconds, "reason": "".join(reason)}
                        for status, best, seconds, *reason in some]} for i, some in enumerate(runs)]
    statuses = [r["status"] for t in trials for r in t["runs"]]
    return {"study": {"name": "a", "definition": {"solve": solve or {"mean_return": 475.0}}, "budget": {"run_seconds": 60.0, **(budget or {})}},
            "trials": trials, "counts": {"runs": counts or {s: statuses.count(s) for s in set(statuses)}}}


def said(*arguments, **named):
    return unsolved.sentence(unsolved.facts(study(*arguments, **named)))


def test_counts_trials_and_says_how_near_the_best_came():
    runs = [[("censored", 21.5, 60.1), ("censored", 312.0, 60.2)], *[[("censored", 9.0, 4.0)]] * 411]
    assert said(runs) == "0 of 412 trials solved in 60 s; the best reached 312 of 475: raise `run`, or lower `mean_return`"
    assert said([*runs, []]) == said(runs)  # a trial that no run has ended of was not tried yet


def test_a_metric_is_called_so():
    line = said([[("censored", 0.62, 60.0)]], solve={"metric": 0.95})
    assert line == "0 of 1 trial solved in 60 s; the best reached 0.62 of 0.95: raise `run`, or lower `metric`"


@pytest.mark.parametrize(("best", "asked", "words"), [
    (-180.0, -110.0, "the best reached -180 of -110:"),
    (474.98, 475.0, "the best reached 474.98 of 475:"),  # never "475 of 475"
    (478.0, 475.0, "the best reached 478 of 475 in training, but its frozen policy did not:"),
    (None, 475.0, "no run ended enough episodes to judge:"),
])
def test_what_the_best_reached(best, asked, words):
    assert words in said([[("censored", best, 60.0)]], solve={"mean_return": asked})


def test_the_advice_is_what_would_help():
    short = said([[("censored", 9.0, 3.0)]])
    assert short.endswith("its longest run had 3 s; give the search more time (--budget), or lower `mean_return`")
    assert said([[("censored", 9.0, 3.0, "env-step limit")]]).endswith(": raise `env_steps`, or lower `mean_return`")
    assert "all 2 runs diverged; look at" in said([[("diverged", None, 1.0)] * 2])
    assert said([[("crashed", None, 0.0, "no memory")]]) == "0 of 1 trial solved: its run crashed (no memory)"


def test_nothing_is_said_where_something_solved_or_nothing_ended():
    assert unsolved.facts(study([[("solved", 480.0, 3.0), ("censored", 9.0, 60.0)]])) is None
    assert said([]) == said([[]]) == unsolved.sentence(None) == ""
    assert unsolved.facts(report_data.study(trials=10)) is None


def test_solves_of_another_machine_are_no_solves_here():
    line = said([[("censored", 9.0, 60.0)]], counts={"solved": 12, "censored": 1})
    assert line == "No trial has solved on this machine and build; 12 runs of others did: run the study here"


def test_best_says_it_too():
    data = study([[("censored", 312.0, 60.0)]])
    value = {"study": "a", "front": [], "recommended": None, "unsolved": unsolved.facts(data)}
    assert " ".join(commands.recommendation(value).split()) == said([[("censored", 312.0, 60.0)]])
