"""The store: what is written comes back, once, and each thing that goes wrong is one clear line."""

import json
import math
import os
import sqlite3
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

from sweep import schema
from sweep.store import Store, StoreError, default_path

ROOT = Path(__file__).parents[2]


def study(name="breakout", hash="a1", **changes):
    values = {
        "name": name,
        "hash": hash,
        "env": "breakout",
        "question": "How fast?",
        "sampler": "tpe",
        "budget": {"study_seconds": 900.0},
        "definition": lambda: {"env": "breakout", "solve": {"mean_return": 800.0}},
    }
    return types.SimpleNamespace(**{**values, **changes})


def run(seed=0, status="solved", points=3, **changes):
    curve = np.arange(4.0 * points).reshape(-1, 4) + 0.123456789
    curve[:, 2] = 8192 * np.arange(points)
    values = {
        "seed": seed,
        "status": status,
        "reason": "criterion confirmed",
        "parameters": 1234,
        "seconds": 1.25,
        "cpu_seconds": 1.2,
        "setup_seconds": 0.01,
        "env_steps": 500_000,
        "iterations": 61,
        "rollout_seconds": 0.5,
        "update_seconds": 0.6,
        "evaluation_seconds": 0.1,
        "trigger_seconds": None,
        "trigger_env_steps": None,
        "evaluations": 1,
        "mean_return": 812.5,
        "best_return": 830.0,
        "mean_metric": 0.94,
        "best_metric": None,
        "curve": curve,
        "weights": None,
    }
    return types.SimpleNamespace(**{**values, **changes})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sweep.db"


@pytest.fixture
def store(path):
    with Store(path) as store:
        yield store


@pytest.fixture
def filled(store):
    """A store with one study, one invocation, one trial: ids all 1."""
    store.open_study(study())
    store.add_invocation(1, {"cpu": "x"}, {"isa": "v3"}, "sweep run breakout", 2)
    store.add_trial(1, 0, {"hidden": 16, "gamma": 0.98}, 1234, "default")
    return store


def one_line(error):
    message = str(error.value)
    assert "\n" not in message and len(message) < 300
    return message


# -- what is written comes back -------------------------------------------------------------------------


def test_default_path(monkeypatch):
    monkeypatch.delenv("SWEEP_DB", raising=False)
    assert default_path() == Path("sweep.db")
    monkeypatch.setenv("SWEEP_DB", "/data/all.db")
    assert default_path() == Path("/data/all.db")
    assert default_path("mine.db") == Path("mine.db")


def test_run_comes_back_whole(filled):
    sent = run(seed=np.int64(7), mean_return=np.float32(812.5), env_steps=np.int64(2**40))
    run_id = filled.add_run(1, 1, sent, "verify", cap_seconds=20.0, audit=True, worker="cpu 1", noisy=True)
    (row,) = filled.runs(1)
    for name in schema.RUN_FIELDS:
        assert row[name] == getattr(sent, name), name
    assert (row["id"], row["purpose"], row["cap_seconds"], row["worker"]) == (run_id, "verify", 20.0, "cpu 1")
    assert row["audit"] is True and row["noisy"] is True and row["attempt"] == 0
    assert type(row["seed"]) is int and type(row["mean_return"]) is float
    curve = filled.curves(1)[run_id]
    assert curve.dtype == np.float64 and np.abs(curve - sent.curve).max() < 1e-6
    assert (curve[:, 2] == sent.curve[:, 2]).all()


def test_trials_invocations_audits(filled):
    filled.set_trial(1, "ended", 0.5)
    filled.end_invocation(1, {"training_seconds": 12.5, "broken": math.nan})
    run_id = filled.add_run(1, 1, run())
    filled.add_audit(1, run_id, 805.0, 1000, np.bool_(True), 0.93)
    (trial,) = filled.trials(1)
    assert trial["params"] == {"hidden": 16, "gamma": 0.98}
    assert (trial["state"], trial["value"], trial["origin"], trial["parameters"]) == ("ended", 0.5, "default", 1234)
    (invocation,) = filled.invocations(1)
    assert invocation["machine"] == {"cpu": "x"} and invocation["ended"] >= invocation["started"]
    assert invocation["totals"] == {"training_seconds": 12.5, "broken": None}
    (audit,) = filled.audits(1)
    assert (audit["run_id"], audit["episodes"], audit["solved"], audit["mean_metric"]) == (run_id, 1000, True, 0.93)


def test_same_definition_goes_on_another_is_a_new_study(store):
    first = store.open_study(study())
    assert store.open_study(study(sampler="random")) == first
    assert store.find("breakout")["sampler"] == "random"
    second = store.open_study(study(hash="b2"))
    assert second != first and store.find("breakout")["id"] == second
    assert store.open_study(study()) == first and store.find("breakout")["id"] == first
    assert [(row["id"], row["newest"]) for row in store.studies()] == [(first, True), (second, False)]
    assert store.find("breakout")["definition"]["solve"] == {"mean_return": 800.0}


def test_no_run_counts_twice(filled):
    filled.add_run(1, 1, run(seed=3))
    with pytest.raises(StoreError, match="already") as error:
        filled.add_run(1, 1, run(seed=3))
    assert "seed 3" in one_line(error)
    with pytest.raises(StoreError, match="trial 0 already"):
        filled.add_trial(1, 0, {}, 1, "tpe")
    assert len(filled.runs(1)) == 1 and len(filled.curves(1)) == 1


def test_last_attempt_counts(filled):
    filled.add_run(1, 1, run(seed=3, status="censored"), cap_seconds=2.0)
    filled.add_run(1, 1, run(seed=3), cap_seconds=8.0, attempt=1)
    filled.add_run(1, 1, run(seed=3), "verify")
    assert [(r["purpose"], r["attempt"]) for r in filled.runs(1)] == [("search", 1), ("verify", 0)]
    assert len(filled.runs(1, superseded=True)) == 3
    counts = filled.counts(1)
    assert counts["runs"] == {"solved": 2, "censored": 1, "diverged": 0, "crashed": 0}
    assert counts["training_seconds"] == 3.75 and counts["trials"] == 1
    (row,) = filled.studies()
    assert (row["trials"], row["runs"], row["solved"]) == (1, 2, 2)


def test_numbers_that_are_not_finite_are_absent(filled):
    curve = np.array([[0.1, 0.1, 10, math.nan], [0.2, 0.2, 20, -math.inf], [0.3, 0.3, 30, 1.5]])
    sent = run(status="diverged", mean_return=math.nan, best_return=-math.inf, curve=curve)
    run_id = filled.add_run(1, 1, sent, cap_seconds=math.inf)
    (row,) = filled.runs(1)
    assert row["mean_return"] is row["best_return"] is row["cap_seconds"] is None
    np.testing.assert_array_equal(filled.curves(1)[run_id], curve)
    filled.set_trial(1, "ended", math.inf)
    assert filled.trials(1)[0]["value"] is None
    with pytest.raises(StoreError, match="trial 1 cannot be stored"):
        filled.add_trial(1, 1, {"gamma": math.nan}, 1, "tpe")


def test_curves_on_request(filled):
    first, second = (filled.add_run(1, 1, run(seed, points=points)) for seed, points in enumerate((0, 1)))
    filled.add_run(1, 1, run(2), curve=False)
    filled.add_run(1, 1, run(3, curve=None))
    assert filled.curves(1)[first].shape == (0, 4)
    assert filled.curves(1)[second].shape == (1, 4)
    assert sorted(filled.curves(1)) == [first, second]
    assert list(filled.curves(1, [second])) == [second] and filled.curves(1, []) == {} and filled.curves(2) == {}


@pytest.mark.parametrize("name", ["it's", 'a "b"; DROP TABLE runs; --', "学習 ✓", "x" * 10_000, "%s {0} \\", "\ud800"])
def test_hostile_names(store, name):
    study_id = store.open_study(study(name=name))
    assert store.find(name)["id"] == study_id == store.open_study(study(name=name))
    store.add_trial(study_id, 0, {name: name}, 1, name)
    assert store.trials(study_id)[0]["params"] == {name: name}
    store.add_run(1, None, run(reason=name), worker=name)
    assert store.remove(name) == 1


def test_views_for_people(filled):
    filled.add_run(1, 1, run(seed=0, status="censored"))
    filled.add_run(1, 1, run(seed=0, seconds=2.0), attempt=1)
    filled.add_run(1, 1, run(seed=1, seconds=4.0))
    with sqlite3.connect(f"file:{filled.path}?mode=ro", uri=True) as reader:
        (times,) = reader.execute("SELECT study, trial, runs, solved, fastest_seconds, mean_seconds FROM trial_times")
        assert times == ("breakout", 0, 2, 2, 2.0, 3.0)
        assert reader.execute("SELECT value FROM trial_params WHERE name = 'gamma'").fetchall() == [(0.98,)]
        assert reader.execute("SELECT json_extract(params, '$.hidden') FROM run_times").fetchall() == [(16,), (16,)]
        speed, load = reader.execute("SELECT env_steps_per_second, wall_over_cpu FROM run_times").fetchone()
        assert speed == 250_000 and load == pytest.approx(2 / 1.2)
        points = reader.execute("SELECT point, env_steps FROM curve_points WHERE run_id = 1").fetchall()
        assert points == [(0, 0), (1, 8192), (2, 16384)]
    reader.close()


# -- readers and writers --------------------------------------------------------------------------------


def test_readers_and_the_writer_do_not_wait_for_each_other(filled, path):
    with Store(path, readonly=True) as reader:
        reader._database.execute("BEGIN")
        assert len(reader.runs(1)) == 0
        began = time.perf_counter()
        filled.add_run(1, 1, run())
        assert time.perf_counter() - began < 1
        reader._database.execute("COMMIT")
        assert len(reader.runs(1)) == 1
        filled._database.execute("BEGIN IMMEDIATE")
        assert len(reader.runs(1)) == 1
        filled._database.execute("COMMIT")
        with pytest.raises(StoreError, match="reading only"):
            reader.add_run(1, 1, run(seed=1))


def test_a_reader_leaves_nothing_behind(path):
    Store(path).close()
    before = path.read_bytes()
    with Store(path, readonly=True) as reader:
        assert reader.studies() == []
    assert [p.name for p in path.parent.iterdir()] == ["sweep.db"] and path.read_bytes() == before


WRITER = """
import sys
sys.path.insert(0, {tests!r})
from test_store import Store, run, study
with Store({path!r}) as store:
    study_id = store.open_study(study(name=sys.argv[1]))
    trial_id = store.add_trial(study_id, 0, {{}}, 1, "tpe")
    with store.lock(study_id):
        for seed in range(150):
            store.add_run(trial_id, None, run(seed, points=128))
"""


def start_writer(path, name):
    code = WRITER.format(tests=str(Path(__file__).parent), path=str(path))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", code, name], env=environment, stderr=subprocess.PIPE, text=True)


def test_two_processes_make_and_fill_one_database(path):
    writers = [start_writer(path, name) for name in ("a", "b")]
    for writer in writers:
        assert writer.communicate(timeout=60)[1] == "" and writer.returncode == 0
    with Store(path, readonly=True) as store:
        assert sorted((row["name"], row["runs"]) for row in store.studies()) == [("a", 150), ("b", 150)]


def test_lock_names_who_has_it(filled, path):
    other = f"from sweep.store import Store\nwith Store({str(path)!r}).lock(1): print('in', flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", other],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "in\n"
    assert filled.running(1) == process.pid
    says = f"study 'breakout' is already running \\(pid {process.pid}\\)"
    with pytest.raises(StoreError, match=says) as error, filled.lock(1):
        pass
    one_line(error)
    with pytest.raises(StoreError, match="running"):
        filled.remove("breakout")
    other_study = filled.open_study(study(name="other"))
    with filled.lock(other_study):  # studies are locked one by one
        assert filled.running(1) == process.pid and filled.running(other_study) == os.getpid()
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()
    assert filled.running(1) is None
    with filled.lock(1):
        pass


def test_lock_within_one_process(filled, path):
    with filled.lock(1), Store(path) as second:
        with pytest.raises(StoreError, match=f"pid {os.getpid()}"), second.lock(1):
            pass
        assert second.running(1) == os.getpid()
        code = f"from sweep.store import Store; print(Store({str(path)!r}, readonly=True).running(1))"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        seen = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert seen.stdout == f"{os.getpid()}\n"  # our looking from a second store did not drop the lock
    assert filled.running(1) is None


def test_children_do_not_inherit_the_lock(filled):
    ready, child_ready = os.pipe()
    with filled.lock(1):
        child = os.fork()
        if child == 0:
            os.write(child_ready, b"x")
            time.sleep(30)
            os._exit(0)
        os.read(ready, 1)
    try:
        assert filled.running(1) is None
        with filled.lock(1):
            pass
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(child_ready)


def test_remove_takes_all_and_only_that(filled):
    run_id = filled.add_run(1, 1, run())
    filled.add_audit(1, run_id, 1.0, 10, False)
    other = filled.open_study(study(name="other"))
    trial_id = filled.add_trial(other, 0, {}, 1, "tpe")
    filled.add_run(trial_id, None, run())
    assert filled.remove("breakout") == 1
    rows = {name: filled._database.rows(f"SELECT count(*) AS n FROM {name}")[0]["n"] for name in schema.TABLES}
    assert rows == {"studies": 1, "invocations": 0, "trials": 1, "runs": 1, "curves": 1, "audits": 0}
    with pytest.raises(StoreError, match="was it removed") as error:
        filled.add_run(1, 1, run())
    one_line(error)
    with pytest.raises(StoreError, match="no study"):
        filled.remove("breakout")


# -- what goes wrong is one line ------------------------------------------------------------------------


def test_unknown_study_names_what_was_meant(store):
    with pytest.raises(StoreError, match="no study 'breakuot'.*holds none yet"):
        store.find("breakuot")
    store.open_study(study())
    store.open_study(study(name="cartpole"))
    with pytest.raises(StoreError, match="Did you mean 'breakout'.*cartpole, breakout") as error:
        store.find("breakuot")
    one_line(error)


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda p: p.write_bytes(b"not a database at all" * 100), "not a SQLite database"),
        (lambda p: p.mkdir(), "is a folder"),
        (lambda p: foreign(p, "CREATE TABLE theirs (x)"), "another program"),
        (lambda p: version(p, schema.SCHEMA + 1), "newer sweep.*update sweep"),
        (lambda p: version(p, schema.OLDEST - 1), "older sweep"),
    ],
)
def test_files_that_are_not_ours(path, make, says, readonly):
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError, match=says) as error:
        Store(path, readonly=readonly)
    assert str(path) in one_line(error)
    assert before is None or path.read_bytes() == before


def foreign(path, sql):
    connection = sqlite3.connect(path)
    connection.execute(sql)
    connection.commit()
    connection.close()


def version(path, number):
    Store(path).close()
    foreign(path, f"PRAGMA user_version = {number}")


def test_a_file_of_an_older_schema_is_read_and_gains_columns(filled, path):
    """Readers leave it as it is; the first writer adds the columns, and what was there stays."""
    filled.add_audit(1, filled.add_run(1, 1, run(seed=1), cap_seconds=2.0), 805.0, 1000, True)
    filled.close()
    for sql in ("ALTER TABLE runs DROP COLUMN mean_metric", "ALTER TABLE runs DROP COLUMN best_metric",
                "ALTER TABLE audits DROP COLUMN mean_metric", "PRAGMA user_version = 1"):
        foreign(path, sql)
    with Store(path, readonly=True) as old:
        (before,), (audit,) = old.runs(1), old.audits(1)
        assert "mean_metric" not in before and before["mean_return"] == 812.5 and audit["mean_return"] == 805.0
    for _ in range(2):  # the second time there is nothing left to do
        with Store(path) as new:
            (after,), (audit,) = new.runs(1), new.audits(1)
            assert after == {**before, "mean_metric": None, "best_metric": None} and audit["mean_metric"] is None
    with Store(path) as new:
        new.add_run(1, 1, run(seed=2), cap_seconds=2.0)
        assert [row["mean_metric"] for row in new.runs(1)] == [None, 0.94]


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(StoreError, match="does not exist; create it first"):
        Store(tmp_path / "no" / "sweep.db")
    for options in ({"readonly": True}, {"create": False}):
        with pytest.raises(StoreError, match="does not exist; `sweep run NAME`"):
            Store(tmp_path / "sweep.db", **options)
    assert not list(tmp_path.iterdir())
    with pytest.raises(StoreError) as error:
        Store(tmp_path / ("x" * 5000))
    assert "too long" in str(error.value)
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match="is empty"):
        Store(tmp_path / "empty.db", readonly=True)
    with Store(tmp_path / "100% odd?#name.db") as store:
        store.open_study(study())
    assert (tmp_path / "100% odd?#name.db").exists()


def test_damaged_file(filled, path):
    for seed in range(30):
        filled.add_run(1, 1, run(seed, points=128))
    filled.close()
    content = bytearray(path.read_bytes())
    content[8192:-4096] = b"\xaa" * (len(content) - 12288)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged|not as sweep made it|not UTF-8") as error, Store(path) as store:
        for _ in store.studies():
            store.runs(1), store.trials(1), store.curves(1)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("sql", "read", "says"),
    [
        ("UPDATE trials SET params = '{oops'", lambda s: s.trials(1), "params in row 1 of trials"),
        ("UPDATE trials SET params = '[1]'", lambda s: s.trials(1), "params in row 1 of trials"),
        ("UPDATE studies SET definition = x'ff00'", lambda s: s.find("breakout"), "definition in row 1 of studies"),
        ("UPDATE invocations SET machine = '3'", lambda s: s.invocations(1), "machine in row 1 of invocations"),
        ("UPDATE curves SET curve = '[[1,2],[3]]'", lambda s: s.curves(1), "curve of run 1"),
        ("UPDATE curves SET curve = '[1,2,3]'", lambda s: s.curves(1), "curve of run 1"),
        ("UPDATE curves SET curve = '{\"a\": 1}'", lambda s: s.curves(1), "curve of run 1"),
        ("UPDATE runs SET reason = CAST(x'ff' AS TEXT)", lambda s: s.runs(1), "not UTF-8"),
        ("DROP TABLE audits", lambda s: s.audits(1), "not as sweep made it"),
    ],
)
def test_edited_by_hand(filled, path, sql, read, says):
    filled.add_run(1, 1, run())
    foreign(path, sql)
    with pytest.raises(StoreError, match=says) as error:
        read(filled)
    one_line(error)


def test_values_that_cannot_be(filled):
    with pytest.raises(StoreError, match="solved, censored, diverged, crashed; got 'fine'"):
        filled.add_run(1, 1, run(status="fine"))
    with pytest.raises(StoreError, match="open, ended"):
        filled.set_trial(1, "halted")
    with pytest.raises(StoreError, match="2\\^63"):
        filled.add_run(1, 1, run(seed=2**64))
    with pytest.raises(StoreError, match="cannot take"):
        filled.add_run(1, 1, run(seed=None))
    with pytest.raises(StoreError, match="no study with id 9"), filled.lock(9):
        pass


def test_full_disk_leaves_nothing_half_written(filled):
    execute = filled._database.execute
    execute(f"PRAGMA max_page_count = {execute('PRAGMA page_count').fetchone()[0] + 4}")
    with pytest.raises(StoreError, match="disk is full") as error:
        for seed in range(100):
            filled.add_run(1, 1, run(seed, points=128))
    one_line(error)
    stored = len(filled.runs(1))
    assert stored == seed and len(filled.curves(1)) == stored
    execute("PRAGMA max_page_count = 1000000")
    filled.add_run(1, 1, run(seed, points=128))
    assert len(filled.runs(1)) == len(filled.curves(1)) == stored + 1
    assert execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.fixture
def as_nobody():
    """Root may read and write anything; what follows may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared(tmp_path_factory):
    """A folder with a filled database that anyone may read."""
    folder = tmp_path_factory.mktemp("shared")
    for parent in [folder, *folder.parents][: len(folder.parts) - 2]:
        os.chmod(parent, 0o755)
    with Store(folder / "sweep.db") as store:
        store.open_study(study())
    yield folder
    os.chmod(folder, 0o755)


def test_read_only_folder(shared, request):
    os.chmod(shared / "sweep.db", 0o444)
    os.chmod(shared, 0o555)
    request.getfixturevalue("as_nobody")
    with Store(shared / "sweep.db", readonly=True) as store:
        assert store.find("breakout")["id"] == 1
    with pytest.raises(StoreError, match="cannot be (written|opened)") as error:
        Store(shared / "sweep.db")
    one_line(error)
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(shared / "new.db")
    assert [p.name for p in shared.iterdir()] == ["sweep.db"]


def test_read_only_folder_with_unfinished_business(shared, request):
    with Store(shared / "sweep.db") as writer:
        writer.open_study(study(name="late"))
        for suffix in ("", "-wal"):
            (shared / f"copy.db{suffix}").write_bytes((shared / f"sweep.db{suffix}").read_bytes())
    os.chmod(shared, 0o555)
    request.getfixturevalue("as_nobody")
    with pytest.raises(StoreError, match="cannot be opened.*-wal") as error:
        Store(shared / "copy.db", readonly=True)
    one_line(error)


def test_unreadable_file(shared, request):
    os.chmod(shared / "sweep.db", 0)
    request.getfixturevalue("as_nobody")
    for readonly in (False, True):
        with pytest.raises(StoreError, match="cannot be opened"):
            Store(shared / "sweep.db", readonly=readonly)


def test_busy_for_too_long(filled, path, monkeypatch):
    monkeypatch.setattr("sweep.database.BUSY_SECONDS", 0.05)
    with Store(path) as other:
        filled._database.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="is locked") as error:
            other.add_run(1, 1, run())
        one_line(error)
        filled._database.execute("COMMIT")
        other.add_run(1, 1, run())


# -- fast enough ----------------------------------------------------------------------------------------


def test_a_run_costs_little(filled):
    """Measured 0.25 ms of CPU with a curve of 128 points on a 2-core Zen 3; the bound allows for a slower machine."""
    sent = run(points=128, curve=np.random.default_rng(0).random((128, 4)) * 100)
    began = time.process_time()
    for sent.seed in range(500):
        filled.add_run(1, 1, sent)
    assert (time.process_time() - began) / 500 < 1.5e-3


def test_a_large_study_loads_fast(filled, path):
    filled.add_run(1, 1, run(seed=-1))
    columns = ", ".join(name for name in schema.TABLES["runs"] if name not in ("id", "seed"))
    with filled._database.writing():
        filled._database.execute(f"""WITH RECURSIVE seeds(seed) AS (SELECT 0 UNION ALL SELECT seed + 1 FROM seeds
            WHERE seed < 9998) INSERT INTO runs (seed, {columns}) SELECT seeds.seed, {columns} FROM runs, seeds""")
    began = time.process_time()
    with Store(path, readonly=True) as reader:
        assert len(reader.runs(1)) == 10_000 and len(reader.trials(1)) == 1
        assert reader.counts(1)["runs"]["solved"] == 10_000
    assert time.process_time() - began < 1.0  # 0.1 on a 2-core Zen 3


def test_json_columns_are_json(filled):
    for table, column in (("trials", "params"), ("studies", "definition"), ("invocations", "build")):
        (row,) = filled._database.rows(f"SELECT json_valid({column}) AS ok, {column} AS text FROM {table}")
        assert row["ok"] == 1 and isinstance(json.loads(row["text"]), dict)
