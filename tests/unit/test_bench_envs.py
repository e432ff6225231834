"""`sweep bench envs`: its JSON, references that are there, that fail and that are not there, and what it refuses."""

import json
import sys

import pytest

from sweep import bench_envs, bench_envs_case, cli
from sweep.bench import BenchError
from trainer_native import environments

TINY = ["--seconds", "0.002", "--repeats", "2"]

STUB = '''
class Environment:
    def __init__(self, name):
        if name == "freeway":
            raise RuntimeError("no chicken\\nat all")
        self.acts = 0

    def num_actions(self):
        return 6

    def act(self, action):
        assert 0 <= action < 6
        self.acts += 1
        return 0.0, self.acts % 7 == 0

    def reset(self):
        assert self.acts % 7 == 0

    def state(self):
        return [0]
'''


def call(capsys, *arguments):
    """(exit status, stdout, stderr) of the command."""
    with pytest.raises(SystemExit) as exit_:
        cli.main(["bench", "envs", *arguments])
    captured = capsys.readouterr()
    return exit_.value.code, captured.out, captured.err


@pytest.fixture
def references(tmp_path, monkeypatch):
    """A MinAtar that is none is installed, and there is no other reference."""
    (tmp_path / "minatar").mkdir()
    (tmp_path / "minatar" / "__init__.py").write_text(STUB)
    (tmp_path / "minatar-9.8.7.dist-info").mkdir()
    (tmp_path / "minatar-9.8.7.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: minatar\nVersion: 9.8.7\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(bench_envs, "REFERENCES", {
        "cartpole": {"minatar": "breakout", "sweep-of-nowhere": "x"}, "acrobot": {"minatar": "freeway", "sweep-of-nowhere": "y"}})
    return tmp_path


def test_the_json_is_as_documented(capsys, references):
    status, out, err = call(capsys, "cartpole", "acrobot", *TINY, "--json")
    found = json.loads(out)
    assert status == 0 and "cartpole: sweep, 1\n" in err
    assert {"machine", "isa", "seconds", "repeats", "copies", "missing", "environments"} == set(found)
    assert found["copies"] == [1, 64, 1024] and found["missing"] == ["sweep-of-nowhere"]
    cartpole, acrobot = found["environments"]
    assert (cartpole["env"], cartpole["observation_size"]) == ("cartpole", 4)
    ours, theirs = cartpole["players"]
    assert (ours["who"], ours["version"], theirs["who"], theirs["version"]) == ("sweep", None, "minatar", "9.8.7")
    for player in (ours, theirs):
        assert all(speed > 0 for speed in player["env_steps_per_cpu_second"]) and not player["errors"]
        assert [len(of) for of in player["repeats"]] == [2, 2, 2]
    assert cartpole["ratio"]["minatar"] == pytest.approx(
        max(ours["env_steps_per_cpu_second"]) / max(theirs["env_steps_per_cpu_second"]))
    assert cartpole["ratio"]["minatar"] > 1
    assert acrobot["players"][1]["env_steps_per_cpu_second"] == [None] * 3 and acrobot["ratio"] == {}
    assert set(acrobot["players"][1]["errors"]) == {"RuntimeError: no chicken"}


def test_the_table(capsys, references):
    status, out, _ = call(capsys, "cartpole", "acrobot", *TINY)
    assert status == 0
    lines = out.splitlines()
    assert any(line.startswith("  minatar 9.8.7") and line.endswith("×") for line in lines)
    assert "acrobot: minatar: RuntimeError: no chicken" in lines and lines[-1] == "not installed here: sweep-of-nowhere"


def test_gymnasium_plays(references, monkeypatch):
    pytest.importorskip("gymnasium")
    monkeypatch.setattr(bench_envs, "REFERENCES", {"cartpole": {"gymnasium": "CartPole-v1"}})
    (cartpole,) = bench_envs.measure(["cartpole"], 0.002, 1)["environments"]
    (_, theirs) = cartpole["players"]
    assert all(speed > 100 for speed in theirs["env_steps_per_cpu_second"]) and cartpole["ratio"]["gymnasium"] > 1


def test_a_timing_is_about_as_long_as_asked():
    """Of a player that takes 10 microseconds of CPU per round."""
    calls = []

    def play(rounds):
        calls.append(rounds)
        start = bench_envs_case.time.process_time()
        while bench_envs_case.time.process_time() - start < 1e-5 * rounds:
            pass
        return 3 * rounds

    speed = bench_envs_case._timed(play, 0.05)
    assert 0.5 * 3e5 < speed < 1.1 * 3e5 and 0.035 <= 1e-5 * calls[-1] < 0.2


def test_every_reference_is_of_an_environment():
    assert {who for of in bench_envs.REFERENCES.values() for who in of} <= set(bench_envs_case.PLAYERS)
    unknown = set(bench_envs.REFERENCES) - set(environments.names())
    assert not unknown, unknown


def test_what_is_refused(capsys, references):
    status, _, err = call(capsys, "cartpol", *TINY)
    assert status == 2 and "'cartpol' is not an environment. Did you mean 'cartpole'?" in err
    with pytest.raises(BenchError, match="--python nowhere/python: No such file"):
        bench_envs.measure(["cartpole"], 0.002, 1, "nowhere/python")
    with pytest.raises(BenchError, match="cartpole: "):
        bench_envs._row("cartpole", "sweep", "cartpole", [{"error": "broken"}])
