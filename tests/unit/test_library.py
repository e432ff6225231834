"""`sweep envs`: what it lists, of which it tells all, and that it compiles nothing twice."""

import json

import pytest
from click.testing import CliRunner

from sweep import cli, library
from trainer_native import environments, headers

OWN = """// Coin: say which side lies up; two things are seen, and one of them twice.
//
// Rules: invented; action 0 says heads.
#pragma once
#include "environment.h"
namespace coin {
constexpr int observation_size = 12;
constexpr sweep::Image image = {2, 2, 3};
constexpr bool needs_memory = true;
constexpr int actions[] = {2, 3};
constexpr int longest_episode = 1;
struct State { int side; };
struct Params { float bias = 0.5f; };   // of heads
constexpr sweep::Bounds bounds[] = {{0, 1}};
SWEEP_FN constexpr sweep::Input input(int i) { return i < 8 ? sweep::flag() : sweep::quantity(0, i < 10 ? 200 : 100); }
SWEEP_FN void reset(State& s, const Params& p, sweep::Rng& rng) { s.side = rng.uniform() < p.bias ? 0 : 1; }
SWEEP_FN sweep::Outcome step(State& s, const Params&, const int* action, sweep::Rng&) {
    return {action[0] == s.side ? 1.0f : 0.0f, true, false};
}
SWEEP_FN void observe(const State&, const Params&, sweep::uint8* to) { for (int i = 0; i < 12; i++) to[i] = 0; }
SWEEP_FN float metric(const State&, const Params&) { return 1.0f; }
}  // namespace coin
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory with a header of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("envs", "studies"):
        (tmp_path / name).mkdir()
    (tmp_path / "envs" / "coin.h").write_text(OWN)
    return tmp_path


def call(*arguments):
    shown = CliRunner().invoke(cli.cli, ["envs", *arguments])
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def test_the_list(folder):
    lines = call().splitlines()
    assert all(len(line) <= 80 for line in lines) and len(lines) == 2 + len(environments.names())
    listed = {line.split()[0]: line for line in lines[1:-1]}
    assert listed["cartpole"].split() == ["cartpole", "4", "floats", "2", "475", "gymnasium"]
    assert listed["coin"].split() == ["coin", "2×2×3", "image", "2+3", "yes", "–", "invented"]
    assert listed["tmaze"].split()[4:6] == ["yes", "95%"] and lines[-1].startswith("solved at: a mean return, or")
    rows = {row["env"]: row for row in json.loads(call("--json"))}
    assert rows["breakout"]["criterion"]["mean_return"] == 800 and rows["breakout"]["criterion"]["study"] == "breakout"
    assert rows["breakout"]["params"]["frameskip"]["default"] == 4 and "inputs" not in rows["breakout"]
    assert rows["breakout"]["observation"] == {"size": 118, "kind": "floats", "dtype": "float32", "image": None, "flags": 108}
    assert rows["coin"]["metric"] and rows["coin"]["needs_memory"] and rows["coin"]["actions"]["choices"] == [2, 3]


def test_an_own_header_named_like_a_shipped_one_is_said_to_be_yours(folder, capsys):
    assert "(yours)" not in call() and environments.replacing("coin") is environments.replacing("cartpole") is None
    shipped = environments.path_of("cartpole")
    own = folder / "envs" / "cartpole.h"
    own.symlink_to(shipped)
    assert environments.replacing("cartpole") is None
    own.unlink()
    own.write_bytes(shipped.read_bytes())
    assert [line.split("  ")[0] for line in call().splitlines() if "(yours)" in line] == ["cartpole (yours)"]
    library.say_whose("cartpole")
    library.say_whose("coin")
    library.say_whose(str(own))
    said = "cartpole: taken from envs/cartpole.h, not the one that ships\n"
    assert capsys.readouterr().err == said
    shown = CliRunner().invoke(cli.cli, ["check", "cartpole", "--steps", "1000"])
    assert shown.exit_code == 0 and said in shown.stderr
    (folder / "studies" / "cartpole.toml").write_text('env = "cartpole"\n[solve]\nmean_return = 475\n[net]\nhidden = [8, 16]\n')
    shown = CliRunner().invoke(cli.cli, ["train", "cartpole", "--max-seconds", "0.05s", "--db", "none.db"])
    assert shown.stderr.count(said) == 1


def test_every_shipped_environment_says_whose_rules_it_follows(folder):
    for row in json.loads(call("--json")):
        assert row["what"] and row["rules"] and row["reference"], row["env"]


def test_one_in_full(folder):
    (folder / "studies" / "coin.toml").write_text('# Heads?\nenv = "coin"\n[solve]\nmetric = 0.9\nepisodes = 50\n')
    shown = call("coin")
    assert shown.splitlines()[0] == "coin  envs/coin.h" and all(len(line) <= 80 for line in shown.splitlines())
    for part in ("sees      2×2×3 image: 4 quantities, 8 flags", "acts      2 at once: one of 2, one of 3", "memory    needed",
                 "solved    at a mean of 0.9 of its metric over 50 episodes (study coin)", "bias   0.5      0 to 1  of heads",
                 "Rules: invented; action 0 says heads.", "0–7    flag", "8–9    quantity  0 to 200", "10–11  quantity  0 to 100"):
        assert part in shown, part
    assert len(json.loads(call("coin", "--json"))["inputs"]) == 12
    assert call("envs/coin.h") == shown


def test_nothing_is_compiled_twice(folder, monkeypatch):
    """A broken study does not keep it from listing either."""
    first = call()
    (folder / "studies" / "cartpole.toml").write_text("env = ")
    environments._load.cache_clear()
    monkeypatch.setattr(headers.subprocess, "run", lambda *a, **k: pytest.fail("a compiler was called"))
    assert call().replace("–  ", "475") == first.replace("–  ", "475")


def test_the_reference_is_whom_the_rules_name_first():
    assert library.reference("POPGym 1.0's game, which gymnax plays too") == "POPGym"
    assert library.reference("flappy-bird-gymnasium 0.4.0's FlappyBird-v0") == "flappy-bird-gymnasium"
    assert library.reference("Bakker, NIPS 2001") == "Bakker"
    assert library.reference("") is None
