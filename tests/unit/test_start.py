"""Where a study starts: trial 0 trained without a search, and the table of how fast it solves."""

import importlib.util
import json
from pathlib import Path

import pytest

import trainer_native
from sweep import store, study, training

STUDY = """# How fast is CartPole balanced?
env = "cartpole"
[solve]
mean_return = 100
episodes = 20
[budget]
run = "5s"
[start]
envs = 32
[net]
hidden = 8
[train]
envs = { pow2 = [8, 128] }
horizon = [16, 32]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with one study of its own, `quick`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "quick.toml").write_text(STUDY)
    return tmp_path


def test_a_study_that_never_ran_trains_its_trial_0(folder, capsys):
    found = training.load("quick", None, "none.db")
    assert capsys.readouterr().err == "quick: trial 0, the start of the search (it has not been run yet)\n"
    assert (found.env, found.solve.mean_return, found.published) == ("cartpole", 100, {})
    assert (found.params["envs"], found.params["horizon"], found.params["hidden"]) == (32, 32, 8)
    ended = training.train(found, 0, 10.0, folder / "w.safetensors")
    assert ended["status"] == "solved" and Path(ended["weights"]).is_file()
    assert not (folder / "none.db").exists()


def test_the_path_of_a_study_is_as_good_as_its_name(folder, capsys):
    (folder / "studies" / "quick.toml").rename(folder / "mine.toml")
    assert training.load("mine.toml", None, "none.db").params["envs"] == 32
    assert capsys.readouterr().err == "mine: trial 0, the start of the search (it has not been run yet)\n"
    with store.Store("sweep.db") as db:
        db.open_study(study.load("mine.toml"))
    assert training.load("mine.toml", None, "sweep.db").params["envs"] == 32
    with pytest.raises(ValueError, match="study 'mine' has no trial 7"):
        training.load("mine.toml", 7, "sweep.db")


def test_where_nothing_is_verified_trial_0_is_trained(folder, capsys):
    with store.Store("sweep.db") as db:
        db.open_study(study.load("cartpole"))
        assert training.load("quick", None, "sweep.db").params["envs"] == 32  # the file knows another study
        assert "it has not been run yet" in capsys.readouterr().err
        db.open_study(study.load("quick"))
    assert training.load("quick", None, "sweep.db").params["envs"] == 32
    assert "quick: trial 0, the start of the search (no trial of it is verified yet)" in capsys.readouterr().err
    with pytest.raises(ValueError, match="study 'quick' has no trial 7"):
        training.load("quick", 7, "sweep.db")
    with pytest.raises(store.StoreError, match="no study 'quik'"):
        training.load("quik", None, "sweep.db")
    Path("broken.db").write_bytes(b"not a database" * 100)
    with pytest.raises(store.StoreError, match="not a SQLite database"):
        training.load("quick", None, "broken.db")


@pytest.fixture
def table():
    """scripts/solve_table.py as a module."""
    path = Path(__file__).parents[2] / "scripts" / "solve_table.py"
    spec = importlib.util.spec_from_file_location("solve_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_solves(folder, table, capsys, monkeypatch):
    calls = []
    train = trainer_native.train
    monkeypatch.setattr(trainer_native, "train", lambda *a, **k: calls.append(a[2]) or train(*a, **k))
    table.main(["quick", "nosuch", "--seeds", "2", "--json", "runs.json"])
    out, err = capsys.readouterr()
    head, _, line = out.splitlines()
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert head == ("| study | rules of | parameters | solved | median time to solve, s | env steps | env steps/s |")
    assert cells[0] == "quick" and cells[1] == "gymnasium" and cells[3] == "2 of 2" and float(cells[4]) > 0
    assert cells[2] == f"{trainer_native.network_size('cartpole', {'hidden': 8}):,}"
    assert "quick: 2 of 2, solved after" in err and "nosuch: left out: 'nosuch' is not a study" in err
    assert len(calls) == len(set(calls)) == 2

    table.main(["quick", "--seeds", "3", "--json", "runs.json"])  # one is missing
    assert len(calls) == len(set(calls)) == 3 and "3 of 3" in capsys.readouterr().out
    kept = json.loads(Path("runs.json").read_text())["runs"]
    assert [run["seed"] for run in kept] == calls and {run["status"] for run in kept} == {"solved"}

    (folder / "studies" / "quick.toml").write_text(STUDY.replace("mean_return = 100", "mean_return = 500").replace('"5s"', '"10ms"'))
    table.main(["quick", "--seeds", "2", "--json", "runs.json"])  # another question: nothing of it is known
    assert len(calls) == 5 and "| 0 of 2 | – | – |" in capsys.readouterr().out
