"""Exported trials: what is written reads back the same, and nothing that exists is lost."""

import json
import os
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep import export, tomlfiles
from trainer_native import config, environments

SOLVE = {"mean_return": 475.0, "episodes": 100, "policy": "sampled"}


def data(params=None, verified=True):
    """A study of one trial, as `results.collect` gives it."""
    summary = {"runs": 32, "solved": 31, "seconds": {"median": 0.2, "low": 0.19, "high": 0.22, "restart_ert": 0.21,
                                                    "olympic": 0.2}, "env_steps": {"median": 81000.0}}
    trial = {"number": 3, "params": params or {"hidden": 8, "learning_rate": 0.1 + 0.2}, "parameters": 312,
             "runs": [{"seed": 5}], "verification": [{"seed": 9}, {"seed": 7}], "search": summary,
             "verified": summary if verified else None, "is_verified": verified}
    machine = {"machine": {"cpu": "A \"quoted\" processor", "cores": 2}, "build": {"isa": "x86-64-v3", "compiler": "GNU"},
               "started": "2026-01-02T03:04:05+00:00"}
    return {"study": {"name": "cartpole", "env": "cartpole", "hash": "ab" * 32, "definition": {"env": "cartpole", "solve": SOLVE}},
            "machines": [machine], "trials": [trial], "front": [3], "recommended": 3 if verified else None}


def written(tmp_path, text):
    path = tmp_path / "trial.toml"
    path.write_text(text)
    return path


def test_an_export_reads_back_whole(tmp_path):
    exported = export.read(written(tmp_path, export.text(data(), 3)))
    assert (exported.env, exported.solve.mean_return, exported.solve.episodes) == ("cartpole", 475.0, 100)
    assert exported.params["learning_rate"] == 0.1 + 0.2 and exported.params["hidden"] == 8
    assert set(exported.params) >= set(config.HYPERPARAMETERS)
    assert exported.published["median_seconds"] == 0.2 and exported.published["seeds"] == [7, 9]
    assert exported.published["machine"] == 'A "quoted" processor'


def test_defaults_are_written_out(tmp_path):
    content = tomllib.loads(export.text(data(), 3))
    names = {name for table in ("net", "train") for name in content[table]}
    assert names == set(config.HYPERPARAMETERS) - {"try_from"}  # whose default is none
    for name in names:
        assert name in content[config.HYPERPARAMETERS[name].table]


numbers = {name: st.floats(h.low, h.high) for name, h in config.HYPERPARAMETERS.items()
           if h.kind is float and not config.combination({**config.complete({}, {}), name: h.low or h.high * 2**-60})
           and not config.unfit({name: h.low or h.high * 2**-60}, continuous=False, image=None)}


@given(st.fixed_dictionaries({}, optional=numbers))
def test_every_legal_number_survives(tmp_path_factory, params):
    path = written(tmp_path_factory.mktemp("export"), export.text(data(params), 3))
    read = export.read(path).params
    assert {name: read[name] for name in params} == params


@pytest.mark.parametrize(("change", "meant"), [
    (("learning_rate =", "learning_rat ="), "Did you mean 'learning_rate'?"),
    (("hidden = 8", "hidden = 9"), "a multiple of 8"),
    (("minibatches = 4", "minibatches = 3"), "does not divide"),
    (("log_std = 0.0", "log_std = 0.5"), "'log_std' 0.5 is for continuous actions"),
    (("[train]\n", "[train]\nlayers = 2\n"), "belongs in [net]"),
    (("env = ", "space = 'ppo'\nenv = "), "sweep run"),
    (("\n[published]", "\n[publish]"), "Did you mean 'published'?"),
    (("episodes = 100", "episodes = 0"), "'episodes' is 0"),
    (("mean_return = 475.0", ""), "'mean_return' is missing"),
    (("policy = \"sampled\"", "policy = \"best\""), "sampled, greedy"),
    (("env = \"cartpole\"", "env = \"cartpol\""), "cartpole"),
    (("env = \"cartpole\"", ""), "'env' is missing"),
    (("[net]", "[net"), "not TOML"),
    (("[net]\nhidden", "net = 3\n[nets]\nhidden"), "net"),
])
def test_a_bad_file_is_one_line_that_names_it(tmp_path, change, meant):
    good = export.text(data(), 3)
    assert change[0] in good
    path = written(tmp_path, good.replace(*change, 1))
    with pytest.raises((ValueError, tomlfiles.StudyError)) as caught:
        export.read(path)
    assert meant in str(caught.value) and "\n" not in str(caught.value)


def test_a_header_given_by_path_is_found_beside_the_file(tmp_path, monkeypatch):
    (tmp_path / "games").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "games" / "pole.h").write_bytes(environments.path_of("cartpole").read_bytes().replace(b"namespace cartpole", b"namespace pole"))
    made = data()
    made["study"]["env"] = str(tmp_path / "games" / "pole.h")
    monkeypatch.chdir(tmp_path)
    path = export.write("out/pole.toml", export.text(made, 3, Path("out")).encode())
    assert tomllib.loads(path.read_text())["env"] == "../games/pole.h"
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    tmp_path.rename(moved)
    monkeypatch.chdir("/")
    read = export.read(moved / "out" / "pole.toml")
    assert Path(read.env).is_absolute() and Path(read.env).samefile(moved / "games" / "pole.h")
    (moved / "games" / "pole.h").unlink()
    with pytest.raises(export.ExportError, match=r"pole.toml: 'env' is '../games/pole.h'; no such file"):
        export.read(moved / "out" / "pole.toml")


def test_trials_that_are_not_there():
    with pytest.raises(export.ExportError, match="no trial 8"):
        export.find(data(), 8)
    with pytest.raises(export.ExportError, match=r"no verified trial; --trial takes any, as of its front: 3"):
        export.find(data(verified=False), None)
    assert export.find(data(verified=False), 3)["number"] == 3


def test_an_existing_file_is_kept_unless_forced(tmp_path):
    path = tmp_path / "best.toml"
    export.write(path, b"mine")
    with pytest.raises(export.ExportError, match="exists; --force replaces it"):
        export.write(path, b"other")
    assert path.read_bytes() == b"mine"
    export.write(path, b"other", force=True)
    assert path.read_bytes() == b"other" and os.listdir(tmp_path) == ["best.toml"]


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(export.ExportError, match="No space left on device"):
        export.write(tmp_path / "best.toml", b"x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", [".", "missing/best.toml"])
def test_paths_that_cannot_be_written(tmp_path, path):
    with pytest.raises(export.ExportError):
        export.write(tmp_path / path, b"x", force=True)


def test_weights_carry_their_config(tmp_path):
    from safetensors import safe_open

    weights = {"encoder": np.arange(6, dtype=np.float32).reshape(2, 3)}
    path = export.write_weights(tmp_path / "w.safetensors", weights, {"env": "cartpole", "params": {"hidden": 8}})
    with safe_open(path, "numpy") as file:
        assert np.array_equal(file.get_tensor("encoder"), weights["encoder"])
        assert json.loads(file.metadata()["config"]) == {"env": "cartpole", "params": {"hidden": 8}}


def test_what_is_no_regular_file_is_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "link", "/dev/null", tmp_path / "a\x1bb"):
        with pytest.raises(export.ExportError):
            export.write(path, b"x", force=True)
