"""`sweep run` killed at random moments, twenty times, then to its end: nothing stored is lost, nothing counts twice."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from sweep.store import Store, StoreError

KILLS = 20
STUDY = """
env = "cartpole"
space = "ppo"
sampler = "random"
[solve]
mean_return = 150
[budget]
study = "{seconds}s"
verify = "0s"
run = "1s"
[net]
layers = 1
hidden = [8, 16]
[train]
reward_scale = 0.1
"""


def command(folder, database, seconds):
    (folder / "small.toml").write_text(STUDY.format(seconds=seconds))
    return [sys.executable, "-c", "from sweep.cli import main; main()", "run", "small.toml", "--db", database]


def start(folder, database, seconds):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(command(folder, database, seconds), cwd=folder, env=environment, start_new_session=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def stored(path):
    """(runs by id, trials by id) of the only study, {} where there is none yet."""
    try:
        store = Store(path, create=False, readonly=True)
    except StoreError as error:
        if "is empty" in str(error):   # it is there since this moment, without its tables
            return {}, {}
        raise
    with store:
        studies = store.studies()
        if not studies:
            return {}, {}
        [study] = studies
        return ({r["id"]: r for r in store.runs(study["id"], superseded=True)},
                {t["id"]: t for t in store.trials(study["id"])})


def by_seed(path):
    """{(trial, seed): (status, env steps)} of the runs that solved, and the params by trial."""
    runs, trials = stored(path)
    found = {(trials[r["trial_id"]]["number"], r["seed"]): r["env_steps"] for r in runs.values() if r["status"] == "solved"}
    return found, {t["number"]: t["params"] for t in trials.values()}


@pytest.mark.timeout(600)
def test_killed_twenty_times_then_to_the_end(tmp_path):
    random.seed(11)
    path, before, lost_workers = tmp_path / "killed.db", {}, []
    for kill in range(KILLS):
        process = start(tmp_path, "killed.db", seconds=600)
        deadline = time.monotonic() + 60  # at any moment, but the first times not before there is anything to lose
        while kill < 3 and time.monotonic() < deadline and not (path.exists() and len(stored(path)[0]) > len(before)):
            time.sleep(0.1)
        time.sleep(random.uniform(0.0, 1.5))
        children = _children(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        lost_workers += children
        runs, trials = stored(path) if path.exists() else ({}, {})
        assert {key: runs.get(key) for key in before} == before  # nothing that was stored is lost, or changes
        before = runs
        keys = [(r["trial_id"], r["seed"], r["purpose"], r["attempt"]) for r in runs.values()]
        assert len(keys) == len(set(keys))
        numbers = sorted(t["number"] for t in trials.values())
        assert numbers == list(range(len(numbers)))
    time.sleep(0.5)
    assert not [pid for pid in lost_workers if _alive(pid)]

    process = start(tmp_path, "killed.db", seconds=4)  # less than has been spent: the end, with a report
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    process = start(tmp_path, "killed.db", seconds=5)  # a fresh budget, since the study has come to its end
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    runs, trials = stored(path)
    assert {key: runs.get(key) for key in before} == before and len(runs) > len(before)
    assert len({(r["trial_id"], r["seed"], r["attempt"]) for r in runs.values()}) == len(runs)

    # A study that was never killed: where both have a run of a trial, it is the same run.
    process = start(tmp_path, "whole.db", seconds=10)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    killed, params = by_seed(path)
    whole, params_whole = by_seed(tmp_path / "whole.db")
    shared = killed.keys() & whole.keys()
    assert len(shared) >= 5
    assert {key: killed[key] for key in shared} == {key: whole[key] for key in shared}
    assert all(params[number] == params_whole[number] for number, _ in shared)


def _children(pid):
    try:
        return [int(child) for task in os.listdir(f"/proc/{pid}/task")
                for child in open(f"/proc/{pid}/task/{task}/children").read().split()]
    except OSError:
        return []


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as status:
            return status.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
