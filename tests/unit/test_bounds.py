"""Where the best trials sit on an end of what was searched."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import report_data

from sweep import bounds, commands, pages, space


def study(name, dimension, values, verified=True, front=1, solve=None, env="none"):
    """A study that searches one hyperparameter; trials from the fastest on, the first `front` of them on the front."""
    of = {"runs": 12, "solved": 12, "seconds": {"restart_ert": 1.0}}
    trials = [{"number": i, "params": {name: value}, "is_verified": verified, "verified": of if verified else None,
               "search": {**of, "seconds": {"restart_ert": 1.0 + i}}} for i, value in enumerate(values)]
    definition = {"dimensions": {name: dimension}, "solve": solve or {"mean_return": 475.0}}
    return {"study": {"name": "a", "env": env, "definition": definition}, "trials": trials, "front": list(range(front)), "recommended": 0}


def found(*arguments, **named):
    return [(f["end"], f["bound"], f["to"]) for f in bounds.at_ends(study(*arguments, **named))]


def at(dimension, *units):
    """Values of a range at those places in the unit cube."""
    return [space.parse("x", dimension, "test").from_unit(u) for u in units]


LOG = {"log": [1e-3, 1e-1]}
OUT = (0.0, 0.005, 0.01, 0.015, 0.019)


@pytest.mark.parametrize(("name", "dimension", "values", "end"), [
    ("learning_rate", LOG, at(LOG, *OUT), ("lower", 1e-3, 1e-4)),
    ("learning_rate", LOG, at(LOG, *(1 - u for u in OUT)), ("upper", 1e-1, 1.0)),
    ("gamma", {"near_one": [0.9, 0.999]}, at({"near_one": [0.9, 0.999]}, *(1 - u for u in OUT)), ("upper", 0.999, 0.9999)),
    ("gamma", {"near_one": [0.9, 0.999]}, at({"near_one": [0.9, 0.999]}, *OUT), ("lower", 0.9, 0.45)),
    ("gae_lambda", {"uniform": [0.5, 0.9]}, at({"uniform": [0.5, 0.9]}, *(1 - u for u in OUT)), ("upper", 0.9, 1.0)),  # 1.1 is illegal
    ("envs", {"pow2": [64, 512]}, [64] * 5, ("lower", 64, 16)),
    ("envs", {"pow2": [64, 2048]}, [2048] * 5, ("upper", 2048, 4096)),  # 8,192 is illegal
    ("hidden", {"int": [16, 64]}, [64] * 5, ("upper", 64, 88)),
    ("epochs", [1, 2, 3, 4], [4] * 5, ("upper", 4, None)),
    ("anneal_steps", {"log": [1000, 100000]}, [1000] * 5, ("lower", 1000, 100)),
])
def test_an_end_is_named_with_one_worth_trying(name, dimension, values, end):
    (got,) = found(name, dimension, values)
    assert got[0] == end[0] and got[1:] == pytest.approx(end[1:])
    if got[2] is not None:  # what is advised is a legal range that is wider
        [(kind, ends)] = dimension.items()
        wider = {kind: [got[2], ends[1]] if got[0] == "lower" else [ends[0], got[2]]}
        from trainer_native import config

        assert space.fit(space.parse(name, wider, "test"), config.HYPERPARAMETERS[name], "test").contains(values[0])


@pytest.mark.parametrize(("name", "dimension", "values"), [
    ("learning_rate", LOG, at(LOG, 0.021, *OUT[:4], 0.5)[:1] + at(LOG, 0.03, *OUT[:3])),  # three of five
    ("hidden", [8, 16, 32], [8] * 5),  # the trainer has no smaller network
    ("hidden", {"int": [8, 64]}, [8] * 5),
    ("layers", {"int": [1, 4]}, [1] * 5),
    ("minibatches", [1, 2, 4], [1] * 5),
    ("gae_lambda", {"uniform": [0.5, 1.0]}, at({"uniform": [0.5, 1.0]}, *(1 - u for u in OUT))),
    ("try_from", [300, 400, 475], [475] * 5),  # later than the solve itself
    ("cell", ["mingru", "lstm", "mlp"], ["mlp"] * 5),  # words have no ends
    ("epochs", [1, 2, 3, 4], [4] * 4 + [3]),  # of four values one is met so often
    ("epochs", [1, 4], [4] * 5),  # two values: a switch
    ("vtrace", [False, True], [True] * 5),
    ("envs", 64, [64] * 5),  # not searched
    ("envs", {"pow2": [32, 512]}, [512, 512]),  # two trials say nothing
])
def test_nothing_is_said(name, dimension, values):
    assert found(name, dimension, values) == []


def test_the_best_five_are_looked_at_or_the_whole_verified_front():
    values = [0.001] * 4 + [0.05] * 6
    (one,) = bounds.at_ends(study("learning_rate", LOG, values))
    assert (one["trials"], one["of"]) == (4, 5)
    assert bounds.sentence(one) == "The best trials sit on the lower end of learning_rate (0.001), 4 of 5: widen the range to 0.0001"
    assert bounds.at_ends(study("learning_rate", LOG, values, front=10)) == []  # four of the ten on the front
    assert bounds.at_ends(study("learning_rate", LOG, values, verified=False, front=10))  # claims of a front: the best of them


def test_limits_of_an_environments_own_params_are_its_headers():
    assert found("frameskip", {"int": [1, 4]}, [1] * 5, env="breakout") == []
    ((end, bound, to),) = found("frameskip", {"int": [2, 4]}, [2] * 5, env="breakout")
    assert (end, bound, to) == ("lower", 2, 1)
    assert found("frameskip", {"int": [2, 4]}, [2] * 5, env="moved.h") == [("lower", 2, 1)]  # the header is gone


def test_chance_alone_seldom_sits_on_an_end():
    """Five trials anywhere in a space of cartpole's: alarms in few studies, although 16 hyperparameters have two ends each."""
    from sweep import study as studies

    question, rng, alarms = studies.load("cartpole"), np.random.default_rng(0), 0
    for _ in range(500):
        trials = [space.sample(question.dimensions, rng) for _ in range(5)]
        data = study("x", 1, [0] * 5)
        data["study"]["definition"]["dimensions"] = {name: d.toml() for name, d in question.dimensions.items()}
        for trial, params in zip(data["trials"], trials, strict=True):
            trial["params"] = params
        alarms += bool(bounds.at_ends(data))
    assert alarms <= 25, alarms


def test_the_terminal_and_the_report_say_it():
    data = report_data.study()
    for trial in data["trials"]:
        trial["params"]["learning_rate"] = 0.1
    found = bounds.at_ends(data)
    sentence = bounds.sentence(next(f for f in found if f["name"] == "learning_rate"))
    assert sentence.startswith("The best trials sit on the upper end of learning_rate (0.1)")
    assert sentence + "." in pages.render(data)
    assert sentence in " ".join(" ".join(commands._about_the_space({"at_ends": found})).split())
