"""Dimensions and spaces: round trips, bounds, agreement with Optuna, legal combinations."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep import space
from sweep.space import Choice, Fixed, Range
from trainer_native import config

unhurried = settings(deadline=None)  # the first call may import Optuna
units = st.floats(0, 1)
scalars = st.one_of(st.booleans(), st.integers(-(10**12), 10**12), st.floats(-1e9, 1e9), st.text(max_size=5))


@st.composite
def choices(draw):
    kinds = st.sampled_from([st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6), st.text(max_size=5)])
    return space.parse("x", draw(st.lists(draw(kinds), min_size=2, max_size=9, unique=True)), "here")


@st.composite
def ranges(draw):
    kind = draw(st.sampled_from(space.KINDS))
    if kind == "pow2":
        low, high = sorted(draw(st.lists(st.integers(0, 30), min_size=2, max_size=2, unique=True)))
        return space.parse("x", {kind: [1 << low, 1 << high]}, "here")
    if kind == "int":
        step = draw(st.integers(1, 16))
        low, count = draw(st.integers(-(10**6), 10**6)), draw(st.integers(1, 10**4))
        return Range("int", low, low + step * count, step)
    ends = {"uniform": st.floats(-1e6, 1e6), "log": st.floats(1e-9, 1e9), "near_one": st.floats(0.001, 0.99999)}[kind]
    low, high = sorted(draw(st.tuples(ends, ends).filter(lambda pair: abs(pair[0] - pair[1]) > 1e-6 * abs(pair[0]))))
    if kind == "log" and draw(st.booleans()):
        low = max(round(low), 1)
        return Range("log", low, max(round(high), low + 1))
    return space.parse("x", {kind: [low, high]}, "here")


dimensions = st.one_of(choices(), ranges())


@unhurried
@given(dimensions, units)
def test_every_unit_gives_a_value_inside_and_back_again(dimension, unit):
    value = dimension.from_unit(unit)
    assert dimension.contains(value)
    position = dimension.to_unit(value)
    assert 0 <= position <= 1
    again = dimension.from_unit(position)
    if isinstance(value, float):
        assert math.isclose(again, value, rel_tol=1e-9, abs_tol=1e-9)
    else:
        assert again == value and type(again) is type(value)
    if width := dimension.count():
        assert abs(position - unit) <= 0.5 / width + 1e-9


@unhurried
@given(dimensions, st.tuples(units, units))
def test_the_unit_interval_keeps_the_order_of_numbers(dimension, pair):
    low, high = sorted(pair)
    a, b = dimension.from_unit(low), dimension.from_unit(high)
    assert isinstance(a, str) or a <= b


@unhurried
@given(ranges())
def test_a_range_reaches_both_ends(dimension):
    assert math.isclose(dimension.from_unit(0.0), dimension.low, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(dimension.from_unit(1.0), dimension.high, rel_tol=1e-9, abs_tol=1e-9)
    assert dimension.from_unit(-3.0) == dimension.from_unit(0.0)
    assert dimension.from_unit(7.0) == dimension.from_unit(1.0)


@unhurried
@given(dimensions, units)
def test_optuna_and_back(dimension, unit):
    value = dimension.from_unit(unit)
    distribution = dimension.distribution()
    suggestion = dimension.to_optuna(value)
    assert distribution._contains(distribution.to_internal_repr(suggestion))
    again = dimension.from_optuna(suggestion)
    assert dimension.contains(again)
    assert math.isclose(again, value, rel_tol=1e-9, abs_tol=1e-9) if isinstance(value, float) else again == value


@pytest.mark.parametrize(
    "dimension",
    [
        Range("uniform", 2.0, 5.0),
        Range("log", 1e-3, 1e-1),
        Range("log", 1, 9),
        Range("near_one", 0.9, 0.999),
        Range("int", 2, 8),
        Range("int", 8, 40, 8),
        Range("pow2", 16, 128),
        Choice((1, 2, 4, 8)),
        Choice(("muon", "adam", "other")),
        Choice((True, False)),
    ],
    ids=str,
)
def test_drawn_from_the_cube_or_by_optuna_the_values_are_spread_alike(dimension):
    import optuna

    draws = 3000
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    distribution = dimension.distribution()
    theirs = [dimension.from_optuna(study.ask({"x": distribution}).params["x"]) for _ in range(draws)]
    rng = np.random.default_rng(1)
    ours = [dimension.from_unit(rng.random()) for _ in range(draws)]
    assert all(map(dimension.contains, theirs))
    if isinstance(ours[0], float):
        quantiles = np.linspace(0.05, 0.95, 10)
        units = [np.quantile([dimension.to_unit(x) for x in xs], quantiles) for xs in (ours, theirs)]
        assert np.abs(units[0] - units[1]).max() < 0.05
    else:
        ours, theirs = Counter(ours), Counter(theirs)
        assert set(ours) == set(theirs)
        assert max(abs(ours[value] - theirs[value]) for value in ours) < 0.05 * draws


@unhurried
@given(dimensions, scalars)
def test_the_nearest_value_is_inside_and_a_value_inside_is_its_own(dimension, value):
    nearest = dimension.nearest(value)
    assert dimension.contains(nearest)
    assert dimension.nearest(nearest) == nearest


def test_nearest_is_near():
    assert Range("pow2", 16, 128).nearest(100) == 128
    assert Range("pow2", 16, 128).nearest(4) == 16
    assert Range("int", 8, 64, 8).nearest(21) == 24
    assert Range("near_one", 0.9, 0.99).nearest(1.0) == 0.99
    assert Choice((1, 4, 16)).nearest(5) == 4
    assert Choice(("a", "b")).nearest("c") == "a"
    assert Range("log", 1.0, 4.0).nearest(None) == pytest.approx(2.0)


@unhurried
@given(dimensions)
def test_toml_is_read_back(dimension):
    assert space.parse("x", dimension.toml(), "here") in (
        dimension,
        # whole numbers of a log range, and the step of an int one, come from the hyperparameter
        getattr(dimension, "kind", "") == "log" and Range("log", float(dimension.low), float(dimension.high)),
        getattr(dimension, "kind", "") == "int" and Range("int", dimension.low, dimension.high),
    )


def test_containing_tells_types_apart():
    assert not Choice((0, 1)).contains(True)
    assert not Fixed(1).contains(True)
    assert not Range("int", 0, 1).contains(True)
    assert not Range("int", 8, 64, 8).contains(12)
    assert not Range("pow2", 1, 64).contains(12)
    assert not Range("log", 1, 64).contains(1.5)
    assert not Range("uniform", 0.0, 1.0).contains(math.nan)


def test_fit_gives_the_hyperparameters_type():
    def fitted(name, value):
        return space.fit(space.parse(name, value, "here"), config.HYPERPARAMETERS[name], "here")

    assert repr(fitted("learning_rate", 1).value) == "1.0"
    assert fitted("hidden", [64, 8, 16]) == Choice((8, 16, 64))
    assert fitted("hidden", {"int": [8, 64]}) == Range("int", 8, 64, step=8)
    assert repr(fitted("anneal_steps", {"log": [1e5, 1e7]})) == repr(Range("log", 100_000, 10_000_000))
    assert fitted("hidden", [32]) == Fixed(32)
    assert repr(fitted("reward_clip", [1, 2]).values) == "(1.0, 2.0)"


LEGAL_KINDS = "one range of: uniform, log, near_one, int, pow2"
BAD_VALUES = [
    # -- the shape
    ("gamma", [], "'gamma' is []; a choice needs at least one value"),
    ("hidden", [8, 16, 8], "'hidden' lists 8 twice: [8, 16, 8]; legal is each choice once"),
    ("gamma", [0.9, [0.8]], "'gamma' is [0.9, [0.8]]; legal is a value, a list of values or a range"),
    ("gamma", None, "'gamma' is None; legal is a value, a list of values or a range"),
    ("gamma", {}, f"'gamma' is {{  }}; legal is {LEGAL_KINDS}"),
    ("gamma", {"near_1": [0.9, 0.99]},
     f"'gamma' is {{ near_1 = [0.9, 0.99] }}; 'near_1' is not a range. Did you mean 'near_one'? Legal is {LEGAL_KINDS}"),
    ("gamma", {"log": [0.1, 0.2], "int": [1, 2]},
     f"'gamma' is {{ log = [0.1, 0.2], int = [1, 2] }}; legal is {LEGAL_KINDS}"),
    ("clip", {"log": [0.1]}, "'clip' is { log = [0.1] }; legal is { log = [low, high] } with two finite numbers"),
    ("clip", {"log": 0.1}, "'clip' is { log = 0.1 }; legal is { log = [low, high] } with two finite numbers"),
    ("clip", {"log": [0.1, True]},
     "'clip' is { log = [0.1, true] }; legal is { log = [low, high] } with two finite numbers"),
    ("clip", {"uniform": [0.1, math.inf]},
     "'clip' is { uniform = [0.1, inf] }; legal is { uniform = [low, high] } with two finite numbers"),
    ("clip", {"uniform": [math.nan, 1]},
     "'clip' is { uniform = [nan, 1] }; legal is { uniform = [low, high] } with two finite numbers"),
    ("gamma", math.nan, "'gamma' is nan; legal are finite numbers"),
    ("epochs", [1, math.inf], "'epochs' is [1, inf]; legal are finite numbers"),
    # -- the ends
    ("gamma", {"uniform": [0.9, 0.9]}, "'gamma' is { uniform = [0.9, 0.9] }; low must be below high"),
    ("gamma", {"near_one": [0.99, 0.9]}, "'gamma' is { near_one = [0.99, 0.9] }; low must be below high"),
    ("clip", {"log": [0, 1]}, "'clip' is { log = [0, 1] }; the low end of log must be above 0"),
    ("gamma", {"near_one": [0.9, 1.0]},
     "'gamma' is { near_one = [0.9, 1.0] }; the ends of near_one must be between 0 and 1, both excluded"),
    ("gamma", {"near_one": [0, 0.9]},
     "'gamma' is { near_one = [0, 0.9] }; the ends of near_one must be between 0 and 1, both excluded"),
    ("envs", {"pow2": [16, 100]}, "'envs' is { pow2 = [16, 100] }; the ends of pow2 must be powers of two"),
    ("envs", {"pow2": [-4, 16]}, "'envs' is { pow2 = [-4, 16] }; the ends of pow2 must be powers of two"),
    ("epochs", {"int": [1.5, 3]}, "'epochs' is { int = [1.5, 3] }; legal are two whole numbers"),
    # -- what the trainer takes
    ("hidden", 12, "'hidden' is 12; legal is a whole number from 8 to 512, a multiple of 8"),
    ("hidden", [8, 12], "'hidden' is 12; legal is a whole number from 8 to 512, a multiple of 8, in [8, 12]"),
    ("hidden", {"int": [8, 60]},
     "'hidden' is 60; legal is a whole number from 8 to 512, a multiple of 8, in { int = [8, 60] }"),
    ("hidden", {"pow2": [4, 64]},
     "'hidden' is 4; legal is a whole number from 8 to 512, a multiple of 8, in { pow2 = [4, 64] }"),
    ("hidden", "16", "'hidden' is '16'; legal is a whole number from 8 to 512, a multiple of 8"),
    ("hidden", 16.5, "'hidden' is 16.5; legal is a whole number from 8 to 512, a multiple of 8"),
    ("vtrace", 1, "'vtrace' is 1; legal is true or false"),
    ("optimizer", "sgd", "'optimizer' is 'sgd'; legal is one of 'muon', 'adam'"),
    ("optimizer", {"int": [0, 1]}, "'optimizer' cannot be a range; legal is one of 'muon', 'adam', or a list of these"),
    ("gamma", {"uniform": [0.9, 1.1]}, "'gamma' is 1.1; legal is a number from 0 to 1, in { uniform = [0.9, 1.1] }"),
    ("gamma", {"int": [0, 1]},
     "'gamma' is { int = [0, 1] }; it is a number from 0 to 1, and its range is one of uniform, log, near_one"),
    ("epochs", {"uniform": [1, 4]},
     "'epochs' is { uniform = [1.0, 4.0] }; it is a whole number from 1 to 64, and its range is one of int, log, pow2"),
    ("envs", {"log": [4, 64]},
     ("'envs' is { log = [4.0, 64.0] }; it is a whole number from 4 to 4096, a multiple of 4, "
     "and its range is one of int, pow2")),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD_VALUES, ids=lambda value: str(value)[:40])
def test_bad_values_are_one_line(name, value, message):
    with pytest.raises(space.SpaceError) as error:
        space.fit(space.parse(name, value, "a.toml [train]"), config.HYPERPARAMETERS[name], "a.toml [train]")
    assert str(error.value) == f"a.toml [train]: {message}"


toml_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*space.KINDS, "x"]), inner, max_size=2),
    max_leaves=5,
)


@unhurried
@given(st.sampled_from(sorted(config.HYPERPARAMETERS)), toml_values)
def test_any_value_is_a_dimension_that_the_trainer_takes_or_one_line(name, value):
    hyperparameter = config.HYPERPARAMETERS[name]
    try:
        dimension = space.fit(space.parse(name, value, "here"), hyperparameter, "here")
    except space.SpaceError as error:
        assert str(error).startswith(f"here: {name!r} ") and "\n" not in str(error)
        return
    for unit in (0.0, 0.3, 1.0):
        drawn = dimension.from_unit(unit)
        assert hyperparameter.check(drawn) == drawn and type(drawn) is hyperparameter.kind


SPACE = {
    "layers": Fixed(1),
    "envs": Range("int", 4, 64, 4),
    "minibatches": Choice((1, 3, 4, 8)),
    "learning_rate": Range("log", 1e-3, 1e-1),
}


def test_the_cube_has_an_axis_for_each_that_is_searched():
    assert list(space.searched(SPACE)) == ["envs", "minibatches", "learning_rate"]
    params = {"layers": 1, "envs": 24, "minibatches": 3, "learning_rate": 0.01}
    unit = space.to_unit(SPACE, params)
    assert unit.shape == (3,) and unit.dtype == np.float64
    again = space.from_unit(SPACE, unit)
    assert again == {**params, "learning_rate": pytest.approx(0.01)} and list(again) == list(params)


def test_samples_are_legal_and_repeat_with_the_seed():
    drawn = [space.sample(SPACE, np.random.default_rng(seed)) for seed in range(200)]
    assert all(params["envs"] % params["minibatches"] == 0 for params in drawn)
    assert {params["minibatches"] for params in drawn} == {1, 3, 4, 8}
    assert drawn == [space.sample(SPACE, np.random.default_rng(seed)) for seed in range(200)]
    assert all(SPACE[name].contains(value) for params in drawn for name, value in params.items())


@unhurried
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.01, 0.1, 0.5, 3.0]))
def test_a_neighbour_is_legal_and_another(seed, scale):
    rng = np.random.default_rng(seed)
    params = space.sample(SPACE, rng)
    moved = space.mutate(SPACE, params, rng, scale)
    assert space.legal(moved) is None
    assert moved != params or scale == 0
    assert all(SPACE[name].contains(value) for name, value in moved.items())


def test_small_scales_stay_near_and_still_move_whole_numbers():
    rng = np.random.default_rng(0)
    lonely = {"epochs": Range("int", 1, 16), "gamma": Range("near_one", 0.9, 0.999)}
    params = {"epochs": 8, "gamma": 0.98}
    moved = [space.mutate(lonely, params, rng, 0.02) for _ in range(500)]
    distances = [np.abs(space.to_unit(lonely, m) - space.to_unit(lonely, params)).max() for m in moved]
    assert np.quantile(distances, 0.95) < 0.1
    assert 0.05 < np.mean([m["epochs"] != 8 for m in moved]) < 0.6


def test_where_nothing_else_is_legal_there_is_no_neighbour():
    alone = {"hidden": Fixed(8)}
    assert space.mutate(alone, {"hidden": 8}, np.random.default_rng(0), 0.1) == {"hidden": 8}


def test_trial_0_is_the_defaults_or_what_is_nearest():
    defaults = {name: h.default for name, h in config.HYPERPARAMETERS.items()}
    found = space.default_params(
        {"hidden": Fixed(8), "envs": Range("pow2", 16, 64), "gamma": Range("near_one", 0.9, 0.99), "epochs": Choice((1, 3))},
        defaults,
    )
    assert found == {"hidden": 8, "envs": 64, "gamma": 0.98, "epochs": 1}
    made_legal = space.default_params({"envs": Range("int", 4, 100, 4), "minibatches": Choice((7, 9))}, defaults)
    assert made_legal["envs"] % made_legal["minibatches"] == 0


def test_the_share_of_legal_combinations_is_counted():
    share, reasons = space.legal_share(SPACE)
    assert 0.5 < share < 0.9 and all(key == "minibatches" for key, _ in reasons)
    assert space.legal_share({"minibatches": Fixed(3)}) == (
        0.0, [("minibatches", "'minibatches' 3 does not divide envs 128")]
    )
    with pytest.raises(space.SpaceError, match="no legal combination in 10 draws: 'minibatches' 3 does not divide"):
        space.sample({"minibatches": Fixed(3)}, np.random.default_rng(0), tries=10)


def test_optuna_is_not_imported_with_the_space():
    import subprocess
    import sys

    code = "import sys, sweep.study; sys.exit('optuna' in sys.modules or 'sqlite_utils' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
