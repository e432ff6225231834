"""Workers: tasks in hand, caps in flight, cancellation, and processes that die, hang or outlive their coordinator."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from sweep import workers
from sweep.workers import LocalPool, WorkerError


def task(key, cap=5.0, **params):
    """A task of the synthetic trainer; learning_rate 1e-9 never solves in any test's time."""
    return {"key": key, "trainer": "synthetic_trainer:train", "env": "none", "params": params, "seed": key, "solve": {},
            "cap_seconds": cap, "max_env_steps": 0}


ENDLESS = {"learning_rate": 1e-9}


def collect(pool, count, seconds=20):
    finished, deadline = [], time.monotonic() + seconds
    while len(finished) < count and time.monotonic() < deadline:
        finished += pool.wait(0.5)
    assert len(finished) == count
    return {f.key: f for f in finished}


@pytest.fixture
def pool():
    with LocalPool(1) as pool:
        yield pool


def test_tasks_run_in_order_and_their_caps_hold(pool):
    for key in (1, 2):
        pool.submit(task(key, cap=0.05 * key, **ENDLESS))
    assert pool.room(2) == 0
    done = collect(pool, 2)
    assert list(done) == [1, 2]
    for key, finished in done.items():
        assert finished.run.status == "censored"
        assert 0.05 * key <= finished.run.cpu_seconds < 0.05 * key + 0.05
        assert finished.run.weights is None


def test_a_cap_is_lowered_in_flight_and_never_raised(pool):
    pool.submit(task(1, cap=30, **ENDLESS))
    pool.submit(task(2, cap=0.05, **ENDLESS))
    assert pool.wait(0.3) == []
    pool.lower_cap(1, 0.1)
    pool.lower_cap(2, 30)
    assert max(f.run.cpu_seconds for f in collect(pool, 2).values()) < 5


def test_a_running_task_is_cancelled_and_a_waiting_one_never_begins(pool):
    pool.submit(task(1, **ENDLESS))
    pool.submit(task(2, **ENDLESS))
    while not pool._workers[0].ready:
        pool.wait(0.1)
    time.sleep(0.3)
    pool.cancel_waiting()
    pool.cancel(1)
    done = collect(pool, 2)
    assert (done[1].run.status, done[1].run.reason) == ("censored", "cancelled")
    assert done[2].run is None


def test_a_worker_that_dies_costs_its_run_only_and_is_replaced(pool):
    pool.submit(task(1, crash=True))
    pool.submit(task(2))
    done = collect(pool, 2)
    assert done[1].run.status == "crashed" and "SIGKILL" in done[1].run.reason
    assert done[2].run.status == "solved"


def test_an_exception_in_a_run_is_a_crashed_run_of_the_same_worker(pool):
    pool.submit(task(1, fail=True))
    before = pool._workers[0].process.pid
    run = collect(pool, 1)[1].run
    assert run.status == "crashed" and "this environment is broken" in run.reason
    assert pool._workers[0].process.pid == before


def test_a_run_that_never_looks_up_is_killed(pool, monkeypatch):
    monkeypatch.setattr(workers, "HANGS_SECONDS", 0.5)
    pool.submit(task(1, cap=0.01, hang=True))
    run = collect(pool, 1)[1].run
    assert run.status == "crashed" and "no end in sight" in run.reason


def test_workers_that_cannot_start_end_the_pool_in_one_line(monkeypatch, tmp_path):
    (tmp_path / "numpy.py").write_text("raise ImportError('numpy is broken')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with LocalPool(1) as pool, pytest.raises(WorkerError, match="numpy is broken"):
        pool.wait(20)


def test_workers_are_pinned_and_deaf_to_ctrl_c(pool):
    while not pool._workers[0].ready:
        pool.wait(0.1)
    pid = pool._workers[0].process.pid
    if hasattr(os, "sched_getaffinity"):
        assert len(os.sched_getaffinity(pid)) == 1
    os.kill(pid, signal.SIGINT)
    pool.submit(task(1))
    assert collect(pool, 1)[1].run.status == "solved"


def test_workers_import_neither_optuna_nor_ray_nor_a_database():
    loaded = subprocess.run([sys.executable, "-c", "import sys, sweep.workers, sweep.trainers; print(*sys.modules)"],
                            capture_output=True, text=True, check=True).stdout.split()
    assert not {"optuna", "ray", "sqlite3", "plotly", "click"} & set(loaded)


@pytest.mark.parametrize("busy", ["endless", "hang"])
def test_workers_end_with_a_coordinator_that_is_killed(busy):
    params = {"endless": ENDLESS, "hang": {"hang": True}}[busy]
    program = textwrap.dedent(f"""
        import sys; sys.path[:0] = {[str(Path(__file__).parents[1]), *sys.path]!r}
        from sweep.workers import LocalPool
        pool = LocalPool(1)
        pool.submit({task(1, cap=60.0, **params)!r})
        while not pool._workers[0].ready: pool.wait(0.1)
        print(pool._workers[0].process.pid, flush=True)
        pool.wait(60)
    """)
    coordinator = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    worker = int(coordinator.stdout.readline())
    coordinator.kill()
    coordinator.wait()
    deadline = time.monotonic() + 5
    while _alive(worker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(worker)


def _alive(pid):
    """A zombie, which only waits for its new parent to look, counts as dead."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
