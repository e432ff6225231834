"""A study on a Ray cluster of two nodes on this machine, one of which is taken away."""

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

from synthetic_trainer import study

from sweep import engine
from sweep.store import Store
from sweep.workers import WorkerError


def task(key, cap=5.0, **params):
    return {"key": key, "trainer": "synthetic_trainer:train", "env": "none", "params": params, "seed": key, "solve": {},
            "cap_seconds": cap, "max_env_steps": 0}


ENDLESS = {"learning_rate": 1e-9}


def collect(pool, count, seconds=60):
    finished, deadline = [], time.monotonic() + seconds
    while len(finished) < count and time.monotonic() < deadline:
        finished += pool.wait(0.5)
    assert len(finished) == count
    return {f.key: f for f in finished}


@pytest.fixture
def cluster(monkeypatch):
    """Two nodes with one CPU each; nodes find the test's modules by PYTHONPATH."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", ":".join(p for p in sys.path if p))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.second = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_runs_caps_crashes_and_a_node_that_is_taken_away(cluster, tmp_path, monkeypatch):
    from sweep.ray_workers import RayPool

    with RayPool(cluster.address) as pool:
        assert pool.size == 2
        while pool.room() < 2:
            pool.wait(1.0)

        # One after the other on each actor, caps lowered in flight, waiting tasks cancelled.
        for key in (1, 2, 3, 4):
            pool.submit(task(key, cap=30.0, **ENDLESS))
        assert pool.room(2) == 0
        time.sleep(0.5)
        pool.cancel_waiting()   # before the caps: what waits behind a run that ends may begin
        pool.lower_cap(1, 0.1)
        pool.lower_cap(2, 0.1)
        done = collect(pool, 4)
        assert all(done[key].run.status == "censored" and done[key].run.cpu_seconds < 20 for key in (1, 2))
        assert done[3].run is None and done[4].run is None

        # An exception, and a process that dies.
        pool.submit(task(5, fail=True))
        pool.submit(task(6, crash=True))
        done = collect(pool, 2)
        assert "this environment is broken" in done[5].run.reason
        assert done[6].run.status == "crashed" and "lost" in done[6].run.reason
        while pool.room() < 2:
            pool.wait(1.0)

        # A node is taken away: its run has crashed, the other's ends.
        for key in (7, 8):
            pool.submit(task(key, cap=8.0, **ENDLESS))
        time.sleep(0.5)
        cluster.remove_node(cluster.second, allow_graceful=False)
        done = collect(pool, 2)
        assert sorted(done[key].run.status for key in (7, 8)) == ["censored", "crashed"]
        assert pool.room() == 1
        pool.submit(task(9))
        assert collect(pool, 1)[9].run.status == "solved"

        # A node that joins takes the waiting actor.
        cluster.add_node(num_cpus=1)
        deadline = time.monotonic() + 60
        while pool.room() < 2 and time.monotonic() < deadline:
            pool.wait(1.0)
        assert pool.room() == 2

    # A whole study, losing a node on its way.
    finish, lost = engine.Search._finish, []

    def counted(self, finished):
        finish(self, finished)
        if self.totals["runs"] == 20:
            lost.append(cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False))
        if self.totals["runs"] >= 60:
            self.deadline = 0.0

    monkeypatch.setattr(engine.Search, "_finish", counted)
    with Store(tmp_path / "sweep.db") as store:
        study_id = engine.run(study(60.0), store, ray=cluster.address)
        rows = store.runs(study_id)
        assert lost and len(rows) >= 60
        assert sum(r["status"] == "crashed" for r in rows) <= 2
        assert len({r["worker"] for r in rows}) == 2


def test_no_cluster_is_one_line():
    from sweep.ray_workers import RayPool

    with pytest.raises(WorkerError, match="no cluster there"):
        RayPool("127.0.0.1:1")


def test_a_header_that_a_node_lacks_comes_with_the_task(tmp_path, monkeypatch):
    from sweep.ray_workers import with_header

    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    written = with_header({"key": 1, "env": "/nowhere/catch.h", "header": "// catch"})
    assert Path(written["env"]).read_text() == "// catch" and Path(written["env"]).name == "catch.h"
    assert with_header(written) is written and with_header({"key": 1, "env": "breakout"}) == {"key": 1, "env": "breakout"}
