"""The commands on a real study of a few seconds: what they print, write and refuse."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import trainer_native
from sweep import cli
from sweep.store import Store

PATH = os.pathsep.join(str(Path(p).absolute()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)
COMMAND = [sys.executable, "-P", "-c", "from sweep.cli import main; main()"]


def start(folder, *arguments):
    """The command as a process of its own; its cwd is `folder`."""
    environment = {**os.environ, "PYTHONPATH": PATH}
    environment.pop("SWEEP_DB", None)
    return subprocess.Popen([*COMMAND, *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def sweep(folder, *arguments):
    """(exit status, stdout, stderr) of the command."""
    process = start(folder, *arguments)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which a study of CartPole has run."""
    folder = tmp_path_factory.mktemp("study")
    status, out, err = sweep(folder, "run", "cartpole", "--budget", "5s", "--verify", "5s")
    assert status == 0, err
    assert "cartpole-report/index.html" in out and (folder / "cartpole-report/index.html").is_file()
    assert "\x1b" not in err and "cartpole searching" in err
    return folder


def test_ls_show_and_best_agree(folder):
    (row,) = json.loads(sweep(folder, "ls", "--json")[1])
    best = json.loads(sweep(folder, "best", "cartpole", "--json")[1])
    show = json.loads(sweep(folder, "show", "cartpole", "--json")[1])
    assert set(best) == {"study", "env", "machine", "front", "recommended", "runner_up", "unsolved", "at_ends"}
    assert {key: show[key] for key in best} == best
    assert row["study"] == "cartpole" and row["state"] == "idle" and row["trials"] == show["counts"]["trials"] > 0
    assert set(show["counts"]["runs"]) <= {"solved", "censored", "diverged", "crashed"}
    assert show["counts"]["training_seconds"] > 0 and show["counts"]["platform_seconds"] > 0
    for entry in best["front"]:
        assert set(entry) == {"trial", "parameters", "params", "runs", "solved", "seconds", "env_steps",
                              "steps_per_second", "verified"}
        assert set(entry["seconds"]) == {"median", "low", "high", "restart_ert", "olympic"}
        assert set(entry["env_steps"]) == {"median"}


@pytest.mark.parametrize("arguments", [["ls"], ["show", "cartpole"], ["best", "cartpole"], ["envs"]])
def test_what_is_printed_fits_80_columns(folder, arguments):
    status, out, _ = sweep(folder, *arguments)
    assert status == 0 and max(map(len, out.splitlines())) <= 80, out


def test_max_parameters_leaves_larger_networks_out(folder):
    front = json.loads(sweep(folder, "best", "cartpole", "--json")[1])["front"]
    least = front[0]["parameters"]
    smallest = trainer_native.network_size("cartpole", {"hidden": 8})   # of the space
    limited = [json.loads(sweep(folder, "best", "cartpole", "--json", "--max-parameters", str(most))[1])["front"]
               for most in (least, least - 1, smallest - 1)]
    assert [entry["trial"] for entry in limited[0]] == [front[0]["trial"]]
    assert all(entry["parameters"] < least for entry in limited[1])  # weak claims, which stood behind solid ones before
    assert limited[2] == []


def test_an_exported_trial_trains(folder):
    trial = json.loads(sweep(folder, "best", "cartpole", "--json")[1])["front"][-1]
    status, out, err = sweep(folder, "export", "cartpole", "best.toml", "--trial", str(trial["trial"]))
    assert status == 0 and out.startswith("best.toml\n"), err
    content = tomllib.loads((folder / "best.toml").read_text())
    searched = {**content["net"], **content["train"]}
    assert {key: searched[key] for key in trial["params"]} == trial["params"]
    status, out, err = sweep(folder, "train", "best.toml", "--seed", "1", "--max-seconds", "20s")
    assert status == 0 and "solved (criterion confirmed)" in out, out + err
    weights = folder / "best-seed1.safetensors"
    again = sweep(folder, "train", "best.toml", "--seed", "1", "--max-seconds", "20s")
    assert again[0] == 2 and "exists; --force" in again[2] and again[2].count("\n") == 1
    first = weights.read_bytes()
    status, out, _ = sweep(folder, "train", "cartpole", "--trial", str(trial["trial"]), "--seed", "1", "--json",
                           "--max-seconds", "20s", "--out", "again.safetensors")
    result = json.loads(out)
    assert result["status"] == "solved" and len(result["curve"][0]) == 4
    assert (folder / "again.safetensors").read_bytes() == first  # same params, same seed: same weights


def test_doctor_finds_nothing(folder):
    status, out, _ = sweep(folder, "doctor", "--json")
    facts = json.loads(out)
    assert status == 0 and facts["problems"] == [] and "1 study" in facts["database"]


def test_report_is_written_again(folder):
    status, out, _ = sweep(folder, "report", "cartpole", "--out", "elsewhere")
    assert (status, out) == (0, "elsewhere/index.html\n") and (folder / "elsewhere/index.html").is_file()


@pytest.mark.parametrize(("arguments", "meant"), [
    (["run", "cartpol"], "Did you mean 'cartpole'?"),
    (["run", "cartpole", "--budget", "soon"], "soon"),
    (["run", "cartpole", "--run", "0s"], "0"),
    (["run", "cartpole", "--sampler", "tpee"], "Did you mean 'tpe'?"),
    (["run", "broken.toml"], "not TOML"),
    (["run", "cartpole", "--from", "cartpol"], "It holds cartpole"),
    (["best", "cartpole", "--at", "476"], "above its mean return of 475"),
    (["run", "cartpole", "--db", "broken.toml"], "broken.toml"),
    (["run", "cartpole", "--budget", "1s", "--report", "occupied"], "occupied"),
    (["show", "cartpol"], "Did you mean 'cartpole'?"),
    (["show", "cartpole", "--db", "absent.db"], "absent.db"),
    (["best", "cartpole", "--within", "0.5"], "within"),
    (["export", "cartpole", "--trial", "99999"], "no trial 99999"),
    (["export", "cartpole", "broken.toml", "--trial", "0"], "exists"),
    (["train", "cartpole", "--trial", "0", "--max-seconds", "0s"], "0s"),
    (["train", "broken.toml"], "not TOML"),
    (["train", "studies.toml"], "no such file"),
    (["rm", "cartpole"], "--yes"),
    (["report", "cartpole", "--out", "broken.toml"], "broken.toml"),
])
def test_a_mistake_is_one_line_and_loses_nothing(folder, arguments, meant, monkeypatch, capsys):
    (folder / "broken.toml").write_text("env = \n")
    (folder / "occupied").mkdir(exist_ok=True)
    (folder / "occupied" / "mine.txt").write_text("mine")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("SWEEP_DB", raising=False)
    before = sorted(p.name for p in folder.iterdir() if not p.name.startswith("sweep.db-")), contents(folder)
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    out, err = capsys.readouterr()
    assert (exit_.value.code, out) == (2, "")
    assert err.startswith("sweep: ") and err.count("\n") == 1 and meant in err, err
    assert (sorted(p.name for p in folder.iterdir() if not p.name.startswith("sweep.db-")), contents(folder)) == before


def contents(folder):
    """What the database holds."""
    with contextlib.closing(Store(folder / "sweep.db", create=False, readonly=True)) as store:
        return [(row["id"], store.counts(row["id"])) for row in store.studies()]


def started(folder, *arguments):
    """`sweep run cartpole` for a minute, once it has begun; `arguments` name its database."""
    process = start(folder, "run", "cartpole", "--budget", "60s", "--verify", "2s", *arguments)
    begun = time.monotonic()
    while f"running (pid {process.pid})" not in sweep(folder, "ls", *arguments[:2])[1]:
        assert process.poll() is None and time.monotonic() < begun + 60, process.communicate()
        time.sleep(0.2)
    return process


def interrupt(process, times):
    """(exit status, stdout, stderr) after so many Ctrl-C."""
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)  # two at once would be one
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_a_second_run_of_a_study_is_refused_and_reading_is_not(folder):
    first = started(folder, "--db", "busy.db", "--report", "busy")
    try:
        status, _, err = sweep(folder, "run", "cartpole", "--db", "busy.db")
        assert status == 2 and str(first.pid) in err and err.count("\n") == 1
        assert sweep(folder, "rm", "cartpole", "--yes", "--db", "busy.db")[0] == 2
        assert sweep(folder, "show", "cartpole", "--db", "busy.db")[0] == 0
        assert sweep(folder, "report", "cartpole", "--db", "busy.db", "--out", "busy-early")[0] == 0
    finally:
        interrupt(first, 2)


def test_ctrl_c_once_reports_and_twice_stops_and_the_study_goes_on(folder):
    status, _, err = interrupt(started(folder, "--db", "stopped.db", "--report", "stopped"), 2)
    assert status == 130 and "goes on" in err
    status, out, err = interrupt(started(folder, "--db", "stopped.db", "--report", "stopped"), 1)
    assert status == 0 and "stopped/index.html" in out, err
    assert len(json.loads(sweep(folder, "ls", "--db", "stopped.db", "--json")[1])) == 1


def test_rm_removes(folder):
    sweep(folder, "run", "cartpole", "--budget", "1s", "--verify", "1s", "--db", "gone.db", "--report", "gone")
    assert sweep(folder, "rm", "cartpole", "--yes", "--db", "gone.db")[0] == 0
    assert json.loads(sweep(folder, "ls", "--json", "--db", "gone.db")[1]) == []
