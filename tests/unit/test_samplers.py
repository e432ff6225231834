"""Samplers: what repeats, what is never suggested twice, what a suggestion may cost, and that models beat chance."""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from sweep import samplers, space
from sweep.samplers import STARTUP, Sampler, SamplerError


def dimensions(**more):
    described = {"hidden": [8, 16, 32, 64], "learning_rate": {"log": [1e-3, 1e-1]}, "gamma": {"near_one": [0.9, 0.999]},
                 "horizon": {"pow2": [16, 128]}, "clip": {"log": [0.05, 1.0]}, "optimizer": ["muon", "adam"], "layers": 1, **more}
    return {name: space.parse(name, value, "test") for name, value in described.items()}


def network_size(params):
    return 3 * params["hidden"] ** 2


def worth(params):
    """(parameters, log seconds, solved) of a trial, best at learning rate 0.02, gamma 0.98 and muon."""
    off = (math.log10(params["learning_rate"] / 0.02) ** 2 + math.log10((1 - params["gamma"]) / 0.02) ** 2
           + math.log10(params["clip"] / 0.3) ** 2 + (params["optimizer"] == "adam"))
    solved = off < 1.5
    return network_size(params), 2.0 * off + 0.5 * math.log(params["hidden"] / 8) + (0 if solved else 5), solved


def play(sampler, trials, batch=3, cpu=math.inf):
    """Asks and tells; the params in the order suggested."""
    suggested = []
    while len(suggested) < trials:
        for params, _ in sampler.ask(batch, cpu):
            suggested.append(params)
            sampler.tell(len(suggested), params, *worth(params))
    return suggested


@pytest.mark.parametrize("name", ["capri", "tpe", "random", "cmaes"])
def test_suggestions_are_legal_and_new_and_repeat(name):
    first = play(Sampler(name, dimensions(), 5, network_size), 60)
    assert first == play(Sampler(name, dimensions(), 5, network_size), 60)
    assert first[0] != play(Sampler(name, dimensions(), 6, network_size), 1)[0]
    assert len({tuple(sorted(p.items())) for p in first}) == len(first)
    for params in first:
        assert params.keys() == dimensions().keys() and space.legal(params) is None
        assert all(d.contains(params[key]) for key, d in dimensions().items())


def test_random_suggestions_depend_on_their_number_alone():
    whole = [p for p, _ in Sampler("random", dimensions(), 0, network_size).ask(30)]
    resumed = Sampler("random", dimensions(), 0, network_size)
    for params in whole[:12]:
        resumed.add(params)
    assert [p for p, _ in resumed.ask(18)] == whole[12:]


@pytest.mark.parametrize("name", ["capri", "tpe"])
def test_the_first_suggestions_of_a_model_repeat_whatever_it_is_told(name):
    quiet, told = (Sampler(name, dimensions(), 3, network_size) for _ in range(2))
    assert play(told, told.startup, batch=4) == [p for p, _ in quiet.ask(told.startup)]


def test_illegal_combinations_are_moved_to_legal_ones():
    described = dimensions(envs={"pow2": [8, 64]}, minibatches=[1, 2, 4, 8, 16, 32])
    assert all(space.legal(params) is None for params in play(Sampler("tpe", described, 1, network_size), 60))


@pytest.mark.parametrize("name", ["capri", "tpe", "cmaes"])
def test_models_beat_chance(name):
    def best(name, seed):
        found = [worth(p) for p in play(Sampler(name, dimensions(), seed, network_size), 120, batch=4)]
        return min(seconds for _, seconds, solved in found if solved)

    assert np.median([best(name, seed) for seed in range(3)]) < np.median([best("random", seed) for seed in range(3)])


@pytest.mark.parametrize("name", ["capri", "tpe"])
def test_models_look_along_the_front(name):
    suggested = play(Sampler(name, dimensions(), 2, network_size), 150)
    late = [p["hidden"] for p in suggested[90:]]
    assert late.count(8) > len(late) / 3  # smaller is faster here, and on the front


@pytest.mark.parametrize("name", ["capri", "tpe"])
def test_small_networks_that_never_solve_do_not_attract(name):
    def worthless(params):
        return network_size(params), 1.0 if params["hidden"] > 8 else 9.0, params["hidden"] > 8

    sampler, suggested = Sampler(name, dimensions(), 0, network_size), []
    while len(suggested) < 120:
        for params, _ in sampler.ask(2):
            suggested.append(params)
            sampler.tell(len(suggested), params, *worthless(params))
    late = [p["hidden"] for p in suggested[60:]]
    assert late.count(8) < len(late) / 4


def test_a_model_that_cannot_be_paid_for_is_not_asked():
    sampler = Sampler("tpe", dimensions(), 0, network_size)
    play(sampler, STARTUP + 8)
    origins = {origin for _ in range(10) for _, origin in sampler.ask(4, cpu_seconds_left=0.0)}
    assert origins <= {"neighbour", "random"}
    assert sampler.cpu_seconds > 0


def test_history_is_capped_and_keeps_the_best(monkeypatch):
    monkeypatch.setitem(samplers.HISTORY, "tpe", 40)
    sampler = Sampler("tpe", dimensions(), 0, network_size)
    play(sampler, 150)
    history = sampler._history()
    assert len(history) == 40 and len(sampler._fitted) >= 150 - 4
    best = min(range(1, 100), key=lambda n: sampler._told[n].log_seconds)
    assert best in history
    assert len(sampler._fit.study.trials) < 3 * 40


def test_a_trial_told_again_replaces_what_was_told():
    sampler = Sampler("tpe", dimensions(), 0, network_size)
    suggested = play(sampler, STARTUP + 8)
    sampler.tell(1, suggested[0], 100, -9.0, True)
    sampler.ask(4)
    values = [t.values[1] for t in sampler._fit.study.trials if t.values]
    assert values.count(-9.0) == 1 and len(values) == len(suggested)


def test_an_exhausted_space_says_so():
    described = {name: space.parse(name, value, "test") for name, value in {"hidden": [8, 16], "layers": [1, 2], "envs": 64}.items()}
    for name in ("capri", "tpe", "random"):
        sampler = Sampler(name, described, 0, network_size)
        found = sampler.ask(3) + sampler.ask(3)
        assert len(found) == 4 and sampler.exhausted and sampler.ask(1) == []


def test_a_sampler_that_needs_torch_says_so_in_one_line(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SamplerError, match="needs torch"):
        Sampler("gp", dimensions(), 0, network_size)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_gp_suggests():
    suggested = play(Sampler("gp", dimensions(), 0, network_size), STARTUP + 6)
    assert all(space.legal(params) is None for params in suggested)


def test_cmaes_goes_on_after_an_interruption():
    sampler = Sampler("cmaes", dimensions(), 0, network_size)
    for number, params in enumerate(play(Sampler("random", dimensions(), 1, network_size), 40)):
        sampler.add(params)
        sampler.tell(number, params, *worth(params))
    assert {origin for _, origin in sampler.ask(6)} == {"cmaes"}
