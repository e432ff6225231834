"""The bench of searches on small tables made here: what is judged, what is refused, and the edges of what a table can hold."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1]))

from sweep import bench_search, cli, opponents, replay, space, tables
from sweep.tables import Recorded, Table

DIMENSIONS = {name: space.parse(name, value, "test") for name, value in {
    "hidden": [8, 16, 32], "learning_rate": {"log": [1e-3, 1e-1]}, "optimizer": ["muon", "adam"], "layers": 1}.items()}  # fmt: skip
RUN_SECONDS = 2.0


def made(rows=40, seeds=4, solves=lambda params, rng: rng.random() < 0.9, scale=1.0):
    """A table whose times depend on the learning rate, the optimizer and luck; `solves` decides run by run."""
    rng = np.random.default_rng(7)
    params, runs = [], []
    while len(params) < rows:
        p = space.sample(DIMENSIONS, rng)
        if p in params:
            continue
        params.append(p)
        typical = 0.1 * scale * math.exp(abs(math.log10(p["learning_rate"] / 0.02)) + (p["optimizer"] == "adam"))
        row = []
        for _ in range(seeds):
            t = typical * math.exp(0.3 * rng.standard_normal())
            solved = t < RUN_SECONDS * scale and solves(p, rng)
            end = t if solved else RUN_SECONDS * scale
            at = np.linspace(0.1, 1.0, 5) * end
            curve = np.column_stack([at, np.linspace(10, 475 if solved else 200, 5)]).astype(np.float32)
            row.append(Recorded("solved" if solved else "censored", end, int(1e5 * end), curve))
        runs.append(row)
    return Table("made", RUN_SECONDS * scale, 475.0, DIMENSIONS, {}, params, [3 * p["hidden"] ** 2 for p in params], ["random"] * rows, runs)


def answers(table, name, workers=2, seconds=None, seed=0):
    end = seconds or bench_search.random_seconds(table, workers)
    return opponents.method(name)(table, seed, [end * share for share in (0.1, 0.5, 1.0)], workers)


#: All but those that need a package which the tests do not.
ALL = [name for name in opponents.METHODS if opponents.NEEDS.get(name, ["scipy"])[0] == "scipy"] + ["capri:no-caps", "capri:one-seed"]


@pytest.mark.parametrize("name", ALL)
def test_every_search_finds_something(name):
    table = made()
    found = answers(table, name)
    assert [f.recommended for f in found][-1] is not None
    judged = bench_search.judged(table, found)
    assert all(t >= 1 for t in judged["times"]) and all(0 <= v <= 1 + 1e-12 for v in judged["volumes"])


def test_a_replay_repeats_where_suggestions_cost_nothing(monkeypatch):
    monkeypatch.setattr(replay.SimulatedPool, "charge", lambda self, seconds: None)
    table = made()
    for name in ("random", "plain-random", "asha"):
        assert answers(table, name) == answers(table, name)
        assert answers(table, name) != answers(table, name, seed=1)


def test_a_table_is_read_as_it_was_written(tmp_path):
    table = made(rows=12)
    tables.save(tmp_path / "made.npz", table)
    again = tables.load(tmp_path / "made.npz")
    assert (again.params, again.parameters, again.dimensions) == (table.params, table.parameters, table.dimensions)
    for mine, theirs in zip(table.runs, again.runs, strict=True):
        assert [(r.status, np.float32(r.seconds), r.env_steps) for r in mine] == [(r.status, np.float32(r.seconds), r.env_steps) for r in theirs]
        assert all(np.allclose(a.curve, b.curve, rtol=1e-3) for a, b in zip(mine, theirs, strict=True))


# What a table can hold at its edges: every search ends, and says nothing where nothing solved.
EDGES = {
    "none solves": {"solves": lambda p, rng: False},
    "all solve": {"solves": lambda p, rng: True},
    "one choice solves": {"solves": lambda p, rng: p["optimizer"] == "adam"},
    "a thousand seconds": {"scale": 1000.0, "rows": 10},
    "one setting": {"rows": 1},
    "one seed": {"seeds": 1},
}


@pytest.mark.parametrize("workers", [1, 64])
@pytest.mark.parametrize("name", ["capri", "tpe", "plain-tpe", "asha"])
@pytest.mark.parametrize("edge", EDGES)
def test_edges(edge, name, workers):
    table = made(**{"rows": 20, **EDGES[edge]})
    # Long enough for the defaults, whose four runs come first and may take all of their time.
    found = answers(table, name, workers, 4 * table.run_seconds + bench_search.random_seconds(table, workers))
    solvable = {row for row in range(len(table.params)) if math.isfinite(table.true_ert(row))}
    assert {f.recommended for f in found} - {None} <= solvable
    assert all(set(f.front) <= solvable for f in found)
    # With 64 workers a search may be over before any run of the table has come to its end.
    if solvable and workers == 1:
        assert found[-1].recommended is not None


def test_two_identical_trials_and_times_that_are_no_number():
    table = made(rows=6)
    table.runs[1] = list(table.runs[0])
    table.runs[2] = [Recorded("diverged", math.nan, 10, np.full((2, 2), np.nan, np.float32))] * 4
    table.runs[3] = [Recorded("crashed", 0.1, 0, np.zeros((0, 2), np.float32))] * 4
    for name in ("capri", "tpe", "random"):
        assert answers(table, name, seconds=60.0)[-1].recommended not in (None, 2, 3)


def test_the_band_of_a_median_is_that_of_order_statistics():
    for n in (6, 10, 30, 31):
        band = bench_search.band(np.arange(n, dtype=float)[:, None])
        assert band["median"] == [(n - 1) / 2]
        # P(the k-th smallest ≤ median ≤ the k-th largest) = 1 - 2 P(Binomial(n, ½) < k), k as large as 95% allows.
        k = int(band["low"][0]) + 1
        assert band["high"] == [n - k]
        assert 1 - 2 * stats.binom.cdf(k - 1, n, 0.5) >= 0.95 > 1 - 2 * stats.binom.cdf(k, n, 0.5)


def test_what_never_ends_good_has_no_time_to_the_best():
    assert bench_search._for_good(np.array([True] * 72 + [False])) == math.inf
    assert bench_search._for_good(np.array([False, True, False] + [True] * 70)) == bench_search.SHARES[3]


def test_the_command_prints_medians_and_json(tmp_path):
    tables.save(tmp_path / "made.npz", made(rows=12))
    command = ["bench", "search", str(tmp_path / "made.npz"), "--replays", "2", "--method", "capri", "--method", "plain-random"]
    shown = CliRunner().invoke(cli.cli, command)
    assert shown.exit_code == 0 and "made: 12 settings" in shown.stdout and "plain-random" in shown.stdout
    found = json.loads(CliRunner().invoke(cli.cli, [*command, "--json"]).stdout)
    [table] = found["tables"]
    assert [m["method"] for m in table["methods"]] == ["capri", "plain-random"]
    assert all(len(m["time"]["median"]) == len(found["shares"]) for m in table["methods"])


@pytest.mark.parametrize("name, words", [("tpee", "legal are"), ("plain-tpe:no-caps", "legal are"), ("capri:no-luck", "legal are")])
def test_an_unknown_search_is_one_line(name, words):
    with pytest.raises(opponents.MethodError, match=words):
        opponents.method(name)


def test_a_file_that_is_no_table_is_one_line(tmp_path):
    (tmp_path / "no.npz").write_bytes(b"no")
    with pytest.raises(tables.TableError, match="is not a table of recorded runs"):
        bench_search.measure([tmp_path / "no.npz"], ["random"], 1)


def test_a_table_without_a_solve_has_nothing_to_find(tmp_path):
    tables.save(tmp_path / "none.npz", made(rows=3, solves=lambda p, rng: False))
    with pytest.raises(tables.TableError, match="none of its 3 settings solved"):
        bench_search.measure([tmp_path / "none.npz"], ["random"], 1)
