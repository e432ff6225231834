"""kill -9 at any moment: every run whose add_run returned is stored, once and whole, and the study goes on."""

import os
import random
import signal
import sqlite3
import time
import types

import numpy as np

from sweep.schema import RUN_FIELDS
from sweep.store import Store

STUDY = types.SimpleNamespace(name="s", hash="h", env="e", question="", sampler="random", budget={}, definition=dict)


def go_on(path, say):
    """Goes on with the study where it stands, without end; `say` is told each seed once its add_run has returned."""
    run = types.SimpleNamespace(curve=np.ones((128, 4)), **dict.fromkeys(RUN_FIELDS, 1))
    run.status, run.reason = "solved", ""
    store = Store(path)
    study_id = store.open_study(STUDY)
    with store.lock(study_id):
        invocation_id = store.add_invocation(study_id, {}, {}, "", 1)
        trials = {row["number"]: row["id"] for row in store.trials(study_id)}
        run.seed = len(store.runs(study_id))
        while True:
            number = run.seed // 4
            if number not in trials:
                trials[number] = store.add_trial(study_id, number, {}, 1, "random")
            store.add_run(trials[number], invocation_id, run)
            say(run.seed)
            run.seed += 1


def stop_halfway(path, say):
    """The worst moment, made certain: the run is written, its curve and the commit are not."""
    store = Store(path)
    with store._database.writing():
        row = {"trial_id": 1, "purpose": "search", "attempt": 0, "seed": 99999, "status": "solved"}
        store._database.insert("runs", row)
        say(-1)
        time.sleep(60)


class Writer:
    """A process of its own: forked, which takes milliseconds where a new interpreter takes most of a second."""

    def __init__(self, path, work=go_on):
        self.said, said = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                work(path, lambda seed: os.write(said, b"%d\n" % seed))
            finally:
                os._exit(1)
        os.close(said)

    def wait(self):
        """Until it has said something; the seeds it has said."""
        return [int(line) for line in os.read(self.said, 1 << 16).split(b"\n")[:-1]]

    def kill(self):
        """The seeds it has said since."""
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL  # it was still at work
        with os.fdopen(self.said, "rb") as said:
            return [int(line) for line in said.read().split(b"\n")[:-1]]


def check(path, acknowledged):
    """All that was acknowledged is there, once, whole and without gaps; the number of runs stored."""
    with Store(path, readonly=True) as store:
        study_id = store.find("s")["id"]
        seeds = [row["seed"] for row in store.runs(study_id, superseded=True)]
        assert seeds == list(range(len(seeds)))
        assert set(acknowledged) <= set(seeds)
        curves = store.curves(study_id)
        assert len(curves) == len(seeds) and all(curve.shape == (128, 4) for curve in curves.values())
        assert store.running(study_id) is None
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    return len(seeds)


def test_killed_while_it_writes(tmp_path):
    path, moments, kills = tmp_path / "sweep.db", random.Random(0), 20
    acknowledged = []
    for _ in range(kills):
        writer = Writer(path)
        acknowledged += writer.wait()
        time.sleep(moments.uniform(0, 0.03))
        acknowledged += writer.kill()
        stored = check(path, acknowledged)
    assert stored >= len(acknowledged) == len(set(acknowledged)) > kills


def test_killed_while_it_starts(tmp_path):
    moments = random.Random(1)
    began = time.perf_counter()
    writer = Writer(tmp_path / "warm.db")
    writer.wait()
    start_seconds = time.perf_counter() - began
    writer.kill()
    for number in range(20):
        path = tmp_path / f"{number}.db"
        writer = Writer(path)
        time.sleep(start_seconds * moments.uniform(0, 1.1))
        acknowledged = writer.kill()
        writer = Writer(path)  # whatever stands there, the next one goes on with it
        acknowledged += writer.wait()
        check(path, acknowledged + writer.kill())


def test_killed_in_a_transaction(tmp_path):
    path = tmp_path / "sweep.db"
    writer = Writer(path)
    acknowledged = writer.wait() + writer.kill()
    writer = Writer(path, stop_halfway)
    assert writer.wait() == [-1]
    writer.kill()
    assert check(path, acknowledged) >= len(acknowledged)
